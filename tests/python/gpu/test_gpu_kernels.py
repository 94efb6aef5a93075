# SPDX-License-Identifier: Apache-2.0
"""Tests kernels of images in whole programs, on platform cpu with the double of the CUDA driver."""

import os
import struct
import sys
import threading
from pathlib import Path

import callout
import jax
import jax.numpy as jnp
import limited
import numpy as np
import platforms
import pytest
from callout._native.function import Settings
from callout._native.gpu.kernel import Image, Kernel, Launch, Parameters
from callout._native.gpu.kernel_function import GpuFunction, GpuTarget
from gpu_double import IMAGE, calls, fail, gpu_double  # noqa: F401
from platforms import awaited

pytestmark = [pytest.mark.software_gpu, pytest.mark.usefixtures("gpu_double")]


class ScaleTarget(GpuTarget):
    """A target for scale(float* data, float by, uint32_t count), which changes the result that begins as the argument."""

    __slots__ = ("by", "options")

    def __init__(self, by, options):
        super().__init__(("scale", by, repr(options)), "scale")
        self.by, self.options = by, options

    def kernel(self, args, results):
        if args[0].dtype != np.float32:
            raise TypeError(f"scale: expected float32, got {args[0].dtype}")
        size = int(np.prod(args[0].shape, dtype=int))
        parameters = Parameters()
        parameters.add_pointer(1)
        parameters.add(struct.pack("<f", self.by))
        parameters.add(struct.pack("<I", size))
        block = self.options.get("block", size)
        image = Image(IMAGE.read_bytes(), self.options.get("symbol", "scale"))
        faults = self.options.get("faults")
        launch = Launch((1, 1, 1), (block, 1, 1), self.options.get("shared", 0), self.options.get("cooperative", False))
        return Kernel(image, launch, parameters, faults, synchronous=self.options.get("synchronous", False))


class Scale(GpuFunction):
    def __init__(self, by, settings=None, **options):
        settings = settings or Settings(out=lambda x: x, input_output_aliases={0: 0})
        super().__init__("test 'scale'", "scale", settings)
        self.by, self.rest = by, options

    def _with(self, settings):
        return Scale(self.by, settings, **self.rest)

    def _prepare(self, constants):
        return ScaleTarget(self.by, self.rest), ()

    def _results(self, args, avals, constants):
        return avals[0]


X = jnp.arange(6, dtype=jnp.float32)


def test_kernel_runs_eagerly_and_under_jit():
    for call in (Scale(2.0), jax.jit(Scale(2.0))):
        np.testing.assert_array_equal(call(X), 2 * np.arange(6))
    np.testing.assert_array_equal(X, np.arange(6))  # the caller's array is unchanged


def test_kernel_of_a_scalar():
    assert Scale(3.0)(jnp.float32(2)) == 6


def test_kernel_in_loops_and_branches():
    def body(i, x):
        return jax.lax.cond(i % 2 == 0, Scale(2.0), lambda x: x + 1, x)

    expected = np.arange(6)
    for i in range(5):
        expected = expected * 2 if i % 2 == 0 else expected + 1
    np.testing.assert_array_equal(jax.jit(lambda x: jax.lax.fori_loop(0, 5, body, x))(X), expected)
    _, ys = jax.jit(lambda x: jax.lax.scan(lambda c, _: (Scale(2.0)(c), c), x, length=3))(X)
    np.testing.assert_array_equal(ys, np.arange(6) * np.array([[1], [2], [4]]))
    whiled = jax.lax.while_loop(lambda x: jnp.max(x) < 30, Scale(2.0), X)
    np.testing.assert_array_equal(whiled, 8 * np.arange(6))


