# SPDX-License-Identifier: Apache-2.0
"""Tests kernels of numba-cuda in programs: compiled for a GPU, packed, launched by the double, and run on the host."""

import functools
import re
import threading
import types

import callout
import jax
import jax.numpy as jnp
import manual
import numpy as np
import platforms
import pytest
from callout.numba_cuda import numba_cuda_kernel
from gpu_double import calls, gpu_double  # noqa: F401
from numba_on_host import numba_on_host  # noqa: F401
from numba_packages import require

require()

pytestmark = [pytest.mark.software_gpu, pytest.mark.usefixtures("without_gpu", "numba_on_host")]


def same(x, *_, **__):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def threads(*avals):
    return avals[-1].shape or 1


@functools.cache
def kernels(cuda):
    """Makes the kernels, compiled by one of the packages."""

    @cuda.jit
    def add(x, y, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + y[i]

    @cuda.jit
    def copy(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i]

    @cuda.jit
    def affine(n, x, out, scale=1.0, shift=0, mode="add", offsets=(0, 0)):
        i = cuda.grid(1)
        if i < n:
            out[i] = x[i] * scale + (shift if mode == "add" else -shift) + offsets[1]

    return types.SimpleNamespace(add=add, copy=copy, affine=affine)


@pytest.fixture
def add(cuda):
    return kernels(cuda).add


@pytest.fixture
def copy(cuda):
    return kernels(cuda).copy


@pytest.fixture
def affine(cuda):
    return kernels(cuda).affine


def test_eager_jit_and_loops(add):
    call = numba_cuda_kernel(add, same, launch_dims=1000)
    x = jnp.arange(1000, dtype=jnp.float32)
    np.testing.assert_array_equal(call(x, x), 2 * np.arange(1000))
    np.testing.assert_array_equal(jax.jit(call)(x, x), 2 * np.arange(1000))
    loop = jax.jit(lambda v: jax.lax.fori_loop(0, 3, lambda _, c: call(c, x), v))
    np.testing.assert_array_equal(loop(x), 4 * np.arange(1000))


def test_the_kernel_sees_grid_and_block(cuda):
    @cuda.jit
    def shape(out):
        out[0] = cuda.gridDim.x
        out[1] = cuda.gridDim.y
        out[2] = cuda.gridDim.z
        out[3] = cuda.blockDim.x
        out[4] = cuda.blockDim.y
        out[5] = cuda.blockDim.z

    outs = jax.ShapeDtypeStruct((6,), jnp.int32)
    assert numba_cuda_kernel(shape, outs, grid=(2, 3), block=(4, 1, 2))().tolist() == [2, 3, 1, 4, 1, 2]
    assert numba_cuda_kernel(shape, outs, launch_dims=(20, 10))().tolist() == [2, 1, 1, 16, 10, 1]


DTYPES = ["bool", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64))]
DTYPES += ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_arrives_as_it_is(dtype, copy):
    with jax.enable_x64(True):
        bits = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 256, 7 * 16, np.uint8)
        x = jnp.asarray(bits.view(jnp.dtype(dtype))[:7])
        out = jax.jit(numba_cuda_kernel(copy, same, launch_dims=threads))(x)
    assert out.dtype == x.dtype
    assert np.asarray(out).tobytes() == np.asarray(x).tobytes()


def test_arrays_of_several_dimensions(cuda):
    @cuda.jit
    def transpose(x, out):
        i, j = cuda.grid(2)
        if i < x.shape[1] and j < x.shape[2]:
            for b in range(x.shape[0]):
                out[b, j, i] = x[b, i, j]

    x = jnp.arange(2 * 3 * 5).reshape(2, 3, 5)
    call = numba_cuda_kernel(transpose, lambda x: jax.ShapeDtypeStruct((2, 5, 3), x.dtype), launch_dims=(3, 5))
    np.testing.assert_array_equal(jax.jit(call)(x), np.asarray(x).transpose(0, 2, 1))


def test_arrays_of_no_dimensions(cuda):
    @cuda.jit
    def scaled_sum(scale, x, out):
        total = np.float32(0)
        for i in range(x.size):
            total += x[i]
        out[()] = total * scale[()]

    call = numba_cuda_kernel(scaled_sum, jax.ShapeDtypeStruct((), jnp.float32), grid=1, block=1)
    assert jax.jit(call)(jnp.float32(2), jnp.arange(5, dtype=jnp.float32)) == 20
    assert call(2.0, jnp.ones(3, jnp.float32)) == 6


