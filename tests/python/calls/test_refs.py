# SPDX-License-Identifier: Apache-2.0
"""Tests mutable arrays (`jax.new_ref`) as arguments: callbacks get the content at the call, and buffers write to them."""

import contextlib
import importlib.util
import json
import re

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from callout import ffi
from callout.buffer_callback import buffer_callback
from callout.numba import numba_kernel
from jax import lax

pytestmark = pytest.mark.usefixtures("handlers")

HAS_NUMBA = importlib.util.find_spec("numba") is not None
LIKE = jax.ShapeDtypeStruct((3,), jnp.float32)
X = np.arange(3, dtype=np.float32)


@pytest.fixture(scope="module")
def native(cache):
    if platforms.BY_FALLBACK:
        return None
    source = """
    #include "callout/kernel.h"
    void copy(callout::In<float> x, callout::Out<float> y) { for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i]; }
    CALLOUT_KERNEL(copy);
    """
    return callout.cpp.load_inline(source)


@pytest.fixture(scope="module")
def numba_copy():
    if platforms.BY_FALLBACK or not HAS_NUMBA:
        return None
    import numba

    @numba.njit
    def copy(x, out):
        for i in range(x.size):
            out[i] = x[i]

    kernel = numba_kernel(copy, LIKE)
    kernel(jnp.asarray(X))  # compiles at the first call, and keeps the compiled function
    return kernel


@pytest.fixture
def heard():
    return []


@pytest.fixture(
    params=[
        *(
            "pure",
            "io",
            "ordered io",
            "debug",
            "ordered debug",
            "tap",
            "ordered tap",
            "watch",
            "buffer",
            "ffi",
            "native",
        ),
        *("numba", "id_tap", "call", "threaded"),
    ]
)
def entry(request, heard, native, numba_copy):
    """Makes an entry point that records the content of a mutable array."""
    if request.param in ("buffer", "native", "numba") and platforms.BY_FALLBACK:
        pytest.skip(platforms.BUFFERS)
    if request.param == "numba" and not HAS_NUMBA:
        pytest.skip("Numba is not installed")

    def hear(value, *_):
        heard.append(np.asarray(value).tolist())

    def echo(value):
        hear(value)
        return value

    def fill(_, out, value):
        np.asarray(out)[...] = value

    def result(call):
        """Records the result of a call that runs no Python."""
        return lambda ref: callout.debug_callback(hear, call(ref), ordered=True)

    affine = ffi.ffi_call("test.affine", LIKE)
    return {
        "pure": result(lambda ref: callout.pure_callback(np.copy, LIKE, ref)),
        "io": lambda ref: callout.io_callback(echo, LIKE, ref),
        "ordered io": lambda ref: callout.io_callback(echo, LIKE, ref, ordered=True),
        "debug": lambda ref: callout.debug_callback(hear, ref),
        "ordered debug": lambda ref: callout.debug_callback(hear, ref, ordered=True),
        "tap": lambda ref: callout.tap(hear, ref),
        "ordered tap": lambda ref: callout.tap(hear, ref, ordered=True),
        "watch": result(lambda ref: callout.watch(ref, "refs", gradient=True)[...]),
        "buffer": result(buffer_callback(fill, LIKE)),
        "ffi": result(lambda ref: affine(ref, a=np.float32(1), b=np.int64(0))),
        "native": result(native and native.copy),
        "numba": result(numba_copy),
        "id_tap": lambda ref: hcb.id_tap(hear, ref),
        "call": lambda ref: hcb.call(echo, ref, result_shape=LIKE),
        "threaded": result(callout.threaded(lambda ref: callout.io_callback(np.copy, LIKE, ref))),
    }[request.param]


def wait():
    jax.effects_barrier()
    callout.barrier_wait(60)


