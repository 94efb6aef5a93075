# SPDX-License-Identifier: Apache-2.0
"""Checks what the compiler does not: one door per foreign ABI, layering, no circles, file heads, sizes."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import rooms

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 400

# What may be included or imported where: (pattern, folders or files that are its one door).
DOORS = [
    (
        r'#\s*include\s*[<"]xla/ffi/',
        (
            *("src/frame/", "tests/abi/", "tests/process/", "benchmarks/"),
            "tests/python/support/ffi_handlers.cc",  # as users write them
            "tests/programs/listening.py",
            "tests/python/host/test_host_linalg.py",
        ),
    ),
    (r'#\s*include\s*[<"](xla/pjrt/|pjrt_c_api)', ("src/pjrt/", "tests/abi/", "benchmarks/cpp/host/")),
    (r'#\s*include\s*[<"](cuda|cuda_runtime|cuda_runtime_api)\.h', ("src/cuda/driver/", "software_gpu/")),
    (r'#\s*include\s*[<"](Python\.h|nanobind/|numpy/)', ("python/src/",)),
    (
        r"\bjax\._src\b|\bjaxlib\.(?!__version__)\w+|\bfrom jaxlib\b",
        # The test hides a name of jaxlib's in a process of its own.
        # Another tells a module of JAX's by its name.
        ("python/callout/_jax_compat/", "tests/process/test_device_aborts.py", "tests/process/test_import.py"),
    ),
]

# Which component may include which; `testing` is for tests.
BELOW = {
    "base": set(),
    "encoding": {"base"},
    "profile": {"base", "encoding"},
    "frame": {"base"},
    "attributes": {"base", "frame"},
    "callbacks": {"base", "encoding", "frame", "profile"},
    "delivery": {"base", "frame", "profile", "callbacks"},
    "text": {"base", "encoding", "frame"},
    "sinks": {"base", "encoding", "frame", "callbacks", "delivery", "text"},
    "files": {"base", "encoding", "frame", "callbacks", "sinks", "text"},
    "tensorboard": {"base", "encoding", "frame", "callbacks", "files", "sinks", "text"},
    "arrays": {"base", "encoding", "files", "frame", "callbacks", "sinks"},
    "statistics": {"base", "frame", "callbacks", "sinks"},
    "watch": {"base", "frame", "callbacks"},
    "checks": {"base", "encoding", "frame", "callbacks", "sinks", "text", "watch"},
    "catalog": {"base", "encoding", "callbacks", "checks", "sinks", "watch"},
    "reading": {"base", "encoding", "files", "arrays", "catalog"},
    "ffi": {"base", "frame", "attributes", "callbacks", "delivery"},
    "cuda/driver": {"base", "frame"},
    "cuda/kernels": {"base", "encoding", "cuda/driver"},
    "cuda/taps": {"base", "frame", "profile", "callbacks", "delivery", "cuda/driver"},
    "cuda/handlers": {"base", "frame", "attributes", "callbacks", "ffi", "cuda/driver", "cuda/kernels", "cuda/taps"},
    "targets": {"frame", "attributes", "ffi"},
    "lapack": {"base", "frame"},
    "programs": {"base", "encoding", "frame", "attributes"},
    "hosting": {"base", "encoding", "profile", "callbacks", "delivery", "catalog"},
    "pjrt": {"base", "frame", "catalog", "targets", "programs", "hosting"},
    "transfers": {"base", "callbacks", "programs", "pjrt"},
    "executables": {
        "base",
        "encoding",
        "frame",
        "attributes",
        "callbacks",
        *("lapack", "programs", "pjrt", "transfers"),
    },
    "c_api": {"base", "callbacks", "pjrt", "executables"},
}
# The command goes by the public headers, but for the elements of arrays.
TOOLS = {"tools": {"base", "frame", "arrays"}}
# The same of software_gpu/, which includes nothing of src/.
SOFTWARE_GPU: dict[str, set[str]] = {
    "ptx": set(),
    "driver": {"ptx"},
    "libraries": {"driver", "cuda/driver"},
}

# The same of python/callout, also for imports inside functions: what is public comes last.
PYTHON: dict[str, set[str]] = {
    "_ext": set(),
    "_jax_compat": set(),
    "_base": {"_ext", "_jax_compat"},
    "_custom_calls": {"_base", "_ext", "_jax_compat"},
    "_runtime": {"_base", "_custom_calls", "_ext", "_jax_compat"},
    "_measuring": {"_ext", "_jax_compat", "_runtime"},
    "_targets": {"_base", "_ext", "_jax_compat", "_runtime"},
    "sinks": {"_ext", "_jax_compat", "_runtime"},
    "_primitives": {"_base", "_custom_calls", "_ext", "_jax_compat", "_runtime", "_targets"},
    "_calls": {"_base", "_ext", "_jax_compat", "_primitives", "_runtime", "_targets"},
    "_export": {"_custom_calls", "_ext", "_jax_compat", "_primitives"},
    "_taps": {"_base", "_ext", "_jax_compat", "_primitives", "_runtime", "_targets"},
    "progress": {"_base", "_ext", "_jax_compat", "_primitives", "_runtime", "_targets"},
    "_host_callback": {"_base", "_calls", "_ext", "_jax_compat", "_measuring", "_runtime", "_targets"},
    "_native": {"_base", "_calls", "_custom_calls", "_ext", "_primitives", "_targets"},
    "buffer_callback": {"_base", "_calls", "_ext", "_primitives", "_targets"},
    "ffi": {"_base", "_calls", "_custom_calls", "_jax_compat", "_primitives"},
    "host": {"_export", "_targets"},
    "cpp": {"_base", "_native"},
    "host_callback": {"_base", "_ext", "_host_callback", "_primitives", "_runtime", "_targets"},
    "numba": {"_custom_calls", "_native"},
    "cuda": {"_native"},
    "numba_cuda": {"_native"},
    rooms.DOOR: {
        "_base",
        "_calls",
        "_export",
        "_host_callback",
        "_measuring",
        "_native",
        "_primitives",
        "_runtime",
        "_taps",
        "_targets",
        "buffer_callback",
        "cpp",
        "cuda",
        "ffi",
        "host",
        "host_callback",
        "numba",
        "numba_cuda",
        "progress",
        "sinks",
    },
    "doctor": {"_base", "_ext", "_jax_compat", "_native", rooms.DOOR},
}


def tracked() -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [Path(name) for name in names.splitlines() if (ROOT / name).is_file()]


def check_doors(path: Path, lines: list[str]) -> Iterator[str]:
    for pattern, doors in DOORS:
        if str(path).startswith(doors):
            continue
        for number, line in enumerate(lines, 1):
            if re.search(pattern, line):
                yield f"{path}:{number}: belongs in {' or '.join(doors)}: {line.strip()}"


def check_layering(path: Path, lines: list[str]) -> Iterator[str]:
    if path.is_relative_to("software_gpu"):
        own, below = path.parent.relative_to("software_gpu").as_posix(), SOFTWARE_GPU
    elif path.is_relative_to("src"):
        own, below = path.parent.relative_to("src").as_posix(), BELOW
    elif path.is_relative_to("tools"):
        own, below = "tools", TOOLS
    else:
        return
    if own not in below:
        return
    allowed = below[own] | {own}
    if below is not SOFTWARE_GPU:
        allowed |= {"callout", "xla"}
    if path.name.endswith("_test.cc"):
        allowed |= {"testing", "gtest", "gmock", "software_gpu"}
    for number, line in enumerate(lines, 1):
        included = rooms.INCLUDE.search(line)
        if included and included[1] not in allowed:
            yield f"{path}:{number}: {own} must not depend on {included[1]}"


def check_imports() -> Iterator[str]:
    arrows = rooms.python_arrows()
    for (own, needed), places in sorted(arrows.items()):
        for room in (own, needed):
            if room not in PYTHON:
                yield f"{places[0]}: {room} is new; PYTHON of scripts/check_layers.py says what a room may import"
        if needed not in PYTHON.get(own, {needed}):
            yield f"{places[0]}: {own} must not import {needed}"
    for own, allowed in PYTHON.items():
        yield from (
            f"PYTHON of scripts/check_layers.py: {own} imports no {x}" for x in allowed if (own, x) not in arrows
        )
    for name, found in (("src", rooms.source_arrows()), ("python/callout", arrows)):
        yield from (f"{name}: these depend on each other: {', '.join(circle)}" for circle in rooms.circles(found))


def check_head(path: Path, lines: list[str]) -> Iterator[str]:
    if path.name == "__init__.py" and not lines:
        return
    if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:2]):
        yield f"{path}:1: no SPDX line"
    if path.suffix == ".h" and "#pragma once" not in lines:
        yield f"{path}:1: no #pragma once"


# Headers of older standard libraries include <cstdint> by the way; GCC 13 and later do not.
def check_integers(path: Path, lines: list[str]) -> Iterator[str]:
    if path.suffix == ".h" and not {"#include <cstdint>", "#include <stdint.h>"} & set(lines):
        for number, line in enumerate(lines, 1):
            if used := re.search(r"\bu?int(?:8|16|32|64|ptr)_t\b", line):
                yield f"{path}:{number}: {used[0]} needs #include <cstdint>"
                return


def main() -> None:
    problems = []
    for path in tracked():
        if path.suffix not in {".h", ".cc", ".py", ".pyi"}:
            continue
        lines = (ROOT / path).read_text().splitlines()
        problems += check_head(path, lines)
        problems += check_integers(path, lines)
        if path.parts[0] != "scripts":
            problems += check_doors(path, lines)
        problems += check_layering(path, lines)
        if len(lines) > MAX_LINES:
            print(f"note: {path} has {len(lines)} lines, over {MAX_LINES}")
    problems += check_imports()
    print("\n".join(problems))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
