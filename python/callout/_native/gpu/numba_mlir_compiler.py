# SPDX-License-Identifier: Apache-2.0
"""numba-cuda-mlir: from one of its `cuda.jit` dispatchers to an image."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from .images import parameter_sizes
from .numba_compiler import OLDEST_CAPABILITY, Capability, Code, Compiler, choose_image, fault_text, named_capability
from .numba_parameters import MemrefAbi

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
            assert compiled.ptx  # made, if it is not, while the architecture is known
            return compiled

    @contextlib.contextmanager
    def _told(self, kernel: Any, capability: Capability) -> Iterator[None]:
        """Within it, compilations are for this architecture. Nobody else asks, in a process without a GPU."""
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
        faults = _faults() if kernel.targetoptions.get("debug") else None
        return Code(image, self.abi, numbers, bool(compiled.cooperative), faults, compiled)


def _symbol(name: str, cubin: bytes) -> str:
    """Returns what the kernel is called. Where values are baked in, its compiler says another name than it gives."""
    kernels = [*(parameter_sizes(cubin) or ())]
    return kernels[0] if len(kernels) == 1 else name


def _faults() -> dict[str, str]:
    """It keeps the class of what a kernel raises, and no message."""
    codes = importlib.import_module("numba_cuda_mlir.mlir_lowering").KERNEL_ERROR_CODES
    return {"symbol": _FAULT} | {str(code): fault_text(kind, ("raised in the kernel",)) for kind, code in codes.items()}
