# SPDX-License-Identifier: Apache-2.0
"""Runs the Python blocks of a page, in order, in one fresh interpreter and an empty folder.

The comment before a block may name requirements. `<!-- needs the package NAME -->`: the block runs if the package is
installed. `<!-- needs a GPU -->` and `<!-- needs an account -->`: the block does not run here. `<!-- runs in two
processes -->`: the block runs alone, in two processes whose environment has RANK and COORDINATOR. A block that does not
run must compile, and the names of `callout` in it must exist.
"""

import ast
import importlib
import importlib.util
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from doc_blocks import Block, blocks

TIME_LIMIT_S = 300
TWO_PROCESSES = "runs in two processes"
ELSEWHERE = {"needs a GPU", "needs an account"}
PACKAGE = re.compile(r"needs the package (\w+)")


def python_problems(path: Path, name: str) -> Iterator[str]:
    """Yields the failures of the Python blocks of the page at `path`, which messages call `name`."""
    program = ""
    count = 0
    for block in blocks(path):
        if block.language != "python":
            continue
        package = PACKAGE.fullmatch(block.mark)
        if block.mark == TWO_PROCESSES:
            yield from run([at_its_line("", block)] * 2, name)
        elif not block.mark or (package and importlib.util.find_spec(package[1])):
            program = at_its_line(program, block)
            count += 1
        elif package or block.mark in ELSEWHERE:
            print(f"{name}:{block.line}: not run: {block.mark}", flush=True)
            yield from unsound(block, name)
        else:
            yield f"{name}:{block.line}: unknown mark of a Python block: {block.mark}"
    if count:
        print(f"{name}: running {count} blocks", flush=True)
        yield from run([program], name)


def at_its_line(program: str, block: Block) -> str:
    """Adds blank lines, so that tracebacks have the page's line numbers."""
    return program + "\n" * (block.line - 1 - program.count("\n")) + block.code


def run(programs: list[str], name: str) -> Iterator[str]:
    """Runs the programs concurrently; messages and tracebacks call them `name`."""
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("localhost", 0)) as reserved:
        address = f"localhost:{reserved.getsockname()[1]}"
        reserved.close()
        processes = []
        for rank, program in enumerate(programs):
            script = Path(folder) / f"page{rank}.py"
            script.write_text(program)
            code = f"exec(compile(open({str(script)!r}).read(), {name!r}, 'exec'), {{'__name__': '__main__'}})"
            environment = {**os.environ, "RANK": str(rank), "COORDINATOR": address}
            processes.append(subprocess.Popen([sys.executable, "-c", code], cwd=folder, env=environment))
        try:
            for process in processes:
                if process.wait(TIME_LIMIT_S):
                    yield f"{name}: exit code {process.returncode}"
        except subprocess.TimeoutExpired:
            yield f"{name}: did not end in {TIME_LIMIT_S} s"
        finally:
            for process in processes:
                process.kill()
                process.wait()


def unsound(block: Block, name: str) -> Iterator[str]:
    """Yields the errors of a block that does not run: bad syntax, unknown names."""
    try:
        tree = ast.parse(block.code)
    except SyntaxError as error:
        yield f"{name}:{block.line - 1 + (error.lineno or 1)}: {error.msg}"
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (missing := missing_name(ast.unparse(node))):
            yield f"{name}:{block.line - 1 + node.lineno}: there is no {missing}"


def is_python(code: str) -> bool:
    """Returns True for a program, but not for a few words that happen to parse."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return False
    return any(isinstance(node, (ast.FunctionDef, ast.Import, ast.ImportFrom)) for node in tree.body)


def missing_name(dotted: str) -> str:
    """Returns `dotted` if it is a name of Callout's that does not exist, else ""."""
    first, *rest = dotted.split(".")
    if first != "callout" or not all(part.isidentifier() for part in rest):
        return ""
    value = importlib.import_module("callout")
    for part in rest:
        if not hasattr(value, part):
            return dotted
        value = getattr(value, part)
    return ""
