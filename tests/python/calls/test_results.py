# SPDX-License-Identifier: Apache-2.0
"""What a callback may return, and what it is told if it returns something else."""

import functools
import sys
import threading

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from callout.buffer_callback import buffer_callback
from platforms import BY_FALLBACK, awaited

F32 = jax.ShapeDtypeStruct((), jnp.float32)
I32 = jax.ShapeDtypeStruct((), jnp.int32)


def double(x):
    return x * np.float32(2)


def test_results_as_tuple_list_and_none():
    pair = jax.jit(lambda x: callout.pure_callback(lambda v: (v, v + 1), (F32, F32), x))
    assert [float(v) for v in pair(1.0)] == [1, 2]
    listed = jax.jit(lambda x: callout.pure_callback(lambda v: [v, v + 1], (F32, F32), x))
    assert [float(v) for v in listed(1.0)] == [1, 2]
    single = jax.jit(lambda x: callout.pure_callback(lambda v: (v,), (F32,), x))
    assert [float(v) for v in single(1.0)] == [1]
    assert callout.pure_callback(lambda v: None, None, 1.0) is None


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (2.5, "float32"),
        (np.float64(2.5), "float32"),
        (3, "int32"),
        (np.int64(3), "int32"),
        (True, "bool"),
        (3, "float32"),
    ],
)
def test_python_numbers_and_64_bit_results_are_canonicalized(value, dtype):
    f = jax.jit(lambda x: callout.pure_callback(lambda _: value, jax.ShapeDtypeStruct((), dtype), x))
    out = f(1.0)
    assert out.dtype == dtype
    assert out == np.asarray(value).astype(dtype)


def test_fortran_ordered_and_strided_results():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    for result in (np.asfortranarray(a), np.repeat(a, 2, axis=1)[:, ::2], a[::-1][::-1]):
        f = jax.jit(lambda x, r=result: callout.pure_callback(lambda _: r, jax.ShapeDtypeStruct((2, 3), "float32"), x))
        np.testing.assert_array_equal(f(1.0), a)


def test_64_bit_result_types_are_refused_without_x64():
    with pytest.raises(ValueError, match="cannot specify 64-bit types"):
        callout.pure_callback(double, jax.ShapeDtypeStruct((), np.float64), 1.0)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda x: np.zeros(2, np.float32), r"expected f32\[\], got f32\[2\]"),
        (lambda x: np.zeros((), np.complex64), r"expected f32\[\], got c64\[\]"),
        (lambda x: np.zeros((), np.float16), r"expected f32\[\], got f16\[\]"),
        (lambda x: np.zeros((), "datetime64[s]"), r"expected f32\[\], got datetime64"),
        (lambda x: None, r"expected f32\[\], got None: did the function forget to return it\?"),
        (lambda x: "text", r"expected f32\[\], got <U4\[\]"),
        (lambda x: [[1.0], [1.0, 2.0]], "inhomogeneous"),
    ],
)
@pytest.mark.parametrize("jitted", [False, True])
def test_wrong_results_are_named(result, message, jitted):
    def f(x):
        return callout.pure_callback(callout.options(result, name="bad"), F32, x)

    with pytest.raises(Exception, match=message) as info, callout.reraise():
        awaited((jax.jit(f) if jitted else f)(1.0))
    if "inhomogeneous" not in message:
        assert "callback 'bad' failed on device 0" in str(info.value)


def test_wrong_structure_is_named():
    f = jax.jit(lambda x: callout.pure_callback(callout.options(lambda v: {"b": v, "c": v}, name="bad"), {"a": F32}, x))
    with (
        pytest.raises(callout.ResultError, match=r"callback 'bad': .*expected structure .*'a'.*got .*'b'"),
        callout.reraise(),
    ):
        awaited(f(1.0))
    none = jax.jit(lambda x: callout.pure_callback(lambda v: None, (F32, F32), x))
    with pytest.raises(Exception, match=r"expected structure .*, got None: did the function forget to return it\?"):
        awaited(none(1.0))
    g = jax.jit(lambda x: callout.pure_callback(lambda v: (v, v, v), (F32, F32), x))
    with pytest.raises(Exception, match=r"expected structure .*\(\*, \*\).*got .*\(\*, \*, \*\)"):
        awaited(g(1.0))


