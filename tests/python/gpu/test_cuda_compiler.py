# SPDX-License-Identifier: Apache-2.0
"""Tests callout.cuda's compiler: the choice of NVRTC and device, errors, and the cache of images."""

import types
from pathlib import Path

import callout
import jax
import jax.numpy as jnp
import platforms
import pytest
from callout._native.gpu import nvrtc as search
from cuda_compilers import EACH, SCALE, require_nvrtc

require_nvrtc()
pytestmark = [pytest.mark.usefixtures("cache"), pytest.mark.cpu_only(platforms.COMPILERS)]


def test_compiler_errors_show_the_users_lines():
    with pytest.raises(callout.cuda.CompileError, match=r"broken\.cu\(2\): error: identifier \"nowhere\"") as caught:
        callout.cuda.load_inline("__global__ void f(int* y) {\n  *y = nowhere;\n}\n", name="broken", arch="sm_90")
    assert str(caught.value).startswith("callout.cuda: NVRTC ")
    assert "cannot compile broken for sm_90: nvrtcCompileProgram of 'broken.cu' failed" in str(caught.value)
    with pytest.raises(callout.cuda.CompileError, match=r"no_such_header\.h"):
        callout.cuda.load_inline('#include "no_such_header.h"\n' + SCALE)
    with pytest.raises(callout.cuda.CompileError, match="unrecognized option --nope"):
        callout.cuda.load_inline(SCALE, options=["--nope"])
    with pytest.raises(callout.cuda.CompileError, match="nope"):
        callout.cuda.load_inline(SCALE, {"nope": {"parameters": []}})
    with pytest.raises(callout.cuda.CompileError, match="Unresolved extern function"):
        callout.cuda.load_inline("__device__ int g(); __global__ void f(int* y) { *y = g(); }", arch="sm_90")


def test_warnings_and_reports_are_in_the_log():
    source = SCALE + "__global__ void g() { int unused; }\n"
    for _ in range(2):  # the first call compiles, the second finds the image in the cache
        module = callout.cuda.load_inline(source, name="warned", options=["--ptxas-options=-v"], arch="sm_90")
        assert 'warned.cu(5): warning #177-D: variable "unused"' in module.log
        assert "Compiling entry function 'scale' for 'sm_90'" in module.log


@pytest.mark.parametrize("arch", ["sm_90", "sm_90a", "compute_80"])
def test_architectures(arch):
    module = callout.cuda.load_inline(SCALE, arch=arch)
    assert module.arch == arch
    assert module.path.suffix == (".ptx" if arch.startswith("compute") else ".cubin")


@pytest.mark.parametrize(
    ("arch", "message"),
    [
        ("hopper", "arch must be such as 'sm_90' or 'compute_90', got 'hopper'"),
        (90, "arch must be such as 'sm_90' or 'compute_90', got 90"),
        ("sm_12", r"NVRTC \d+\.\d+ does not compile for sm_12, but for .*, 90, "),
    ],
)
def test_architectures_that_there_are_not_are_refused(arch, message):
    with pytest.raises(ValueError, match=rf"^callout\.cuda: {message}"):
        callout.cuda.load_inline(SCALE, arch=arch)
    with pytest.raises(ValueError, match="arch= says what to compile for, not the option '-arch=sm_90'"):
        callout.cuda.load_inline(SCALE, options=["-arch=sm_90"])


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        (set(), "compute_75"),
        ({90}, "sm_90"),
        ({90, 80}, "compute_80"),
        ({10_000}, "compute_{newest}"),
        ({92}, "compute_90"),
    ],
    ids=str,
)
def test_the_architecture_is_this_machines(monkeypatch, devices, expected):
    monkeypatch.setattr(search, "device_capabilities", lambda: devices)
    newest = max(search.find_nvrtc().architectures)
    assert callout.cuda.load_inline(SCALE).arch == expected.format(newest=newest)


def test_a_gpu_that_is_too_old_is_named(monkeypatch):
    monkeypatch.setattr(search, "device_capabilities", lambda: {30})
    with pytest.raises(ValueError, match="does not compile for sm_30, but for"):
        callout.cuda.load_inline(SCALE)


