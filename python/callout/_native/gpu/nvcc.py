# SPDX-License-Identifier: Apache-2.0
"""Finds nvcc, NVIDIA's compiler for CUDA C++ with host code."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence

from ..compiler import CompileError, Compiler, command_in
from .nvrtc import by_pathfinder, device_capabilities, packaged, toolkits

_ARCHITECTURE = re.compile(r"(sm|compute)_\d+[af]?")
_ARCHITECTURE_FLAG = re.compile(r"--?(gpu-architecture|arch|gencode|generate-code)\b.*")
_OLDEST = "sm_75"


def _candidates() -> Iterator[str]:
    if found := shutil.which("nvcc"):
        yield found
    for file in (*(root / "bin" / "nvcc" for root in toolkits()), *packaged("cu1[0-9]/bin/nvcc", "cuda_nvcc/bin/nvcc")):
        if os.access(file, os.X_OK):
            yield str(file)
    if found := by_pathfinder("find_nvidia_binary_utility", "nvcc"):
        yield found


def find_nvcc(arch: str | None, flags: Sequence[str]) -> Compiler:
    """Returns the command in `CUDACXX` if set, or else nvcc of the path, a toolkit, NVIDIA's packages or cuda-pathfinder.

    Args:
        arch: "sm_90" for machine code and PTX, or "compute_90" for PTX; by default the architecture of the oldest GPU
            here, or of Turing without a GPU.
        flags: the user's flags, which may name architectures instead.

    Raises:
        CompileError: no nvcc was found.
        ValueError: `arch` is no architecture, or `flags` name another one.
    """
    command = command_in("callout.cuda", "CUDACXX") or [*_candidates()][:1]
    path = shutil.which(command[0]) if command else None
    if path is None:
        raise CompileError(
            "callout.cuda: no nvcc was found on the path, at CUDA_PATH, CUDA_HOME or /usr/local/cuda; install the CUDA "
            "toolkit, or set CUDACXX. Kernels by themselves need none: callout.cuda.load_inline"
        )
    chosen = _architecture(arch, flags)
    return Compiler(
        "callout.cuda",
        "cuda-host",
        (path, *command[1:]),
        ("-std=c++20", "-O2", "-Xcompiler=-fPIC,-fvisibility=hidden", *chosen),
        ("-E", "-Xcompiler=-dM", "-x", "cu", "/dev/null"),
        _passes((*chosen, *flags)),
        ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"),
    )


def _passes(flags: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Returns arguments to preprocess for the host and for each architecture; nvcc's default is only one of these."""
    chosen = [*flags, *(os.environ.get(variable, "") for variable in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"))]
    numbers = sorted({number for flag in chosen for number in re.findall(r"(?:sm|compute)_(\d+)", flag)})
    host = ("-E", "-Xcompiler=-P,-U__CUDA_ARCH__")
    return (host, *((*host[:1], f"{host[1]},-D__CUDA_ARCH__={number}0") for number in numbers))


def _architecture(arch: str | None, flags: Sequence[str]) -> tuple[str, ...]:
    chosen = next(filter(_ARCHITECTURE_FLAG.fullmatch, flags), None)
    if arch is not None and not (isinstance(arch, str) and _ARCHITECTURE.fullmatch(arch)):
        raise ValueError(f"callout.cuda: arch must be such as 'sm_90' or 'compute_90', got {arch!r}")
    if arch is not None and chosen is not None:
        raise ValueError(f"callout.cuda: both arch={arch!r} and the flag {chosen!r} say what to compile for")
    if chosen is not None:
        return ()
    oldest = min(device_capabilities(), default=None)
    return (f"-arch={arch or (f'sm_{oldest}' if oldest else _OLDEST)}",)