def test_pytrees(cuda):
    @cuda.jit
    def both(x, y, total, difference):
        i = cuda.grid(1)
        total[i] = x[i] + y[i]
        difference[i] = x[i] - y[i]

    outs = {"b": jax.ShapeDtypeStruct((3,), jnp.int32), "a": jax.ShapeDtypeStruct((3,), jnp.int32)}
    result = jax.jit(numba_cuda_kernel(both, outs, grid=1, block=3))({"x": jnp.arange(3), "y": jnp.ones(3, int)})
    assert (result["a"].tolist(), result["b"].tolist()) == ([1, 2, 3], [-1, 0, 1])


def test_constants(affine):
    call = numba_cuda_kernel(affine, same, launch_dims=threads)
    x = jnp.arange(3.0)
    assert call(x, n=3).tolist() == [0, 1, 2]
    assert jax.jit(lambda v: call(v, n=3, scale=2.5, shift=1))(x).tolist() == [1, 3.5, 6]
    assert call(x, n=3, shift=1, mode="subtract", offsets=(10, 20)).tolist() == [19, 20, 21]
    assert call(x, n=np.uint8(3), scale=np.float32(0.5), shift=np.int8(1)).tolist() == [1, 1.5, 2]


def test_constants_that_are_arrays(cuda):
    @cuda.jit
    def look_up(x, out, table):
        i = cuda.grid(1)
        out[i] = table[x[i]]

    call = numba_cuda_kernel(look_up, same, grid=1, block=3)
    table = np.array([5, 6, 7])
    assert call(jnp.array([2, 0, 1]), table=table).tolist() == [7, 5, 6]
    table[:] = 1
    assert call(jnp.array([2, 0, 1]), table=table).tolist() == [1, 1, 1]


@pytest.mark.parametrize("scale", [1 + 2j, np.complex64(3j), np.complex128(-1j)])
def test_complex_constants(scale, affine):
    call = numba_cuda_kernel(affine, same, launch_dims=threads)
    assert call(jnp.ones(2, jnp.complex64), n=2, scale=scale).tolist() == [scale, scale]


