# SPDX-License-Identifier: Apache-2.0
"""Compiles Numba kernels for GPUs: once for each kernel and combination of types.

With a GPU, the dispatcher of numba-cuda, or of the older target inside Numba, compiles as for its own launches, and
caches the result. Without a GPU, the dispatcher cannot read the architecture from the GPU, so Callout provides one, and
the result is PTX. The package numba-cuda-mlir has dispatchers of its own.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..native_target import is_of_a_write, refused_write
from .images import parameter_sizes
from .numba_compiler import (
    OLDEST_CAPABILITY,
    ArrayType,
    Capability,
    Code,
    Compiler,
    NumberType,
    ParameterType,
    choose_image,
    fault_text,
    named_capability,
)
from .numba_packages import import_numba_cuda
from .numba_parameters import MemrefAbi, NumbaAbi

_TOOLS = "what it compiles with is not installed, or its driver is not: pip install {package}[cu13] (or [cu12])"

_lock = threading.RLock()  # guards the compilers; Numba's own lock is global, too
_codes: weakref.WeakKeyDictionary[Any, dict[tuple[ParameterType, ...], Code]] = weakref.WeakKeyDictionary()


@functools.cache
def _numba_cuda() -> Compiler:
    return NumbaCuda()


@functools.cache
def _numba_cuda_mlir() -> Compiler:
    return NumbaCudaMlir()


# The modules and names of kernels' classes, with their compilers. A kernel exists only if its module was imported.
_COMPILERS = (
    ("numba.cuda.dispatcher", "CUDADispatcher", _numba_cuda),
    ("numba_cuda_mlir.descriptor", "MLIRDispatcher", _numba_cuda_mlir),
)


def _is_of(value: Any, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def has_compiler(kernel: Any) -> bool:
    """Returns True for a result of `cuda.jit` of one of the packages."""
    return any(_is_of(kernel, module, name) for module, name, _ in _COMPILERS)


def is_simulated(kernel: Any) -> bool:
    """Returns True for a kernel of Numba's simulator."""
    return _is_of(kernel, "numba.cuda.simulator.kernel", "FakeCUDAKernel")


def compiler_of(kernel: Any) -> Compiler:
    """Returns the package that compiles a kernel for which `has_compiler` is true."""
    return next(make() for module, name, make in _COMPILERS if _is_of(kernel, module, name))


def compiled(where: str, kernel: Any, parameters: Sequence[ParameterType]) -> Code:
    """Returns a kernel's code for these parameters. Thread-safe.

    Raises:
        ImportError: a package that Numba compiles with is missing.
        TypeError: Numba does not compile the kernel for these parameters.
    """
    key = tuple(parameters)
    compiler = compiler_of(kernel)
    with _lock:
        codes = _codes.setdefault(kernel, {})
        if key not in codes:
            codes[key] = _compile(where, compiler, kernel, key)
        return codes[key]


def _compile(where: str, compiler: Compiler, kernel: Any, parameters: tuple[ParameterType, ...]) -> Code:
    if not getattr(kernel, "_can_compile", True):
        types, made = _made_before(where, compiler, kernel, parameters)
    else:
        types, made = _make(where, compiler, kernel, parameters)
    numbers = tuple(
        compiler.dtype_of(kind) or parameter.dtype if isinstance(parameter, NumberType) else None
        for kind, parameter in zip(types, parameters, strict=True)
    )
    try:
        return compiler.code_of(kernel, made, numbers)
    except (ImportError, TypeError) as error:
        raise type(error)(f"{where}: {error}") from error


def _made_before(
    where: str, compiler: Compiler, kernel: Any, parameters: tuple[ParameterType, ...]
) -> tuple[tuple[Any, ...], Any]:
    """Returns the compiled code of the signature that fits, for a kernel with signatures."""
    for types, made in kernel.overloads.items():
        if len(types) == len(parameters) and all(map(compiler.fits, types, parameters)):
            return types, made
    wanted = tuple(map(compiler.type_of, parameters))
    raise TypeError(f"{where}: the kernel was compiled for {list(kernel.overloads)} only, not {wanted}")


def _make(
    where: str, compiler: Compiler, kernel: Any, parameters: tuple[ParameterType, ...]
) -> tuple[tuple[Any, ...], Any]:
    """Compiles a kernel for read-only arguments.

    If Numba rejects them for another reason than a write, for example because they are passed to a device function with
    a signature, the kernel is compiled for writable arguments.
    """
    types = tuple(map(compiler.type_of, parameters))
    try:
        return types, _attempt(where, compiler, kernel, types)
    except TypeError as error:
        writable = tuple(compiler.type_of(parameter, read_only=False) for parameter in parameters)
        if writable == types or is_of_a_write(error.__cause__):
            raise
        try:
            return writable, _attempt(where, compiler, kernel, writable)
        except TypeError as second:
            raise second from second.__cause__


