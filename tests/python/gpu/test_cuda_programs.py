# SPDX-License-Identifier: Apache-2.0
"""Tests CUDA C++ in whole programs: compiled by NVRTC, launched by C++, run by the driver's double on the CPU."""

import re

import callout
import host_cuda
import jax
import jax.numpy as jnp
import manual
import numpy as np
import pytest
from callout._native.gpu.cuda_signature import signatures
from cuda_compilers import EACH, SCALE, require_nvrtc
from gpu_double import DRIVER, calls, gpu_double  # noqa: F401
from platforms import awaited

require_nvrtc()
pytestmark = [pytest.mark.software_gpu, pytest.mark.usefixtures("cache", "gpu_double")]

SOURCE = f"""#include <cstdint>
{SCALE}
extern "C" __global__ void add_to(float* total, const float* more, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) total[i] += more[i];
}}

extern "C" __global__ void outer(const double* x, const std::int16_t* y, double* product, std::int16_t* column,
                                 unsigned columns, bool negate) {{
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  product[i * columns + j] = (negate ? -1 : 1) * x[i] * y[j];
  column[i * columns + j] = j;
}}

extern "C" __global__ void where(int* y) {{
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = (gridDim.x * 100 + blockDim.x) * 100 + i;
}}

struct Line {{ float slope; float offset; }};
extern "C" __global__ void along(const float* x, float* y, Line line) {{ *y = line.slope * *x + line.offset; }}

namespace made {{
template <typename T, int N>
__global__ void fill(T* y, T value) {{ y[threadIdx.x] = value * N; }}
}}
"""

KERNELS = {name: name for name in ("scale", "add_to", "outer", "where", "along")}
KERNELS["_ZN4made4fillIfLi3EEEvPT_S1_"] = "made::fill<float, 3>"


@pytest.fixture
def module(cache, tmp_path_factory):
    host_cuda.bind(tmp_path_factory.getbasetemp(), SOURCE, KERNELS)
    return callout.cuda.load_inline(SOURCE, {"scale": EACH, **{name: {} for name in [*KERNELS.values()][1:]}})


X = jnp.arange(6.0)


def test_kernels_run_eagerly_in_jit_and_in_loops(module):
    assert module.arch == "sm_90", "the double's"
    np.testing.assert_array_equal(module.scale(X, factor=2), 2 * np.arange(6))
    np.testing.assert_array_equal(module.scale(3.0, factor=np.float64(0.5)), 1.5)
    loop = jax.jit(lambda x: jax.lax.fori_loop(0, 4, lambda _, c: module.scale(c, factor=2.0), x))
    np.testing.assert_array_equal(loop(X), 16 * np.arange(6))
    large = jnp.ones((100, 1000))  # several blocks, the last with more threads than elements
    np.testing.assert_array_equal(jax.jit(lambda x: module.scale(x, factor=2.0))(large[:, :-1]), np.full((100, 999), 2))


def test_results_in_place_with_and_without_their_own_pointer(module):
    add_to = module.add_to.options(**EACH, input_output_aliases={0: 0})
    x = jnp.zeros(3)
    np.testing.assert_array_equal(
        jax.jit(lambda t: jax.lax.fori_loop(0, 3, lambda _, t: add_to(t, X[:3]), t))(x), [0, 3, 6]
    )
    np.testing.assert_array_equal(x, np.zeros(3))
    other_way = module.add_to.options(launch_dims=3, constants={"n": 3}, input_output_aliases={1: 0})
    np.testing.assert_array_equal(jax.jit(other_way)(jnp.ones(3), X[:3]), [1, 2, 3])
    same_memory = module.scale.options(input_output_aliases={0: 0})
    np.testing.assert_array_equal(jax.jit(lambda x: same_memory(x, factor=3))(X), 3 * np.arange(6))


def test_several_results_dimensions_and_dtypes(module):
    outer = module.outer.options(
        out=lambda x, y, negate: [jax.ShapeDtypeStruct((x.size, y.size), d) for d in (x.dtype, y.dtype)],
        launch_dims=lambda x, y, product, column: product.shape,
        constants={"columns": lambda x, y, *_: y.size},
    )
    with jax.enable_x64(True):
        x, y = jnp.arange(32.0), jnp.arange(16, dtype=jnp.int16)
        product, column = jax.jit(lambda x, y: outer(x, y, negate=True))(x, y)
    np.testing.assert_array_equal(product, -np.outer(np.arange(32.0), np.arange(16)))
    np.testing.assert_array_equal(column, np.tile(np.arange(16), (32, 1)))


