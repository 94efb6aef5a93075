# SPDX-License-Identifier: Apache-2.0
"""Tests XLA's command buffers on the software GPU: programs whose launches are graphs return XLA:CPU's results at each
replay, and really use graphs."""

import ctypes

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout.buffer_callback import buffer_callback
from jax import lax

GPU = jax.devices()[0]
CPU = jax.devices("cpu")[0]
OPTIONS = {
    "xla_gpu_graph_min_graph_size": 1,
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,COLLECTIVES,CONDITIONAL,WHILE",
}


def calls(function: str) -> int:
    """Returns how often the driver's function was called in this process."""
    control_of = ctypes.CDLL("libcuda.so.1").software_gpu_control
    control_of.restype = ctypes.POINTER(ctypes.c_void_p)
    count = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(control_of()[2])
    return count(function.encode())


def straight(x):
    ordered = jnp.sort(x * 2, axis=0)
    summed = jnp.cumsum(ordered, axis=1)
    return summed.sum(0), jnp.flip(summed, 0).max(1)


def softmax(x):
    return jax.nn.softmax(jnp.sort(x, axis=0), axis=1)


def loop(x):
    return lax.fori_loop(0, 6, lambda i, a: jnp.sort(a * 1.5, axis=0) + a.sum() / 1000, x)


def loop_of_unknown_length(x):
    return lax.while_loop(lambda a: a.max() < 1e4, lambda a: jnp.sort(a * 1.5, axis=0), x)


def branch(x):
    return lax.cond(x[0, 0] > 3, lambda a: jnp.sort(a, axis=0) * 2, lambda a: jnp.cumsum(a, axis=0) - 1, x)


def branches(x):
    choices = [lambda a, k=k: jnp.sort(a, axis=0) * k for k in range(1, 4)]
    return lax.switch(x[0, 0].astype(int) % 3, choices, x)


def branch_in_a_loop(x):
    return lax.fori_loop(
        0, 5, lambda i, a: lax.cond(i % 2 == 0, lambda b: b + 1, lambda b: jnp.sort(b * 2, axis=1), a), x
    )


def product(x):
    return jnp.tanh(x @ x.T) @ x


@pytest.mark.parametrize(
    "function",
    [straight, softmax, loop, loop_of_unknown_length, branch, branches, branch_in_a_loop, product],
)
def test_graphs_give_what_the_cpu_gives(function):
    compiled = jax.jit(function, compiler_options=OPTIONS)
    launches = calls("cuGraphLaunch")
    # Each run has arguments of its own: the addresses change, and XLA updates the graph that it recorded.
    for run in range(4):
        x = np.arange(600, dtype=np.float32).reshape(20, 30) / 100 + run
        expected = jax.tree.leaves(jax.jit(function)(jax.device_put(x, CPU)))
        got = jax.tree.leaves(compiled(jax.device_put(x, GPU)))
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    assert calls("cuGraphLaunch") - launches >= 2


CUDA = ctypes.CDLL("libcuda.so.1")
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
OF_A_LOOP = OPTIONS | {"xla_gpu_enable_command_buffer": "FUSION,CUSTOM_CALL,CONDITIONAL,WHILE"}
STEPS = 3


class OnHost:
    """A callback that queues a fill with zeros and a host function, as a recorded tap might."""

    def __init__(self):
        self.recorded = []  # for each call: whether XLA recorded it
        self.delivered = 0
        self._function = HOST_FUNCTION(self._deliver)

    def _deliver(self, _):
        self.delivered += 1

    def __call__(self, ctx, out, x):
        stream, status = ctypes.c_void_p(ctx.stream), ctypes.c_int()
        assert CUDA.cuStreamIsCapturing(stream, ctypes.byref(status)) == 0
        self.recorded.append(bool(status.value))
        zeros = ctypes.c_uint64(out.__cuda_array_interface__["data"][0])
        assert CUDA.cuMemsetD8Async(zeros, 0, ctypes.c_size_t(16), stream) == 0
        assert CUDA.cuLaunchHostFunc(stream, self._function, None) == 0


def through(callback):
    """Returns a program around a callback with a side effect that XLA may record."""
    call = buffer_callback(
        callback, jax.ShapeDtypeStruct((4,), jnp.float32), has_side_effect=True, command_buffer_compatible=True
    )
    return lambda x: jnp.sort(x * 1.5) + call(x)


def test_each_tap_is_between_two_graphs():
    got = []

    def program(x):
        for _ in range(STEPS):
            x = jnp.sort(x * 1.5)
            callout.tap(got.append, x)
        return jnp.sort(x * 2)

    compiled = jax.jit(program, compiler_options=OPTIONS)
    for run in range(4):
        x = jnp.arange(4.0) + run
        launches = calls("cuGraphLaunch")
        jax.block_until_ready(compiled(x))
        callout.barrier_wait()
        if run >= 2:
            assert calls("cuGraphLaunch") - launches == STEPS + 1
    expected = [(np.arange(4.0) + run) * 1.5**step for run in range(4) for step in range(1, STEPS + 1)]
    np.testing.assert_allclose(np.stack(got), expected)


def test_what_is_recorded_splits_nothing_and_is_replayed_without_a_call():
    callback = OnHost()

    def program(x):
        for _ in range(STEPS):
            x = through(callback)(x)
        return x

    compiled = jax.jit(program, compiler_options=OPTIONS)
    for _ in range(8):  # XLA records each new set of addresses
        jax.block_until_ready(compiled(jnp.arange(4.0)))
    launches, called = calls("cuGraphLaunch"), len(callback.recorded)
    for _ in range(4):
        jax.block_until_ready(compiled(jnp.arange(4.0)))
    assert calls("cuGraphLaunch") - launches == 4
    assert callback.recorded[:STEPS] == [False] * STEPS, "the first run is not recorded"
    assert all(callback.recorded[STEPS:])
    assert len(callback.recorded) == called, "nobody is asked in a replay"
    assert callback.delivered == 12 * STEPS


def test_a_function_of_the_host_fails_programs_whose_loops_are_graphs():
    callback = OnHost()
    compiled = jax.jit(
        lambda x: lax.while_loop(lambda c: c[0] < STEPS, lambda c: (c[0] + 1, through(callback)(c[1])), (0, x))[1],
        compiler_options=OF_A_LOOP,
    )
    jax.block_until_ready(compiled(jnp.arange(4.0)))  # not recorded
    for wait in (lambda: jax.block_until_ready(compiled(jnp.arange(4.0))), jax.effects_barrier):
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"child graph node.*CUDA_ERROR_NOT_SUPPORTED"):
            wait()
