# SPDX-License-Identifier: Apache-2.0
"""Tests callout.cuda.load_host in programs, built by nvcc. test_gpu_buffers.py runs this file on the driver's double.

The functions queue the driver's copies and fills, because the double does not run kernels that nvcc compiled.
"""

import callout
import gpu_double
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from callout._native.gpu.host_function import HostTarget
from jax import lax

gpu_double.control()

pytestmark = pytest.mark.usefixtures("cache", "on_cpu")

# On JAX's fast path, from the second call on, an error is a ValueError.
FAILURES = (jax.errors.JaxRuntimeError, ValueError)
F3 = jax.ShapeDtypeStruct((3,), jnp.float32)

SOURCE = """
#include <dlfcn.h>
#include <atomic>
#include <cstdlib>
#include "callout/call.h"
#include "callout/kernel.h"

// A function of the driver that Callout uses.
template <typename... Args>
void Do(const char* name, Args... args) {
  static const char* path = std::getenv("CALLOUT_CUDA_DRIVER");
  static void* driver = dlopen(path == nullptr ? "libcuda.so.1" : path, RTLD_NOW);
  void* function = nullptr;
  int found = 0;
  using Find = int (*)(const char*, void**, int, uint64_t, int*);
  reinterpret_cast<Find>(dlsym(driver, "cuGetProcAddress_v2"))(name, &function, 12000, 0, &found);
  const int result = reinterpret_cast<int (*)(Args...)>(function)(args...);
  if (result != 0) throw std::runtime_error(std::string(name) + " returned " + std::to_string(result));
}

void Copy(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  Do("cuMemcpyDtoDAsync", reinterpret_cast<uint64_t>(to), reinterpret_cast<uint64_t>(from), bytes, stream);
}

__global__ void add(float* x, float value) { x[threadIdx.x] += value; }  // compiled, and not launched here

std::atomic<int64_t> runs{0};

void copy(callout::In<float> x, callout::Stream stream, callout::Out<float> y) {
  ++runs;
  Copy(y.data(), x.data(), 4 * x.size(), stream);
}
CALLOUT_KERNEL(copy);

void through(callout::In<float> x, callout::Stream stream, callout::Out<float> y, callout::Out<float> scratch) {
  Copy(scratch.data(), x.data(), 4 * x.size(), stream);
  Copy(y.data(), scratch.data(), 4 * x.size(), stream);
}
CALLOUT_KERNEL(through);

callout::Error fill(callout::Attr<"byte", int32_t> byte, callout::Attr<"most", int64_t> most, callout::Stream stream,
                    callout::Out<float> y) {
  if (y.size() > most) return callout::Error("too many elements");
  Do("cuMemsetD8Async", reinterpret_cast<uint64_t>(y.data()), static_cast<unsigned char>(byte.value),
     size_t(4 * y.size()), static_cast<cudaStream_t>(stream));
  return {};
}
CALLOUT_KERNEL(fill);

void Half(const callout::Call& call) {
  auto y = call.result<float>(0);
  Do("cuMemsetD8Async", reinterpret_cast<uint64_t>(y.data()), static_cast<unsigned char>(0), size_t(4), call.stream());
}
CALLOUT_DEFINE_CALLBACK(half, Half);

// As a library that knows nothing of Callout would have it.
extern "C" __attribute__((visibility("default"))) int32_t plain(void** ptrs, const int64_t* dims, cudaStream_t stream) {
  if (dims[0] != dims[1]) return 1;
  Copy(ptrs[1], ptrs[0], 4 * dims[0], stream);
  return 0;
}

extern "C" __attribute__((visibility("default"))) int64_t count_runs() { return runs; }
"""


@pytest.fixture
def on_cpu(monkeypatch):
    if not platforms.ON_CUDA:
        monkeypatch.setattr(HostTarget, "platforms", ("cpu",))


@pytest.fixture(scope="module")
def module(cache):
    return callout.cuda.load_host(SOURCE, name="host_functions")


@pytest.fixture(scope="module")
def plain(cache):
    return callout.cuda.load_host(SOURCE, ["plain"]).plain


@pytest.fixture(scope="module")
def carried(cache):
    """Builds `module` so that programs embed the library."""
    return callout.cuda.load_host(SOURCE, name="host_functions", embed=True)


def test_module_has_the_functions_that_describe_themselves(module):
    assert sorted(name for name in dir(module) if not name.startswith("_")) == [
        *("copy", "fill", "half", "path", "through"),
    ]
    assert repr(module.copy) == "<native function host_functions.copy>"


def test_eager_jit_and_loops(module):
    x = jnp.arange(3.0)
    for out in (module.copy(x), jax.jit(module.copy)(x), jax.jit(module.copy).lower(x).compile()(x)):
        assert out.tolist() == [0, 1, 2]
    program = jax.jit(lambda v: lax.fori_loop(0, 5, lambda _, c: module.copy(c) + 1, v))
    assert program(x).tolist() == [5, 6, 7]