@pytest.mark.parametrize("method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "parallel"])
def test_vmap(method, add):
    call = numba_cuda_kernel(add, same, launch_dims=threads, vmap_method=method)
    x, y = jnp.arange(12).reshape(3, 4), jnp.arange(4)
    before = calls("cuLaunchKernel")
    np.testing.assert_array_equal(jax.jit(jax.vmap(call, (0, None)))(x, y), x + y)
    if method != "sequential" or not platforms.ON_CUDA:  # a loop, whose launches XLA may record and replay
        assert calls("cuLaunchKernel") - before == 3
    nested = jax.vmap(jax.vmap(call, (0, None)), (None, 0))
    np.testing.assert_array_equal(nested(x, jnp.stack([y, -y])), x + jnp.stack([y, -y])[:, None])


def test_derivatives_by_rules(add):
    def forward(x, y):
        return call(x, y), ()

    call = numba_cuda_kernel(add, same, launch_dims=threads)
    ruled = call.options(vjp=(forward, lambda _, cotangent: (cotangent, 2 * cotangent)))
    assert jax.grad(lambda x: ruled(x, x).sum())(jnp.ones(3)).tolist() == [3, 3, 3]


def test_results_in_the_place_of_arguments(cuda):
    @cuda.jit
    def increment(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] += 1

    call = numba_cuda_kernel(increment, same, launch_dims=threads, input_output_aliases={0: 0})
    x = jnp.arange(4)
    assert jax.jit(call)(x).tolist() == [1, 2, 3, 4]
    assert x.tolist() == [0, 1, 2, 3]


def test_an_argument_that_is_a_result_may_be_written(cuda):
    @cuda.jit
    def increment(x, out):
        i = cuda.grid(1)
        if i < x.size:
            x[i] += 1

    call = numba_cuda_kernel(increment, same, launch_dims=threads, input_output_aliases={0: 0})
    assert jax.jit(call)(jnp.arange(4)).tolist() == [1, 2, 3, 4]


def test_a_launch_without_threads_gives_zeros(copy):
    call = numba_cuda_kernel(copy, same, launch_dims=threads)
    assert jax.jit(call)(jnp.zeros((0,))).shape == (0,)
    assert numba_cuda_kernel(copy, same, launch_dims=0)(jnp.ones(3)).tolist() == [0, 0, 0]


def test_device_functions_and_shared_memory(cuda):
    @cuda.jit(device=True)
    def twice(x):
        return 2 * x

    @cuda.jit
    def through(x, out):
        buffer = cuda.shared.array(4, np.float32)
        i = cuda.grid(1)
        buffer[i] = x[i]
        out[i] = twice(buffer[i])

    call = numba_cuda_kernel(through, same, grid=1, block=4, shared_mem=lambda x, out: 4 * x.size)
    assert jax.jit(call)(jnp.arange(4, dtype=jnp.float32)).tolist() == [0, 2, 4, 6]


def test_errors_of_kernels_with_debug(cuda):
    @cuda.jit(debug=True, opt=False)
    def checked(x, out):
        i = cuda.grid(1)
        if i < out.size:
            if x[i] < 0:
                raise ValueError("negative input", 7)
            if x[i] == 0:
                raise ZeroDivisionError
            out[i] = 2 * x[i]

    run = jax.jit(numba_cuda_kernel(checked, same, grid=2, block=2))
    mlir = "mlir" in type(checked).__module__
    failures = (ValueError, jax.errors.JaxRuntimeError)
    assert run(jnp.arange(1, 5, dtype=jnp.float32)).tolist() == [2, 4, 6, 8]
    text = "ValueError: raised in the kernel" if mlir else r"ValueError: \('negative input', 7\)"
    with pytest.raises(failures, match=text) as error:
        run(jnp.array([1.0, 2, 3, -1], jnp.float32)).block_until_ready()
    assert "checked" in str(error.value)
    if not mlir:
        assert "thread (1, 0, 0)" in str(error.value)
    with pytest.raises(failures, match="ZeroDivisionError"):
        run(jnp.zeros(4, jnp.float32)).block_until_ready()
    assert run(jnp.ones(4, jnp.float32)).tolist() == [2, 2, 2, 2]  # the failed launch does not affect the next one


def test_several_threads(add):
    call = jax.jit(numba_cuda_kernel(add, same, launch_dims=threads))
    results, failures = {}, []

    def work(k):
        try:
            for n in range(1, 4):
                x = jnp.full(n, k)
                results[k, n] = call(x, x).tolist()
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures
    assert results == {(k, n): [2 * k] * n for k in range(4) for n in range(1, 4)}


@pytest.mark.devices(4)
def test_several_devices(copy):
    call = numba_cuda_kernel(copy, same, launch_dims=threads)
    mesh = jax.make_mesh((4,), ("i",), devices=jax.devices()[:4])
    spec = jax.sharding.PartitionSpec("i")
    xs = jax.device_put(jnp.arange(8), jax.sharding.NamedSharding(mesh, spec))
    np.testing.assert_array_equal(jax.jit(jax.shard_map(call, mesh=mesh, in_specs=spec, out_specs=spec))(xs), xs)


@pytest.mark.cpu_only("the program is exported for XLA:CPU")
def test_exported_programs_carry_the_kernel(add):
    call = numba_cuda_kernel(add, same, launch_dims=threads)
    x = jax.ShapeDtypeStruct((5,), jnp.int32)
    exported = callout.export(jax.jit(call), platforms=["cpu"])(x, x)
    before = calls("cuLibraryLoadData")
    loaded = jax.export.deserialize(exported.serialize())
    assert loaded.call(jnp.arange(5), jnp.arange(5)).tolist() == [0, 2, 4, 6, 8]
    assert calls("cuLibraryLoadData") >= before


def test_the_examples_of_the_manual_run(cuda, capsys, tmp_path):
    blocks = manual.blocks("numba_cuda")
    assert len(blocks) == 4
    code = "\n".join(blocks)
    shown = re.findall(r"print\(.*\)  # (?:\.\.\. )?(.*)", code)
    if "mlir" in cuda.__name__:
        code = code.replace("from numba import", "from numba_cuda_mlir import")
        shown[-1] = "raised: ValueError: raised in the kernel"
    file = tmp_path / "manual.py"  # debug information needs a file
    file.write_text(code)
    exec(compile(code, str(file), "exec"), {"__name__": "manual"})
    said = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("[callout error ")]
    assert len(said) == len(shown)
    for line, end in zip(said, shown, strict=True):
        assert end in line  # XLA on a GPU adds the program's name