def test_callbacks_get_the_content_of_mutable_arrays(entry, heard):
    @jax.jit
    def program(ref):
        ref[...] = ref[...] + 1
        entry(ref)
        ref[...] = ref[...] * 2

    ref = jax.new_ref(jnp.asarray(X))
    program(ref)
    program(ref)
    wait()
    assert heard == [(X + 1).tolist(), (2 * (X + 1) + 1).tolist()]
    np.testing.assert_array_equal(ref[...], 2 * (2 * (X + 1) + 1))


def test_loops_hear_each_value(entry, heard):
    @jax.jit
    def program(ref):
        def step(_, i):
            ref[...] = ref[...] + i
            entry(ref)
            return None, None

        lax.scan(step, None, jnp.arange(3.0))

    program(jax.new_ref(jnp.asarray(X)))
    wait()
    assert heard == [X.tolist(), (X + 1).tolist(), (X + 3).tolist()]


def test_programs_have_mutable_arrays_of_their_own(entry, heard):
    @jax.jit
    def program(x):
        ref = jax.new_ref(x)
        ref[0] = 7.0
        entry(ref)
        return ref[...]

    assert program(jnp.asarray(X)).tolist() == [7, 1, 2]
    wait()
    assert heard == [[7, 1, 2]]


def test_eager_callbacks_get_the_content_of_mutable_arrays(entry, heard):
    ref = jax.new_ref(jnp.asarray(X))
    entry(ref)
    ref[0] = 5.0
    entry(ref)
    wait()
    assert heard == [X.tolist(), [5, 1, 2]]


def test_native_sinks_write_the_content_of_mutable_arrays(tmp_path):
    path = tmp_path / "refs.jsonl"
    sink = callout.sinks.JsonLines(path)

    @jax.jit
    def program(ref):
        def step(_, i):
            ref[...] = ref[...] + i.astype(jnp.float32)
            callout.tap(sink, {"held": ref}, step=i)
            return None, None

        lax.scan(step, None, jnp.arange(1, 4))

    program(jax.new_ref(jnp.asarray(X)))
    wait()
    sink.close()
    assert [json.loads(line)["held"] for line in path.read_text().splitlines()] == [
        (X + 1).tolist(),
        (X + 3).tolist(),
        (X + 6).tolist(),
    ]


def test_prints_show_the_content_of_mutable_arrays(capfd):
    def program(ref):
        callout.debug_print("before {}", ref, ordered=True)
        ref[...] = ref[...] + 1
        callout.debug_print("after {held}", held=ref, ordered=True)

    for run in (jax.jit(program), program):
        run(jax.new_ref(jnp.asarray(X)))
        wait()
        assert capfd.readouterr().out.splitlines() == ["before [0. 1. 2.]", "after [1. 2. 3.]"]


def test_loops_with_bars_write_to_mutable_arrays(screen):
    @jax.jit
    def program(ref):
        def step(count, i):
            ref[...] = ref[...] + i
            return count + 1, ref[0]

        held = lax.scan(screen.bar(desc="scan")(step), 0, jnp.arange(4.0))[1]
        turns = lax.fori_loop(
            0, 3, screen.bar(desc="fori")(lambda _, c: (ref.__setitem__(..., ref[...] * 2), c + 1)[1]), 0
        )
        return held, turns

    ref = jax.new_ref(jnp.asarray(X))
    held, turns = program(ref)
    wait()
    assert (held.tolist(), int(turns)) == ([0, 1, 3, 6], 3)
    np.testing.assert_array_equal(ref[...], 8 * (X + 6))
    assert (screen.ends("scan"), screen.ends("fori")) == ((4, 4), (3, 3))


def test_checks_read_the_content_of_mutable_arrays():
    """Uses a mutable array as the predicate, as the value, and in the text."""

    @jax.jit
    def program(ref):
        is_bad = jax.new_ref(ref[...] > 2)
        callout.check(~is_bad[...], "before: {held}", held=ref)
        callout.error_if(ref, is_bad, "before: {value}")
        ref[...] = ref[...] + 1
        is_bad[...] = ref[...] > 2
        callout.error_if(ref, is_bad, "after: {value} {held}", held=ref)[0] = 7.0

    ref = jax.new_ref(jnp.asarray(X) - 1)
    program(ref)
    assert ref[...].tolist() == [7, 1, 2]
    ref[0] = 1.0
    with pytest.raises(callout.CheckError, match=r"check failed: after: 3\.0 3\.0 "):
        jax.block_until_ready((program(ref), ref[...]))
    with contextlib.suppress(callout.CheckError):
        jax.effects_barrier()


