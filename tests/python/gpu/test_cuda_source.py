# SPDX-License-Identifier: Apache-2.0
"""Tests callout.cuda without a device: sources that may be loaded, and checks when kernels are traced."""

import types

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from cuda_compilers import EACH, SCALE, require_nvrtc
from jax.sharding import AxisType

require_nvrtc()
pytestmark = [pytest.mark.usefixtures("cache"), pytest.mark.cpu_only(platforms.COMPILERS)]

SOURCE = """#include <cstdint>

extern "C" __global__ void scale(const float* x, float* y, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = factor * x[i];
}

extern "C" __global__ void both(const double* x, const int* k, double* sum, std::int64_t* count, bool flag) {}

extern "C" __global__ void update(float* x, const float* by, unsigned n) {}

struct Options { float a; int b; };
extern "C" __global__ void optional(const void* x, float* y, Options options) {}

template <typename T> __global__ void axpy(T a, const T* x, T* y) { y[threadIdx.x] += a * x[threadIdx.x]; }
"""


@pytest.fixture(scope="module")
def module(cache):
    del cache
    return callout.cuda.load_inline(
        SOURCE,
        {"scale": EACH, "both": {}, "update": {}, "optional": {}, "axpy<float>": {}},
        name="tests",
        arch="sm_90",
    )


def test_kernels_are_those_of_the_source():
    module = callout.cuda.load_inline(SOURCE, arch="sm_90")
    assert {"scale", "both", "update", "optional"} <= set(dir(module))
    assert "axpy" not in dir(module)
    assert repr(module.both) == (
        "<CUDA kernel inline.both: in float64 x, in int32 k, out float64 sum, out int64 count, bool flag>"
    )
    with pytest.raises(
        AttributeError, match="'inline' has no function 'nope'; there are: scale, both, update, optional"
    ):
        module.nope  # noqa: B018


def test_names_of_templates_and_of_namespaces():
    source = "namespace a { template <class T> __global__ void fill(T* y) { *y = 1; } }\n"
    module = callout.cuda.load_inline(source, {"fill": {"kernel": "a::fill<double>"}, "a::fill<int>": {}}, arch="sm_90")
    assert str(module.fill) == "<CUDA kernel inline.fill: out float64 y>"
    assert str(getattr(module, "a::fill<int>")) == "<CUDA kernel inline.a::fill<int>: out int32 y>"
    assert b"_ZN1a4fillIdEEvPT_" in module.path.read_bytes()


def traced(function, *args, **constants):
    return jax.make_jaxpr(lambda *values: function(*values, **constants))(*args)


def test_results_have_the_first_arguments_shape_and_the_declared_dtype(module):
    (scaled,) = traced(module.scale, jnp.ones((2, 3)), factor=1.0).out_avals
    assert (scaled.shape, scaled.dtype) == ((2, 3), np.float32)
    with jax.enable_x64(True):
        both = module.both.options(launch_dims=1)
        outs = traced(both, jnp.ones(4), jnp.ones(2, jnp.int32), flag=True).out_avals
    assert [(out.shape, out.dtype) for out in outs] == [((4,), np.float64), ((4,), np.int64)]
    update = module.update.options(launch_dims=1, input_output_aliases={1: 0})
    (updated,) = traced(update, jnp.ones(3), jnp.ones(5), n=2).out_avals
    assert updated.shape == (5,)
    say = module.scale.options(out=lambda x, factor: jax.ShapeDtypeStruct((x.size, factor), x.dtype))
    assert traced(say, jnp.ones(3), factor=2).out_avals[0].shape == (3, 2)


def optional(module, **settings):
    return module.optional.options(launch_dims=1, **settings)


