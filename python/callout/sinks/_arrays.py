# SPDX-License-Identifier: Apache-2.0
"""The sinks that write arrays as they are: `callout.sinks.Arrow`, `Npy` and `Zarr`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import jax

from .. import _jax_compat
from ._native_sink import FileOptions, FileSink, Path, RotatedFileOptions, at_least_one


def _number_of(device: jax.Device | int, place: int) -> int:
    """Returns what records of the device have as their own, of which each process of a GPU counts from 0."""
    if not hasattr(device, "process_index"):
        return int(device)
    if device.process_index == jax.process_index():
        return _jax_compat.ordinal_of(device)
    return 2**31 - 1 - place  # another process writes its rows: no record here has it


_MOST_AXES = 64  # kMaxStoredRank of the core


def _check_axes(sink: FileSink, sent: Any, *, before: int = 0, complex_parts: int = 0) -> None:
    """Checks axes. `before`: what the file has in front of a record's. `complex_parts`: behind those of complex numbers."""
    for leaf, dtype, shape in zip(sent.names, sent.dtypes, sent.shapes, strict=True):
        axes = before + len(shape or ()) + (complex_parts if dtype.startswith("complex") else 0)
        if axes > _MOST_AXES:
            raise ValueError(
                f"callout.sinks.{type(sink).__name__}: '{leaf or 'value'}' has {len(shape or ())} axes, which makes {axes} "
                f"in the file, and an array has at most {_MOST_AXES} there: tap it reshaped"
            )


class Arrow(FileSink):
    """Writes an Arrow IPC stream, a row a record, as pyarrow, pandas, polars and DuckDB read it.

    The columns are name, step, device, process, time and the leaves of the first record: numbers for scalars, tensors
    (`arrow.fixed_shape_tensor`) for arrays, "value" for a single array. A record without one of them has a null; one with
    another leaf, type or shape is an error at the next barrier. Each batch of records is one of the file.

    Example:
        >>> sink = callout.sinks.Arrow("run.arrow")
        >>> y = jax.jit(lambda x: callout.tap(sink, x, name="loss"))(jnp.float32(0.5))
        >>> callout.barrier_wait()
        >>> sink.close()
    """

    _OPTIONS = RotatedFileOptions

    def __init__(self, path: Path, **file: Unpack[RotatedFileOptions]):
        """Opens the file, which no other sink or process may be writing.

        Args:
            path: created if missing. "{process}" in it becomes `jax.process_index()`.
            **file: append, replace, fsync, only_process, rotate_bytes, keep and name: see `FileSink`.

        Raises:
            RegistrationError: the file cannot be opened, is being written already, or is no stream of such a sink.
        """
        self._open("arrow", path, file)

    def _callout_check(self, sent: Any) -> None:
        _check_axes(self, sent, complex_parts=1)


class Npy(FileSink):
    """Writes an array with a row a record to a ".npy" file, which `numpy.load` reads at any time, with `mmap_mode` too.

    The value is a single array, or a pytree of one; with "{leaf}" in the path each leaf has a file. All records have one
    type and shape, and come from one device.

    Example:
        >>> sink = callout.sinks.Npy("run.npy")
        >>> y = jax.jit(lambda x: callout.tap(sink, x, name="loss"))(jnp.float32(0.5))
        >>> callout.barrier_wait()
        >>> np.load("run.npy")
        array([0.5], dtype=float32)
    """

    def __init__(self, path: Path, **file: Unpack[FileOptions]):
        """Opens the file, which no other sink or process may be writing; with "{leaf}" each at its first record.

        Args:
            path: created if missing, emptied unless `append`. "{leaf}" in it becomes the leaf's name, "{process}"
                `jax.process_index()`.
            **file: replace, fsync, only_process and name: see `FileSink`; append: go on behind the rows that the file holds.

        Raises:
            RegistrationError: the file cannot be opened, is being written already, or holds another array.
        """
        self._open("npy", path, file)

    def _callout_check(self, sent: Any) -> None:
        _check_axes(self, sent, before=1)


class Zarr(FileSink):
    """Writes a Zarr store of version 3: an array a leaf that grows by a row a record, in chunks along that first axis.

    The array is called by the tap's name, "name/leaf" for a value of several leaves. Zarr and TensorStore read it while
    it grows. Shards (`sharding="local"`) are written to their places in the whole; other records of several devices
    need `devices`.

    Example:
        >>> sink = callout.sinks.Zarr("run.zarr")
        >>> y = jax.jit(lambda x: callout.tap(sink, x, name="loss"))(jnp.float32(0.5))
        >>> callout.barrier_wait()
        >>> import pathlib
        >>> pathlib.Path("run.zarr/loss/zarr.json").exists()
        True
    """

    def __init__(
        self,
        path: Path,
        *,
        rows: int | None = None,
        chunk_rows: int | None = None,
        devices: Sequence[jax.Device | int] | None = None,
        shared: bool = False,
        **file: Unpack[FileOptions],
    ):
        """Opens the store, which no other sink or process may be writing unless it is `shared`.

        Args:
            path: the folder, created if missing; arrays in it are removed unless `append`. "{process}" in it becomes
                `jax.process_index()`.
            rows: as many from the beginning on. Those that are not written are 0; the array's attribute `rows` has how
                many are.
            chunk_rows: rows of a chunk, which is a file; by default 4 MiB of them.
            devices: which devices send records, in the order of a second axis; numbers are those of this process's records.
            shared: other processes write the rows of other devices or shards of the same store; needs `append`.
            **file: replace, fsync, only_process and name, which is also that of taps without one: see `FileSink`; append:
                keep the arrays that are there, and go on behind their rows.

        Raises:
            RegistrationError: the store cannot be opened, or is being written already.
        """
        if shared and not file.get("append"):
            raise ValueError("callout.sinks.Zarr: shared=True needs append=True: none may empty what others write")
        self._axes_before = 1 + bool(devices)
        self._open(
            "zarr",
            path,
            file,
            rows=at_least_one("Zarr", "rows", rows),
            chunk_rows=at_least_one("Zarr", "chunk_rows", chunk_rows),
            devices=[_number_of(device, place) for place, device in enumerate(devices or ())],
            shared=bool(shared),
        )

    def _callout_check(self, sent: Any) -> None:
        _check_axes(self, sent, before=self._axes_before)
