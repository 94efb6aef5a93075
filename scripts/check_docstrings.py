# SPDX-License-Identifier: Apache-2.0
"""Checks that public names document arguments, results and errors, with an example, and runs these examples.

Examples are doctests with `callout`, `jax`, `jnp` and `np` as globals. Each runs in its own process and in an empty
folder, so that an example cannot depend on another one, and an example that crashes does not hide the others. A fork
server that has imported the modules starts the processes. Examples of the GPU modules need a GPU, and are only parsed.
"""

import ast
import doctest
import enum
import importlib
import inspect
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import connection
from pathlib import Path
from typing import Any

import callout
import jax
import jax.numpy as jnp
import numpy as np

REFERENCE = Path(__file__).resolve().parent.parent / "docs/reference"
MODULES = ["buffer_callback", "cpp", "cuda", "ffi", "host", "host_callback", "numba", "numba_cuda", "progress", "sinks"]
OF_THE_GPU = {"callout.cuda", "callout.numba_cuda"}
# These functions raise nothing.
RAISE_NOTHING = {
    *("callout.cmake_dir", "callout.include_dir", "callout.last_error", "callout.report", "callout.stats"),
    *("callout.host_callback.install", "callout.progress.PBar", "callout.sinks.Null"),
    "callout.ffi.register_ffi_target_as_batch_partitionable",
}
# Classes whose objects are returned by other functions, or passed to callbacks.
MADE_BY_OTHERS = {
    *("callout.buffer_callback.Buffer", "callout.buffer_callback.ExecutionContext", "callout.cpp.Function"),
    *("callout.cuda.Function", "callout.cuda.HostFunction", "callout.numba.NumbaKernel"),
    *("callout.numba_cuda.NumbaCudaKernel", "callout.sinks.Summary"),
}
AT_ONCE = 2
TIME_LIMIT_S = 300
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["callout", "jax.numpy", *(f"callout.{name}" for name in MODULES)])
FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL | doctest.NORMALIZE_WHITESPACE


def public_objects() -> Iterator[tuple[str, Any]]:
    """Yields Callout's own functions and classes, without those that modules re-export from JAX."""
    modules = [callout, *(importlib.import_module(f"callout.{name}") for name in MODULES)]
    for module in modules:
        for name in getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]:
            value = getattr(module, name)
            if (inspect.isroutine(value) or inspect.isclass(value)) and value.__module__.startswith("callout"):
                yield f"{module.__name__}.{name}", value


def text_of(value: Any) -> str:
    texts = [inspect.getdoc(value) or ""]
    if inspect.isclass(value) and "__init__" in vars(value):
        texts.append(inspect.getdoc(value.__init__) or "")
    return "\n\n".join(texts)


def lacking(name: str, value: Any) -> list[str]:
    """Returns the sections that the docstring lacks."""
    text = text_of(value)
    if not text:
        return ["a docstring"]
    if name in MADE_BY_OTHERS or (inspect.isclass(value) and issubclass(value, (BaseException, enum.Enum))):
        return []
    signature = inspect.signature(value)
    wanted = ["Example"]
    if signature.parameters:
        wanted.append("Args")
    if not inspect.isclass(value) and signature.return_annotation not in (None, "None"):
        wanted.append("Returns")
    if name not in RAISE_NOTHING:
        wanted.append("Raises")
    return [f"'{section}:'" for section in wanted if f"\n{section}:\n" not in text]


def undocumented_methods(name: str, value: Any) -> list[str]:
    members = vars(value).items() if inspect.isclass(value) and not issubclass(value, tuple) else ()
    return [
        f"{name}.{member}: lacks a docstring"
        for member, method in members
        if not member.startswith("_")
        and (inspect.isroutine(method) or isinstance(method, property))
        and not inspect.getdoc(method)
    ]


def parsed(name: str, text: str) -> doctest.DocTest:
    """Returns the example in a docstring."""
    names = {"callout": callout, "jax": jax, "jnp": jnp, "np": np}
    return doctest.DocTestParser().get_doctest(text, names, name, None, 0)


def run_example(name: str, text: str, folder: str, output: str) -> None:
    """Runs one example and ends the process, with exit code 1 if a line failed. `output`: the file for what it prints."""
    printed = os.open(output, os.O_WRONLY | os.O_CREAT)
    for standard in (sys.stdout, sys.stderr):
        os.dup2(printed, standard.fileno())
    os.chdir(folder)
    callout.config.cache_dir = folder
    failed = doctest.DocTestRunner(optionflags=FLAGS).run(parsed(name, text)).failed
    callout.barrier_wait()
    sys.exit(bool(failed))


class RunningExample:
    """One example in its process. One thread starts and ends all of them: `multiprocessing` reads exit codes unguarded."""

    def __init__(self, name: str, text: str):
        self.name = name
        self._folder = tempfile.TemporaryDirectory()
        self._output = tempfile.NamedTemporaryFile()  # noqa: SIM115
        self.process = SERVER.Process(target=run_example, args=(name, text, self._folder.name, self._output.name))
        self.process.start()
        self.deadline = time.monotonic() + TIME_LIMIT_S

    def end(self) -> str:
        """Waits for the example, and returns its error, or ""."""
        self.process.join(max(0.0, self.deadline - time.monotonic()))
        code = self.process.exitcode
        self.process.kill()
        self.process.join()
        printed = Path(self._output.name).read_text(errors="replace")
        self._output.close()
        self._folder.cleanup()
        how = f"did not end in {TIME_LIMIT_S} s" if code is None else f"ended with code {code}"
        return "" if code == 0 else f"{self.name}: its example {how}\n{printed}"


def problems_of_examples(texts: dict[str, str]) -> Iterator[str]:
    """Runs the example of each docstring, several at the same time, and yields a problem for each that fails."""
    waiting = list(texts.items())
    running: list[RunningExample] = []  # oldest first
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            running.append(RunningExample(*waiting.pop(0)))
        until = max(0.0, running[0].deadline - time.monotonic())
        ended = connection.wait([each.process.sentinel for each in running], until)
        done = next((each for each in running if each.process.sentinel in ended), running[0])
        running.remove(done)
        if problem := done.end():
            yield problem


def main() -> None:
    listed = (REFERENCE / "callout.rst").read_text()
    problems = []
    examples = {}
    objects = list(public_objects())
    for name, value in objects:
        problems += [f"{name}: lacks {section}" for section in lacking(name, value)]
        problems += undocumented_methods(name, value)
        if name.count(".") == 1 and f":: {name}\n" not in listed:
            problems.append(f"{name}: is not in docs/reference/callout.rst")
        if name.rpartition(".")[0] in OF_THE_GPU:
            for line in parsed(name, text_of(value)).examples:
                ast.parse(line.source)
        elif parsed(name, text_of(value)).examples:
            examples[name] = text_of(value)
    problems += problems_of_examples(examples)
    print("\n".join(problems) if problems else f"docs: {len(objects)} docstrings passed")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
