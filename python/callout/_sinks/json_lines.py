# SPDX-License-Identifier: Apache-2.0
"""`callout.sinks.JsonLines`."""

from __future__ import annotations

from .. import _ext
from .file_sink import FileArguments, FileSink, Fsync, Path


class JsonLines(FileSink):
    """Writes a JSON object a line to a file: {"name", "device", "run", "seq", "time", and the value}.

    A value of several leaves has them under their names ("loss": 0.5), a single array is "value". NaN and infinities are the
    strings "NaN", "Infinity", "-Infinity", since JSON has no numbers for them. Lines are written at the end of each batch.
    """

    def __init__(
        self,
        path: Path,
        *,
        append: bool = False,
        replace: bool = False,
        fields: bool = True,
        fsync: Fsync = "never",
        rotate_bytes: int | None = None,
        keep: int | None = None,
        name: str = "json_lines",
    ):
        """Opens the file, which no other sink or process may be writing.

        Args:
            path: created if missing, emptied unless `append`. "{process}" in it becomes `jax.process_index()`.
            append: keep what the file holds, but for a line at its end that a process did not finish.
            replace: first close the sink of this process that writes the file, if there is one: for a cell of a notebook
                that is run again. Taps of programs that were traced with that sink fail from then on.
            fields: write device, run, seq and time too.
            fsync: "never", after each "batch", or at most every so many seconds.
            rotate_bytes: a file that would become larger is renamed to PATH.1, and PATH.1 to PATH.2 and so on.
            keep: how many renamed files stay; all by default.
            name: what statistics call it.

        Raises:
            RegistrationError: the file cannot be opened, or is being written already.
        """
        arguments = FileArguments.of(
            "JsonLines", path, append=append, replace=replace, fsync=fsync, rotate_bytes=rotate_bytes, keep=keep
        )
        self.path = arguments.path
        self._callout_callback = arguments.make(_ext.make_json_lines_sink, name, fields)