X = jnp.ones(3)
WRONG = [
    (lambda m: m.scale(jnp.arange(3), factor=1), r"argument 0 \(x\): expected float32, got int32 of shape \(3,\)"),
    (lambda m: m.scale(X.astype(jnp.float16), factor=1), r"argument 0 \(x\): expected float32, got float16"),
    (lambda m: m.scale(1j, factor=1), r"argument 0: expected float32, got 1j"),
    (lambda m: m.scale(factor=1), r"say what result 0 is: \.options\(out="),
    (lambda m: m.scale(X, X, factor=1), r"expected 1 arguments \(pointers to const\), got 2"),
    (lambda m: m.scale(X), r"expected the constants \['factor', 'n'\], got \['n'\]"),
    (
        lambda m: m.scale(X, factor=1, other=2),
        r"expected the constants \['factor', 'n'\], got \['factor', 'n', 'other'\]",
    ),
    (lambda m: m.scale(X, factor="1"), r"constant 'factor' must be float32, got '1'"),
    (lambda m: m.scale(X, factor=1, n=1.5), r"constant 'n' must be int32, got 1.5"),
    (lambda m: m.scale(X, factor=1, n=lambda x, y: 2**40), r"constant 'n' must be int32, got 1099511627776"),
    (
        lambda m: jax.jit(lambda f: m.scale(X, factor=f))(2.0),
        r"constant 'factor' is known when the program runs only",
    ),
    (
        lambda m: m.scale.options(out=jax.ShapeDtypeStruct((3,), jnp.int32))(X, factor=1),
        r"result 0 \(y\): expected float32, `out` declares int32 of shape \(3,\)",
    ),
    (
        lambda m: m.scale.options(out=(X, X))(X, factor=1),
        r"the kernel has 1 results \(pointers that are not to const\), `out` declares 2",
    ),
    (
        lambda m: m.update.options(input_output_aliases={0: 0})(X, X, X, n=1),
        r"expected 1 arguments \(pointers to const\) besides 1 in place, got 2",
    ),
    (lambda m: m.update.options(input_output_aliases={0: 0})(X, X, n=-1), r"constant 'n' must be uint32, got -1"),
    (lambda m: optional(m)(X, options=3), r"constant 'options' is of a type that JAX has no name for"),
    (
        lambda m: optional(m)(X, options=b"abc"),
        r"the image's kernel 'optional' has parameters of \(8, 8, 8\) bytes, got \(8, 8, 3\)",
    ),
    (lambda m: m.scale.options(constants={"m": 3}), r"there are no constants \['m'\], but \['factor', 'n'\]"),
]


@pytest.mark.parametrize(("use", "message"), WRONG, ids=range(len(WRONG)))
def test_calls_that_do_not_fit_are_refused_when_traced(module, use, message):
    with pytest.raises(TypeError, match=r"^callout\.cuda '\w+': " + message):
        jax.make_jaxpr(lambda: use(module))()


def test_launches_that_cannot_be_are_refused_when_traced(module):
    with pytest.raises(ValueError, match=r"^callout\.cuda 'update': say how many threads to launch"):
        traced(module.update.options(input_output_aliases={0: 0}), X, X, n=1)
    with pytest.raises(ValueError, match=r"block\.x is at most 1024, got 2048"):
        traced(module.scale.options(launch_dims=None, grid=1, block=2048), X, factor=1)
    for wrong in (-1, 1.5, True, lambda x, y: x.size / 2):
        with pytest.raises(ValueError, match="shared_mem must be a number of bytes, got"):
            traced(module.scale.options(shared_mem=wrong), X, factor=1)


def test_structures_are_passed_as_bytes(module):
    options = np.array((1.0, 2), dtype=[("a", np.float32), ("b", np.int32)])
    assert traced(optional(module), X, options=options).out_avals[0].shape == (3,)


def test_settings_that_there_are_not_are_named():
    with pytest.raises(TypeError, match=r"callout\.cuda 'scale': there are no settings \['grids'\]"):
        callout.cuda.load_inline(SCALE, {"scale": {"grids": 1}})
    with pytest.raises(TypeError, match="functions must be a list or a mapping, got 'scale'"):
        callout.cuda.load_inline(SCALE, "scale")
    with pytest.raises(ValueError, match="vmap_method"):
        callout.cuda.load_inline(SCALE, {"scale": {"vmap_method": "nope"}}, arch="sm_90")


def test_other_platforms_are_refused_by_name(module):
    with pytest.raises(NotImplementedError, match=r"not supported on platform cpu"):
        jax.jit(lambda x: module.scale(x, factor=1))(X)


