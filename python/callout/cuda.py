# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ kernels and compiled images of kernels become JAX functions, which run without Python."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ._base.public_modules import publish
from ._native.compiler import CompileError as CompileError
from ._native.gpu.cuda_function import Code, CudaSettings
from ._native.gpu.cuda_function import Function as Function
from ._native.gpu.cuda_signature import Kind, Parameter, base_name, parse, signatures
from ._native.gpu.host_function import HostFunction as HostFunction
from ._native.gpu.host_function import HostSettings
from ._native.gpu.images import kind_of, parameter_sizes, text_of
from ._native.gpu.kernel import Image
from ._native.gpu.nvcc import find_nvcc
from ._native.gpu.nvrtc import compile_source, joined
from ._native.library import Functions, build_library, loaded_functions, source_file
from ._native.module import Module as _Module

__all__ = [
    "CompileError",
    "Function",
    "HostFunction",
    "load",
    "load_host",
    "load_image",
    "load_inline",
]
publish(__name__)

_SETTINGS = frozenset(field.name for field in dataclasses.fields(CudaSettings))
_DEFINE = re.compile(r"(?:-D|--define-macro=)(\w+)=(.+)")


class Module(_Module[Function]):
    """Has the kernels of an image as attributes.

    Attributes:
        path: the file of the cubin or of the PTX. None for an image that was given as bytes.
        arch: the architecture that the image was compiled for, such as "sm_90". None for an image that was compiled
            elsewhere.
        log: the compiler's messages: warnings, and whatever `options` request.
    """

    def __init__(
        self, name: str, path: Path | None, functions: Mapping[str, Function], arch: str | None = None, log: str = ""
    ):
        super().__init__(name, path, functions)
        self.arch = arch
        self.log = log


class HostModule(_Module[HostFunction]):
    """Has the host functions of a library as attributes. `path` is the shared library."""

    path: Path


def load_inline(
    source: str,
    functions: Functions = None,
    *,
    options: Sequence[str] = (),
    include_dirs: Sequence[str] = (),
    name: str | None = None,
    arch: str | None = None,
) -> Module:
    """Compiles CUDA C++ by NVRTC, unless the image is in this machine's cache, and returns its kernels.

    A kernel's pointers to const are its arguments, its other pointers its results, and its numbers are passed by keyword.

    Args:
        source: C++20 for devices. `<cstdint>`, `<cstddef>` and the headers of the CUDA toolkit are found.
        functions: kernels (`"scale"`, `"axpy<float>"`, `"space::f"`), or kernels with settings
            (`{"scale": {"launch_dims": ...}}`, see `Function.options`). Two settings are taken here alone: "kernel",
            the name of the kernel if the function has another name, and "parameters", a list of "in float32", "out
            float32", "int32 n", if the declaration does not tell arguments from results. By default all kernels that
            are no templates.
        options: NVRTC's options, such as "--use_fast_math", "-DSIZE=3".
        include_dirs: folders for `#include`.
        name: the module's, for messages; "inline" by default.
        arch: "sm_90" for machine code, "compute_90" for PTX, which drivers compile for newer devices, too. By default
            the architecture of this machine's GPU, or, without a GPU, the oldest that NVRTC compiles for from
            "compute_75" on.

    Returns:
        A module: its attributes are the kernels; `path` is the image's file, or None for one that was given as bytes;
            `arch` the architecture that it was compiled for, such as "sm_90"; `log` the compiler's messages.

    Raises:
        CompileError: NVRTC refused the source, or there is none.
        TypeError: the parameters of a kernel are not known.
        ValueError: NVRTC does not compile for `arch`; or the source has no kernel.

    Example:
        >>> module = callout.cuda.load_inline('''
        ... extern "C" __global__ void scale(const float* x, float* y, float factor, int n) {
        ...   int i = blockIdx.x * blockDim.x + threadIdx.x;
        ...   if (i < n) y[i] = factor * x[i];
        ... }
        ... ''')
        >>> scale = module.scale.options(launch_dims=lambda x, y: x.size, constants={"n": lambda x, y: x.size})
        >>> y = scale(jnp.ones(3), factor=2.0)
    """
    if not isinstance(source, str) or "\0" in source:
        raise TypeError(f"callout.cuda.load_inline: the source must be a string without NUL, got {source!r}")
    name = name or "inline"
    declared = signatures(source, _defines(options))
    chosen = _chosen("load_inline", functions)
    if chosen is None:
        chosen = {kernel: {} for kernel, found in declared.items() if found is None or found.template is None}
        if not chosen:
            raise ValueError(f"callout.cuda.load_inline: {name} has no __global__ function that is no template")
    kernels = {function: settings.get("kernel", function) for function, settings in chosen.items()}
    parameters = {}
    for function, settings in chosen.items():
        found = declared.get(base_name(kernels[function]))
        known = None if found is None else found.instance(kernels[function])
        parameters[function] = _parameters(f"callout.cuda '{function}'", settings, known)
    unique = [*dict.fromkeys(kernels.values())]
    compiled = compile_source(source, name, unique, options, include_dirs, arch)
    made = {}
    for function, settings in chosen.items():
        code = compiled.cubin or compiled.ptx
        image = Image(code, compiled.symbols[kernels[function]], compiled.ptx)
        made[function] = _function(name, function, image, parameters[function], compiled.digest, settings)
    return Module(name, compiled.path, made, compiled.arch, compiled.log)