def test_a_mutable_array_is_not_made_nan():
    with pytest.raises(
        TypeError, match=r'on_error="nan" needs values, got a mutable array: pass what it holds, ref\[...\]'
    ):
        callout.error_if({"held": jax.new_ref(jnp.asarray(X))}, True, "never", on_error="nan")


def test_taps_return_the_mutable_array_itself(heard):
    @jax.jit
    def program(ref):
        for tap in (
            lambda r: callout.tap(heard.append, {"ref": r})["ref"],
            lambda r: callout.watch(r, "refs"),
            hcb.id_print,
        ):
            ref = tap(ref)
            ref[...] = ref[...] + 1

    ref = jax.new_ref(jnp.asarray(X))
    program(ref)
    np.testing.assert_array_equal(ref[...], X + 3)
    wait()


def add_in_place(where):
    def callback(_, out, ref):
        value = np.asarray(ref)
        where.append(value.ctypes.data)
        value += 1
        np.asarray(out)[...] = value.sum()

    return buffer_callback(callback, jax.ShapeDtypeStruct((), jnp.float32))


@pytest.mark.native_only(platforms.BUFFERS)
def test_buffer_callbacks_write_to_a_mutable_array_in_place(heard):
    call = add_in_place(heard)

    @jax.jit
    def program(ref):
        return lax.scan(lambda _, __: (None, call(ref)), None, length=3)[1]

    ref = jax.new_ref(jnp.zeros(100_000, jnp.float32))
    assert program(ref).tolist() == [1e5, 2e5, 3e5]
    assert program(ref).tolist() == [4e5, 5e5, 6e5]
    assert ref[0] == 6
    assert len(set(heard)) == 1, "every call of every program works on the same memory"
    assert not re.search(r"f32\[100000\]\S* copy\(", program.lower(ref).compile().as_text())


@pytest.mark.native_only(platforms.BUFFERS)
def test_buffer_callbacks_write_to_some_of_several(heard):
    def callback(_, out, x, pair, *, scale):
        first, second = map(np.asarray, pair)
        second *= np.asarray(scale)
        np.asarray(out["sum"])[...] = np.asarray(x) + first + second

    call = buffer_callback(callback, {"sum": LIKE})
    one, other = jax.new_ref(jnp.asarray(X)), jax.new_ref(jnp.asarray(X))
    for run in (
        jax.jit(lambda x, r, s: call(x, (r, s), scale=np.float32(2))),
        lambda x, r, s: call(x, (r, s), scale=s[1] / s[1] * 2),
    ):
        held = np.asarray(other[...])
        out = run(jnp.ones(3), one, other)["sum"]
        np.testing.assert_array_equal(out, 1 + X + 2 * held)
        np.testing.assert_array_equal(one[...], X)
        np.testing.assert_array_equal(other[...], 2 * held)


@pytest.mark.native_only(platforms.BUFFERS)
def test_other_arguments_of_buffer_callbacks_are_read_only():
    def callback(_, out, x, ref):
        np.asarray(ref)[...] = 1
        np.asarray(out)[...] = x.writeable

    ref = jax.new_ref(jnp.zeros(3))
    assert buffer_callback(callback, LIKE)(jnp.zeros(3), ref).tolist() == [0, 0, 0]
    assert ref[...].tolist() == [1, 1, 1]


def test_a_mutable_array_has_no_result_in_its_place():
    call = buffer_callback(lambda *_: None, LIKE, input_output_aliases={0: 0})
    with pytest.raises(ValueError, match="names argument 0, a mutable array, which the callback writes to itself"):
        call(jax.new_ref(jnp.zeros(3)))
