# SPDX-License-Identifier: Apache-2.0
"""Compiles the C and C++ blocks of a page against the public headers, without generating code.

The blocks of one language are one translation unit. `<!-- in: SIGNATURE -->` on the line before a block makes the block
the body of a function with this signature, whose parameters are names from the text around the block.
"""

import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

from doc_blocks import Block, blocks

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r"^ *#include .*\n", re.MULTILINE)
COMPILERS = {
    "c": ("CC", ("cc", "gcc", "clang"), ["-xc", "-std=c11", "-Werror=implicit-function-declaration"]),
    "cpp": ("CXX", ("c++", "g++", "clang++"), ["-xc++", "-std=c++20"]),
}
WARNINGS = ["-Werror=format", "-Werror=return-type", "-Werror=incompatible-pointer-types"]


def cpp_problems(path: Path, name: str) -> Iterator[str]:
    """Yields the compiler's errors for the C and C++ blocks of the page at `path`, which messages call `name`."""
    for language in COMPILERS:
        found = [block for block in blocks(path) if block.language == language]
        if not found:
            continue
        print(f"{name}: compiling {len(found)} {language} blocks", flush=True)
        if bad := [block for block in found if block.mark and not block.mark.startswith("in: ")]:
            yield f"{name}:{bad[0].line}: unknown mark of a {language} block: {bad[0].mark}"
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "page"
            source.write_text(unit(found, name))
            done = subprocess.run([*compiler(language), str(source)], check=False, capture_output=True, text=True)
        if done.returncode:
            yield f"{name}: the {language} blocks do not compile:\n{done.stderr}"


def compiler(language: str) -> list[str]:
    variable, names, flags = COMPILERS[language]
    command = os.environ.get(variable) or next(filter(shutil.which, names))
    warnings = WARNINGS if language == "c" else WARNINGS[:-1]
    includes = [f"-I{ROOT / 'include'}", f"-isystem{sysconfig.get_path('include')}"]
    return [*command.split(), "-fsyntax-only", *flags, *warnings, *includes]


def unit(found: list[Block], name: str) -> str:
    """Joins the blocks to a translation unit, with the includes of function bodies first."""
    bodies = [block for block in found if block.mark]
    text = "".join(line for block in bodies for line in INCLUDE.findall(block.code))
    for block in found:
        code = f'#line {block.line} "{name}"\n{INCLUDE.sub(chr(10), block.code) if block.mark else block.code}'
        if not block.mark:
            text += code
            continue
        signature = block.mark.removeprefix("in: ")
        ending = "return callout::OkStatus();\n" if signature.startswith("callout::Status ") else ""
        text += f"{signature} {{\n{code}{ending}}}\n"
    return text