def load(
    file: str | Path,
    functions: Functions = None,
    *,
    options: Sequence[str] = (),
    include_dirs: Sequence[str] = (),
    name: str | None = None,
    arch: str | None = None,
) -> Module:
    """Compiles a ".cu" file by NVRTC like `load_inline`, and returns its kernels. It may include files of its folder.

    Args:
        file: the path of the source.
        functions: as in `load_inline`.
        options: as in `load_inline`.
        include_dirs: as in `load_inline`.
        name: the module's, for messages; the file's by default.
        arch: as in `load_inline`.

    Returns:
        A module: its attributes are the kernels; `path` is the image's file, or None for one that was given as bytes;
            `arch` the architecture that it was compiled for, such as "sm_90"; `log` the compiler's messages.

    Raises:
        FileNotFoundError: there is no such file.
        CompileError: NVRTC refused the source, or there is none.
        TypeError: the parameters of a kernel are not known.
        ValueError: NVRTC does not compile for `arch`; or the source has no kernel.

    Example:
        >>> module = callout.cuda.load("kernels.cu", ["scale"], options=["--use_fast_math"])
    """
    path = Path(file)
    if not path.is_file():
        raise FileNotFoundError(f"callout.cuda.load: {path} is not a file")
    folders = [*include_dirs, str(path.resolve().parent)]
    source = path.read_text()
    return load_inline(source, functions, options=options, include_dirs=folders, name=name or path.stem, arch=arch)


def load_host(
    source: str,
    functions: Functions = None,
    *,
    flags: Sequence[str] = (),
    include_dirs: Sequence[str] = (),
    name: str | None = None,
    arch: str | None = None,
    embed: bool = False,
) -> HostModule:
    """Compiles CUDA C++ with host functions by nvcc, unless the library is in this machine's cache, and returns them.

    A host function may launch any number of kernels, and call libraries such as cuBLAS. The function runs on an XLA
    thread, in the device's context, without Python; it queues its work on XLA's stream, and does not wait for the
    stream.

    Args:
        source: C++20. A function becomes one of the module by `CALLOUT_KERNEL(function)` of callout/kernel.h, with a
            parameter `callout::Stream`, by `CALLOUT_DEFINE_CALLBACK` of callout/call.h, or, if it is named in
            `functions`, by being an exported `extern "C" int32_t f(void** ptrs, const int64_t* dims, cudaStream_t stream)`.
        functions: names, or names with settings (`{"solve": {"graph": True}}`, see `HostFunction.options`). By default
            all functions that the two macros declare.
        flags: nvcc's options, such as "-lcublas", "-DSIZE=3".
        include_dirs: folders for `#include`, besides Callout's own.
        name: the module's, for messages; "inline" by default.
        arch: "sm_90" for machine code and PTX, "compute_90" for PTX alone. By default the architecture of this
            machine's GPU, or "sm_75" without a GPU.
        embed: programs carry the compiled library, as in `callout.cpp.load_inline`.

    Returns:
        A module: its attributes are the functions, `path` is the shared library.

    Raises:
        CompileError: nvcc refused the source, or there is none.
        RegistrationError: `functions` names one that the library does not export.
        ValueError: `arch` is no architecture, or `flags` name another one.

    Example:
        >>> module = callout.cuda.load_host('''
        ... #include "callout/kernel.h"
        ... void copy(callout::In<float> x, callout::Out<float> y, callout::Stream stream) {
        ...   cudaMemcpyAsync(y.data(), x.data(), 4 * x.size(), cudaMemcpyDeviceToDevice, (cudaStream_t)stream.handle);
        ... }
        ... CALLOUT_KERNEL(copy);
        ... ''')
        >>> y = module.copy(jnp.ones(3))
    """
    name = name or "inline"
    with source_file("callout.cuda.load_host", source, name, ".cu") as file:
        path, digest = build_library(find_nvcc(arch, flags), [file], flags, include_dirs, name)
    loaded = loaded_functions("callout.cuda", path, digest, name, functions, embed)
    made = {function: HostFunction(code, function, HostSettings(**chosen)) for function, code, chosen in loaded}
    return HostModule(name, path, made)


