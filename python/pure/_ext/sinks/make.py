# SPDX-License-Identifier: Apache-2.0
"""Making sinks by their kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..calls.callback import Callback
from ..failures import Failure, as_error
from ..refusal import CORE, refuse
from .csv_sink import make_csv
from .file_sink import FileSink, remember
from .json_lines import make_json_lines
from .options import Options
from .print_sink import make_print
from .sink import NullSink, Sink

_MAKERS: dict[str, Callable[[str, Options], Sink]] = {
    "null": lambda label, _: NullSink(label),
    "print": make_print,
    "jsonl": make_json_lines,
    "csv": make_csv,
}


def make_sink(label: str, kind: str, options: Sequence[tuple[str, str]]) -> Callback:
    """`options`: (name, value) as text; of lists one for each."""
    make = _MAKERS.get(kind)
    if make is None:
        instead = f"There are the sinks Function, Null, Print, JsonLines, Csv and Tee, and any Python function. {CORE}"
        refuse(f"'{label}' is a sink of the kind '{kind}'", instead)
    given = Options(options)
    try:
        sink = make(label, given)
    except Failure as failure:
        raise as_error(failure.code, failure.text) from None
    if isinstance(sink, FileSink):
        remember(sink.file.path, sink)
    return sink
