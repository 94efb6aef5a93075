# SPDX-License-Identifier: Apache-2.0
"""Tests that programs with unordered callbacks use JAX's fast path, and that both barriers nevertheless wait for them."""

import dataclasses
import gc
import re
import sys
import threading

import callout
import gates
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from callout._callbacks import fast_path
from callout.progress import progress
from jax import lax
from jax.experimental import io_callback

F32 = jax.ShapeDtypeStruct((), jnp.float32)


def test_an_unfinished_placeholder_has_no_attributes():
    assert not hasattr(object.__new__(fast_path._Node), "aval")


def python_of_jax(call):
    """Returns the names of JAX's Python functions that a call runs."""
    names = []

    def profile(frame, event, _):
        if event == "call" and "/jax/_src/" in frame.f_code.co_filename:
            names.append(frame.f_code.co_name)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return names


def goes_by_the_fast_path(f, *args):
    for _ in range(2):
        f(*args)
    by_cpp = "cache_miss" not in python_of_jax(lambda: f(*args))
    callout.barrier_wait()
    return by_cpp


def tap(x):
    return callout.tap(lambda _: None, x) + 1


ENTRIES = {
    "tap": tap,
    "sink": lambda x: callout.tap(callout.sinks.Null(), x) + 1,
    "watch": lambda x: callout.watch(x, "fast path") + 1,
    "io": lambda x: callout.io_callback(lambda v: v, F32, x) + 1,
    "debug": lambda x: (callout.debug_callback(lambda _: None, x), x + 1)[1],
    "pure": lambda x: callout.pure_callback(lambda v: v, F32, x) + 1,
    "loop": lambda x: lax.fori_loop(0, 3, lambda _, c: tap(c), x),
    "bar": lambda x: lax.fori_loop(0, 3, progress(3, tqdm_type="std", desc="fast path")(lambda _, c: c + 1), x),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_python_has_no_part_in_the_dispatch(name):
    assert goes_by_the_fast_path(jax.jit(ENTRIES[name]), jnp.float32(1))


@dataclasses.dataclass
class Pair:
    first: jax.Array
    second: jax.Array


jax.tree_util.register_dataclass(Pair, ["first", "second"], [])

RESULTS = {
    "dict": lambda x: {"a": tap(x), "b": (x * 2, None)},
    "dataclass": lambda x: Pair(tap(x), x * 2),
    "key": lambda x: (tap(x), jax.random.key(3)),
    "key alone": lambda x: (callout.tap(lambda _: None, x), jax.random.key(3))[1],
    "operand": lambda x: callout.tap(lambda _: None, x),
    "small and large": lambda x: (jnp.zeros((1 << 19,)) + x, tap(x)),
    "empty": lambda x: (jnp.zeros((0, 3)), tap(x)),
}


def data_of(leaf):
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


@pytest.mark.parametrize("name", RESULTS)
def test_later_results_equal_those_of_the_first_call(name):
    f = jax.jit(RESULTS[name])
    x = jnp.float32(2)
    first = f(x)
    assert goes_by_the_fast_path(f, x)
    later = f(x)
    assert jax.tree.structure(first) == jax.tree.structure(later)
    assert type(first) is type(later)
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(later), strict=True):
        np.testing.assert_array_equal(data_of(a), data_of(b))
        assert (a.sharding, a.aval, a.committed) == (b.sharding, b.aval, b.committed)


class Picky:
    """A pytree that rejects values that are not arrays."""

    def __init__(self, value):
        if type(value) is not object and not isinstance(value, (jax.Array, jax.core.Tracer, np.ndarray)):
            raise TypeError(f"not an array: {value!r}")
        self.value = value