@pytest.mark.parametrize("value", [2**40, np.int64(2**40), np.array(-(2**40)), 2**31])
def test_integers_out_of_range_are_an_error_and_not_wrapped(value):
    f = callout.jit(lambda x: callout.pure_callback(lambda _: value, jax.ShapeDtypeStruct((), "int32"), x))
    with pytest.raises(callout.ResultError, match="does not fit: a value is out of the range of s32"):
        f(1.0)


@pytest.mark.parametrize(
    "dtype",
    [
        np.dtype(object),
        np.dtype("U3"),
        np.dtype("datetime64[s]"),
        np.dtype(ml_dtypes.float6_e2m3fn),
        jax.random.key(0).dtype,
    ],
)
def test_result_types_that_xla_does_not_have_are_named(dtype):
    class Spec:
        shape = ()

    Spec.dtype = dtype
    with pytest.raises(TypeError, match="a callback cannot return arrays of dtype"):
        callout.pure_callback(double, Spec(), 1.0)


ITEM = jax.ShapeDtypeStruct((1 << 18,), jnp.int32)


class Emptying:
    """An item whose `__array__` empties the list in which it lies."""

    def __init__(self, items):
        self.items = items

    def __array__(self, dtype=None, copy=None):
        self.items.clear()
        return np.zeros(ITEM.shape, np.int32)


@pytest.mark.parametrize("jitted", [False, True])
def test_a_list_that_its_items_change_is_read_as_it_was_returned(jitted):
    def callback(x):
        items = []
        items += [Emptying(items), *(np.full(ITEM.shape, i, np.int64) for i in range(1, 4))]
        return items

    def f(x):
        return callout.pure_callback(callback, [ITEM] * 4, x)

    for _ in range(5):
        out = (jax.jit(f) if jitted else f)(1.0)
        assert [int(v[-1]) for v in out] == [0, 1, 2, 3]


# What looks for the leaves of a list: of a function known by a name, of one in the program, of one that takes `jax.Array`s.
TAKEN = {
    "registered": lambda callback: "list that changes",
    "in the program": lambda callback: callback,
    "with jax.Arrays": lambda callback: callout.options(callback, args="jax"),
}


@pytest.mark.parametrize("taken", TAKEN)
def test_a_list_that_another_thread_changes_is_read_as_it_was_returned(taken):
    item = jax.ShapeDtypeStruct((1 << 10,), jnp.int32)
    items, stop = [], threading.Event()

    def change():
        while not stop.is_set():
            items[1:] = [np.full(item.shape, 7, np.int64) for _ in range(3)]

    def callback(x):
        items[:] = [np.full(item.shape, 7, np.int64) for _ in range(4)]
        return items

    callout.register("list that changes", callback)
    f = jax.jit(lambda x: callout.pure_callback(TAKEN[taken](callback), [item] * 4, x))
    thread = threading.Thread(target=change)
    switch_interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # wherever Python code runs, the other thread comes in
    thread.start()
    try:
        for _ in range(500):
            assert [int(v[-1]) for v in f(1.0)] == [7] * 4
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(switch_interval)
        callout.unregister("list that changes")


@pytest.mark.cpu_only("XLA:GPU calls the host in the thread that dispatches")
@pytest.mark.parametrize("taken", TAKEN)
def test_no_python_code_runs_while_jax_looks_for_the_leaves_of_a_list(taken):
    """JAX goes on with an item that only the list held, whatever became of the list meanwhile."""
    jax_s = jax.tree_util.tree_flatten.__code__.co_filename
    looked, called = [], []

    def note(frame, event, arg):
        if event == "call" and frame.f_code.co_filename == jax_s:
            looked.append(frame.f_code.co_name)
        elif event == "call" and frame.f_back and frame.f_back.f_code.co_filename == jax_s:
            called.append(f"{frame.f_code.co_qualname} of {frame.f_code.co_filename}")

    def callback(x):
        sys.setprofile(note)
        return [1, np.int64(2)]

    callout.register("list that changes", callback)
    try:
        f = jax.jit(lambda x: callout.pure_callback(TAKEN[taken](callback), [I32, I32], x))
        assert f(1.0) == [1, 2]
    finally:
        sys.setprofile(None)
        callout.unregister("list that changes")
    assert "tree_flatten" in looked
    assert not [each for each in called if "callout" in each]


def test_eager_results_do_not_depend_on_what_numpy_was_made_into(monkeypatch):
    monkeypatch.setattr(np, "empty", lambda *_, **__: "patched")
    assert float(callout.pure_callback(double, F32, 1.5)) == 3


F2 = jax.ShapeDtypeStruct((2,), jnp.float32)


