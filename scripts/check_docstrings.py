# SPDX-License-Identifier: Apache-2.0
"""Checks that public names say what they take, return and raise, with an example, and runs these examples.

Examples are doctests with `callout`, `jax`, `jnp` and `np` at hand, each in a namespace of its own, all in one process and
in an empty folder. What the GPU's modules show needs a GPU: that is only parsed.
"""

import ast
import contextlib
import doctest
import enum
import importlib
import inspect
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import callout
import jax
import jax.numpy as jnp
import numpy as np

REFERENCE = Path(__file__).resolve().parent.parent / "docs/reference"
MODULES = ["buffer_callback", "cpp", "cuda", "ffi", "host", "host_callback", "numba", "numba_cuda", "progress", "sinks"]
OF_THE_GPU = {"callout.cuda", "callout.numba_cuda"}
# They hand out what is there.
RAISE_NOTHING = {
    *("callout.cmake_dir", "callout.include_dir", "callout.last_error", "callout.report", "callout.stats"),
    *("callout.host_callback.install", "callout.progress.PBar", "callout.sinks.Null"),
    "callout.ffi.register_ffi_target_as_batch_partitionable",
}
# What other functions return, and what programs pass to callbacks.
MADE_BY_OTHERS = {
    *("callout.buffer_callback.Buffer", "callout.buffer_callback.ExecutionContext", "callout.cpp.Function"),
    *("callout.cuda.Function", "callout.cuda.HostFunction", "callout.numba.NumbaKernel"),
    *("callout.numba_cuda.NumbaCudaKernel", "callout.sinks.Summary"),
}
FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL | doctest.NORMALIZE_WHITESPACE


def public_objects() -> Iterator[tuple[str, Any]]:
    """Functions and classes of Callout's own; what modules pass on from JAX has JAX's documentation."""
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
    """The sections that the docstring should have, and has not."""
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


def failures(name: str, value: Any) -> int:
    """Runs the examples in the docstring, and says which fail."""
    names = {"callout": callout, "jax": jax, "jnp": jnp, "np": np}
    test = doctest.DocTestParser().get_doctest(text_of(value), names, name, None, 0)
    if name.rpartition(".")[0] in OF_THE_GPU:
        for example in test.examples:
            ast.parse(example.source)
        return 0
    return doctest.DocTestRunner(optionflags=FLAGS).run(test).failed


def main() -> None:
    listed = (REFERENCE / "callout.rst").read_text()
    problems = []
    count = 0
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        callout.config.cache_dir = folder
        for name, value in public_objects():
            count += 1
            problems += [f"{name}: lacks {section}" for section in lacking(name, value)]
            problems += undocumented_methods(name, value)
            if name.count(".") == 1 and f":: {name}\n" not in listed:
                problems.append(f"{name}: is not in docs/reference/callout.rst")
            if failed := failures(name, value):
                problems.append(f"{name}: {failed} lines of its example failed")
        callout.barrier_wait()
    print("\n".join(problems) if problems else f"docs: {count} docstrings passed")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