def test_without_a_gpu_the_architecture_is_explained(monkeypatch):
    monkeypatch.setattr(search, "device_capabilities", set)
    with pytest.raises(
        callout.cuda.CompileError, match=r"\(compute_75, since this machine has no GPU; arch= says another"
    ):
        callout.cuda.load_inline("__global__ void f() { wrong; }")


def test_a_missing_nvrtc_is_reported_with_the_remedy(monkeypatch):
    monkeypatch.setenv("CALLOUT_NVRTC", "/no/such/libnvrtc.so")
    message = r"(?s)pip install nvidia-cuda-nvrtc .*CALLOUT_NVRTC.*'/no/such/libnvrtc\.so'"
    with pytest.raises(callout.cuda.CompileError, match=message):
        callout.cuda.load_inline(SCALE)
    monkeypatch.delenv("CALLOUT_NVRTC")
    monkeypatch.setattr(search, "_candidates", lambda: ["/no/libnvrtc.so.13", "/no/libnvrtc.so.12"])
    monkeypatch.setattr(search, "by_pathfinder", lambda *_: None)
    with pytest.raises(callout.cuda.CompileError, match=r"(?s)there is no NVRTC:.*/no/libnvrtc\.so\.13.*so\.12"):
        callout.cuda.load_inline(SCALE)


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Makes files of NVIDIA's packages, and returns their paths."""

    def make(*files):
        for file in files:
            (tmp_path / "nvidia" / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "nvidia" / file).touch()
        return [str(tmp_path / "nvidia" / file) for file in files]

    found = types.SimpleNamespace(submodule_search_locations=[str(tmp_path / "nvidia")])
    monkeypatch.setattr(search.importlib.util, "find_spec", lambda name: found if name == "nvidia" else None)
    return make


def test_packages_are_first_and_too_new_libraries_last(packages, monkeypatch):
    packages("cuda_nvrtc/lib/libnvrtc-builtins.so.12.9", "cuda_nvrtc/lib/libnvrtc.alt.so.12")
    packaged = packages("cu13/lib/libnvrtc.so.13", "cuda_nvrtc/lib/libnvrtc.so.12")
    for version, first, second in ((0, 13, 12), (13010, 13, 12), (12040, 12, 13)):
        monkeypatch.setattr(search._ext, "cuda_driver", lambda version=version: ("", version, [], ""))
        found = search._candidates()
        assert found[0] == packaged[13 - first]
        assert found.index(packaged[13 - first]) < found.index(packaged[13 - second])
        assert found.index(f"libnvrtc.so.{first}") < found.index(f"libnvrtc.so.{second}")


@pytest.fixture
def pathfinder(monkeypatch):
    """Fakes cuda-pathfinder; tests fill its answers: {(function, name): path}."""
    found = {}

    def find(function):
        def search_for(name):
            if (function, name) not in found:
                raise RuntimeError(f"{name} was not found")
            return found[function, name]

        return search_for

    functions = ("load_nvidia_dynamic_lib", "find_nvidia_header_directory", "find_nvidia_binary_utility")
    made = types.SimpleNamespace(**{function: find(function) for function in functions})
    monkeypatch.setattr(search.importlib, "import_module", {"cuda.pathfinder": made}.__getitem__)
    return found


def test_pathfinder_is_the_last_resort(pathfinder, monkeypatch, tmp_path):
    known = search.find_nvrtc()
    pathfinder["load_nvidia_dynamic_lib", "nvrtc"] = types.SimpleNamespace(abs_path="/no/libnvrtc.so.13")
    assert search.find_nvrtc() == known, "it was not needed"
    monkeypatch.delenv("CALLOUT_NVRTC", raising=False)
    monkeypatch.setattr(search, "_candidates", list)
    with pytest.raises(callout.cuda.CompileError, match=r"/no/libnvrtc\.so\.13"):
        search.find_nvrtc()
    pathfinder["load_nvidia_dynamic_lib", "nvrtc"] = types.SimpleNamespace(abs_path=known.path)
    assert search.find_nvrtc() == known
    monkeypatch.setattr(search, "packaged", lambda *_: ())
    monkeypatch.setattr(search, "toolkits", list)
    away = search.Nvrtc("/no/lib/libnvrtc.so.13", 13000, (90,))
    assert away.include_dirs() == []
    (tmp_path / "cuda_fp16.h").touch()
    pathfinder["find_nvidia_header_directory", "cudart"] = str(tmp_path)
    assert away.include_dirs() == [str(tmp_path)]