@pytest.mark.parametrize(
    "method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized", "parallel"]
)
def test_vmap_launches_once_a_lane(method):
    scale = Scale(2.0).options(vmap_method=method)
    xs = jnp.arange(12, dtype=jnp.float32).reshape(3, 4)
    before = calls("cuLaunchKernel")
    np.testing.assert_array_equal(jax.jit(jax.vmap(scale))(xs), 2 * np.asarray(xs))
    if method != "sequential" or not platforms.ON_CUDA:  # a loop, whose launches XLA may record and replay
        assert calls("cuLaunchKernel") - before == 3
    np.testing.assert_array_equal(jax.vmap(scale, in_axes=1, out_axes=1)(xs), 2 * np.asarray(xs))


def test_nested_vmap():
    scale = Scale(2.0).options(vmap_method="broadcast_all")
    xs = jnp.arange(24, dtype=jnp.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(jax.vmap(jax.vmap(scale))(xs), 2 * np.asarray(xs))
    np.testing.assert_array_equal(jax.vmap(jax.vmap(scale, 1, 1), 2, 2)(xs), 2 * np.asarray(xs))


def test_vmap_without_a_method_is_refused():
    with pytest.raises(NotImplementedError, match="vmap needs a vmap_method"):
        jax.vmap(Scale(2.0))(jnp.ones((2, 3), jnp.float32))


def test_derivatives_by_rule():
    scale = Scale(2.0).options(jvp=lambda primals, tangents: (Scale(2.0)(*primals), Scale(2.0)(*tangents)))
    value, tangent = jax.jvp(scale, (X,), (jnp.ones_like(X),))
    np.testing.assert_array_equal(value, 2 * np.arange(6))
    np.testing.assert_array_equal(tangent, np.full(6, 2))
    backward = Scale(2.0).options(vjp=(lambda x: (Scale(2.0)(x), ()), lambda _, ct: (Scale(2.0)(ct),)))
    np.testing.assert_array_equal(jax.grad(lambda x: backward(x).sum())(X), np.full(6, 2))
    with pytest.raises(ValueError, match="do not support JVP"):
        jax.jvp(Scale(2.0), (X,), (X,))


def test_launch_without_threads_gives_zeros_and_no_call():
    before = calls("cuLaunchKernel")
    assert jax.jit(Scale(2.0))(jnp.zeros((0, 3), jnp.float32)).shape == (0, 3)
    np.testing.assert_array_equal(jax.jit(Scale(2.0, block=0))(X), np.zeros(6))
    assert calls("cuLaunchKernel") == before


@pytest.mark.devices(4)
def test_several_devices():
    devices = jax.devices()[:4]
    mesh = jax.make_mesh((4,), ("i",), devices=devices)
    spec = jax.sharding.PartitionSpec("i")
    xs = jax.device_put(jnp.arange(8, dtype=jnp.float32), jax.sharding.NamedSharding(mesh, spec))
    by_shard = jax.jit(jax.shard_map(Scale(2.0), mesh=mesh, in_specs=spec, out_specs=spec))
    np.testing.assert_array_equal(by_shard(xs), 2 * np.arange(8))
    on_third = jax.device_put(X, devices[2])
    assert jax.jit(Scale(2.0))(on_third).devices() == {devices[2]}


@pytest.mark.collectives
@pytest.mark.devices(4)
def test_a_sharded_argument_is_gathered():
    mesh = jax.make_mesh((4,), ("i",), devices=jax.devices()[:4])
    xs = jax.device_put(jnp.arange(8, dtype=jnp.float32), jax.NamedSharding(mesh, jax.P("i")))
    np.testing.assert_array_equal(jax.jit(Scale(2.0))(xs), 2 * np.arange(8))


def test_wrong_arguments_are_rejected_when_traced():
    with pytest.raises(TypeError, match="expected float32, got int32"):
        jax.eval_shape(Scale(2.0), jnp.arange(3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"symbol": "none"}, r"'none'.*CUDA_ERROR_NOT_FOUND \(500\)"),
        (
            {"symbol": "coordinates"},
            r"'scale' on device 0: its image takes parameters of \[8\] bytes.*passes \[8, 4, 4\]",
        ),
        ({"shared": 300 << 10}, r"cuFuncSetAttribute of 'scale' for 307200 bytes.*CUDA_ERROR_INVALID_VALUE"),
        ({"block": 1025}, r"blocks of 1025 threads.*1024 at most"),
    ],
)
def test_device_errors_fail_the_program(options, message):
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        awaited(jax.jit(Scale(2.0, **options))(X))


