# SPDX-License-Identifier: Apache-2.0
"""numba-cuda, and the older target inside Numba: from a `cuda.jit` dispatcher to an image.

With a GPU, the dispatcher compiles as for its own launches, and keeps what it compiled. Without one it cannot: it asks the
GPU for its architecture. It is then told one, and the result is PTX.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from .numba_compiler import OLDEST_CAPABILITY, Capability, Code, Compiler, choose_image, fault_text, named_capability
from .numba_packages import import_numba_cuda
from .numba_parameters import NumbaAbi

_RAISES = re.compile(r"^\s*ret i32 ([1-9]\d*)\b", re.MULTILINE)
_PLACES = ("tid", "thread"), ("ctaid", "block")


class _Device:
    """What Numba asks of a GPU when it compiles."""

    id = 0

    def __init__(self, capability: Capability):
        self.compute_capability = capability
        self.device = self  # it is its own context


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
        """Within it, this thread's compilations are for this architecture."""
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
        faults = _faults(compiled) if compiled.debug else None
        return Code(image, self.abi, numbers, bool(compiled.cooperative), faults, compiled)

    def _ptx(self, compiled: Any) -> str:
        """Returns PTX for all GPUs of this process: for the oldest, not for what only that has (sm_90a), as cubins are."""
        capabilities = self._capabilities() if self.has_device() else [named_capability() or OLDEST_CAPABILITY]
        return str(compiled.inspect_asm(min(capabilities)))

    def _capabilities(self) -> set[Capability]:
        return {tuple(device.compute_capability) for device in self._cuda.list_devices()}

    def _cubin(self, library: Any, capability: Capability | None) -> bytes | None:
        """Returns None if all GPUs of this process cannot run the same."""
        if capability is None and len(self._capabilities()) > 1:
            return None
        cubin = library.get_cubin(cc=capability)
        return bytes(getattr(cubin, "code", cubin))


def _faults(compiled: Any) -> dict[str, str]:
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
    """Finds the codes of what the functions may raise that are linked to a kernel. Numba keeps no table of them."""
    return {int(code) for module in getattr(library, "llvm_strs", ())[1:] for code in _RAISES.findall(module)}
