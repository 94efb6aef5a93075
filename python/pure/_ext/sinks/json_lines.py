# SPDX-License-Identifier: Apache-2.0
"""`callout.sinks.JsonLines`."""

from __future__ import annotations

import json

from ..delivery.record import Record
from ..text.elements import nested
from .file_output import FileOutput
from .file_sink import FileSink
from .options import Options

_UNNAMED = "value"
_OWN = ("name", "device", "run", "seq", "time")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def members(leaves: list[str], has_step: bool) -> list[str]:
    """What the leaves are called: none hides one of the record's own members, nor another leaf."""
    taken = {*_OWN, *(("step",) if has_step else ())}
    names: list[str | None] = []
    for leaf in leaves:
        name = leaf or _UNNAMED
        names.append(None if name in taken else name)
        taken.add(name)
    for i, given in enumerate(names):
        if given is None:
            leaf = leaves[i] or _UNNAMED
            name, number = f"{_UNNAMED}.{leaf}", 1
            while name in taken:
                number += 1
                name = f"{_UNNAMED}{number}.{leaves[i]}"
            taken.add(name)
            names[i] = name
    return [name or "" for name in names]


class JsonLinesSink(FileSink):
    """An object a line."""

    def __init__(self, label: str, file: FileOutput, fields: bool):
        super().__init__(label, file)
        self._fields = fields

    def line(self, record: Record) -> str:
        """The object."""
        parts = [("name", _quoted(record.info.label))]
        if record.step is not None:
            parts.append(("step", str(record.step)))
        if self._fields:
            numbers = (("device", record.ordinal), ("run", record.run), ("seq", record.sequence))
            parts += [*((name, str(number)) for name, number in numbers), ("time", self.time_text(record))]
        names = members(record.info.leaf_names, record.step is not None)
        parts += [(name, nested(array, json=True)) for name, array in zip(names, record.arrays, strict=False)]
        return "{" + ", ".join(f"{_quoted(name)}: {text}" for name, text in parts) + "}\n"


def make_json_lines(label: str, options: Options) -> FileSink:
    """Failure if the file cannot be opened."""
    return JsonLinesSink(label, FileOutput(options, "JSON lines"), options.flag("fields", True))
