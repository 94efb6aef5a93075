# SPDX-License-Identifier: Apache-2.0
"""Checks the CMake and Rust blocks of a page: CMake configures its blocks, and Rust blocks are parts of marked files."""

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import callout
from doc_blocks import blocks

ROOT = Path(__file__).resolve().parent.parent
SOURCE = re.compile(r"\b[\w/]+\.cc\b")


def project_problems(path: Path, name: str) -> Iterator[str]:
    """Yields the errors of the CMake and Rust blocks of the page at `path`, which messages call `name`."""
    for block in blocks(path):
        if block.language == "cmake" and (error := configure(block.code)):
            yield f"{name}:{block.line}: CMake: {error}"
        if block.language == "rust":
            source = ROOT / block.mark.removeprefix("of: ")
            if not block.mark.startswith("of: ") or not source.is_file():
                yield f"{name}:{block.line}: expected the mark 'of: FILE', got {block.mark!r}"
                continue
            whole = essence(source.read_text())
            for item in re.split(r"\n\n(?=\S)", block.code):
                if essence(item) not in whole:
                    yield f"{name}:{block.line}: {source.relative_to(ROOT)} has no such {item.splitlines()[0]}"


def configure(code: str) -> str:
    """Configures a project against the installed package, and returns CMake's error."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "CMakeLists.txt").write_text(code)
        for source in SOURCE.findall(code):
            (Path(folder) / source).touch()
        command = ["cmake", "-S", folder, "-B", f"{folder}/build", f"-Dcallout_DIR={callout.cmake_dir()}"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.stderr.strip() if done.returncode else ""


def essence(code: str) -> str:
    """Returns Rust code without comments, `pub`, and whatever the formatter decides."""
    return re.sub(r",(?=[)}])", "", re.sub(r"//[^\n]*|\bpub\b|\s+", "", code))
