# SPDX-License-Identifier: Apache-2.0
"""Tests callout.numba_cuda: kernels that are rejected, with the reason, and kernels that are compiled."""

import gc
import itertools
import threading
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout._native.gpu import images, numba_image
from callout._native.gpu.numba_compiler import ArrayType, Baked
from callout._native.gpu.numba_image import compiled, compiler_of
from callout.numba_cuda import numba_cuda_kernel
from numba_packages import cuda_of, kernel_for, require

LINKED = "compilers link machine code for it, which the software GPU has not"

require()

pytestmark = pytest.mark.usefixtures("without_gpu")

F32 = np.dtype(np.float32)


def same(x, *_, **__):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


@pytest.fixture
def copy(cuda):
    @cuda.jit
    def copy(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i]

    return copy


def test_compiles_once_for_each_combination_of_types(copy):
    aval = jax.ShapeDtypeStruct((3,), jnp.float32)
    first = kernel_for(copy, [aval], [aval])
    again = kernel_for(copy, [jax.ShapeDtypeStruct((9,), jnp.float32)], [aval], grid=4, block=2)
    other = kernel_for(copy, [jax.ShapeDtypeStruct((3,), jnp.int32)], [aval])
    assert first.image is again.image
    assert first.image.code != other.image.code
    assert (again.launch.grid, again.launch.block) == ((4, 1, 1), (2, 1, 1))


def test_code_dies_with_its_kernel():
    pytest.importorskip("numba_cuda", reason="needs numba-cuda (numba-cuda-mlir keeps every kernel for ever)")
    cuda = cuda_of("numba_cuda")

    def make():
        @cuda.jit
        def nothing(out):
            pass

        compiled("test", nothing, [ArrayType(F32, 1, True)])
        return weakref.ref(nothing)

    gc.collect()
    before = len(numba_image._codes)
    dead = make()
    gc.collect()
    assert dead() is None
    assert len(numba_image._codes) == before


def test_threads_compile_a_kernel_once(copy):
    codes = []
    begin = threading.Barrier(4)

    def work():
        begin.wait()
        codes.append(compiled("test", copy, [ArrayType(F32, 1, False), ArrayType(F32, 1, True)]))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(codes) == 4
    assert len({id(code) for code in codes}) == 1


def test_images_without_a_gpu_are_ptx_that_drivers_compile(copy):
    image = compiled("test", copy, [ArrayType(F32, 1, False), ArrayType(F32, 1, True)]).image
    assert b".target sm_75" in image.code
    assert image.portable == image.code


def test_the_environment_names_another_architecture(copy, monkeypatch):
    monkeypatch.setenv("NUMBA_CUDA_DEFAULT_PTX_CC", "9.0")
    image = compiled("test", copy, [ArrayType(F32, 1, False), ArrayType(F32, 1, True)]).image
    assert b".target sm_90\n" in (image.portable or b"")


@pytest.mark.cpu_only(LINKED)
@pytest.mark.usefixtures("sm_90")
def test_kernels_that_are_linked_become_cubins(cuda, monkeypatch):
    @cuda.jit
    def together(x, out):
        cuda.cg.this_grid().sync()
        out[0] = x[0]

    aval = jax.ShapeDtypeStruct((3,), jnp.float32)
    kernel = kernel_for(together, [aval], [aval])
    assert kernel.launch.cooperative
    assert kernel.image.portable is None
    assert kernel.image.code.startswith(b"\x7fELF")
    assert images.parameter_sizes(kernel.image.code)[kernel.image.symbol] == kernel.parameters.sizes


@pytest.mark.cpu_only(LINKED)
def test_kernels_that_are_linked_need_an_architecture(cuda, monkeypatch):
    monkeypatch.delenv("NUMBA_CUDA_DEFAULT_PTX_CC", raising=False)

    @cuda.jit
    def together(x, out):
        cuda.cg.this_grid().sync()
        out[0] = x[0]

    parameters = [ArrayType(F32, 1, False), ArrayType(F32, 1, True)]
    with pytest.raises(ImportError, match=r"test: .*NUMBA_CUDA_DEFAULT_PTX_CC"):
        compiled("test", together, parameters)


@pytest.mark.slow
def test_constants_take_part_in_the_code_or_in_the_parameters(cuda):
    @cuda.jit
    def affine(n, x, out, scale=1.0, mode="add"):
        i = cuda.grid(1)
        if i < n:
            out[i] = x[i] * scale if mode == "scale" else x[i] + scale

    call = numba_cuda_kernel(affine, same, grid=1, block=1)
    x = jax.ShapeDtypeStruct((3,), jnp.float32)
    for n, mode in itertools.product((1, 2), ("scale", "add")):
        call.prepare(x, n=n, scale=n / 2, mode=mode)
    assert len(numba_image._codes[affine]) == 2
    call.prepare(x, n=np.int32(1))  # another type of n, and the default scale
    assert len(numba_image._codes[affine]) == 3


