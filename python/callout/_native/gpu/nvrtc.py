# SPDX-License-Identifier: Apache-2.0
"""Compiles CUDA C++ to images by NVRTC. Images are cached under a digest of their inputs.

The compiler and CUDA's headers come from NVIDIA's packages, from a toolkit, or from cuda-pathfinder.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import importlib.util
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ... import _ext
from ..cache import cache_folder, kept, temporary_folder
from ..compiler import CompileError

# The architecture of PTX that the driver compiles for every GPU since Turing.
_OLDEST = 75
_ARCHITECTURE = re.compile(r"(sm|compute)_(\d+)[af]?")


@dataclasses.dataclass(frozen=True)
class Nvrtc:
    """A library of NVRTC on this machine. `architectures`: compute capabilities, 90 is 9.0."""

    path: str
    version: int
    architectures: tuple[int, ...]

    def __str__(self) -> str:
        return f"NVRTC {self.version // 1000}.{self.version % 1000 // 10}"

    def include_dirs(self) -> list[str]:
        """Returns the folders of CUDA's headers: beside the library, else of a package of its version, or of a toolkit."""
        major = self.version // 1000
        beside = Path(self.path).resolve().parent.parent / "include"
        beside_others = packaged(f"cu{major}/include" if major >= 13 else "cuda_runtime/include")
        known = (beside, *beside_others, *(root / "include" for root in toolkits()))
        if not any(map(_has_headers, known)):
            elsewhere = by_pathfinder("find_nvidia_header_directory", "cudart")
            known = (*known, *(() if elsewhere is None else (Path(elsewhere),)))
        own = next(filter(_has_headers, known), None)
        if own is None:
            return []
        # cooperative_groups.h includes the C++ core libraries, which are another package. A toolkit's can replace it.
        apart = [place for place in _core_libraries(own) if place.is_dir()]
        if not apart and not (own / _OF_CORE_LIBRARIES).is_file():
            others = (place for folder in known for place in (*_core_libraries(folder), folder))
            apart = [place for place in others if (place / _OF_CORE_LIBRARIES).is_file()][:1]
        return [str(found) for found in (own, *apart)]

    def architecture(self, wanted: str | None) -> str:
        """Returns `wanted`, or by default the architecture of this machine's GPU, or a virtual one for every GPU.

        Raises:
            ValueError: this library does not compile for `wanted`.
        """
        if wanted is not None:
            match = _ARCHITECTURE.fullmatch(wanted) if isinstance(wanted, str) else None
            if match is None:
                raise ValueError(f"callout.cuda: arch must be such as 'sm_90' or 'compute_90', got {wanted!r}")
            number = int(match[2])
        else:
            capabilities = device_capabilities()
            number = min(capabilities, default=max(_OLDEST, min(self.architectures)))
            # Devices that differ, or that the compiler does not know, get PTX.
            number = max((known for known in self.architectures if known <= number), default=number)
            wanted = f"{'sm' if capabilities == {number} else 'compute'}_{number}"
        if number not in self.architectures:
            known = ", ".join(map(str, self.architectures))
            raise ValueError(f"callout.cuda: {self} does not compile for {wanted}, but for {known}")
        return wanted


_OF_CORE_LIBRARIES = "nv/target"


def _core_libraries(folder: Path) -> tuple[Path, ...]:
    """Returns the folders that may contain the C++ core libraries, relative to CUDA's headers."""
    return folder / "cccl", folder.parent.parent / "cuda_cccl" / "include"


def _has_headers(folder: Path) -> bool:
    return (folder / "cuda_fp16.h").is_file()


def device_capabilities() -> set[int]:
    """Returns the compute capabilities of this machine's GPUs: 90 is 9.0."""
    return {major * 10 + minor for _, _, major, minor, _ in _ext.cuda_driver()[2]}


def has_device() -> bool:
    """Returns True if there is a GPU to compile for."""
    return bool(device_capabilities())