def test_pathfinder_may_be_missing_old_or_find_nothing(monkeypatch):
    def missing(name):
        raise ImportError(name)

    for module in (missing, lambda name: types.SimpleNamespace(), lambda name: types.SimpleNamespace(f=lambda _: None)):
        monkeypatch.setattr(search.importlib, "import_module", module)
        assert search.by_pathfinder("f", "nvrtc") is None


def test_headers_are_those_beside_the_library_or_of_its_version(packages, monkeypatch, tmp_path):
    monkeypatch.setattr(search, "toolkits", lambda: [tmp_path / "toolkit"])
    old, new = (
        str(Path(file).parent) for file in packages("cuda_runtime/include/cuda_fp16.h", "cu13/include/cuda_fp16.h")
    )
    (apart,) = (str(Path(file).parent.parent) for file in packages("cuda_cccl/include/cuda/std"))
    (inside,) = (str(Path(file).parent) for file in packages("cu13/include/cccl/cuda"))
    twelve, thirteen = (search.Nvrtc(str(tmp_path / f"lib/libnvrtc.so.{v}"), v * 1000, (90,)) for v in (12, 13))
    assert twelve.include_dirs() == [old, apart]
    assert thirteen.include_dirs() == [new, inside, apart]
    (beside,) = (str(Path(file).parent) for file in packages("../include/cuda_fp16.h"))
    assert twelve.include_dirs() == [str(Path(beside).resolve())]
    monkeypatch.setattr(search, "packaged", lambda *_: ())
    monkeypatch.setattr(search, "by_pathfinder", lambda *_: None)
    away = search.Nvrtc("/no/lib/libnvrtc.so.13", 13000, (90,))
    assert away.include_dirs() == []
    (tmp_path / "toolkit" / "include").mkdir(parents=True)
    (tmp_path / "toolkit" / "include" / "cuda_fp16.h").touch()
    assert away.include_dirs() == [str(tmp_path / "toolkit" / "include")]


@pytest.mark.parametrize("inside", ["cccl/nv", "nv"])
def test_core_libraries_come_from_a_toolkit_without_the_package(packages, monkeypatch, tmp_path, inside):
    """Toolkits of CUDA 13 have these headers in a folder of their own, those of CUDA 12 have them among the others."""
    monkeypatch.setattr(search, "toolkits", lambda: [tmp_path / "toolkit"])
    (new,) = (str(Path(file).parent) for file in packages("cu13/include/cuda_fp16.h"))
    nvrtc = search.Nvrtc(str(tmp_path / "lib/libnvrtc.so.13"), 13000, (90,))
    assert nvrtc.include_dirs() == [new]
    folder = tmp_path / "toolkit" / "include" / inside
    folder.mkdir(parents=True)
    (folder / "target").touch()
    assert nvrtc.include_dirs() == [new, str(folder.parent)]


def images(folder):
    return sorted(path.name for path in (folder / "cuda").glob("*.json"))


def test_an_image_is_compiled_once_for_each_content(tmp_path, monkeypatch):
    monkeypatch.setitem(vars(callout.config), "cache_dir", str(tmp_path))
    first = callout.cuda.load_inline(SCALE, arch="sm_90")
    written = first.path.stat().st_mtime_ns
    again = callout.cuda.load_inline(SCALE, {"scale": EACH}, arch="sm_90")
    assert (again.path, again.path.stat().st_mtime_ns) == (first.path, written)
    others = [
        callout.cuda.load_inline(SCALE, arch="sm_80"),
        callout.cuda.load_inline(SCALE, arch="sm_90", options=["--use_fast_math"]),
        callout.cuda.load_inline(SCALE + "\n", arch="sm_90"),
        callout.cuda.load_inline(SCALE, arch="sm_90", name="other"),
    ]
    assert len({first.path, *(other.path for other in others)}) == len(images(tmp_path)) == 5


