# SPDX-License-Identifier: Apache-2.0
"""The functions of a shared library: which there are, and where their source is while it is compiled."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .compiler import CompileError
from .elf import exported_symbols

Functions = Sequence[str] | Mapping[str, Mapping[str, Any]] | None

_RECORD = "_callout_record"


@contextlib.contextmanager
def source_file(source: str, name: str, suffix: str) -> Iterator[Path]:
    """A file with this source, as long as the block lasts. Compilers call it by the name of the module."""
    with tempfile.TemporaryDirectory(prefix="callout-source-") as folder:
        file = Path(folder) / ((re.sub(r"\W", "_", name) or "inline") + suffix)
        file.write_text(f'#line 1 "{file.name}"\n{source}\n')
        yield file


def chosen_functions(where: str, path: Path, name: str, functions: Functions) -> Mapping[str, Mapping[str, Any]]:
    """Functions with their settings: those of `functions`, or all that describe themselves.

    Raises:
        CompileError: there are none, or the file is no library.
    """
    if isinstance(functions, Mapping):
        return functions
    if functions is None:
        try:
            symbols = exported_symbols(path)
        except ValueError as error:
            raise CompileError(f"{where}: {name}: {error}") from error
        functions = sorted(s.removesuffix(_RECORD) for s in symbols if s.endswith(_RECORD))
        if not functions:
            raise CompileError(
                f"{where}: {name} has no function for JAX: mark one by CALLOUT_KERNEL(function), or name one in `functions`"
            )
    return {function: {} for function in functions}
