# SPDX-License-Identifier: Apache-2.0
"""Runs kernels of numba-cuda and numba-cuda-mlir on the driver's double: their NVVM IR, compiled for this CPU.

The double runs a launch's threads one after another, with the parameters that were packed for the GPU. Features of GPUs
only (barriers, warps) are missing.
"""

import ctypes
import functools
import re

import gpu_double
import pytest
from callout._native.gpu import images
from callout._native.gpu.numba_image import NumbaCuda, NumbaCudaMlir
from platforms import ON_CUDA

llvm = pytest.importorskip("llvmlite.binding", reason="needs llvmlite (pip install numba)")

# Offsets in SoftwareGpuLaunch of software_gpu.h; each has three numbers.
_REGISTERS = {"nctaid": 0, "ntid": 12, "ctaid": 24, "tid": 36}
_GLOBAL = 72

_TYPE = r'(?:i\d+|float|double|half|void|ptr|%"[^"]+"|\{[^{}]*\}|\[[^\[\]]*\]|<[^<>]*>)'
_POINTER = re.compile(_TYPE + r"(?:\s*\([^()]*\))?\s*\*+")

_REGISTER_READ = re.compile(r'asm "mov\.u32 \$0, %(\w+\.\w);", "=r"\(\)')

_kept = []  # objects that the double refers to until the process ends


class SoftwareGpuKernel(ctypes.Structure):
    """SoftwareGpuKernel of software_gpu.h."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("parameter_count", ctypes.c_size_t),
        ("parameter_bytes", ctypes.POINTER(ctypes.c_size_t)),
        ("max_threads", ctypes.c_uint),
        ("shared_bytes", ctypes.c_uint),
        ("cluster", ctypes.c_uint),
    ]


class SoftwareGpuGlobal(ctypes.Structure):
    """SoftwareGpuGlobal of software_gpu.h."""

    _fields_ = [("name", ctypes.c_char_p), ("bytes", ctypes.c_size_t)]


def _with_opaque_pointers(text):
    """Replaces the typed pointers of NVVM's LLVM by opaque ones, which this LLVM has."""
    text = re.sub(r" addrspace\(\d\)", "", text).replace("addrspacecast", "bitcast")
    before = None
    while before != text:
        before, text = text, _POINTER.sub("ptr", text)
    return text


def _for_the_host(text):
    text = re.sub(r"^(target (triple|datalayout)|!nvvm).*$", "", text, flags=re.MULTILINE)
    text = text.replace("common global", "global").replace("ptx_kernel ", "")
    text = text.replace("llvm.nvvm.read.ptx.sreg", "register")
    text = _REGISTER_READ.sub(r'@"register.\1"()', text)
    for name in set(re.findall(r'@"register\.\w+\.\w"', text)):
        if f"declare i32 {name}" not in text:
            text += f"\ndeclare i32 {name}()\n"
    return _with_opaque_pointers(text)


@functools.cache
def _thread_key():
    """Returns the key by which a thread finds its launch."""
    key = ctypes.c_uint()
    assert ctypes.CDLL(None).pthread_key_create(ctypes.byref(key), None) == 0
    return key.value


def _registers():
    """Yields functions that return the registers of a thread's position."""
    for register, begin in _REGISTERS.items():
        for i, axis in enumerate("xyz"):
            yield f"""
define i32 @"register.{register}.{axis}"() {{
  %launch = call ptr @pthread_getspecific(i32 {_thread_key()})
  %place = getelementptr i8, ptr %launch, i64 {begin + 4 * i}
  %value = load i32, ptr %place
  ret i32 %value
}}"""


def _copy(name, i, to_kernel):
    """Copies between a global of the kernel and the device's global."""
    ends = (f"%at{i}", f'@"{name}"')
    source, target = ends if to_kernel else ends[::-1]
    when = "before" if to_kernel else "after"
    return f"  %{when}{i} = load i32, ptr {source}\n  store i32 %{when}{i}, ptr {target}\n"


