# SPDX-License-Identifier: Apache-2.0
"""Checks rules beyond the compiler's: one door per foreign ABI, layering, no cycles, file heads, sizes."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import rooms

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 500

# Restricted includes and imports: (pattern, folders or files that are its one door).
DOORS = [
    (
        r'#\s*include\s*[<"]xla/ffi/',
        (
            *("src/core/frame/", "tests/abi/", "tests/process/", "benchmarks/"),
            "tests/python/support/ffi_handlers.cc",  # written like a user's handlers
            "tests/programs/listening.py",
            "tests/python/host/test_host_linalg.py",
        ),
    ),
    (
        r'#\s*include\s*[<"](xla/pjrt/|pjrt_c_api)',
        ("src/host/pjrt/", "tests/abi/", "benchmarks/cpp/host/", "tests/python/host/test_command_cache.py"),
    ),
    (r'#\s*include\s*[<"](cuda|cuda_runtime|cuda_runtime_api)\.h', ("src/cuda/driver/", "software_gpu/")),
    (r'#\s*include\s*[<"](Python\.h|nanobind/|numpy/)', ("python/src/",)),
    # Texts and paths may contain bytes that are no UTF-8. Only these two files convert them.
    (
        r"\bPyUnicode_(AsUTF8|FromStringAndSize|FromString\([^\"]*\.|DecodeUTF8|AsEncodedString|DecodeFS|FSConverter)"
        r"|nanobind/stl/(string|filesystem)\.h"
        r'|"\w*[sz]#\w*"'
        r"|(PyErr_SetString|\bnb::\w+_error|\bnb::str)\(.*\bc_(message|str)\(\)",
        ("python/src/python_text.", "scripts/", "ci/"),
    ),
    (
        r"\bjax\._src\b|\bjaxlib\.(?!__version__)\w+|\bfrom jaxlib\b",
        # One test hides a name of jaxlib in its own process. Another one identifies a module of JAX by name.
        ("python/callout/_jax_compat/", "tests/process/test_device_aborts.py", "tests/process/test_import.py"),
    ),
]

# Calls and imports that must not be written, and their replacements.
NEVER = [
    # PyGILState_Check is true in every thread once the process has made another interpreter.
    (re.compile(r"\bPyGILState_Check\s*\("), "HoldsGil() of python/src/gil.h"),
    # `import jax.extend.core` does not wait for another thread's import of jax.extend, which its first use then misses.
    (re.compile(r"^\s*import jax\.extend\.(?!.* as )"), "`from jax.extend import core as jex_core`, say"),
]

# Functions and names of the CUDA driver may only appear in its folder. Other code queues work by stream_work.h and
# resources.h. CUstream and CUdeviceptr are numbers, which handlers and taps pass through. CUDA_OWN lists code that
# loads and launches images itself. Tests may call the driver freely.
CUDA_DOOR = "src/cuda/driver/"
CUDA_USERS = ("src/", "python/src/", "tools/")
CUDA_OWN = ("src/cuda/kernels/", "src/cuda/taps/leaf_gather.")
CUDA_KERNEL_CALLS = {"FuncGetAttribute", "LibraryGetGlobal"}
CUDA_FUNCTION = re.compile(r"^  X\((\w+), \d+,", re.MULTILINE)
CUDA_CALL = re.compile(r"\bdriver(?:\(\))?(?:\.|->)(\w+)\(")
CUDA_NAME = re.compile(r"\bCU(?!stream\b|deviceptr\b)(?:[a-z]\w*|_\w+|DA_ERROR_\w+)")
COMMENT_OR_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"|//.*')

# The wings of src, and the rooms of each from the bottom up ("" is the wing's own folder). A room may include rooms
# before it, and rooms of the wings that its wing may use.
WINGS = {
    "core": ["base", "encoding", "profile", "frame", "attributes", "handles", "callbacks", "delivery", "ffi"],
    "sinks": ["text", "", "files", "tensorboard", "arrays", "statistics", "inspectors", "catalog", "reading"],
    "cuda": ["driver", "kernels", "taps", "handlers"],
    "host": ["lapack", "programs", "services", "pjrt", "transfers", "executables", "c_api"],
}
WINGS_BELOW = {"core": (), "sinks": ("core",), "cuda": ("core",), "host": ("core", "sinks", "cuda")}
# software_gpu/ may only include the driver's types of src.
SOFTWARE_GPU = {
    "ptx": {"ptx"},
    "driver": {"driver", "ptx"},
    "libraries": {"libraries", "driver", "cuda/driver"},
}

# The private packages of python/callout, from the top down: each may import only later ones, even inside functions.
# Public modules may import private packages. Only the modules of PUBLIC_LAST may import public ones.
PYTHON_PACKAGES = [
    "_native",
    "_export",
    "_callbacks",
    "_primitives",
    "_targets",
    "_measuring",
    "_base",
    "_jax_compat",
    "_ext",
]
PUBLIC_LAST = (rooms.DOOR, "doctor")


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


def check_never(path: Path, lines: list[str]) -> Iterator[str]:
    for pattern, instead in NEVER:
        for number, line in enumerate(lines, 1):
            if pattern.search(COMMENT_OR_TEXT.sub("", line)):
                yield f"{path}:{number}: write {instead} in its place: {line.strip()}"


def check_cuda(path: Path, lines: list[str], functions: set[str]) -> Iterator[str]:
    name = str(path)
    if path.suffix not in {".h", ".cc"} or not name.startswith(CUDA_USERS) or name.endswith("_test.cc"):
        return
    if name.startswith((CUDA_DOOR, "src/testing/")):
        return
    has_kernels = name.startswith(CUDA_OWN)
    refused = functions - CUDA_KERNEL_CALLS if has_kernels else functions
    for number, line in enumerate(lines, 1):
        code = COMMENT_OR_TEXT.sub("", line)
        called = [call for call in CUDA_CALL.findall(code) if call in refused]
        said = [] if has_kernels else CUDA_NAME.findall(code)
        if called or said:
            yield f"{path}:{number}: {', '.join(called + said)} belongs in {CUDA_DOOR}: {line.strip()}"


def check_layering(path: Path, lines: list[str]) -> Iterator[str]:
    first, *rest = path.parts
    if "testdata" in rest:
        return
    if first == "software_gpu" and rest[0] in SOFTWARE_GPU:
        own, allowed = rest[0], SOFTWARE_GPU[rest[0]]
    elif first == "src" and rest[0] in WINGS:
        own, allowed = "/".join(rest[:2]) if len(rest) > 2 else rest[0], set()
        wing, room = rest[0], rest[1] if len(rest) > 2 else ""
        if room not in WINGS[wing]:
            yield f"{path}: scripts/check_layers.py knows no room '{room}' of {wing}"
            return
        for each in WINGS[wing][: WINGS[wing].index(room) + 1]:
            allowed.add(f"{wing}/{each}".removesuffix("/"))
        allowed |= {f"{below}/{each}".removesuffix("/") for below in WINGS_BELOW[wing] for each in WINGS[below]}
    elif first == "tools":  # the command may use the public headers, and src's formatting of texts
        own, allowed = "tools", set()
        lines = [line for line in lines if line != '#include "core/base/cat.h"']
    else:
        return
    if first != "software_gpu":
        allowed = allowed | {"callout", "callout/pjrt", "xla/ffi/api"}
    if path.name.endswith("_test.cc"):
        allowed = allowed | {"testing", "gtest", "gmock", "software_gpu/driver"}
    for number, line in enumerate(lines, 1):
        included = rooms.INCLUDE.search(line)
        if included and included[1] not in allowed:
            yield f"{path}:{number}: {own} must not depend on {included[1]}"


def check_imports() -> Iterator[str]:
    arrows = rooms.python_arrows()
    known = {room for arrow in arrows for room in arrow if room.startswith("_")}
    order = PYTHON_PACKAGES
    yield from (f"scripts/check_layers.py: PYTHON_PACKAGES has no {room}" for room in sorted(known - set(order)))
    yield from (f"scripts/check_layers.py: python/callout has no {room}" for room in sorted(set(order) - known))
    for (own, needed), places in sorted(arrows.items()):
        if not needed.startswith("_"):
            allowed = own in PUBLIC_LAST
        elif own.startswith("_") and {own, needed} <= set(order):
            allowed = order.index(own) < order.index(needed)
        else:
            allowed = True
        if not allowed:
            yield f"{places[0]}: {own} must not import {needed}"
    for name, found in (("src", rooms.source_arrows()), ("python/callout", arrows)):
        yield from (f"{name}: these depend on each other: {', '.join(circle)}" for circle in rooms.circles(found))


def check_head(path: Path, lines: list[str]) -> Iterator[str]:
    if path.name == "__init__.py" and not lines:
        return
    if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:2]):
        yield f"{path}:1: no SPDX line"
    if path.suffix == ".h" and "#pragma once" not in lines:
        yield f"{path}:1: no #pragma once"
    elif path.suffix == ".h" and not any(
        line.startswith("// ") and "SPDX" not in line for line in lines[: lines.index("#pragma once")]
    ):
        yield f"{path}:2: does not say what it is"


# A header must include <cstdint> itself: other headers include it in older standard libraries, but not since GCC 13.
def check_integers(path: Path, lines: list[str]) -> Iterator[str]:
    if path.suffix == ".h" and not {"#include <cstdint>", "#include <stdint.h>"} & set(lines):
        for number, line in enumerate(lines, 1):
            if used := re.search(r"\bu?int(?:8|16|32|64|ptr)_t\b", line):
                yield f"{path}:{number}: {used[0]} needs #include <cstdint>"
                return


def main() -> None:
    problems = []
    driver_functions = set(CUDA_FUNCTION.findall((ROOT / CUDA_DOOR / "driver.h").read_text()))
    for path in tracked():
        if path.suffix not in {".h", ".cc", ".py", ".pyi"}:
            continue
        lines = (ROOT / path).read_text().splitlines()
        problems += check_head(path, lines)
        problems += check_integers(path, lines)
        if path.parts[0] not in {"scripts", "ci"}:
            problems += check_doors(path, lines)
            problems += check_never(path, lines)
        problems += check_layering(path, lines)
        problems += check_cuda(path, lines, driver_functions)
        if len(lines) > MAX_LINES:
            print(f"note: {path} has {len(lines)} lines, over {MAX_LINES}")
    problems += check_imports()
    print("\n".join(problems))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
