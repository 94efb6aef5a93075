# SPDX-License-Identifier: Apache-2.0
"""`callout.sinks.Print`."""

from __future__ import annotations

import os

from ..delivery.record import Record
from ..failures import INVALID_ARGUMENT, Failure
from ..text.elements import nested
from ..text.record_format import NO_COLOURS, TERMINAL_COLOURS, RecordFormat
from .options import Options
from .sink import Sink
from .text_output import TextOutput, is_capable_terminal, output_of


class PrintSink(Sink):
    """A line a record."""

    def __init__(self, label: str, output: TextOutput, format_: RecordFormat | None, is_coloured: bool, update: bool):
        super().__init__(label)
        self._output = output
        self._format = format_
        self._colours = TERMINAL_COLOURS if is_coloured else NO_COLOURS
        self._update = update

    def deliver(self, record: Record) -> None:
        """Takes a record, to be written at the end of the batch."""
        line = self._named(record) if self._format is None else self._format.text(record, self._colours)
        (self._output.replace if self._update else self._output.add)(line)

    def flush(self) -> None:
        """Writes."""
        self._output.flush()

    def _named(self, record: Record) -> str:
        of_name, of_value, end = self._colours
        parts = [f"{of_name}{record.info.label}{end}:"]
        for name, array in zip(record.info.leaf_names, record.arrays, strict=False):
            parts.append(f"{name}={of_value}" if name else of_value)
            parts[-1] += nested(array, json=False) + end
        return " ".join(parts)


def make_print(label: str, options: Options) -> Sink:
    """Failure for a malformed format or an unknown colour."""
    text = options.text("format")
    format_ = None if text is None else RecordFormat(text)
    output = output_of(options.integer("fd", -1))
    colour = options.text("color", "auto")
    if colour not in ("auto", "true", "false"):
        raise Failure(
            INVALID_ARGUMENT,
            f"callout: the sink 'print' expects auto, true or false as 'color', got '{colour}'",
        )
    update = options.flag("update")
    is_coloured = colour == "true"
    if colour == "auto" and (format_ is not None or update):
        is_coloured = is_capable_terminal(output.fd) and not os.environ.get("NO_COLOR")
    return PrintSink(label, output, format_, is_coloured, update and is_capable_terminal(output.fd))