def load_image(
    image: str | Path | bytes, functions: Mapping[str, Mapping[str, Any]], *, name: str | None = None
) -> Module:
    """Returns the kernels of a cubin, a fat binary or PTX that was compiled elsewhere.

    Args:
        image: the path of a file, or a file's contents.
        functions: kernels with their parameters and settings: `{"scale": {"parameters": ["in float32", "out float32",
            "float32 factor", "int32 n"], "launch_dims": ...}}`. "kernel" is the kernel's symbol, if the function has
            another name.
        name: the module's, for messages; the file's by default.

    Returns:
        A module: its attributes are the kernels; `path` is the image's file, or None for one that was given as bytes;
            `arch` the architecture that it was compiled for, such as "sm_90"; `log` the compiler's messages.

    Raises:
        TypeError: a function has no "parameters", or their sizes differ from those in the image.
        ValueError: `image` is no image, or has no such kernel.

    Example:
        >>> parameters = ["in float32", "out float32", "float32 factor", "int32 n"]
        >>> module = callout.cuda.load_image("scale.cubin", {"scale": {"parameters": parameters, "launch_dims": 1024}})
        >>> y = module.scale(jnp.ones(1024), factor=2.0, n=1024)
    """
    path = None if isinstance(image, bytes) else Path(image)
    code = image if isinstance(image, bytes) else Path(image).read_bytes()
    name = name or (path.stem if path else "image")
    try:
        kind, sizes = kind_of(code), parameter_sizes(code)
    except ValueError as error:
        raise ValueError(f"callout.cuda.load_image: {path or name}: {error}") from error
    if kind == "ptx" and not code.endswith(b"\0"):
        code += b"\0"  # the driver takes PTX without a length, up to a NUL
    digest = hashlib.sha256(code).hexdigest()[:32]
    made = {}
    for function, settings in (_chosen("load_image", functions) or {}).items():
        where = f"callout.cuda '{function}'"
        symbol = settings.get("kernel", function)
        if sizes is not None and symbol not in sizes:
            raise ValueError(f"{where}: the image has no kernel {symbol!r}; there are: {', '.join(sorted(sizes))}")
        if "parameters" not in settings:
            known = sizes[symbol] if sizes is not None else None
            has = "" if known is None else f"; the image's are of {text_of(known)} bytes"
            raise TypeError(
                f"{where}: say its parameters: {{{function!r}: {{'parameters': ['in float32', ...]}}}}{has}"
            )
        parameters = _parameters(where, settings, None)
        portable = code if kind == "ptx" else None
        made[function] = _function(name, function, Image(code, symbol, portable), parameters, digest, settings)
    return Module(name, path, made)


def _defines(options: Sequence[str]) -> dict[str, str]:
    return {match[1]: match[2] for option in joined(options) if (match := _DEFINE.fullmatch(option))}


def _chosen(where: str, functions: Functions) -> dict[str, dict[str, Any]] | None:
    if functions is None:
        return None
    if isinstance(functions, str):
        raise TypeError(f"callout.cuda.{where}: functions must be a list or a mapping, got {functions!r}")
    chosen = functions if isinstance(functions, Mapping) else {function: {} for function in functions}
    for function, settings in chosen.items():
        unknown = sorted(set(settings) - _SETTINGS - {"kernel", "parameters"})
        if unknown:
            raise TypeError(f"callout.cuda '{function}': there are no settings {unknown}")
    return {function: dict(settings) for function, settings in chosen.items()}


def _parameters(where: str, settings: Mapping[str, Any], known: Sequence[Parameter] | None) -> tuple[Parameter, ...]:
    if "parameters" in settings:
        try:
            found = tuple(map(parse, settings["parameters"]))
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
    elif known is None:
        raise TypeError(f"{where}: its declaration was not found, or there are several; say its 'parameters'")
    else:
        found = tuple(known)
    names = [parameter.name for parameter in found if parameter.kind is Kind.VALUE]
    if "" in names or len(set(names)) < len(names):
        raise TypeError(f"{where}: parameters that are passed by value need names of their own, got {names}")
    return found


def _function(
    module: str, name: str, image: Image, parameters: tuple[Parameter, ...], digest: str, settings: Mapping[str, Any]
) -> Function:
    chosen = {key: value for key, value in settings.items() if key in _SETTINGS}
    return Function(Code(f"{module}.{name}", image, parameters, digest), name, CudaSettings(**chosen))