def _attempt(where: str, compiler: Compiler, kernel: Any, types: tuple[Any, ...]) -> Any:
    try:
        return compiler.compile(kernel, types)
    except ImportError as error:  # Numba's error for missing tools
        raise ImportError(
            f"{where}: {compiler.package} cannot compile the kernel, {_TOOLS.format(package=compiler.package)}: {error}"
        ) from error
    except Exception as error:  # Numba raises not only NumbaError
        if is_of_a_write(error):
            raise refused_write(where) from error
        kind = "" if "NumbaError" in {cls.__name__ for cls in type(error).__mro__} else f"{type(error).__name__}: "
        signature = ", ".join(map(str, types))
        raise TypeError(
            f"{where}: {compiler.package} does not compile the kernel for ({signature}): {kind}{error}"
        ) from error


def array_type(where: str, what: str, compiler: Compiler, aval: Any, *, is_writable: bool) -> ArrayType:
    """Returns the parameter for an operand. Raises TypeError if Numba has no such dtype."""
    return ArrayType(_known(where, what, compiler, np.dtype(aval.dtype)), len(aval.shape), is_writable)


def number_type(where: str, what: str, compiler: Compiler, dtype: np.dtype[Any]) -> NumberType:
    """Returns the parameter for a number. Raises TypeError if Numba has no such dtype."""
    return NumberType(_known(where, what, compiler, dtype))


def _known(where: str, what: str, compiler: Compiler, dtype: np.dtype[Any]) -> np.dtype[Any]:
    if compiler.scalar_type(dtype) is None:
        raise TypeError(
            f"{where}: {what} is {dtype.name}, which {compiler.package} does not have; convert it, or pass its bits "
            "(jax.lax.bitcast_convert_type)"
        )
    return dtype


_RAISES = re.compile(r"^\s*ret i32 ([1-9]\d*)\b", re.MULTILINE)
_PLACES = ("tid", "thread"), ("ctaid", "block")


class _Device:
    """Imitates a GPU for Numba's compiler, which reads its compute capability."""

    id = 0

    def __init__(self, capability: Capability):
        self.compute_capability = capability
        self.device = self  # also serves as its context


class NumbaCuda(Compiler):
    """Thread-safe, but for `compile`, which one thread is in at a time."""

    package = "numba-cuda"
    abi = NumbaAbi()

    def __init__(self) -> None:
        self._cuda = import_numba_cuda()
        types = importlib.import_module("numba.cuda.types")
        self.types = types if hasattr(types, "Array") else importlib.import_module("numba.types")
        self._dispatchers: Any = importlib.import_module("numba.cuda.dispatcher")
        self._devices: Any = importlib.import_module("numba.cuda.cudadrv.devices")

    def has_device(self) -> bool:
        return bool(self._cuda.is_available())

    def compile(self, kernel: Any, types: tuple[Any, ...]) -> Any:
        if self.has_device():
            return kernel.compile(types)
        with self._told(named_capability() or OLDEST_CAPABILITY):
            return self._dispatchers._Kernel(kernel.py_func, types, **kernel.targetoptions)

    @contextlib.contextmanager
    def _told(self, capability: Capability) -> Iterator[None]:
        """Makes this thread's compilations use this architecture inside the block."""
        thread = threading.get_ident()
        device = _Device(capability)
        get_device, get_context = self._dispatchers.get_current_device, self._devices.get_context

        def current_device() -> Any:
            return device if threading.get_ident() == thread else get_device()

        def context(*args: Any) -> Any:
            return device if threading.get_ident() == thread else get_context(*args)

        self._dispatchers.get_current_device, self._devices.get_context = current_device, context
        try:
            yield
        finally:
            self._dispatchers.get_current_device, self._devices.get_context = get_device, get_context

    def code_of(self, kernel: Any, compiled: Any, numbers: tuple[np.dtype[Any] | None, ...]) -> Code:
        del kernel
        library = compiled._codelibrary
        if getattr(library, "_setup_functions", None):
            raise TypeError("it has functions that numba-cuda calls when it loads the kernel, which a program cannot")
        has_device, named = self.has_device(), named_capability()
        cubin = self._cubin(library, None if has_device else named) if has_device or named else None
        image = choose_image(
            self.package, compiled.entry_name, self._ptx(compiled), cubin, named, has_device=has_device
        )
        faults = _numba_cuda_faults(compiled) if compiled.debug else None
        return Code(image, self.abi, numbers, bool(compiled.cooperative), faults, compiled)

    def _ptx(self, compiled: Any) -> str:
        """Returns PTX for the oldest GPU of this process, without features of that GPU alone (sm_90a), which cubins have."""
        capabilities = self._capabilities() if self.has_device() else [named_capability() or OLDEST_CAPABILITY]
        return str(compiled.inspect_asm(min(capabilities)))

    def _capabilities(self) -> set[Capability]:
        return {tuple(device.compute_capability) for device in self._cuda.list_devices()}

    def _cubin(self, library: Any, capability: Capability | None) -> bytes | None:
        """Returns the cubin of a kernel, or None if the GPUs of this process differ in compute capability."""
        if capability is None and len(self._capabilities()) > 1:
            return None
        cubin = library.get_cubin(cc=capability)
        return bytes(getattr(cubin, "code", cubin))