def refused(kernel, *args, error=TypeError, match, **constants):
    call = numba_cuda_kernel(kernel, same, grid=1, block=1)
    with pytest.raises(error, match=match):
        call.prepare(*args, **constants)


def test_arguments_that_do_not_fit(cuda, copy):
    x = jax.ShapeDtypeStruct((3,), jnp.float32)

    refused(copy, x, x, match=r"numba_cuda 'copy': the kernel takes \(x, out\), got 2 arguments and 1 results")
    refused(copy, x, match="and constants scale", scale=2)
    refused(copy, x, match=r"constant 'scale' must be a number, a string, a tuple or an array, got \[1\]", scale=[1])
    refused(copy, x, match="constant 'x' is an array of JAX", x=jnp.ones(3))
    refused(
        copy, jax.ShapeDtypeStruct((3,), jnp.int4), match="argument 0 is int4, which numba-cuda(-mlir)? does not have"
    )
    refused(copy, jax.ShapeDtypeStruct((3,), jnp.float8_e4m3fn), match="argument 0 is float8_e4m3fn")

    @cuda.jit
    def variadic(x, *outs):
        pass

    refused(variadic, x, match=r"the kernel takes \*outs; name its parameters")


def test_kernels_that_do_not_compile(cuda):
    x = jax.ShapeDtypeStruct((3,), jnp.float32)

    @cuda.jit
    def unknown(x, out):
        out[0] = x.nothing

    @cuda.jit
    def returns(x, out):
        return 3

    refused(unknown, x, match=r"numba_cuda 'unknown': numba-cuda.* does not compile the kernel for .*(?s:.*)nothing")
    refused(returns, x, match="numba_cuda 'returns': numba-cuda.* does not compile the kernel for")


def test_kernels_that_write_to_arguments(cuda):
    x = jax.ShapeDtypeStruct((3,), jnp.float32)

    @cuda.jit
    def writes(x, out):
        x[0] = 1

    refused(writes, x, match=r"the kernel writes to an argument, whose memory is XLA's.*input_output_aliases")
    numba_cuda_kernel(writes, same, grid=1, block=1, input_output_aliases={0: 0}).prepare(x)


def test_device_functions_are_compiled_with_the_kernel(cuda):
    @cuda.jit(device=True)
    def first(x):
        return x[0]

    @cuda.jit
    def uses(x, out):
        out[0] = first(x)

    image = compiled("test", uses, [ArrayType(F32, 1, False), ArrayType(F32, 1, True)]).image
    assert images.is_complete((image.portable or b"").decode())


def test_debug_kernels_name_the_meaning_of_their_codes(cuda):
    @cuda.jit(debug=True, opt=False)
    def checked(x, out):
        if x[0] < 0:
            raise ValueError("negative", 3)
        if x[0] == 0:
            raise ZeroDivisionError
        out[0] = x[0]

    aval = jax.ShapeDtypeStruct((3,), jnp.float32)
    kernel = kernel_for(checked, [aval], [aval])
    assert kernel.synchronous
    if "mlir" in compiler_of(checked).package:
        assert kernel.faults["3"] == "ValueError: raised in the kernel"
        assert kernel.faults["5"] == "ZeroDivisionError: raised in the kernel"
    else:
        assert kernel.faults["1"] == "ValueError: ('negative', 3)"
        assert kernel.faults["2"] == "ZeroDivisionError"
        assert {"thread_x", "thread_z", "block_y"} < set(kernel.faults)
    for name, symbol in kernel.faults.items():
        assert name.isdigit() or symbol.encode() in kernel.image.code


@pytest.mark.cpu_only(LINKED)
@pytest.mark.usefixtures("sm_90")
def test_faults_of_device_functions_are_numbered_as_the_kernel_s():
    pytest.importorskip("numba_cuda", reason="needs numba-cuda")
    cuda = cuda_of("numba_cuda")

    @cuda.jit(device=True, debug=True, opt=False)
    def root(x):
        if x < 0:
            raise KeyError("device")
        return x

    @cuda.jit(debug=True, opt=False)
    def checked(x, out):
        if x[0] > 9:
            raise ValueError("large")
        if x[0] > 8:
            raise IndexError("less large")
        out[0] = root(x[0])

    faults = compiled("test", checked, [ArrayType(F32, 1, False), ArrayType(F32, 1, True)]).faults
    assert faults["1"] == "ValueError: large (or another of a device function: Numba numbers both alike)"
    assert faults["2"] == "IndexError: less large"


