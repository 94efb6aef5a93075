# SPDX-License-Identifier: Apache-2.0
"""`NativeSink` is the base of native sinks, and `FileSink` the base of native sinks that write files."""

from __future__ import annotations

import copy
import gc
import inspect
import os
import re
import sys
import weakref
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, SupportsIndex, TypedDict

import jax

from .. import _ext
from .._base.barrier import drain
from .._base.errors import RegistrationError
from .._targets.handles import free_retired
from .._targets.sink_arguments import CoreSink


class NativeSink(CoreSink):
    """Holds the core's sink. A jitted function may take it as an argument: a pytree whose one leaf is the sink's handle."""

    def _make(self, kind: str, name: str, **options: Any) -> None:
        """Makes the core's sink of this kind. An option that is None keeps its default."""
        self._core = _ext.make_sink(name, kind, _texts(options))

    def _core_here(self, method: str) -> _ext.Callback:
        """Returns the core's sink for a method that only works on the host. Raises TypeError inside of a program."""
        core = self._callout_callback
        if core is None:
            raise TypeError(
                f"callout.sinks.{type(self).__name__}.{method}() inside a function that JAX traces: there a sink takes "
                "taps, and nothing else; call the method outside of the program"
            )
        return core

    def _shown(self) -> list[str]:
        """Returns the arguments that `repr` shows besides the name."""
        return []

    def __repr__(self) -> str:
        if self._callout_callback is None:
            return f"{type(self).__name__}({self._callout_leaf!r})"
        shown = [*self._shown(), f"name={self._callout_callback.label!r}"]
        return f"{type(self).__name__}({', '.join(shown)})"