@pytest.mark.parametrize(
    ("declared", "result"),
    [
        (F32, lambda x: (x,)),
        (F32, lambda x: {"y": x}),
        (F32, lambda x: [{"y": (x, None)}]),
        (F32, lambda x: (float(x),)),
        ((F32,), lambda x: x),
        ({"a": F32, "b": F2}, lambda x: (x, np.float32([1, 2]))),
        ((F32, F2), lambda x: {"a": x, "b": np.float32([1, 2])}),
        ((F32, (F2,)), lambda x: [x, np.float32([1, 2])]),
        ((F32, F2), lambda x: ((x,), [np.float32([1, 2])])),
    ],
)
def test_any_structure_with_the_right_leaves_is_taken_as_jax_does(declared, result):
    for call in (
        lambda m: m.pure_callback(result, declared, 2.0),
        lambda m: jax.jit(lambda x: m.pure_callback(result, declared, x))(2.0),
    ):
        ours, of_jax = call(callout), call(jax)
        assert jax.tree.structure(ours) == jax.tree.structure(of_jax) == jax.tree.structure(declared)
        jax.tree.map(np.testing.assert_array_equal, ours, of_jax)


def test_lists_of_numbers_are_arrays():
    assert callout.pure_callback(lambda: [1.0, 2.0], F2).tolist() == [1, 2]
    assert callout.pure_callback(lambda: [5.0], jax.ShapeDtypeStruct((1,), jnp.float32)).tolist() == [5]


@pytest.mark.parametrize(("declared", "result"), [(F32, (1.0, 2.0)), ((F32, F32), {"a": 1.0}), ((F32, F2), (1.0, 2.0))])
def test_too_many_leaves_or_wrong_ones_are_refused(declared, result):
    with pytest.raises(callout.ResultError, match="does not fit: expected"):
        callout.pure_callback(lambda: result, declared)


def fill_nan(ctx, out, x):
    np.asarray(out)[...] = np.nan


BAD = np.float32(np.nan)
SPECIAL = {
    "pure_callback": lambda x: callout.pure_callback(lambda v: BAD, F32, x, vmap_method="sequential"),
    "io_callback": lambda x: callout.io_callback(lambda v: BAD, F32, x),
    "name": lambda x: callout.pure_callback("not a number", F32, x, vmap_method="sequential"),
    "second of two": lambda x: callout.pure_callback(lambda v: (v, BAD), (F32, F32), x, vmap_method="sequential")[1],
    "call": lambda x: hcb.call(lambda v: BAD, x, result_shape=F32),
    **({} if BY_FALLBACK else {"buffer_callback": buffer_callback(fill_nan, F32, vmap_method="sequential")}),
}


@pytest.fixture
def not_a_number():
    callout.register("not a number", lambda v: BAD)
    yield
    callout.unregister("not a number")


@pytest.mark.usefixtures("not_a_number")
@pytest.mark.parametrize("name", SPECIAL)
def test_jax_debug_nans_names_the_callback_that_returned_a_nan(name):
    call = SPECIAL[name]
    ways = {
        "eager": call,
        "jit": jax.jit(lambda x: call(x) + 1),
        "vmap": jax.vmap(call),
        "jit of vmap": jax.jit(jax.vmap(call)),
    }
    if name == "call":
        ways = {way: ways[way] for way in ("eager", "jit")}
    for way, run in ways.items():
        x = jnp.ones(2) if "vmap" in way else jnp.float32(1)
        run(x)  # it is not looked for
        with jax.debug_nans(True), pytest.raises(FloatingPointError, match=r"\(nan\) encountered in .*"):
            run(x)
        if way in ("eager", "jit"):
            with jax.debug_nans(True), pytest.raises(FloatingPointError, match=r"callback|callout"):
                run(x)


def test_a_special_value_that_jax_looks_for_is_named():
    call = functools.partial(callout.pure_callback, lambda v: np.log(v), F32)
    with jax.debug_infs(True), np.errstate(all="ignore"):
        with pytest.raises(FloatingPointError) as info:
            call(jnp.float32(0))
        assert np.isnan(call(jnp.float32(-1)))
    name = "test_results.test_a_special_value_that_jax_looks_for_is_named.<locals>.<lambda>"
    assert str(info.value).startswith(f"invalid value (inf) encountered in a result of callback '{name}")
    with jax.debug_nans(True):
        assert callout.pure_callback(lambda v: v, jax.ShapeDtypeStruct((), jnp.int32), jnp.int32(1)) == 1