def test_grid_and_block_reach_the_kernel(module):
    out = jax.ShapeDtypeStruct((12,), jnp.int32)
    by_block = module.where.options(out=out, grid=3, block=(4,))
    np.testing.assert_array_equal(jax.jit(by_block)(), 30400 + np.arange(12))
    by_shape = module.where.options(out=out, launch_dims=lambda y: y.shape, threads_per_block=6)
    np.testing.assert_array_equal(jax.jit(by_shape)(), 20600 + np.arange(12))
    assert jax.jit(by_shape.options(synchronous=True, cooperative=True, shared_mem=lambda y: 4 * y.size))()[0] == 20600


def test_structures_templates_and_namespaces(module):
    line = np.array((3, 1), dtype=[("slope", np.float32), ("offset", np.float32)])
    assert jax.jit(lambda x: module.along.options(launch_dims=1)(x, line=line))(2.0) == 7
    fill = getattr(module, "made::fill<float, 3>").options(out=jax.ShapeDtypeStruct((4,), jnp.float32), launch_dims=4)
    np.testing.assert_array_equal(jax.jit(lambda: fill(value=1.5))(), np.full(4, 4.5))


def test_vmap_launches_once_a_lane_with_the_lanes_shapes(module):
    scale = module.scale.options(vmap_method="broadcast_all")
    xs = jnp.arange(6.0).reshape(2, 3)
    before = calls("cuLaunchKernel")
    np.testing.assert_array_equal(jax.vmap(lambda x: scale(x, factor=2))(xs), 2 * np.asarray(xs))
    assert calls("cuLaunchKernel") - before == 2
    np.testing.assert_array_equal(jax.vmap(lambda x: scale(x, factor=2), 1, 1)(xs), 2 * np.asarray(xs))


def test_derivative_rules(module):
    def jvp(primals, tangents, factor):
        return module.scale(*primals, factor=factor), module.scale(*tangents, factor=factor)

    forward = module.scale.options(jvp=jvp)
    out, tangent = jax.jvp(lambda v: forward(v, factor=3.0), (jnp.ones(2),), (jnp.full(2, 2.0),))
    assert (out.tolist(), tangent.tolist()) == ([3, 3], [6, 6])
    reverse = module.scale.options(
        vjp=(lambda x, factor: (module.scale(x, factor=factor), factor), lambda factor, ct: (ct * factor,))
    )
    assert jax.jit(jax.grad(lambda v: reverse(v, factor=3.0).sum()))(jnp.ones(2)).tolist() == [3, 3]


def test_no_elements_are_no_launch(module):
    before = calls("cuLaunchKernel")
    assert jax.jit(lambda x: module.scale(x, factor=2))(jnp.zeros((0, 3))).shape == (0, 3)
    assert calls("cuLaunchKernel") == before


def test_a_call_outside_of_jit_is_compiled_once(module, caplog):
    with jax.log_compiles():
        module.scale(X, factor=7)
        assert "Compiling" in caplog.text
        caplog.clear()
        module.scale(X, factor=7)
        assert "Compiling" not in caplog.text


def test_exported_programs_and_images_of_elsewhere(module):
    program = callout.export(jax.jit(lambda x: module.scale(x, factor=2)))(X)
    np.testing.assert_array_equal(jax.export.deserialize(program.serialize()).call(X), 2 * np.arange(6))
    described = {"parameters": ["in float32", "out float32", "float32 factor", "int32 n"], **EACH}
    loaded = callout.cuda.load_image(module.path, {"scale": described})
    np.testing.assert_array_equal(jax.jit(lambda x: loaded.scale(x, factor=4))(X), 4 * np.arange(6))


def test_the_driver_finds_errors_that_declarations_hide(module):
    """A fat binary has no readable parameters when the call is traced."""
    del module
    described = {"parameters": ["in float32", "out float32", "float64 factor", "int32 n"], **EACH}
    fatbin = callout.cuda.load_image(b"\x50\xed\x55\xba" + bytes(60), {"scale": described})
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"cuLibraryGetKernel of 'scale'"):
        awaited(jax.jit(lambda x: fatbin.scale(x, factor=2))(X))


def test_the_examples_of_the_manual_run(monkeypatch, tmp_path, capsys):
    compiled = callout.cuda.load_inline

    def load_inline(source, functions=None):
        kernels = {"_ZN4mine4fillIfEEvPT_S1_": "mine::fill<float>"} if "mine" in source else None
        names = signatures(source)
        host_cuda.bind(tmp_path, source, kernels or {name: name for name in names})
        return compiled(source, functions)

    monkeypatch.setattr(callout.cuda, "load_inline", load_inline)
    others = {"load_host": "test_cuda_host.py", "tensor_maps": "test_gpu_launch_settings.py"}
    code = [block for block in manual.blocks("cuda") if not any(word in block for word in others)]
    assert len(code) == 6
    exec(compile("\n".join(code), "cuda.md", "exec"), {})
    said = " ".join(capsys.readouterr().out.split())
    shown = re.findall(r"print\(.*\)  # (.*)", "\n".join(code))
    assert said.replace(" ", "") == "".join(shown).replace(" ", "")
