# SPDX-License-Identifier: Apache-2.0
"""Tests values of JAX's high-level types: types that stand for an array act as the array, others are rejected by name."""

import dataclasses
import re

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from callout.buffer_callback import buffer_callback
from jax.experimental import hijax

flax = pytest.importorskip("flax")
from flax import nnx  # noqa: E402

F32 = jax.ShapeDtypeStruct((), jnp.float32)


def total(value):
    assert isinstance(value, np.ndarray)
    return np.float32(value.sum())


def fill(ctx, out, value):
    np.asarray(out)[...] = np.asarray(value).sum()


@pytest.fixture
def variable():
    return nnx.Variable(jnp.arange(3.0), hijax=True)


@pytest.fixture
def heard():
    return []


def run(function, *args):
    """Returns the result of `function` after all taps have arrived."""
    out = jax.block_until_ready(function(*args))
    jax.effects_barrier()
    callout.barrier_wait()
    return out


RESULTS = {
    "pure_callback": lambda v: callout.pure_callback(total, F32, v),
    "io_callback": lambda v: callout.io_callback(total, F32, v),
    "call": lambda v: hcb.call(total, v, result_shape=F32),
    **({} if platforms.BY_FALLBACK else {"buffer_callback": lambda v: buffer_callback(fill, F32)(v)}),
}


@pytest.mark.parametrize("jit", [jax.jit, lambda fn: fn], ids=["jit", "eager"])
@pytest.mark.parametrize("name", RESULTS)
def test_functions_with_results_get_the_array(name, jit, variable):
    assert run(jit(RESULTS[name]), variable) == 3


HEARD = {
    "debug_callback": lambda fn, v: callout.debug_callback(fn, v),
    "debug_callback of a name": lambda fn, v: callout.debug_callback("of the variable", v),
    "tap": lambda fn, v: callout.tap(fn, v),
    "ordered tap": lambda fn, v: callout.tap(fn, v, ordered=True),
    "id_tap": lambda fn, v: hcb.id_tap(lambda value, _: fn(value), v),
}


@pytest.mark.parametrize("jit", [jax.jit, lambda fn: fn], ids=["jit", "eager"])
@pytest.mark.parametrize("name", HEARD)
def test_functions_that_listen_get_the_array(name, jit, variable, heard):
    listen = HEARD[name]
    callout.register("of the variable", lambda value: heard.append(value.tolist()))
    try:
        run(jit(lambda v: (listen(lambda value: heard.append(np.asarray(value).tolist()), v), 0)[1]), variable)
    finally:
        callout.unregister("of the variable")
    assert heard == [[0, 1, 2]]


@pytest.mark.parametrize(
    "tap", [callout.tap, hcb.id_tap, lambda _, v: callout.watch(v)], ids=["tap", "id_tap", "watch"]
)
def test_the_variable_itself_is_returned(tap, variable):
    same = []

    def tapped(v):
        same.append(tap(lambda *_: None, v) is v)
        return 0

    run(jax.jit(tapped), variable)
    assert same == [True]


def test_prints_and_texts_of_checks_show_the_array(variable, capsys):
    run(jax.jit(lambda v: (callout.debug_print("{} and {x}", v, x=v), hcb.id_print(v), 0)[2]), variable)
    assert sorted(capsys.readouterr().out.splitlines()) == ["[0. 1. 2.]", "[0. 1. 2.] and [0. 1. 2.]"]

    def checked(v):
        callout.check(v[0] > 0, "got {v}", v=v)
        return 0

    with pytest.raises(callout.CheckError, match=re.escape("got [0. 1. 2.]")), callout.reraise():
        run(jax.jit(checked), variable)


def test_predicates_and_steps_may_be_variables(heard):
    flag, step = nnx.Variable(jnp.array(True), hijax=True), nnx.Variable(jnp.int32(6), hijax=True)
    with pytest.raises(callout.CheckError, match="flagged"), callout.reraise():
        run(jax.jit(lambda v: callout.error_if(0.0, v, "flagged")), flag)
    run(jax.jit(lambda v: callout.tap(heard.append, jnp.float32(1), step=v, every=4)), step)
    assert heard == []


def test_a_watch_reads_the_variables_value():
    variable = nnx.Variable(jnp.array([1, np.nan]), hijax=True)
    run(jax.jit(lambda v: (callout.watch({"v": v}, "of a variable"), 0)[1]), variable)
    assert callout.stats()["watches"]["of a variable"]["nan"] == 1
    callout.watch.reset("of a variable")


def test_features_that_need_arrays_reject_high_types(variable):
    with pytest.raises(TypeError, match="gradient=True needs arrays, got a value of a high-level type"):
        jax.jit(lambda v: (callout.watch(v, gradient=True), 0)[1])(variable)
    with pytest.raises(TypeError, match="needs arrays, got a value of a high-level type"):
        jax.jit(lambda v: (callout.error_if(v, True, "bad", on_error="nan"), 0)[1])(variable)


@dataclasses.dataclass(frozen=True)
class Pair:
    first: object
    second: object


@dataclasses.dataclass(frozen=True)
class PairType(hijax.HiType):
    of: object

    def lo_ty(self):
        return [self.of, self.of]

    def lower_val(self, pair):
        return [pair.first, pair.second]

    def raise_val(self, first, second):
        return Pair(first, second)

    def str_short(self, short_dtypes=False, **_):
        return "Pair"


hijax.register_hitype(Pair, lambda pair: PairType(jax.typeof(pair.first)))

REFUSING = {
    **RESULTS,
    "debug_callback": lambda v: callout.debug_callback(print, v),
    "debug_print": lambda v: callout.debug_print("{}", v),
    "tap": lambda v: callout.tap(print, v),
    "id_tap": lambda v: hcb.id_tap(print, v),
    "id_print": hcb.id_print,
    "text of a check": lambda v: callout.check(jnp.bool_(True), "got {v}", v=v),
}


@pytest.mark.parametrize("name", REFUSING)
def test_nonarray_values_in_a_program_are_rejected_by_name(name):
    for value, kind in ((Pair(jnp.float32(1), jnp.float32(2)), "PairType"), (jax.lax.create_token(), "AbstractToken")):
        with pytest.raises(TypeError, match=rf"got a value of JAX's type {kind}.*, which stands for no array"):
            jax.jit(lambda v: (REFUSING[name](v), 0)[1])(value)


def test_the_rejection_of_a_high_level_type_names_its_place():
    with pytest.raises(TypeError) as info:
        jax.jit(lambda v: (callout.tap(print, {"a": [v]}), 0)[1])(Pair(jnp.float32(1), jnp.float32(2)))
    assert str(info.value) == (
        "callout.tap: a value must be a pytree of arrays and numbers, got a value of JAX's type PairType at ['a'][0], "
        "which stands for no array; pass the arrays that it is made of"
    )


def test_eager_callbacks_get_other_objects_unchanged(heard):
    pair = Pair(jnp.float32(1), jnp.float32(2))
    callout.debug_callback(heard.append, pair)
    jax.effects_barrier()
    assert heard == [pair]
