# SPDX-License-Identifier: Apache-2.0
"""Tests each of Callout's CUDA handlers in each use: eager, jitted, in a loop, replayed, and on two devices.

Run by `make gpu-test` with `software_gpu/run --devices 2`. The suites test what handlers do; this file
tests that each handler is reached.
"""

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout.buffer_callback import buffer_callback
from callout.numba_cuda import numba_cuda_callable
from jax import lax

DEVICES = jax.devices()
LIKE = jax.ShapeDtypeStruct((4,), jnp.float32)
SOURCE = """
extern "C" __global__ void twice(const float* x, float* y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
"""


class Counted:
    """A callback that counts its runs."""

    def __init__(self, function):
        self.function, self.runs = function, 0

    def __call__(self, *arguments):
        self.runs += 1
        return self.function(*arguments)


class PureCallback:
    """Uses the handler of calls, and of their results."""

    def __init__(self):
        self.host = Counted(lambda x: 2 * np.asarray(x))
        self.step = lambda x: callout.pure_callback(self.host, LIKE, x)

    def check(self, runs):
        assert self.host.runs == runs


class OrderedIoCallback(PureCallback):
    """Uses the handler of calls with a token."""

    def __init__(self):
        self.host = Counted(lambda x: 2 * np.asarray(x))
        self.step = lambda x: callout.io_callback(self.host, LIKE, x, ordered=True)


class Tap:
    """Uses the handler of taps: values arrive in order."""

    def __init__(self):
        self.heard = []
        self.step = lambda x: callout.tap(lambda x: self.heard.append(float(x[0])), x) * 2

    def check(self, runs):
        callout.barrier_wait()
        assert len(self.heard) == runs


class BufferCallback:
    """Uses the handler of buffers: the driver copies on the program's stream."""

    def __init__(self):
        self.host = Counted(self.copy)
        call = buffer_callback(self.host, LIKE)
        self.step = lambda x: call(x * 2)

    @staticmethod
    def copy(ctx, out, x):
        import ctypes

        into, data = (buffer.__cuda_array_interface__["data"][0] for buffer in (out, x))
        driver = ctypes.CDLL("libcuda.so.1")
        status = driver.cuMemcpyDtoDAsync_v2(
            ctypes.c_uint64(into), ctypes.c_uint64(data), ctypes.c_size_t(16), ctypes.c_void_p(ctx.stream)
        )
        assert status == 0

    def check(self, runs):
        assert self.host.runs == runs


class RecordedFunction(BufferCallback):
    """Uses the handler of buffers with recording: each set of buffers is recorded once and then launched as a graph."""

    def __init__(self):
        self.host = Counted(lambda x, out, stream: out.copy_to_device(x, stream=stream))
        call = numba_cuda_callable(self.host, LIKE, graph=True)
        self.step = lambda x: call(x * 2)

    def check(self, runs):
        assert 1 <= self.host.runs <= runs


class DeviceCall(PureCallback):
    """Uses the handler of buffers for a function that returns arrays in the device's memory."""

    def __init__(self):
        self.host = Counted(lambda x: x)
        self.step = lambda x: callout.pure_callback(callout.options(self.host, memory="device"), LIKE, 2 * x)


class NamedCall(PureCallback):
    """Uses the handler of calls for a function that the program knows by its name."""

    def __init__(self):
        self.host = Counted(lambda x: 2 * np.asarray(x))
        name = f"handlers.named{id(self)}"
        callout.register(name, self.host)
        self.step = lambda x: callout.pure_callback(name, LIKE, x)


class Check:
    """Uses the handler of checks: only the predicate leaves the device."""

    def __init__(self):
        self.before = self.count()
        self.step = lambda x: callout.error_if(x, jnp.isnan(x[0]), "NaN") * 2

    @staticmethod
    def count():
        callout.barrier_wait()
        return callout.stats()["callbacks"].get("check", {}).get("calls", 0)

    def check(self, runs):
        assert self.count() == self.before + runs


