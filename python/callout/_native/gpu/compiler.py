# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ to images, each once a machine: images are kept under a digest of all that went into them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ... import _ext
from ..cache import cache_folder, kept, temporary_folder
from ..compiler import CompileError
from .nvrtc import Nvrtc, find_nvrtc, has_device

# NVRTC knows no header of the C++ library. These two are in nearly every source.
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
    """What a source became. `digest` is of what it was made of."""

    digest: str
    path: Path  # of the cubin, or of the PTX if there is none
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
    """The image of `kernels`, C++ names, compiled if no process on this machine has.

    Raises:
        CompileError: the compiler refused, or there is none.
        ValueError: it does not compile for `arch`.
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
        # What a macro includes is not known before it is compiled.
        digest.update(os.urandom(16))
        folder = temporary_folder("cuda")
    key = digest.hexdigest()[:32]

    def build(unfinished: Path) -> None:
        error, log, cubin, ptx, symbols = _ext.compile_cuda(
            nvrtc.path, source, f"{name}.cu", command, list(kernels), _HEADERS
        )
        said = log.decode(errors="replace")
        if error is not None:
            raise CompileError(_refusal(name, architecture, arch, nvrtc, error, said))
        _write(folder / f"{key}.cubin", cubin)
        _write(folder / f"{key}.ptx", ptx)
        described = {"symbols": dict(zip(kernels, symbols, strict=True)), "log": said}
        unfinished.write_text(json.dumps(described))

    described = json.loads(kept(folder, key, ".json", name, build, [".cubin", ".ptx"]).read_text())
    cubin, ptx = (folder / f"{key}.cubin").read_bytes(), (folder / f"{key}.ptx").read_bytes()
    path = folder / f"{key}.{'cubin' if cubin else 'ptx'}"
    return Compiled(key, path, architecture, cubin, ptx, described["symbols"], described["log"])


def joined(options: Sequence[str]) -> list[str]:
    """With "-I", "folder" and the like as one option."""
    found: list[str] = []
    for option in options:
        if found and found[-1] in _APART:
            found[-1] += f"{'' if found[-1] in ('-D', '-I') else '='}{option}"
        else:
            found.append(option)
    return found


def _dialect(options: Sequence[str]) -> list[str]:
    return [] if any(option.lstrip("-").startswith("std=") for option in options) else ["--std=c++20"]


def _refusal(name: str, architecture: str, arch: str | None, nvrtc: Nvrtc, error: str, said: str) -> str:
    text = f"callout.cuda: {nvrtc} cannot compile {name} for {architecture}: {error}"
    if arch is None and not has_device():
        text += f"\n({architecture}, since this machine has no GPU; arch= says another)"
    return f"{text}\n{said.rstrip()}"


def _write(path: Path, content: bytes) -> None:
    """So that nobody sees half of it."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_bytes(content)
    unfinished.replace(path)


def _add_includes(digest: hashlib._Hash, source: str, command: Sequence[str], own: Sequence[str]) -> bool:
    """Adds the files that `source` includes, but for CUDA's. False if it does not say which it includes."""
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
    """(name, file that it would be): whatever the text includes, under conditions too."""
    for quote, name in _INCLUDE.findall(text):
        places = [here, *folders] if quote == '"' else folders
        yield name, next((file for place in places if (file := place / name).is_file()), None)