def test_kernels_without_debug_are_asynchronous(copy):
    aval = jax.ShapeDtypeStruct((3,), jnp.float32)
    kernel = kernel_for(copy, [aval], [aval])
    assert not kernel.synchronous
    assert kernel.faults is None


def test_invalid_kernels_are_rejected(cuda, copy):
    with pytest.raises(TypeError, match=r"the kernel is a plain Python function; decorate it with numba\.cuda\.jit"):
        numba_cuda_kernel(lambda x, out: None, same, launch_dims=1)
    with pytest.raises(TypeError, match=r"expected a kernel of numba\.cuda\.jit, got 3"):
        numba_cuda_kernel(3, same, launch_dims=1)

    @cuda.jit(device=True)
    def helper(x):
        return x

    with pytest.raises(TypeError, match="'helper' is a device function"):
        numba_cuda_kernel(helper, same, launch_dims=1)
    with pytest.raises(TypeError, match="say what it returns"):
        numba_cuda_kernel(copy, None, launch_dims=1).prepare(jnp.ones(3))


@pytest.mark.parametrize(
    ("launch", "match"),
    [
        ({}, "say how many threads to launch"),
        ({"grid": 1}, "say how many threads to launch"),
        ({"grid": 1, "launch_dims": 1}, "replaces grid= and block="),
        ({"launch_dims": (1, 2, 3, 4)}, "one to three dimensions"),
        ({"grid": 1, "block": 1025}, "at most 1024"),
        ({"grid": (1, 65536), "block": 1}, r"grid\.y is at most 65535"),
        ({"grid": lambda *_: 1}, "say how many threads to launch"),
        ({"launch_dims": 1, "shared_mem": -1}, "shared_mem must be a number of bytes"),
        ({"launch_dims": 1, "shared_mem": 1.5}, "shared_mem must be a number of bytes"),
    ],
)
def test_impossible_launches_are_rejected_when_the_function_is_made(copy, launch, match):
    with pytest.raises(ValueError, match=match):
        numba_cuda_kernel(copy, same, **launch)


def test_options_are_those_of_numba_cuda_kernel(copy):
    call = numba_cuda_kernel(copy, None, launch_dims=1)
    changed = call.options(launch_dims=None, grid=2, block=3, outs=same, vmap_method="parallel")
    assert (changed._launch.grid, changed._launch.block, changed._settings.vmap_method) == (2, 3, "parallel")
    assert changed._settings.out is same
    assert call._launch.launch_dims == 1
    with pytest.raises(ValueError, match="replaces grid= and block="):
        call.options(grid=2)
    with pytest.raises(TypeError, match="unexpected keyword"):
        call.options(other=2)


def test_launches_of_functions_are_checked_when_traced(copy):
    x = jax.ShapeDtypeStruct((2000,), jnp.float32)
    call = numba_cuda_kernel(copy, same, grid=1, block=lambda x, out: x.shape)
    with pytest.raises(ValueError, match=r"numba_cuda 'copy': block\.x is at most 1024, got 2000"):
        call.prepare(x)
    call = numba_cuda_kernel(copy, same, grid=1, block=1, shared_mem=lambda *_: -1)
    with pytest.raises(ValueError, match="numba_cuda 'copy': shared_mem must be a number of bytes, got -1"):
        call.prepare(x)


def test_compilers_without_their_tools_name_the_remedy(cuda, copy, monkeypatch):
    class NvvmSupportError(ImportError):
        pass

    def fail(*_):
        raise NvvmSupportError("libnvvm.so cannot be found")

    monkeypatch.setattr(type(compiler_of(copy)), "compile", fail)
    refused(
        copy, jax.ShapeDtypeStruct((3,), jnp.float32), error=ImportError, match=r"pip install numba-cuda.*libnvvm\.so"
    )


def test_ptx_with_unresolved_calls_is_incomplete():
    text = ".extern .func (.param .b32 r) cudaCGSynchronize\n(\n.param .b64 p\n)\n;\n"
    text += ".extern .func  (.param .b32 r) vprintf\n"
    assert images.missing_functions(text) == {"cudaCGSynchronize"}
    assert not images.is_complete(".address_size 64\n" + text)
    assert not images.is_complete(".address_size 64\n.address_size 64\n")
    assert images.is_complete(".address_size 64\n.extern .shared .align 8 .b8 memory[];\n")


def test_values_that_compile_to_the_same():
    from callout._native.gpu.numba_cuda_target import baked

    assert baked((1, np.arange(3))) == baked((1, np.arange(3)))
    pairs = [(1, 1.0), (0.0, -0.0), (True, 1), ("1", 1), (np.arange(2), np.arange(2.0)), ((1,), (1, 1))]
    for one, other in [*pairs, ((0j,), (-0j,)), ((np.float32(0),), (np.float32(-0.0),))]:
        assert baked(one) != baked(other)
    assert isinstance(baked(None), Baked)