def test_attributes_and_results_that_are_declared(module):
    fill = module.fill.options(out=jax.ShapeDtypeStruct((2,), jnp.float32))
    expected = np.frombuffer(b"\x11" * 8, np.float32)
    np.testing.assert_array_equal(jax.jit(lambda: fill(byte=0x11, most=2))(), expected)
    with pytest.raises(TypeError, match=r"callout.cuda 'fill': expected the attributes \['byte', 'most'\], got \[\]"):
        fill()


def test_an_error_fails_the_computation_and_the_next_run_works(module):
    fill = module.fill.options(out=F3)
    program = jax.jit(lambda: fill(byte=0, most=2))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"host_functions.fill' failed.*too many elements"):
        program().block_until_ready()
    assert jax.jit(lambda: fill(byte=0, most=3))().tolist() == [0, 0, 0]


@pytest.mark.cpu_only(platforms.COUNTED)
def test_an_error_of_the_driver_fails_the_computation(module):
    program = jax.jit(module.copy)
    gpu_double.fail("cuMemcpyDtoDAsync", 1, 1)
    with pytest.raises(FAILURES, match="cuMemcpyDtoDAsync returned 1"):
        program(jnp.ones(3)).block_until_ready()
    assert program(jnp.ones(3)).tolist() == [1, 1, 1]


def test_plain_functions_get_pointers_shapes_and_the_stream(plain):
    with pytest.raises(TypeError, match="'plain': say what it returns"):
        plain(jnp.ones(3))
    assert jax.jit(plain.options(out=F3))(jnp.arange(3.0)).tolist() == [0, 1, 2]
    with pytest.raises(FAILURES, match=r"inline.plain' failed.*returned error code 1"):
        jax.jit(plain.options(out=F3))(jnp.ones(4)).block_until_ready()


def test_functions_of_the_whole_record_update_results_in_place(module):
    half = module.half.options(out=F3, input_output_aliases={0: 0})
    assert jax.jit(lambda v: half(v) + v)(jnp.arange(1.0, 4.0)).tolist() == [1, 4, 6]


def test_scratch_is_memory_and_no_result(module):
    through = module.through.options(out=F3, scratch=jax.ShapeDtypeStruct((5,), jnp.float32))
    assert jax.jit(through)(jnp.arange(3.0)).tolist() == [0, 1, 2]
    by_function = module.through.options(out=lambda x: x, scratch=lambda x: x)
    assert by_function(jnp.arange(3.0)).tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match=r"callout.cuda 'through': the function has 2 results, `out` declares 1"):
        module.through.options(out=F3)(jnp.ones(3))
    with pytest.raises(TypeError, match="with scratch, say what it returns"):
        module.through.options(scratch=F3)(jnp.ones(3))


@pytest.mark.parametrize("method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all"])
def test_vmap(module, method):
    copy = module.copy.options(vmap_method=method)
    x = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(jax.jit(jax.vmap(copy))(x), x)


def test_derivative_rules(module):
    copy = module.copy
    twice = copy.options(jvp=lambda primals, tangents: (copy(*primals), 2 * copy(*tangents)))
    assert jax.jvp(twice, (jnp.ones(3),), (jnp.ones(3),))[1].tolist() == [2, 2, 2]


def test_graph_replays_without_the_function(module):
    copy = module.copy.options(graph=True)
    program = jax.jit(lambda x: lax.fori_loop(0, 200, lambda _, c: copy(c) + 1, x)).lower(jnp.ones(3)).compile()
    before = callout.stats()["kernels"]
    for i in range(3):
        assert program(jnp.full(3, i, jnp.float32)).tolist() == [200 + i] * 3
    after = callout.stats()["kernels"]
    recorded, replayed = (after[key] - before[key] for key in ("recorded", "replayed"))
    assert replayed == 599
    assert 0 < recorded < 20


def test_recordable_functions_have_the_capturable_target(module):
    lowered = jax.jit(module.copy.options(command_buffer_compatible=True)).lower(jnp.ones(3)).as_text()
    assert "@callout.v1.buffer_capturable" in lowered
    assert "@callout.v1.buffer(" in jax.jit(module.copy).lower(jnp.ones(3)).as_text()


@pytest.mark.devices(4)
def test_each_device_calls_in_its_context(module):
    program = jax.jit(module.copy)
    for device in jax.devices()[:3]:
        assert program(jax.device_put(jnp.ones(3), device)).tolist() == [1, 1, 1]
    mesh = jax.make_mesh((4,), ("i",), devices=jax.devices()[:4])
    x = jax.device_put(jnp.arange(12.0), jax.NamedSharding(mesh, jax.P("i")))
    mapped = jax.jit(jax.shard_map(module.copy, mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P("i")))
    assert mapped(x).tolist() == x.tolist()


def test_exported_programs_find_the_function_or_carry_it(module, carried):
    for functions, names in ((module, 1), (carried, 0)):
        exported = callout.export(jax.jit(functions.copy))(jnp.ones(3))
        assert len(callout.exported_names(exported)) == names
        loaded = jax.export.deserialize(exported.serialize())
        assert jax.jit(loaded.call)(jnp.arange(3.0)).tolist() == [0, 1, 2]