def test_sources_that_cannot_be_used_are_refused():
    with pytest.raises(TypeError, match="the source must be a string without NUL, got 3"):
        callout.cuda.load_inline(3)
    with pytest.raises(TypeError, match="the source must be a string without NUL"):
        callout.cuda.load_inline(SCALE + "\0")
    with pytest.raises(ValueError, match="inline has no __global__ function that is no template"):
        callout.cuda.load_inline("template <class T> __global__ void f(T* x) {}")
    with pytest.raises(
        TypeError, match=r"'f': its declaration was not found, or there are several; say its 'parameters'"
    ):
        callout.cuda.load_inline("#define KERNEL __global__\nKERNEL void f(int* y) {}", ["f"])
    with pytest.raises(TypeError, match=r"need names of their own, got \[''\]"):
        callout.cuda.load_inline("__global__ void f(float* y, int) {}")
    with pytest.raises(ValueError, match=r"'f': 'in what' is no parameter"):
        callout.cuda.load_inline("__global__ void f(float* y) {}", {"f": {"parameters": ["in what"]}})


def test_parameters_may_be_stated():
    source = "#define KERNEL __global__\nKERNEL void f(void* x, void* y, int) { *(float*)y = *(float*)x; }"
    module = callout.cuda.load_inline(
        source, {"f": {"parameters": ["in float32", "out float32", "int32 n"], "launch_dims": 1}}, arch="sm_90"
    )
    assert traced(module.f, X, n=3).out_avals[0].dtype == np.float32


DESCRIBED = {"parameters": ["in float32", "out float32", "float32 factor", "int32 n"], **EACH}


@pytest.mark.parametrize("arch", ["sm_90", "compute_90"])
def test_images_of_elsewhere(tmp_path, arch):
    code = callout.cuda.load_inline(SCALE, arch=arch).path.read_bytes()
    file = tmp_path / "built.image"
    file.write_bytes(code)
    for image in (file, str(file), code, code.rstrip(b"\0")):
        module = callout.cuda.load_image(image, {"scale": DESCRIBED, "twice": {"kernel": "scale", **DESCRIBED}})
        assert module.path == (None if isinstance(image, bytes) else file)
        assert module.__name__ == ("image" if isinstance(image, bytes) else "built")
        assert traced(module.twice, X, factor=2).out_avals[0].shape == (3,)
    with pytest.raises(TypeError, match=r"'scale': say its parameters: .*; the image's are of \(8, 8, 4, 4\) bytes"):
        callout.cuda.load_image(code, ["scale"])
    with pytest.raises(ValueError, match=r"'nope': the image has no kernel 'nope'; there are: scale"):
        callout.cuda.load_image(code, {"nope": DESCRIBED})
    wrong = callout.cuda.load_image(
        code, {"scale": {**DESCRIBED, "parameters": ["in float32", "out float32", "int64 n"]}}
    )
    with pytest.raises(TypeError, match=r"'scale' has parameters of \(8, 8, 4, 4\) bytes, got \(8, 8, 8\)"):
        traced(wrong.scale, X)


def test_fat_binaries_are_taken_and_left_to_the_driver():
    fatbin = b"\x50\xed\x55\xba" + bytes(60)
    module = callout.cuda.load_image(fatbin, {"scale": DESCRIBED}, name="fat")
    assert repr(module) == "<native module 'fat': scale>"
    with pytest.raises(TypeError, match=r"say its parameters: [^;]*$"):
        callout.cuda.load_image(fatbin, ["scale"])


def test_files_that_are_no_images_are_refused(tmp_path):
    (tmp_path / "x.cubin").write_text("hello")
    with pytest.raises(ValueError, match=r"x\.cubin: expected a cubin, a fat binary or PTX, got 5 bytes"):
        callout.cuda.load_image(tmp_path / "x.cubin", {"scale": DESCRIBED})
    with pytest.raises(FileNotFoundError):
        callout.cuda.load_image(tmp_path / "absent.cubin", {"scale": DESCRIBED})


