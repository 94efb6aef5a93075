# SPDX-License-Identifier: Apache-2.0
"""Tests parameter sizes of kernels, read from images that NVRTC compiled."""

import callout
import platforms
import pytest
from callout._native.gpu.images import check_parameters, kind_of, parameter_sizes
from callout._native.gpu.nvrtc import compile_source
from cuda_compilers import SCALE, require_nvrtc

require_nvrtc()
pytestmark = [pytest.mark.usefixtures("cache"), pytest.mark.cpu_only(platforms.COMPILERS)]

SOURCE = """
struct Mixed { float a; double b; char c; };
struct Empty {};
struct __align__(16) Four { float x, y, z, w; };
extern "C" __global__ void many(float* y, int n, Mixed m, char c, double d, Four f, const float* __restrict__ q, Empty e) {
  y[0] = n + m.a + c + d + f.w + q[0];
}
extern "C" __global__ void none() {}
template <typename T> __global__ void __launch_bounds__(128) pair(T* y, bool b, unsigned short s) { *y = b + s; }
"""
KERNELS = ["many", "none", "pair<double>"]
SIZES = {"many": (8, 4, 24, 1, 8, 16, 8, 1), "none": (), "_Z4pairIdEvPT_bt": (8, 1, 2)}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a", "sm_100", "sm_120"])
def test_sizes_of_machine_code_and_of_ptx(arch):
    compiled = compile_source(SOURCE, "sizes", KERNELS, arch=arch)
    assert kind_of(compiled.cubin) == "cubin"
    assert kind_of(compiled.ptx) == "ptx"
    assert parameter_sizes(compiled.cubin) == SIZES
    assert parameter_sizes(compiled.ptx) == SIZES


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_100"])
@pytest.mark.parametrize("bytes_by_value", [4000, 4100, 8000, 20_000])
def test_sizes_of_large_parameters(arch, bytes_by_value):
    source = f"""
    struct Large {{ char bytes[{bytes_by_value}]; }};
    extern "C" __global__ void large(Large a, float* y, int n, double unused, const float* x) {{ y[n] = a.bytes[n] + x[n]; }}
    extern "C" __global__ void none() {{}}
    """
    sizes = {"large": (bytes_by_value, 8, 4, 8, 8), "none": ()}
    compiled = compile_source(source, "large", ["large", "none"], arch=arch)
    assert parameter_sizes(compiled.cubin) == sizes
    assert parameter_sizes(compiled.ptx) == sizes


def test_unknown_parameters_of_a_cubin_are_not_compared():
    cubin = compile_source(SCALE, "untold", ["scale"], arch="sm_90").cubin
    parameter = b"\4\x17\x0c\0"  # another attribute in this place
    assert parameter in cubin
    untold = cubin.replace(parameter, b"\4\x7f\x0c\0")
    assert parameter_sizes(untold) == {"scale": None}
    check_parameters("'scale'", untold, "scale", (1, 2, 3))


def test_ptx_as_people_write_it():
    text = b"""// a comment, (with parentheses)
    .version 7.8
    .target sm_70
    /* .entry no(.param .u64 x) */
    .visible .entry scale(.param .u64 data, .param .f32 by, .param .u32 count, .param .align 4 .b8 rest[12]) { }
    .entry alone
    { }"""
    assert parameter_sizes(text) == {"scale": (8, 4, 4, 12), "alone": ()}


def test_invalid_images_are_rejected():
    for code in (b"", b"\x7fELF\x02\x01\x01" + bytes(200), b"int main() {}", SCALE.encode()):
        with pytest.raises(ValueError, match=rf"expected a cubin, a fat binary or PTX, got {len(code)} bytes"):
            parameter_sizes(code)


def test_a_part_of_an_image_is_refused():
    cubin = compile_source(SCALE, "part", ["scale"], arch="sm_90").cubin
    for length in (70, 200, len(cubin) // 2, len(cubin) - 1000):
        with pytest.raises(ValueError, match=rf"the cubin of {length} bytes is damaged"):
            parameter_sizes(cubin[:length])
    with pytest.raises(ValueError, match=r"the ptx of .* is damaged: the parameters of f"):
        parameter_sizes(b".version 8.0\n.entry f(.param .texref t) {}")


def test_fat_binaries_are_left_to_the_driver():
    fatbin = b"\x50\xed\x55\xba" + bytes(60)
    assert kind_of(fatbin) == "fatbin"
    assert parameter_sizes(fatbin) is None
    check_parameters("'f'", fatbin, "f", (1, 2, 3))


def test_parameters_are_compared():
    image = compile_source(SOURCE, "sizes", KERNELS, arch="sm_90").cubin
    check_parameters("'many'", image, "many", SIZES["many"])
    message = r"^'pair': the image's kernel '_Z4pairIdEvPT_bt' has parameters of \(8, 1, 2\) bytes, got \(8, 1\)$"
    with pytest.raises(TypeError, match=message):
        check_parameters("'pair'", image, "_Z4pairIdEvPT_bt", (8, 1))
    with pytest.raises(
        ValueError, match=r"^'f': the image has no kernel 'f'; there are: _Z4pairIdEvPT_bt, many, none$"
    ):
        check_parameters("'f'", image, "f", ())


def test_a_module_names_the_file_of_its_image():
    module = callout.cuda.load_inline(SOURCE, KERNELS, arch="sm_90")
    assert parameter_sizes(module.path.read_bytes()) == SIZES