jax.tree_util.register_pytree_node(Picky, lambda node: ((node.value,), None), lambda _, children: Picky(*children))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (tap(x), None)[1],
        lambda x: jnp.zeros((1 << 19,)) + tap(x),
        lambda x: Picky(tap(x)),
        lambda x: callout.tap(lambda _: None, x, ordered=True),
    ],
    ids=["no result", "large results", "picky class", "ordered"],
)
def test_other_programs_take_the_slow_path(function, received):
    f = jax.jit(function)
    assert not goes_by_the_fast_path(f, jnp.float32(1))
    f(jnp.float32(1))


def test_an_ordered_program_takes_the_previous_token_as_an_argument():
    def of_jax(x):
        return io_callback(lambda v: v, F32, x, ordered=True)

    def ours(x):
        return callout.io_callback(lambda v: v, F32, x, ordered=True)

    for function in (of_jax, ours):  # C++ would have to pass the token, and passes only the user's arguments
        text = jax.jit(function).lower(jnp.float32(1)).as_text()
        assert re.search(r"@main\(%arg0: !stablehlo\.token.*, %arg1: tensor<f32>.*\) -> \(!stablehlo\.token", text)


def test_programs_of_others_are_not_touched():
    def others(x):
        jax.debug.callback(lambda _: None, x)
        return x + 1

    assert not goes_by_the_fast_path(jax.jit(others), jnp.float32(1))
    mixed = jax.jit(lambda x: tap(others(x)))
    assert not goes_by_the_fast_path(mixed, jnp.float32(1))


class TappingGate:
    """A program that waits in its middle until it is released, and then taps."""

    def __init__(self, received):
        self._gate = gates.gate()
        self._gate.open()
        self._received = received

    def program(self):
        """Returns the jitted program, which takes the fast path from now on."""
        f = jax.jit(lambda x: callout.tap(self._received.tap, self._gate.in_program(x)))
        assert goes_by_the_fast_path(f, jnp.float32(0))
        self._received.clear()
        while self._gate.inside.acquire(blocking=False):
            pass
        self._gate.close()
        return f

    def open(self):
        self._gate.open()

    def open_when_waited_for(self):
        """Opens the gate from another thread, once the program waits inside."""

        def run():
            self._gate.await_inside()
            self._gate.open()

        thread = threading.Thread(target=run)
        thread.start()
        return thread


@pytest.fixture
def gate(received):
    gate = TappingGate(received)
    yield gate
    gate.open()


def numbers(received):
    return [float(value) for value in received]


WAITS = {
    "barrier_wait": callout.barrier_wait,
    "effects_barrier": lambda: (jax.effects_barrier(), callout._ext.drain(60.0)),
}


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("kept", [True, False], ids=["kept", "dropped"])
def test_barriers_wait_for_a_program_of_this_thread(gate, received, wait, kept):
    f = gate.program()
    result = f(jnp.float32(1))
    if not kept:
        del result
        gc.collect()
    assert received == []
    thread = gate.open_when_waited_for()
    WAITS[wait]()
    assert numbers(received) == [1]
    thread.join()


@pytest.mark.parametrize("wait", WAITS)
def test_barriers_wait_for_a_program_with_a_donated_result(gate, received, wait):
    add = jax.jit(lambda x: x + 1, donate_argnums=0)
    add(jnp.float32(1))  # compiles and loads the code first: a GPU loads none while a stream waits for the host
    f = gate.program()
    result = f(jnp.float32(1))
    add(result)
    assert result.is_deleted()
    thread = gate.open_when_waited_for()
    WAITS[wait]()
    assert numbers(received) == [1]
    thread.join()


@pytest.mark.parametrize("alive", [True, False], ids=["alive", "ended"])
def test_barrier_wait_waits_for_a_program_of_another_thread(gate, received, alive):
    f = gate.program()
    dispatched, done = threading.Event(), threading.Event()

    def run():
        f(jnp.float32(5))
        dispatched.set()
        if alive:
            assert done.wait(60)

    thread = threading.Thread(target=run)
    thread.start()
    assert dispatched.wait(60)
    if not alive:
        thread.join()
    opener = gate.open_when_waited_for()
    callout.barrier_wait()
    assert numbers(received) == [5]
    done.set()
    thread.join()
    opener.join()