def _candidates() -> list[str]:
    """Returns the libraries to try: of packages, the loader and toolkits. Libraries newer than the driver come last."""
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
    """Returns the library in `CALLOUT_NVRTC` if set, or else the first of NVIDIA's packages, the loader's, a toolkit's.

    Without any of these, returns the library that cuda-pathfinder finds.

    Raises:
        CompileError: no NVRTC was found.
    """
    path, version, architectures, reason = _ext.find_nvrtc(_candidates())
    if reason is not None and (elsewhere := by_pathfinder("load_nvidia_dynamic_lib", "nvrtc")) is not None:
        path, version, architectures, reason = _ext.find_nvrtc([*_candidates(), elsewhere])
    if reason is not None:
        raise CompileError(
            "callout.cuda: compiling CUDA C++ takes NVRTC: pip install nvidia-cuda-nvrtc (CUDA 13) or "
            f"nvidia-cuda-nvrtc-cu12, or set CALLOUT_NVRTC to the path of its library; {reason}"
        )
    return Nvrtc(path, version, tuple(architectures))


# Replacements of the two standard headers that nearly every source includes, because NVRTC has none.
_INTEGERS = "".join(
    f"typedef {sign}{base} {prefix}int{bits}_t;\n"
    for bits, base in ((8, "char"), (16, "short"), (32, "int"), (64, "long long"))
    for sign, prefix in (("signed ", ""), ("unsigned ", "u"))
)
_IN_STD = "namespace std {\n" + "".join(
    f"using ::{prefix}int{bits}_t;\n" for bits in (8, 16, 32, 64) for prefix in ("", "u")
)
_HEADERS = (
    ("stdint.h", f"#pragma once\n{_INTEGERS}"),
    ("cstdint", f"#pragma once\n#include <stdint.h>\n{_IN_STD}}}\n"),
    ("stddef.h", "#pragma once\n"),
    ("cstddef", "#pragma once\nnamespace std {\nusing ::size_t;\nusing ::ptrdiff_t;\n}\n"),
)

_INCLUDE = re.compile(r'(?:^[ \t]*#[ \t]*include|__has_include[ \t]*\()[ \t]*(["<])([^">\n]+)[">]', re.MULTILINE)
_COMPUTED_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]+[A-Za-z_]", re.MULTILINE)
_ARCHITECTURE_OPTION = re.compile(r"--?(gpu-architecture|arch)\b.*")
_APART = ("-D", "--define-macro", "-I", "--include-path", "-include", "--pre-include")
_FOLDER_OPTION = re.compile(r"(?:-I|--include-path=)(.+)")
_FILE_OPTION = re.compile(r"(?:-include=|--pre-include=)(.+)")


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A compiled source. `digest` identifies the inputs of the compilation."""

    digest: str
    path: Path  # of the cubin, or else of the PTX
    arch: str
    cubin: bytes
    ptx: bytes
    symbols: Mapping[str, str]
    log: str


def compile_source(
    source: str,
    name: str,
    kernels: Sequence[str],
    options: Sequence[str] = (),
    include_dirs: Sequence[str] = (),
    arch: str | None = None,
) -> Compiled:
    """Returns the image of `kernels`, given by their C++ names, from the cache or compiled.

    Raises:
        CompileError: the compiler rejected the source, or no compiler was found.
        ValueError: the compiler does not support `arch`.
    """
    if wrong := next(filter(_ARCHITECTURE_OPTION.fullmatch, options), None):
        raise ValueError(f"callout.cuda: arch= says what to compile for, not the option {wrong!r}")
    options = joined(options)
    nvrtc = find_nvrtc()
    architecture = nvrtc.architecture(arch)
    own = nvrtc.include_dirs()
    command = [f"--gpu-architecture={architecture}", *_dialect(options), *(f"-I{folder}" for folder in include_dirs)]
    command += [*options, *(f"-I{folder}" for folder in own)]
    digest = hashlib.sha256(repr((nvrtc.version, command, name, list(kernels), source, _HEADERS)).encode())
    folder = cache_folder("cuda")
    if not _add_includes(digest, source, command, own):
        # An `#include` of a macro is unknown before the compilation, so the image cannot be cached.
        digest.update(os.urandom(16))
        folder = temporary_folder("cuda")
    key = digest.hexdigest()[:32]

    def build(unfinished: Path) -> None:
        error, log, cubin, ptx, symbols = _ext.compile_cuda(
            nvrtc.path, source, f"{name}.cu", command, list(kernels), _HEADERS
        )
        messages = log.decode(errors="replace")
        if error is not None:
            raise CompileError(_refusal(name, architecture, arch, nvrtc, error, messages))
        _write(folder / f"{key}.cubin", cubin)
        _write(folder / f"{key}.ptx", ptx)
        described = {"symbols": dict(zip(kernels, symbols, strict=True)), "log": messages}
        unfinished.write_text(json.dumps(described))

    described = json.loads(kept(folder, key, ".json", name, build, [".cubin", ".ptx"]).read_text())
    cubin, ptx = (folder / f"{key}.cubin").read_bytes(), (folder / f"{key}.ptx").read_bytes()
    path = folder / f"{key}.{'cubin' if cubin else 'ptx'}"
    return Compiled(key, path, architecture, cubin, ptx, described["symbols"], described["log"])


def joined(options: Sequence[str]) -> list[str]:
    """Joins an option and its separate value, such as "-I" and "folder"."""
    found: list[str] = []
    for option in options:
        if found and found[-1] in _APART:
            found[-1] += f"{'' if found[-1] in ('-D', '-I') else '='}{option}"
        else:
            found.append(option)
    return found


def _dialect(options: Sequence[str]) -> list[str]:
    return [] if any(option.lstrip("-").startswith("std=") for option in options) else ["--std=c++20"]


def _refusal(name: str, architecture: str, arch: str | None, nvrtc: Nvrtc, error: str, messages: str) -> str:
    text = f"callout.cuda: {nvrtc} cannot compile {name} for {architecture}: {error}"
    if arch is None and not has_device():
        text += f"\n({architecture}, since this machine has no GPU; arch= says another)"
    return f"{text}\n{messages.rstrip()}"


def _write(path: Path, content: bytes) -> None:
    """Writes a file atomically."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_bytes(content)
    unfinished.replace(path)