def test_a_changed_header_is_another_content(tmp_path, monkeypatch):
    monkeypatch.setitem(vars(callout.config), "cache_dir", str(tmp_path / "cache"))
    source = '#include "outer.h"\n__global__ void f(int* y) { *y = FACTOR; }\n'
    (tmp_path / "outer.h").write_text("#  include <inner.h>\n")
    paths = []
    for factor in (2, 3, 3):
        (tmp_path / "inner.h").write_text(f"#define FACTOR {factor}\n")
        paths.append(callout.cuda.load_inline(source, include_dirs=[str(tmp_path)], arch="compute_90").path)
    assert paths[0] != paths[1] == paths[2]
    first = []
    for text in ("", "#define MORE\n"):
        (tmp_path / "before.h").write_text(text)
        options = ["-I", str(tmp_path), "-include", "before.h"]
        first.append(callout.cuda.load_inline(source, options=options, arch="compute_90").path)
    assert first[0] != first[1]
    optional = '#if __has_include("extra.h")\n#include "extra.h"\n#endif\n' + SCALE
    before = callout.cuda.load_inline(optional, options=[f"-I{tmp_path}"], arch="compute_90")
    (tmp_path / "extra.h").write_text("__device__ int extra;\n")
    assert callout.cuda.load_inline(optional, options=[f"-I{tmp_path}"], arch="compute_90").path != before.path


def test_an_include_by_macro_is_compiled_each_time(tmp_path, monkeypatch):
    monkeypatch.setitem(vars(callout.config), "cache_dir", str(tmp_path / "cache"))
    (tmp_path / "factor.h").write_text("#define FACTOR 2\n")
    source = '#define FILE "factor.h"\n#include FILE\n__global__ void f(int* y) { *y = FACTOR; }\n'
    for _ in range(2):
        module = callout.cuda.load_inline(source, include_dirs=[str(tmp_path)], arch="compute_90")
        assert str(tmp_path) not in str(module.path)
    assert images(tmp_path / "cache") == []


def test_integer_types_need_no_toolkit():
    source = "#include <stdint.h>\n#include <cstdint>\n#include <cstddef>\n"
    source += "__global__ void f(std::uint8_t* x, int64_t n, std::size_t m) { *x = sizeof(std::int32_t); }"
    assert str(callout.cuda.load_inline(source, arch="sm_90").f).endswith("out uint8 x, int64 n, uint64 m>")


def test_headers_of_the_toolkit_are_found():
    if not search.find_nvrtc().include_dirs():
        pytest.skip("there are no CUDA headers")
    source = "#include <cstdint>\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cuComplex.h>\n"
    source += "__global__ void f(const __half* x, __nv_bfloat16* y, cuFloatComplex z) { *y = __half2float(*x) + z.x; }"
    together = "\n#include <cooperative_groups.h>\n__global__ void g() { cooperative_groups::this_grid().sync(); }\n"
    module = callout.cuda.load_inline(source + together, {"f": {"launch_dims": 1}, "g": {}}, arch="sm_90")
    out = jax.eval_shape(lambda x: module.f(x, z=1j), jnp.ones(2, jnp.float16))
    assert (out.shape, out.dtype) == ((2,), jnp.bfloat16)


def test_files_include_files_beside_them(tmp_path):
    (tmp_path / "twice.cu").write_text('#include "factor.h"\n__global__ void twice(float* y) { *y *= FACTOR; }\n')
    (tmp_path / "factor.h").write_text("#define FACTOR 2\n")
    module = callout.cuda.load(tmp_path / "twice.cu", arch="sm_90")
    assert repr(module) == "<native module 'twice': twice>"
    with pytest.raises(FileNotFoundError, match=r"callout\.cuda\.load: .*absent\.cu is not a file"):
        callout.cuda.load(tmp_path / "absent.cu")


@pytest.mark.parametrize("suffix", [".json", ".cubin", ".ptx"])
def test_a_damaged_image_is_compiled_again(tmp_path, monkeypatch, suffix):
    monkeypatch.setitem(vars(callout.config), "cache_dir", str(tmp_path))
    file = callout.cuda.load_inline(SCALE, arch="sm_90").path.with_suffix(suffix)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] or b"more")
    callout.cuda.load_inline(SCALE, arch="sm_90")
    assert file.read_bytes() == whole