@pytest.mark.parametrize(
    ("function", "code", "name"),
    [
        ("cuLaunchKernel", 701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
        ("cuLibraryLoadData", 209, "CUDA_ERROR_NO_BINARY_FOR_GPU"),
        ("cuKernelGetFunction", 2, "CUDA_ERROR_OUT_OF_MEMORY"),
    ],
)
def test_driver_errors_fail_the_program_and_the_next_run_works(function, code, name):
    program = jax.jit(Scale(2.0))
    compiled = program.lower(X).compile()
    fail(function, 1, code)
    with pytest.raises(jax.errors.JaxRuntimeError, match=rf"{function} of 'scale'.*{name} \({code}\)"):
        awaited(compiled(X))
    np.testing.assert_array_equal(compiled(X), 2 * np.arange(6))


def test_synchronous_kernel():
    np.testing.assert_array_equal(jax.jit(Scale(2.0, synchronous=True))(X), 2 * np.arange(6))


def test_launches_are_counted():
    before = callout.stats()["kernels"]["launches"]
    jax.block_until_ready(jax.jit(Scale(2.0))(X))
    stats = callout.stats()
    assert stats["kernels"]["launches"] == before + 1
    assert f"GPU kernels: {before + 1} launches, " in stats.table()
    assert f'callout_gpu_kernels_total{{event="launches"}} {before + 1}' in stats.prometheus()


def test_threads_run_one_program_at_once():
    program = jax.jit(Scale(2.0)).lower(X).compile()
    results = [None] * 8

    def run(i):
        results[i] = [np.asarray(program(X + i)) for _ in range(20)]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, outs in enumerate(results):
        np.testing.assert_array_equal(outs, np.broadcast_to(2 * (np.arange(6) + i), (20, 6)))


def test_exported_program_carries_the_kernel():
    exported = callout.export(jax.jit(Scale(2.0)))(X)
    assert callout.exported_names(exported) == ()
    loaded = jax.export.deserialize(exported.serialize())
    np.testing.assert_array_equal(loaded.call(X), 2 * np.arange(6))
    batched = callout.export(jax.jit(jax.vmap(Scale(2.0).options(vmap_method="parallel"))))(jnp.ones((2, 3)))
    np.testing.assert_array_equal(batched.call(jnp.ones((2, 3), jnp.float32)), np.full((2, 3), 2))


_LOADER = """
import sys, jax, jax.numpy as jnp, callout
from gpu_double import on_cpu

callout.config.embedded_code = sys.argv[2] == "allow"
with on_cpu():
    loaded = jax.export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
    try:
        print(jax.jit(loaded.call)(jnp.arange(6, dtype=jnp.float32)))
    except jax.errors.JaxRuntimeError as error:
        print(error)
"""


def test_another_process_runs_the_exported_kernel_if_it_may(tmp_path):
    file = tmp_path / "program.bin"
    file.write_bytes(callout.export(jax.jit(Scale(2.0)))(X).serialize())
    said = {}
    for policy in ("allow", "refuse"):
        command = [sys.executable, "-c", _LOADER, str(file), policy]
        support = str(Path(__file__).parents[1] / "support")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([support, os.environ.get("PYTHONPATH", "")])}
        done = limited.run(command, env=environment, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        said[policy] = done.stdout
    assert said["allow"].strip() == "[ 0.  2.  4.  6.  8. 10.]"
    assert "the program carries the kernel 'scale', and this process does not run code" in said["refuse"]


def test_a_process_that_rejects_embedded_code_runs_its_own_kernels():
    callout.config.embedded_code = False
    try:
        np.testing.assert_array_equal(jax.jit(Scale(5.0))(X), 5 * np.arange(6))
    finally:
        callout.config.embedded_code = True