def test_kernels_of_cupy():
    raw = types.SimpleNamespace(
        code=SCALE.replace("float", "REAL"), name="scale", options=("-D", "REAL=double", "--std=c++17")
    )
    module = callout.cuda.load_inline(raw.code, [raw.name], options=raw.options, name="scale", arch="sm_90")
    assert repr(module.scale) == "<CUDA kernel scale.scale: in float64 x, out float64 y, float64 factor, int32 n>"


def test_programs_for_cuda_are_exported_without_a_gpu(module):
    program = callout.export(jax.jit(lambda x: module.scale(x, factor=2)), platforms=["cuda"])(X)
    assert callout.exported_names(program) == ()
    text = str(program.mlir_module())
    assert "callout.v1.image" in text
    assert ".target sm_90" in text, "PTX, which newer devices take, too"
    assert "\\7FELF" not in text


def launches(function, *args):
    """Counts the launches in the text of a program for CUDA, which is only lowered."""
    traced = jax.jit(function).trace(*args)
    return traced.lower(lowering_platforms=("cuda",)).as_text().count("@callout.v1.image")


def differentiable(function):
    wrapped = jax.custom_jvp(function)
    wrapped.defjvp(lambda primals, tangents: (function(*primals), 2 * tangents[0]))
    return wrapped


TRANSFORMATIONS = {
    "scan": lambda f, v: jax.lax.scan(lambda c, _: (f(c), None), v, None, length=3)[0],
    "while": lambda f, v: jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, f(c[1])), (0, v))[1],
    "cond": lambda f, v: jax.lax.cond(v[0] > 1, f, lambda c: c, v),
    "grad": lambda f, v: jax.grad(lambda c: (differentiable(f)(c) ** 2).sum())(v),
    "vmap": lambda f, v: jax.vmap(f)(v[:, None])[:, 0],
    "remat": lambda f, v: jax.grad(lambda c: jnp.sin(jax.checkpoint(differentiable(f))(jnp.sin(c))).sum())(v),
}
both_kinds = pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)


@pytest.mark.devices(8)
@both_kinds
@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_transformed_kernels_vary_as_their_operands(module, kind, name):
    mesh, spec = jax.make_mesh((4, 2), ("a", "b"), axis_types=(kind,) * 2), jax.P("a")
    kernel = module.scale.options(vmap_method="sequential")
    x = jax.device_put(jnp.arange(16, dtype=jnp.float32), jax.NamedSharding(mesh, spec))

    def each(v):
        out = TRANSFORMATIONS[name](lambda c: kernel(c, factor=2.0), v)
        assert jax.typeof(out).manual_axis_type.varying == {"a"}
        return out

    assert launches(jax.shard_map(each, mesh=mesh, in_specs=spec, out_specs=spec), x) == 1


@pytest.mark.devices(4)
@both_kinds
def test_kernels_in_programs_of_two_meshes(module, kind):
    devices = jax.devices()[:4]
    one = jax.make_mesh((4,), ("a",), devices=devices, axis_types=(kind,))
    other = jax.make_mesh((2, 2), ("x", "y"), devices=devices, axis_types=(kind,) * 2)
    move = jax.sharding.reshard if kind is AxisType.Explicit else jax.lax.with_sharding_constraint

    def kernel(v):
        return module.scale(v, factor=2.0)

    def spread(mesh, axis):
        return jax.device_put(jnp.arange(8, dtype=jnp.float32), jax.NamedSharding(mesh, jax.P(axis)))

    def on_each(mesh, axis, v):
        return jax.shard_map(kernel, mesh=mesh, in_specs=jax.P(axis), out_specs=jax.P(axis))(v)

    to_other = jax.NamedSharding(other, jax.P("x"))
    assert launches(lambda v, w: (kernel(v), kernel(w)), spread(one, "a"), spread(other, "x")) == 2
    assert launches(lambda v: kernel(move(kernel(v), to_other)), spread(one, "a")) == 2
    assert launches(lambda v: on_each(other, "x", move(on_each(one, "a", v), to_other)), spread(one, "a")) == 2


def test_kernels_read_mutable_arrays(module):
    def program(ref):
        ref[...] = module.scale(ref, factor=2.0)
        return module.scale(ref, factor=3.0)

    ref = jax.new_ref(X)
    assert launches(program, ref) == 2
    assert jax.eval_shape(program, ref).shape == (3,)