@pytest.mark.cpu_only("XLA:GPU calls the host in the thread that dispatches")
@pytest.mark.devices(4)
@pytest.mark.parametrize("wait", [*WAITS, "in another thread"])
def test_barriers_wait_for_a_program_over_several_devices(received, wait):
    opened, inside = threading.Event(), threading.Semaphore(0)
    opened.set()

    def hold(x):
        inside.release()
        assert opened.wait(60)
        return x

    def shard(x):
        matrix = jnp.full((64, 64), x[0])
        x = x + 0 * (matrix @ matrix)[0, 0]
        x = callout.pure_callback(callout.options(hold, numpy_only=True), jax.ShapeDtypeStruct((1,), jnp.float32), x)
        return callout.tap(received.tap, x)

    mesh = jax.make_mesh((4,), ("d",))
    f = jax.jit(jax.shard_map(shard, mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d"), check_vma=False))
    x = jax.device_put(np.arange(4, dtype=np.float32), jax.sharding.NamedSharding(mesh, jax.P("d")))
    assert goes_by_the_fast_path(f, x)
    received.clear()
    while inside.acquire(blocking=False):
        pass
    opened.clear()
    small = jax.jit(lambda x: x + 1)

    def dispatch():
        f(x)
        for device in mesh.devices.flat:
            small(jax.device_put(np.float32(0), device))  # later programs of one device must not hide the earlier one

    if wait in WAITS:
        dispatch()
    else:
        other = threading.Thread(target=dispatch)
        other.start()
        other.join()

    def open_it():
        for _ in range(4):
            assert inside.acquire(timeout=60)
        opened.set()

    thread = threading.Thread(target=open_it)
    thread.start()
    WAITS.get(wait, callout.barrier_wait)()
    assert sorted(float(value[0]) for value in received) == [0, 1, 2, 3]
    thread.join()


@pytest.mark.cpu_only("XLA:GPU calls the host in the thread that dispatches")
@pytest.mark.native_only(platforms.SYNCHRONOUS)
def test_a_failed_program_is_raised_by_jax_s_barrier_once():
    failing, dispatched = [False], threading.Event()
    dispatched.set()

    def call(value):
        assert dispatched.wait(60)
        if failing[0]:
            raise KeyError("told to")
        return value

    def function(x):
        matrix = jnp.full((64, 64), x)
        x = x + 0 * (matrix @ matrix)[0, 0]
        return callout.tap(lambda _: None, callout.pure_callback(callout.options(call, numpy_only=True), F32, x))

    f = jax.jit(function)
    x = jnp.float32(1)
    assert goes_by_the_fast_path(f, x)
    failing[0] = True
    dispatched.clear()
    f(x)
    dispatched.set()
    with pytest.raises(KeyError):
        jax.effects_barrier()
    jax.effects_barrier()
    failing[0] = False
    assert f(x) == 1


def test_state_for_a_barrier_is_small_and_freed_afterwards():
    shape = ((1 << 22) - 1,)  # a shape that no other test uses, since their arrays may be freed meanwhile
    f = jax.jit(lambda x: (jnp.zeros(shape, jnp.float32) + x, tap(x)))
    x = jnp.float32(1)
    assert goes_by_the_fast_path(f, x)
    for _ in range(10):
        f(x)
    jax.effects_barrier()
    assert not [each for each in jax.live_arrays() if each.shape == shape]


def test_the_program_s_text_is_the_same(monkeypatch):
    f = jax.jit(tap)
    text = f.lower(jnp.float32(1)).as_text()
    callout.config.patch_dispatch = False
    try:
        jax.clear_caches()
        assert not goes_by_the_fast_path(f, jnp.float32(1))
        assert f.lower(jnp.float32(1)).as_text() == text
    finally:
        callout.config.patch_dispatch = True
    jax.clear_caches()
    assert goes_by_the_fast_path(f, jnp.float32(1))