def _numba_cuda_faults(compiled: Any) -> dict[str, str]:
    symbol = compiled.entry_name
    faults = {"symbol": f"{symbol}__errcode__"}
    for register, place in _PLACES:
        faults |= {f"{place}_{axis}": f"{symbol}__{register}{axis}__" for axis in "xyz"}
    known = {code: fault_text(kind, args) for code, (kind, args, *_) in compiled.call_helper.exceptions.items()}
    alike = _codes_of_device_functions(compiled._codelibrary)
    for code in sorted(known.keys() | alike):
        text = known.get(code, "an exception")
        other = " (or another of a device function: Numba numbers both alike)" if code in alike else ""
        faults[str(code)] = text + other
    return faults


def _codes_of_device_functions(library: Any) -> set[int]:
    """Returns the error codes of device functions that are linked to a kernel. Numba has no table of them."""
    return {int(code) for module in getattr(library, "llvm_strs", ())[1:] for code in _RAISES.findall(module)}


_FAULT = "__numba_cuda_mlir_error_code"


class NumbaCudaMlir(Compiler):
    """Thread-safe, but for `compile`, which one thread is in at a time."""

    package = "numba-cuda-mlir"
    abi = MemrefAbi()

    def __init__(self) -> None:
        self.types = importlib.import_module("numba_cuda_mlir.numba_cuda.types")
        self._init = importlib.import_module("numba_cuda_mlir.numba_cuda.device_init")
        self._tools: Any = importlib.import_module("numba_cuda_mlir.tools")

    def has_device(self) -> bool:
        return bool(self._init.is_available())

    def compile(self, kernel: Any, types: tuple[Any, ...]) -> Any:
        if self.has_device():
            return kernel.compile(types)
        with self._told(kernel, named_capability() or OLDEST_CAPABILITY):
            compiled = kernel.compile(types)
            assert compiled.ptx  # makes the PTX while the architecture is set
            return compiled

    @contextlib.contextmanager
    def _told(self, kernel: Any, capability: Capability) -> Iterator[None]:
        """Makes compilations use this architecture inside the block. Other threads do not need one without a GPU."""
        before, chip = self._tools._cached_cc, kernel.targetoptions.get("chip")
        self._tools._cached_cc = capability
        try:
            yield
        finally:
            self._tools._cached_cc = before
            kernel.targetoptions["chip"] = chip

    def code_of(self, kernel: Any, compiled: Any, numbers: tuple[np.dtype[Any] | None, ...]) -> Code:
        if getattr(kernel, "_module_setup_callbacks", None):
            raise TypeError(
                "it has functions that numba-cuda-mlir calls when it loads the kernel, which a program cannot"
            )
        cubin = compiled.metadata["cubin"]
        cubin = bytes(getattr(cubin, "code", cubin))
        has_device = self.has_device()
        symbol = _symbol(compiled.metadata["func_name"], cubin)
        image = choose_image(self.package, symbol, str(compiled.ptx), cubin, named_capability(), has_device=has_device)
        faults = _numba_mlir_faults() if kernel.targetoptions.get("debug") else None
        return Code(image, self.abi, numbers, bool(compiled.cooperative), faults, compiled)


def _symbol(name: str, cubin: bytes) -> str:
    """Returns the kernel's symbol in the cubin. With baked values, its compiler reports another name than it emits."""
    kernels = [*(parameter_sizes(cubin) or ())]
    return kernels[0] if len(kernels) == 1 else name


def _numba_mlir_faults() -> dict[str, str]:
    """Returns the fault reports of numba-cuda-mlir, which has the class of a kernel's exception, but no message."""
    codes = importlib.import_module("numba_cuda_mlir.mlir_lowering").KERNEL_ERROR_CODES
    return {"symbol": _FAULT} | {str(code): fault_text(kind, ("raised in the kernel",)) for kind, code in codes.items()}
