# SPDX-License-Identifier: Apache-2.0
"""Where NVIDIA's run-time compiler and CUDA's headers are, and for which GPU it compiles."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from ... import _ext
from ..compiler import CompileError
from .toolkit import packaged, toolkits

# What every GPU since Turing runs, as PTX that its driver compiles.
_OLDEST = 75
_ARCHITECTURE = re.compile(r"(sm|compute)_(\d+)[af]?")


@dataclasses.dataclass(frozen=True)
class Nvrtc:
    """A library of this machine. `architectures`: compute capabilities, 90 is 9.0."""

    path: str
    version: int
    architectures: tuple[int, ...]

    def __str__(self) -> str:
        return f"NVRTC {self.version // 1000}.{self.version % 1000 // 10}"

    def include_dirs(self) -> list[str]:
        """Folders of CUDA's own headers: beside the library, or else of a package of its version, or of a toolkit."""
        major = self.version // 1000
        beside = Path(self.path).resolve().parent.parent / "include"
        beside_others = packaged(f"cu{major}/include" if major >= 13 else "cuda_runtime/include")
        for folder in (beside, *beside_others, *(root / "include" for root in toolkits())):
            if (folder / "cuda_fp16.h").is_file():
                apart = (folder / "cccl", folder.parent.parent / "cuda_cccl" / "include")
                return [str(found) for found in (folder, *apart) if found.is_dir()]
        return []

    def architecture(self, wanted: str | None) -> str:
        """`wanted`; or that of this machine's GPU; or a virtual one that every GPU can run.

        Raises:
            ValueError: it is not one that this library compiles for.
        """
        if wanted is not None:
            match = _ARCHITECTURE.fullmatch(wanted) if isinstance(wanted, str) else None
            if match is None:
                raise ValueError(f"callout.cuda: arch must be such as 'sm_90' or 'compute_90', got {wanted!r}")
            number = int(match[2])
        else:
            capabilities = device_capabilities()
            number = min(capabilities, default=max(_OLDEST, min(self.architectures)))
            # Devices that differ, or are unknown to the compiler, get PTX that they can run.
            number = max((known for known in self.architectures if known <= number), default=number)
            wanted = f"{'sm' if capabilities == {number} else 'compute'}_{number}"
        if number not in self.architectures:
            known = ", ".join(map(str, self.architectures))
            raise ValueError(f"callout.cuda: {self} does not compile for {wanted}, but for {known}")
        return wanted


def device_capabilities() -> set[int]:
    """Of the GPUs here: 90 is 9.0."""
    return {major * 10 + minor for _, _, major, minor, _ in _ext.cuda_driver()[2]}


def has_device() -> bool:
    """True if there is a GPU to compile for."""
    return bool(device_capabilities())


def _candidates() -> list[str]:
    """Libraries to try: of packages, of the loader, of toolkits. What is newer than the driver comes last."""
    files = [
        *packaged("cu1[0-9]/lib/libnvrtc.so.1[0-9]", "cuda_nvrtc/lib/libnvrtc.so.1[0-9]"),
        Path("libnvrtc.so.13"),
        Path("libnvrtc.so.12"),
    ]
    files += [file for root in toolkits() if (file := root / "lib64" / "libnvrtc.so").exists()]
    driver = _ext.cuda_driver()[1] // 1000

    def is_too_new(file: Path) -> bool:
        version = re.search(r"\.so\.(\d+)", file.resolve().name if file.is_absolute() else file.name)
        return bool(driver and version and int(version[1]) > driver)

    return [str(file) for file in sorted(files, key=is_too_new)]


def find_nvrtc() -> Nvrtc:
    """The library in `CALLOUT_NVRTC` if set, or else the first of NVIDIA's packages, the loader's, or a toolkit's.

    Raises:
        CompileError: there is none.
    """
    path, version, architectures, reason = _ext.find_nvrtc(_candidates())
    if reason is not None:
        raise CompileError(
            "callout.cuda: compiling CUDA C++ takes NVRTC: pip install nvidia-cuda-nvrtc (CUDA 13) or "
            f"nvidia-cuda-nvrtc-cu12, or set CALLOUT_NVRTC to the path of its library; {reason}"
        )
    return Nvrtc(path, version, tuple(architectures))