def _add_includes(digest: hashlib._Hash, source: str, command: Sequence[str], own: Sequence[str]) -> bool:
    """Adds the files that `source` includes to the digest, except CUDA's. Returns False if an `#include` is a macro."""
    folders = [Path(match[1]) for option in command if (match := _FOLDER_OPTION.fullmatch(option))]
    before = "".join(f'#include "{match[1]}"\n' for option in command if (match := _FILE_OPTION.fullmatch(option)))
    seen: set[Path] = set()
    waiting = [(before + source, Path.cwd())]
    while waiting:
        text, here = waiting.pop()
        if _COMPUTED_INCLUDE.search(text):
            return False
        for name, file in _included(text, here, folders):
            if file is None or file in seen or any(file.is_relative_to(folder) for folder in own):
                digest.update(f"\0{name}\0{file}".encode())
                continue
            seen.add(file)
            content = file.read_bytes()
            digest.update(f"\0{name}\0{file}\0{len(content)}\0".encode() + content)
            waiting.append((content.decode(errors="replace"), file.parent))
    return True


def _included(text: str, here: Path, folders: Sequence[Path]) -> Iterator[tuple[str, Path | None]]:
    """Yields (name, its file or None) for each `#include` in the text, even under conditions."""
    for quote, name in _INCLUDE.findall(text):
        places = [here, *folders] if quote == '"' else folders
        yield name, next((file for place in places if (file := place / name).is_file()), None)


_TOOLKITS = ("CUDA_PATH", "CUDA_HOME")


def packaged(*patterns: str) -> Iterator[Path]:
    """Yields the files of NVIDIA's packages."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        spec = None
    for root in (spec and spec.submodule_search_locations) or ():
        for pattern in patterns:
            yield from sorted(Path(root).glob(pattern), reverse=True)


def by_pathfinder(function: str, name: str) -> str | None:
    """Finds a path by NVIDIA's cuda-pathfinder, if installed: it also searches conda's environments and system folders.

    Args:
        function: the name of a function of `cuda.pathfinder`. `load_nvidia_dynamic_lib` loads the library, too.
        name: the name to search, such as "nvrtc".

    Returns:
        A path, or None.
    """
    try:
        found = getattr(importlib.import_module("cuda.pathfinder"), function)(name)
    except (ImportError, AttributeError, RuntimeError, OSError):  # an older cuda-pathfinder has fewer functions
        return None
    path = getattr(found, "abs_path", found)
    return path if isinstance(path, str) else None


def toolkits() -> list[Path]:
    """Returns the folders where a CUDA toolkit may be, those of the environment first."""
    named = [os.environ[variable] for variable in _TOOLKITS if os.environ.get(variable)]
    return [Path(root) for root in (*named, "/usr/local/cuda")]
