# SPDX-License-Identifier: Apache-2.0
"""Tests callout.cuda.load_host: the choice of nvcc, errors, and platforms without its functions.

gpu_host_functions.py tests programs.
"""

import callout
import jax
import jax.numpy as jnp
import manual
import platforms
import pytest
from callout._native.gpu import nvcc as search
from cuda_compilers import require_nvcc

pytestmark = [pytest.mark.usefixtures("cache"), pytest.mark.cpu_only(platforms.COMPILERS)]

COPY = """#include "callout/kernel.h"
__global__ void copy(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }
void through(callout::In<float> x, callout::Stream stream, callout::Out<float> y) {
  copy<<<1, static_cast<unsigned>(x.size()), 0, stream>>>(x.data(), y.data());
}
CALLOUT_KERNEL(through);
"""


@pytest.fixture(scope="module")
def module(cache):
    require_nvcc()
    return callout.cuda.load_host(COPY, name="copies")


def test_functions_run_on_cuda_only(module):
    with pytest.raises(NotImplementedError, match="not supported on platform cpu; supported: cuda"):
        jax.jit(module.through)(jnp.ones(3))


def test_one_recording_excludes_the_other(module):
    with pytest.raises(
        TypeError, match=r"'through'.*graph=True.*command_buffer_compatible=True.*expected one of them, got both"
    ):
        module.through.options(graph=True, command_buffer_compatible=True)


def test_the_example_of_the_manual_is_built(cache):
    """Builds and traces the example; the driver's double does not run kernels that nvcc compiled."""
    require_nvcc()
    (code,) = [block for block in manual.blocks("cuda") if "load_host" in block]
    code, _, printed = code.rpartition("print(")
    assert "normalize" in printed
    names = {"callout": callout, "jax": jax, "jnp": jnp}
    exec(compile(code, "cuda.md", "exec"), names)
    program = callout.export(jax.jit(names["normalize"]), platforms=["cuda"])(jnp.array([1.0, 3.0]))
    assert [(out.shape, out.dtype) for out in program.out_avals] == [((2,), jnp.float32)]


def test_a_library_is_built_once(module):
    assert callout.cuda.load_host(COPY, name="copies").path == module.path
    assert callout.cuda.load_host(COPY, name="copies", flags=["-DNDEBUG"]).path != module.path


BRANCHES = """#include "callout/kernel.h"
#if !defined(__CUDA_ARCH__)
constexpr int kHost = {};
#elif __CUDA_ARCH__ >= 900
constexpr int kNew = {};
#else
constexpr int kOld = {};
#endif
void nothing(callout::Stream, callout::Out<float>) {{}}
CALLOUT_KERNEL(nothing);
"""


@pytest.mark.slow
def test_every_change_of_source_or_flags_builds_another_library(monkeypatch):
    require_nvcc()
    both = [f"-gencode=arch=compute_{number},code=sm_{number}" for number in (80, 90)]

    def path(*numbers):
        return callout.cuda.load_host(BRANCHES.format(*numbers), flags=both).path

    found = {path(*numbers) for numbers in ((1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2))}
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-lineinfo")
    assert len({*found, path(1, 1, 1)}) == 5


def test_operands_are_checked_when_traced(module):
    with pytest.raises(TypeError, match=r"callout.cuda 'through': argument 0: expected float32 of any rank, got int32"):
        jax.jit(module.through).lower(jnp.arange(3))
    with pytest.raises(ValueError, match="vmap_method must be one of"):
        module.through.options(vmap_method="parallel")
    with pytest.raises(NotImplementedError, match=r"needs a vmap_method, one of \['sequential', "):
        jax.vmap(module.through)(jnp.ones((2, 3)))


@pytest.mark.slow
def test_errors_show_the_users_lines():
    require_nvcc()
    with pytest.raises(
        callout.cuda.CompileError, match=r"(?s)cannot compile odd: .*nvcc.*odd\.cu\(2\): error.*nowhere"
    ):
        callout.cuda.load_host("\nint* y = nowhere;\n", ["f"], name="odd")
    with pytest.raises(callout.cuda.CompileError, match="odd has no function for JAX: mark one by CALLOUT_KERNEL"):
        callout.cuda.load_host("int y;\n", name="odd")
    with pytest.raises(callout.RegistrationError, match="exports neither 'f' nor"):
        callout.cuda.load_host("int y;\n", ["f"], name="odd")
    with pytest.raises(TypeError, match="the source must be a string, got 3"):
        callout.cuda.load_host(3)


def test_nvcc_gets_the_devices_architectures(monkeypatch):
    require_nvcc()

    def flags(capabilities, *given):
        monkeypatch.setattr(search, "device_capabilities", lambda: capabilities)
        return [flag for flag in search.find_nvcc(*given).base_flags if "arch" in flag]

    assert flags(set(), None, ()) == ["-arch=sm_75"]
    assert flags({90, 100}, None, ()) == ["-arch=sm_90"]
    assert flags({90}, "compute_80", ()) == ["-arch=compute_80"]
    assert flags({90}, None, ["-gencode=arch=compute_90,code=sm_90"]) == []
    with pytest.raises(ValueError, match="both arch='sm_90' and the flag '--gpu-architecture=sm_80'"):
        flags({90}, "sm_90", ["--gpu-architecture=sm_80"])
    with pytest.raises(ValueError, match="arch must be such as 'sm_90' or 'compute_90', got 90"):
        flags({90}, 90, ())


def test_without_nvcc_the_error_names_the_toolkit(monkeypatch):
    monkeypatch.setenv("CUDACXX", "/nowhere/nvcc")
    with pytest.raises(callout.cuda.CompileError, match="the compiler CUDACXX='/nowhere/nvcc' was not found"):
        callout.cuda.load_host(COPY)
    monkeypatch.delenv("CUDACXX")
    monkeypatch.setattr(search, "_candidates", lambda: iter(()))
    with pytest.raises(
        callout.cuda.CompileError, match=r"no nvcc was found .*install the CUDA toolkit, or set CUDACXX"
    ):
        callout.cuda.load_host(COPY)


def test_a_function_with_a_stream_fails_on_host_memory():
    module = callout.cpp.load_inline("""
        #include "callout/kernel.h"
        void nothing(callout::Stream stream, callout::Out<float> y) { y[0] = stream.handle != nullptr; }
        CALLOUT_KERNEL(nothing);
        """)
    nothing = module.nothing.options(out=jax.ShapeDtypeStruct((1,), jnp.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match="takes a stream, and was called on the host's memory"):
        jax.jit(nothing)().block_until_ready()