def _entry(symbol, types, names):
    """Wraps the kernel as a SoftwareGpuFunction."""
    lines = [
        f"  call i32 @pthread_setspecific(i32 {_thread_key()}, ptr %launch)",
        f"  %where = getelementptr i8, ptr %launch, i64 {_GLOBAL}",
        "  %global = load ptr, ptr %where",
    ]
    for i, kind in enumerate(types):
        lines.append(f"  %p{i} = getelementptr ptr, ptr %parameters, i64 {i}")
        lines.append(f"  %q{i} = load ptr, ptr %p{i}\n  %v{i} = load {kind}, ptr %q{i}")
    lines += [f"  %at{i} = call ptr %global(ptr @name{i})\n{_copy(name, i, True)}" for i, name in enumerate(names)]
    lines.append(f'  call void @"{symbol}"({", ".join(f"{kind} %v{i}" for i, kind in enumerate(types))})')
    lines += [_copy(name, i, False) for i, name in enumerate(names)]
    strings = "".join(f'@name{i} = constant [{len(n) + 1} x i8] c"{n}\\00"\n' for i, n in enumerate(names))
    strings += "".join(f'@"{name}" = external global i32\n' for name in names)
    return f"""
{strings}
declare ptr @pthread_getspecific(i32)
declare i32 @pthread_setspecific(i32, ptr)
declare void @"{symbol}"({", ".join(types)})
define i32 @software_gpu_entry(ptr %launch, ptr %parameters) {{
{chr(10).join(lines)}
  ret i32 0
}}
{"".join(_registers())}"""


def _add_math():
    """Adds functions of libdevice, which are libm's under other names."""
    libm = ctypes.CDLL("libm.so.6")
    for name in ("sqrt", "exp", "sin", "cos", "pow"):
        for suffix in ("", "f"):
            address = ctypes.cast(getattr(libm, name + suffix), ctypes.c_void_p).value
            llvm.add_symbol(f"__nv_{name}{suffix}", address)


def compile_for_the_host(symbol, modules, globals_):
    """Compiles the kernel and returns the address of its SoftwareGpuFunction."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    _add_math()
    parsed = [llvm.parse_assembly(_for_the_host(text)) for text in modules]
    types = [str(argument.type) for argument in parsed[0].get_function(symbol).arguments]
    for other in [*parsed[1:], llvm.parse_assembly(_entry(symbol, types, globals_))]:
        parsed[0].link_in(other)
    parsed[0].verify()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
    engine = llvm.create_mcjit_compiler(parsed[0], machine)
    engine.finalize_object()
    _kept.append(engine)
    return engine.get_function_address("software_gpu_entry")


def _modules(code):
    """Returns the kernel's IR."""
    if hasattr(code.owner, "_codelibrary") and hasattr(code.owner._codelibrary, "llvm_strs"):
        return code.owner._codelibrary.llvm_strs
    from numba_cuda_mlir import tools
    from numba_cuda_mlir.mlir_optimization import get_llvmir

    target = code.owner.metadata["gpu_target"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tools, "_cached_cc", target["cc"])  # otherwise Numba asks the double
        return [get_llvmir(code.owner.cres, {**code.owner.metadata["targetoptions"], "chip": target["chip"]})]


def bind(code):
    """Makes images with this kernel that are loaded from now on run it on the host."""
    symbol = code.image.symbol
    globals_ = [name for key, name in (code.faults or {}).items() if not key.isdigit()]
    control = gpu_double.control()
    for name in globals_:
        variable = SoftwareGpuGlobal(name.encode(), 4)
        control.bind_global(ctypes.byref(variable))
        _kept.append(variable)
    function = compile_for_the_host(symbol, _modules(code), globals_)
    sizes = images.parameter_sizes(code.image.code)[symbol]
    bytes_ = (ctypes.c_size_t * len(sizes))(*sizes)
    kernel = SoftwareGpuKernel(symbol.encode(), function, len(sizes), bytes_, 0, 0)
    control.bind(ctypes.byref(kernel))
    _kept.append((kernel, bytes_))


@pytest.fixture
def numba_on_host(gpu_double, monkeypatch):
    """Runs kernels on the double of the driver, and returns its controls; on the plugin, the driver runs their PTX."""
    if ON_CUDA:
        return gpu_double
    for compiler in (NumbaCuda, NumbaCudaMlir):
        monkeypatch.setattr(compiler, "code_of", functools.partialmethod(_code_and_bind, compiler.code_of))
    return gpu_double


def _code_and_bind(compiler, code_of, *args):
    code = code_of(compiler, *args)
    bind(code)
    return code