class Kernel:
    """Uses the handler of kernels, with an image of NVRTC's PTX."""

    def __init__(self):
        self.step = callout.cuda.load_inline(SOURCE, name="handlers").twice.options(out=LIKE, grid=1, block=4)

    def check(self, runs):
        """Checks nothing: a replay does not go through the handler."""


HANDLERS = [
    *(PureCallback, OrderedIoCallback, NamedCall, DeviceCall, Tap, Check),
    *(BufferCallback, RecordedFunction, Kernel),
]


def start(device=DEVICES[0]):
    return jax.device_put(np.arange(4, dtype=np.float32) + 1, device)


def expect(got, factor, device=DEVICES[0]):
    assert got.devices() == {device}
    np.testing.assert_array_equal(np.asarray(got), factor * (np.arange(4, dtype=np.float32) + 1))


@pytest.fixture(params=HANDLERS, ids=lambda kind: kind.__name__)
def handler(request):
    return request.param()


def test_the_devices_are_gpus():
    assert [device.platform for device in DEVICES] == ["gpu", "gpu"]


def test_eager(handler):
    expect(handler.step(start()), 2)
    handler.check(1)


def test_jitted(handler):
    program = jax.jit(lambda x: handler.step(x + 1) - 1)
    np.testing.assert_array_equal(np.asarray(program(start())), [3, 5, 7, 9])
    handler.check(1)


def test_in_a_loop(handler):
    program = jax.jit(lambda x: lax.fori_loop(0, 5, lambda _, x: handler.step(x), x))
    expect(program(start()), 32)
    handler.check(5)


def test_in_a_branch(handler):
    program = jax.jit(lambda x: lax.cond(x[0] > 0, handler.step, lambda x: x - 1, x))
    expect(program(start()), 2)
    np.testing.assert_array_equal(program(-start()), -np.asarray(start()) - 1)
    handler.check(1)


def test_replayed(handler):
    """XLA records the parts of a program that it can after some runs, and replays them from then on."""

    def body(x):
        for _ in range(4):
            x = handler.step(jnp.sort(x) + 1) - 1
        return x

    program = jax.jit(body)
    expected = np.arange(4, dtype=np.float32) + 1
    for _ in range(4):
        expected = 2 * (expected + 1) - 1
    for _ in range(6):
        np.testing.assert_array_equal(np.asarray(program(start())), expected)
    handler.check(24)


def test_on_two_devices(handler):
    program = jax.jit(lambda x: handler.step(handler.step(x)))
    for device in DEVICES:
        expect(program(start(device)), 4, device)
    handler.check(4)


def test_of_a_sharded_array():
    """Each device calls the function with its own part of the array."""
    heard = []
    mesh = jax.make_mesh((2,), ("d",))
    spec = jax.P("d")

    def part(x):
        callout.tap(lambda x: heard.append(np.asarray(x).tolist()), x)
        return callout.pure_callback(lambda x: 2 * np.asarray(x), jax.ShapeDtypeStruct((2,), jnp.float32), x)

    x = jax.device_put(np.arange(4, dtype=np.float32), jax.NamedSharding(mesh, spec))
    got = jax.jit(jax.shard_map(part, mesh=mesh, in_specs=spec, out_specs=spec))(x)
    np.testing.assert_array_equal(np.asarray(got), [0, 2, 4, 6])
    callout.barrier_wait()
    assert sorted(heard) == [[0, 1], [2, 3]]


def test_an_exception_fails_the_program_and_the_next_one_runs():
    def host(x):
        if x[0] == 1:
            raise ValueError("of the host")
        return x

    program = jax.jit(lambda x: callout.pure_callback(host, LIKE, x))
    with pytest.raises(Exception, match="of the host"):
        jax.block_until_ready(program(start()))
    np.testing.assert_array_equal(np.asarray(program(start() + 1)), [2, 3, 4, 5])