def _texts(options: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns pairs (option, value) for the core. A list becomes one pair for each element."""
    given = [(name, value) for name, value in options.items() if value is not None]
    return [(name, _text(each)) for name, value in given for each in (value if isinstance(value, list) else [value])]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


Path = str | os.PathLike[str]
Fsync = Literal["never", "batch"] | float


class FileOptions(TypedDict, total=False):
    """The options that sinks of files have in common; `FileSink` describes them."""

    append: bool
    replace: bool
    fsync: Fsync
    only_process: int | None
    name: str


class RotatedFileOptions(FileOptions, total=False):
    """`FileOptions`, and the options for rotation; `FileSink` describes them."""

    rotate_bytes: int | None
    keep: int | None


_DEFAULTS: Mapping[str, Any] = {
    "append": False,
    "replace": False,
    "fsync": "never",
    "only_process": None,
    "rotate_bytes": None,
    "keep": None,
}


class FileSink(NativeSink):
    """A sink that writes the file at `path`, which no other sink or process may be writing.

    Such sinks take these options besides their own; rotation is for `JsonLines`, `Csv` and `Arrow`.

    Missing folders are created, and "~" is the user's home.

    append: keep the contents of the file, except an unfinished record at its end. The columns stay those of the file,
        and steps continue behind the last one. By default the file is emptied.
    replace: first close the sink of this process that writes the file, if there is one: for a cell of a notebook that is
        run again. Taps of programs that were traced with that sink fail from then on.
    fsync: "never" (the default), after each "batch", or a number: at most once in so many seconds.
    only_process: the process with this `jax.process_index()` alone opens the file and writes it. The sink of every other
        process counts the records that it gets and discards them. None: every process.
    name: the sink's name in counters.
    rotate_bytes: a file that would become larger is renamed to PATH.1, and PATH.1 to PATH.2 and so on. Each has the header
        or the schema.
    keep: how many renamed files stay; all by default.
    """

    path: str
    _writes_here = True
    _again: tuple[str, Any, dict[str, Any], dict[str, Any]] | None = None
    """The arguments of `_open` that continue the file; None for sinks that begin a new file each time."""
    _OPTIONS: ClassVar[type[FileOptions]] = FileOptions
    _NAME: ClassVar[str]

    def __init_subclass__(cls) -> None:
        """Makes `inspect.signature`, and so `help` and notebooks, show the options in the place of `**file`."""
        super().__init_subclass__()
        cls._NAME = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()
        own = inspect.signature(cls.__init__)
        options = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=cls._NAME if name == "name" else _DEFAULTS[name],
                annotation=getattr(annotation, "__forward_arg__", annotation),
            )
            for name, annotation in cls._OPTIONS.__annotations__.items()
        ]
        named = [each for each in own.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        if len(named) < len(own.parameters):
            vars(cls)["__init__"].__signature__ = own.replace(parameters=[*named, *options])

    def _shown(self) -> list[str]:
        return [repr(self.path)]

    def close(self) -> None:
        """Waits for queued records, writes them and closes the file, for another sink or program. Idempotent.

        Blocks until the records that programs have already sent are written, but not for programs that still run: call
        `callout.barrier_wait()` for these. In a callback `close` does not wait. Taps that arrive later fail, and the
        next `barrier_wait()` raises their error. Without `close`, the file is closed when the sink is no longer used.

        Raises:
            RegistrationError: the rest could not be written. The file is closed all the same.
        """
        drain()
        if self._writes_here:
            _ext.close_file(self._core_here("close"))

    def _open(self, kind: str, path: Path, file: Mapping[str, Any], **more: Any) -> None:
        """Makes the sink, after closing the files of unreferenced sinks and of the sink that it replaces.

        `file`: the sink's `_OPTIONS`. `more`: options of this kind of sink alone.
        """
        self._again = (kind, os.fspath(path), {**file, "append": True}, more)
        sink = type(self).__name__
        if unknown := sorted(set(file) - set(self._OPTIONS.__annotations__)):
            known = ", ".join(self._OPTIONS.__annotations__)
            raise TypeError(f"callout.sinks.{sink}: unexpected arguments: expected {known}, got {', '.join(unknown)}")
        rotate, kept = (at_least_one(sink, which, file.get(which)) for which in ("rotate_bytes", "keep"))
        if kept is not None and rotate is None:
            raise ValueError(f"callout.sinks.{sink}: keep is how many rotated files are kept, and needs rotate_bytes")
        fsync = fsync_text(sink, file.get("fsync", "never"))
        self.path = of_this_process(path)
        if jax.distributed.is_initialized():  # without the check, asking for the index would start a backend
            _ext.set_process_index(jax.process_index())
        if self._is_for_another_process(file.get("only_process"), name=file.get("name", self._NAME)):
            return
        if file.get("replace"):
            close(self.path)
        if self._is_written_here() and not _ext.on_delivery_thread():
            gc.collect()
            _ext.drain(1.0)  # records hold their sink until they are delivered
            self._let_go_of_arguments()
        more = more | {"path": self.path, "append": bool(file.get("append")), "fsync": fsync}
        self._make_file(kind, file.get("name", self._NAME), **more, rotate_bytes=rotate, keep=kept)
        _writers[self.path] = self

    def _let_go_of_arguments(self) -> None:
        """Drops unreferenced sinks that were arguments of programs, when these programs have ended."""
        if _ext.retired_handles()[1] and self._is_written_here() and not _ext.inside_call():
            free_retired()

    def _is_for_another_process(self, only_process: int | None, *, name: str) -> bool:
        """Makes a sink that discards its records if `only_process` is another process, and returns whether it did."""
        if only_process is None:
            return False
        sink, processes = type(self).__name__, jax.process_count()
        is_index = hasattr(only_process, "__index__") and not isinstance(only_process, bool)
        if not is_index or not 0 <= only_process < processes:
            raise ValueError(
                f"callout.sinks.{sink}: only_process must be None or the index of one of the {processes} processes, "
                f"0 to {processes - 1}, got {only_process!r}"
            )
        self._writes_here = jax.process_index() == only_process
        if not self._writes_here:
            self._make("null", name)
        return not self._writes_here

    def _make_file(self, kind: str, name: str, **options: Any) -> None:
        """Makes the core's sink. If another sink writes the file, the error names the remedy."""
        try:
            self._make(kind, name, **options)
        except RegistrationError as error:
            remedy = self._remedy(str(error))
            if not remedy:
                raise
            raise RegistrationError(f"{error}. {remedy}") from None

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Copies and pickles the path. A copy is the sink that writes the file in its process, or continues the file."""
        if self._callout_callback is None or self._again is None:
            return super().__reduce_ex__(protocol)
        shapes = {name: getattr(self, name) for name in self._SHAPES}
        return _opened_again, (type(self), self.path, self._again, shapes)

    def _is_written_here(self) -> bool:
        """Returns whether a sink of this process writes the file, or the store in this folder."""
        return any(map(_ext.is_written_here, (self.path, f"{self.path}/zarr.json")))

    def _remedy(self, refusal: str) -> str:
        """Returns the remedy if another sink, of this process or another one, writes the file; else ""."""
        if self._is_written_here():
            return (
                "A cell of a notebook that is run again passes replace=True: "
                f"callout.sinks.{type(self).__name__}(path, replace=True) first closes the sink that writes the file"
            )
        if jax.distributed.is_initialized() and "is writing it" in refusal:
            return (
                f"Each of the {jax.process_count()} processes of this program opens the file: pass only_process=0 to have "
                "one of them write it, or a path with '{process}' to give each a file of its own"
            )
        return ""


_writers: weakref.WeakValueDictionary[str, FileSink] = weakref.WeakValueDictionary()
"""The sinks that write files in this process, by their paths."""


def _opened_again(cls: type[FileSink], path: str, again: Any, shapes: dict[str, Any]) -> FileSink:
    """Returns the copy of a copied or pickled sink that writes a file."""
    writer = _writers.get(path)
    if type(writer) is cls and writer._is_written_here():
        return copy.copy(writer)
    made = object.__new__(cls)
    vars(made).update(shapes)
    kind, given, file, more = again
    made._open(kind, given, file, **more)
    return made


def close(path: Path) -> bool:
    """Closes the sink that writes the file at `path`, like its own `close()`: for sinks that only a program refers to.

    For a `TensorBoard` and a `Zarr`, `path` is the folder: all sinks of this process that write there are closed.

    Args:
        path: the file or folder that was given to the sink.

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
    """Returns the path, with this process's index for "{process}", and the user's home for "~"."""
    text = os.path.expanduser(os.fsdecode(path))  # noqa: PTH111 - a Path drops the "/" at the end
    if "\0" in text:
        raise ValueError(f"callout.sinks: a path has no zeros, got {text!r}")
    if text.startswith("~"):
        raise ValueError(
            f"callout.sinks: there is no user {text.partition('/')[0][1:]!r} whose folder {text!r} could begin with; "
            f"'./{text}' is a file below the current folder"
        )
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise ValueError(
            f"callout.sinks: no file has the path {text!r}: expected characters that the file system's encoding "
            f"({sys.getfilesystemencoding()}) has, or what os.fsdecode makes of bytes"
        ) from None
    return text.replace("{process}", str(jax.process_index())) if "{process}" in text else text


def fsync_text(sink: str, fsync: Fsync) -> str:
    """Returns the core's text for `fsync`. Raises ValueError for other values."""
    if fsync in ("never", "batch"):
        return str(fsync)
    if isinstance(fsync, bool) or not isinstance(fsync, (int, float)) or not fsync >= 0:
        raise ValueError(f'callout.sinks.{sink}: fsync must be "never", "batch" or 0 or more seconds, got {fsync!r}')
    return str(float(fsync))


def at_least_one(sink: str, name: str, value: int | None) -> int | None:
    if value is not None and (isinstance(value, bool) or not hasattr(value, "__index__") or value < 1):
        raise ValueError(f"callout.sinks.{sink}: {name} must be an integer of at least 1, got {value!r}")
    return None if value is None else int(value)
