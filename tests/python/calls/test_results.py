# SPDX-License-Identifier: Apache-2.0
"""Tests the results that a callback may return, and the errors for others."""

import collections
import dataclasses
import sys
import threading
from typing import Any, NamedTuple

import callout
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from platforms import awaited

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
    """An item whose `__array__` empties the list that contains it."""

    def __init__(self, items):
        self.items = items

    def __array__(self, dtype=None, copy=None):
        self.items.clear()
        return np.zeros(ITEM.shape, np.int32)


@pytest.mark.parametrize("jitted", [False, True])
def test_a_list_changed_by_its_items_is_read_unchanged(jitted):
    def callback(x):
        items = []
        items += [Emptying(items), *(np.full(ITEM.shape, i, np.int64) for i in range(1, 4))]
        return items

    def f(x):
        return callout.pure_callback(callback, [ITEM] * 4, x)

    for _ in range(5):
        out = (jax.jit(f) if jitted else f)(1.0)
        assert [int(v[-1]) for v in out] == [0, 1, 2, 3]


# The code that flattens a list: for a registered function, for one in the program, and for one that takes `jax.Array`s.
TAKEN = {
    "registered": lambda callback: "list that changes",
    "in the program": lambda callback: callback,
    "with jax.Arrays": lambda callback: callout.options(callback, args="jax"),
}


@pytest.mark.parametrize("taken", TAKEN)
def test_a_returned_list_is_read_before_another_thread_changes_it(taken):
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
    sys.setswitchinterval(1e-6)  # lets the other thread run whenever Python code runs
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
def test_no_python_code_runs_while_jax_flattens_a_list(taken):
    """JAX would go on with an item that only the list held, even if Python code had changed the list meanwhile."""
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


def test_eager_results_do_not_depend_on_a_patched_numpy(monkeypatch):
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
def test_structures_with_the_right_leaves_are_accepted_as_in_jax(declared, result):
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


class Pair(NamedTuple):
    second: Any
    first: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Data:
    second: Any
    first: Any


NAMED = {
    "dict": {"first": 1, "second": 2},
    "ordered dict": collections.OrderedDict(second=2, first=1),
    "ordered dict, sorted": collections.OrderedDict(first=1, second=2),
    "named tuple": Pair(second=2, first=1),
    "dataclass": Data(second=2, first=1),
    "default dict": collections.defaultdict(int, second=2, first=1),
    "dict in a list": [{"second": 2, "first": 1}],
}
WAYS = {
    "eager": lambda call: call(callout.options, 0.0),
    "jitted": lambda call: jax.jit(lambda x: call(callout.options, x))(0.0),
    "args of JAX": lambda call: jax.jit(lambda x: call(lambda f: callout.options(f, args="jax"), x))(0.0),
}


@pytest.mark.parametrize("declared", NAMED)
@pytest.mark.parametrize("returned", NAMED)
def test_results_with_names_are_stored_by_name(declared, returned):
    expected = jax.tree.map(lambda _: F32, NAMED[declared])
    for way in WAYS.values():
        for call in (callout.pure_callback, callout.io_callback):
            out = way(lambda with_options, x, call=call: call(with_options(lambda _: NAMED[returned]), expected, x))
            assert jax.tree.map(float, out) == NAMED[declared]


def test_names_are_matched_at_each_level():
    declared = {"loss": F32, "parts": [{"first": F32, "second": F32}, F32]}
    result = collections.OrderedDict(parts=(Pair(second=2, first=1), 3), loss=0)
    out = callout.pure_callback(lambda: result, declared)
    assert jax.tree.map(float, out) == {"loss": 0, "parts": [{"first": 1, "second": 2}, 3]}


@pytest.mark.parametrize(
    ("declared", "result"),
    [
        ({"a": F32, "b": F32}, {"x": 1, "y": 2}),
        ({"a": F32, "b": F32}, {"a": 1, "c": 2}),
        ({"a": F32}, {"b": 1}),
        ({"a": F32, "b": (F32, F32)}, {"a": (1, 2), "b": 3}),
        ([{"a": F32, "b": F32}, F32], ({"x": 1, "y": 2}, 3)),
        ({"first": F32, "last": F32}, Pair(1, 2)),
    ],
)
def test_other_names_are_refused(declared, result):
    named = callout.options(lambda *_: result, name="named")
    with pytest.raises(callout.ResultError) as eager:
        callout.pure_callback(named, declared)
    with pytest.raises(callout.ResultError, match="names are matched"), callout.reraise():
        awaited(jax.jit(lambda x: callout.pure_callback(named, declared, x))(1.0))
    assert (
        str(eager.value)
        .splitlines()[0]
        .endswith(
            f"its result does not fit: expected structure {jax.tree.structure(declared)}, got {jax.tree.structure(result)}; "
            "names are matched, in any order, and these differ"
        )
    )


def test_a_class_of_arrays_is_read_by_position():
    @jax.tree_util.register_pytree_node_class
    class OfArrays:
        def __init__(self, *arrays):
            self.arrays = [array.shape and array for array in arrays]

        def tree_flatten(self):
            return self.arrays, None

        @classmethod
        def tree_unflatten(cls, _, arrays):
            return cls(*arrays)

    out = callout.pure_callback(lambda: OfArrays(np.ones(2, np.float32), np.zeros(2, np.float32)), {"a": F2, "b": F2})
    assert jax.tree.map(lambda leaf: leaf.tolist(), out) == {"a": [1, 1], "b": [0, 0]}
