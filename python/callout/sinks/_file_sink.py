# SPDX-License-Identifier: Apache-2.0
"""What sinks that write files have in common."""

from __future__ import annotations

import gc
import os
from typing import Any, Literal

import jax

from .. import _ext
from .._runtime.barrier import drain
from ._native_sink import NativeSink

Path = str | os.PathLike[str]
Fsync = Literal["never", "batch"] | float


class FileSink(NativeSink):
    """A sink that writes the file at `path`."""

    path: str

    def close(self) -> None:
        """Waits for what is queued, writes it and lets go of the file, for another sink or program; again does nothing.

        Waits for what programs have sent before, not for programs that still run: call `callout.barrier_wait()` for these.
        In a callback it does not wait. Taps that arrive later fail, as the next `barrier_wait()` says. Without it the file
        is closed when the sink is no longer used.

        Raises:
            RegistrationError: the rest could not be written. The file is closed all the same.
        """
        drain()
        _ext.close_file(self._callout_callback)

    def _open(
        self,
        kind: str,
        name: str,
        path: Path,
        *,
        replace: bool,
        append: bool,
        fsync: Fsync,
        rotate_bytes: int | None = None,
        keep: int | None = None,
        **more: Any,
    ) -> None:
        """Makes the sink, after letting go of the files of sinks that nobody has any more, or that it replaces."""
        sink = type(self).__name__
        rotate, kept = at_least_one(sink, "rotate_bytes", rotate_bytes), at_least_one(sink, "keep", keep)
        if kept is not None and rotate is None:
            raise ValueError(f"callout.sinks.{sink}: keep is how many rotated files are kept, and needs rotate_bytes")
        fsync_option = fsync_text(sink, fsync)
        self.path = of_this_process(path)
        if jax.distributed.is_initialized():  # what records say; else a backend would start
            _ext.set_process_index(jax.process_index())
        if replace:
            close(self.path)
        written = (self.path, f"{self.path}/zarr.json")
        if any(map(_ext.is_written_here, written)) and not _ext.on_delivery_thread():
            gc.collect()
            _ext.drain(1.0)  # records hold their sink until they are delivered
        self._make(
            kind, name, path=self.path, append=bool(append), fsync=fsync_option, rotate_bytes=rotate, keep=kept, **more
        )


def close(path: Path) -> bool:
    """Closes the sink that writes the file at `path`, as its `close()` does, when only a program knows that sink.

    For a `TensorBoard` and a `Zarr`, `path` is the folder: all sinks of this process that write there are closed. True if
    there was one.

    Args:
        path: of the file, or of the folder, as it was given to the sink.

    Returns:
        True if there was such a sink.

    Raises:
        RegistrationError: the rest could not be written. The file is closed all the same.

    Example:
        >>> sink = callout.sinks.Null()
        >>> callout.sinks.close("nobody.writes.this")
        False
    """
    drain()
    return bool(_ext.close_files_at(of_this_process(path)))


def of_this_process(path: Path) -> str:
    """The path, with this process's index for "{process}"."""
    text = os.fspath(path)
    if "\0" in text:
        raise ValueError(f"callout.sinks: a path has no zeros, got {text!r}")
    return text.replace("{process}", str(jax.process_index())) if "{process}" in text else text


def fsync_text(sink: str, fsync: Fsync) -> str:
    """The option of the core."""
    if fsync in ("never", "batch"):
        return str(fsync)
    if isinstance(fsync, bool) or not isinstance(fsync, (int, float)) or not fsync >= 0:
        raise ValueError(f'callout.sinks.{sink}: fsync must be "never", "batch" or 0 or more seconds, got {fsync!r}')
    return str(float(fsync))


def at_least_one(sink: str, name: str, value: int | None) -> int | None:
    if value is not None and (isinstance(value, bool) or not hasattr(value, "__index__") or value < 1):
        raise ValueError(f"callout.sinks.{sink}: {name} must be an integer of at least 1, got {value!r}")
    return None if value is None else int(value)
