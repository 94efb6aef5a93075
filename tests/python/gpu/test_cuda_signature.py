# SPDX-License-Identifier: Apache-2.0
"""Tests the parameters of CUDA kernels, as the source declares them or the user states them."""

import jax.numpy as jnp
import numpy as np
import pytest
from callout._native.gpu.cuda_signature import Kind, Parameter, base_name, constant_bytes, dtype_of, parse, signatures


def read(source, kernel="f", defines=None):
    """Returns the parameters of a kernel as text."""
    found = signatures(source, defines)[base_name(kernel)]
    return found and [str(parameter) for parameter in found.instance(kernel)]


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ("const float* x, float* y, float f, int n", ["in float32 x", "out float32 y", "float32 f", "int32 n"]),
        ("float const *x, double *const y", ["in float32 x", "out float64 y"]),
        ("const int* __restrict__ x, long long* __restrict y", ["in int32 x", "out int64 y"]),
        ("const unsigned char x[], short y[4]", ["in uint8 x", "out int16 y"]),
        ("unsigned n, unsigned long long int m, size_t k", ["uint32 n", "uint64 m", "uint64 k"]),
        ("std::int8_t a, cuda::std::uint16_t b, int64_t c, bool d", ["int8 a", "uint16 b", "int64 c", "bool d"]),
        ("const __half* x, half y, const __nv_bfloat16* z", ["in float16 x", "float16 y", "in bfloat16 z"]),
        ("const cuComplex* x, cuda::std::complex<double>* y", ["in complex64 x", "out complex128 y"]),
        ("const thrust::complex<float>* x", ["in complex64 x"]),
        ("const __nv_fp8_e4m3* x", ["in float8_e4m3fn x"]),
        ("const void* x, float4* y, struct Options o", ["in any x", "out any y", "bytes o"]),
        ("const float* const* x, float** y", ["in any x", "out any y"]),
        ("const __grid_constant__ Options o, [[maybe_unused]] int n", ["bytes o", "int32 n"]),
        ("int n = 3, float = 1.5f, unsigned", ["int32 n", "float32", "uint32"]),
        ("/* none */", []),
        ("void", []),
    ],
    ids=str,
)
def test_declared_parameters(declared, expected):
    assert read(f'extern "C" __global__ void f({declared}) {{}}') == expected


@pytest.mark.parametrize(
    "source",
    [
        "__global__ void f(int n) { return; }",
        "void __global__ f(int n);",
        'extern "C" { static __global__ void __launch_bounds__(256, 2) f(int n) {} }',
        "__launch_bounds__(128) __global__ void f(\n    int n  // how many\n) {}",
        "namespace a { __global__ __cluster_dims__(2, 1, 1) void f(int n) {} }",
        "__global__ void f(int n);\n__global__ void f(int n) {}",
        '#define TEXT "__global__ void f(float x) {}"\n/* __global__ void f(float); */ __global__ void f(int n) {}',
    ],
)
def test_declarations(source):
    assert read(source) == ["int32 n"]


def test_macros_declare_nothing():
    assert signatures("#define KERNEL(name) \\\n  __global__ void name(int n)\nKERNEL(f) {}") == {}


def test_overloaded_kernels_have_unknown_parameters():
    assert read("__global__ void f(int n) {}  __global__ void f(float n) {}") is None


def test_names_of_types_are_resolved():
    source = "using real = double; typedef unsigned int index; using in = const real;\n#define scalar float\n"
    source += "__global__ void f(const real* x, in* w, scalar* y, index n, other* z) {}"
    assert read(source) == ["in float64 x", "in float64 w", "out float32 y", "uint32 n", "out any z"]
    assert read(source, defines={"other": "__half"})[-1] == "out float16 z"
    twice = "#ifdef A\nusing real = double;\n#else\nusing real = float;\n#endif\n__global__ void f(real* x) {}"
    assert read(twice) == ["out any x"]


def test_templates_have_the_types_of_their_instance():
    source = "template <typename T, int N = 3, class... More>\n__global__ void axpy(T a, const T* x, T* y) {}"
    assert read(source, "axpy<float, 4>") == ["float32 a", "in float32 x", "out float32 y"]
    assert read(source, "space::axpy<unsigned char>") == ["uint8 a", "in uint8 x", "out uint8 y"]
    assert read(source, "axpy") == ["bytes a", "in any x", "out any y"]
    assert signatures(source)["axpy"].template == ("T", "N", "More")
    assert signatures("__global__ void f() {}")["f"].template is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("in float32", Parameter(Kind.IN, np.dtype(np.float32), "")),
        ("in float x", Parameter(Kind.IN, np.dtype(np.float32), "x")),
        ("out bfloat16", Parameter(Kind.OUT, np.dtype(jnp.bfloat16), "")),
        ("in", Parameter(Kind.IN, None, "")),
        ("out any y", Parameter(Kind.OUT, None, "y")),
        ("int32 n", Parameter(Kind.VALUE, np.dtype(np.int32), "n")),
        ("unsigned long long n", Parameter(Kind.VALUE, np.dtype(np.uint64), "n")),
        ("bytes options", Parameter(Kind.VALUE, None, "options")),
    ],
    ids=str,
)
def test_parameters_that_users_say(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize("text", ["", "inn float32", "int32 n m", "in nothing x", 3, "any n"])
def test_invalid_parameters_are_rejected(text):
    with pytest.raises(ValueError, match=r"is no parameter; expected 'in DTYPE', 'out DTYPE' or 'DTYPE NAME'"):
        parse(text)


def test_a_type_that_stands_for_itself_is_not_known():
    assert dtype_of("T", {"T": "T"}) is None


def pack(dtype, value):
    return constant_bytes(ValueError, Parameter(Kind.VALUE, dtype and np.dtype(dtype), "c"), value)


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        (np.float32, 2, np.float32(2)),
        (np.float32, True, np.float32(1)),
        (np.float32, np.float64(0.1), np.float32(0.1)),
        (np.uint32, 2**32 - 1, np.uint32(2**32 - 1)),
        (np.uint64, 2**64 - 1, np.uint64(2**64 - 1)),
        (np.int8, np.int64(-128), np.int8(-128)),
        (np.bool_, True, np.True_),
        (np.float16, 1.5, np.float16(1.5)),
        (jnp.bfloat16, 1.5, jnp.bfloat16(1.5)),
        (np.complex64, 1.5, np.complex64(1.5)),
        (np.complex128, 1 + 2j, np.complex128(1 + 2j)),
    ],
    ids=str,
)
def test_constants(dtype, value, expected):
    assert pack(dtype, value) == np.asarray(expected).tobytes()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        *((np.int32, value) for value in (1.5, 2**31, "3", None, [1], 1j, jnp.ones(2))),
        *((np.uint32, value) for value in (-1, 2**32, 2**64)),
        (np.float32, 1j),
        (np.bool_, 1),
        (jnp.bfloat16, "1"),
    ],
    ids=str,
)
def test_constants_that_do_not_fit_are_refused(dtype, value):
    with pytest.raises(ValueError, match=f"constant 'c' must be {np.dtype(dtype)}, got "):
        pack(dtype, value)


def test_constants_of_unknown_types_are_bytes():
    assert pack(None, b"abc") == b"abc"
    assert pack(None, np.array([1, 2], np.int16)) == b"\1\0\2\0"
    with pytest.raises(ValueError, match=r"constant 'c' is of a type that JAX has no name for: pass bytes .*, got 3"):
        pack(None, 3)
