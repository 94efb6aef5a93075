# SPDX-License-Identifier: Apache-2.0
"""The sinks that write arrays in binary formats: `callout.sinks.Arrow`, `Npy` and `Zarr`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import jax

from .. import _jax_compat
from ._native_sink import FileOptions, FileSink, Path, RotatedFileOptions, at_least_one


def _number_of(device: jax.Device | int, place: int) -> int:
    """Returns the device number that records of `device` carry. Each process counts its GPUs from 0."""
    if not hasattr(device, "process_index"):
        return int(device)
    if device.process_index == jax.process_index():
        return _jax_compat.ordinal_of(device)
    return 2**31 - 1 - place  # no record here has this number: another process writes the device's rows


_MOST_AXES = 64  # kMaxStoredRank of the core


def _check_axes(sink: FileSink, sent: Any, *, before: int = 0, complex_parts: int = 0) -> None:
    """Checks the rank of each leaf.

    `before`: axes that the file has in front of a record's axes. `complex_parts`: axes behind those of complex numbers.
    """
    for leaf, dtype, shape in zip(sent.names, sent.dtypes, sent.shapes, strict=True):
        axes = before + len(shape or ()) + (complex_parts if dtype.startswith("complex") else 0)
        if axes > _MOST_AXES:
            raise ValueError(
                f"callout.sinks.{type(sink).__name__}: '{leaf or 'value'}' has {len(shape or ())} axes, which makes {axes} "
                f"in the file, and an array has at most {_MOST_AXES} there: tap it reshaped"
            )


class Arrow(FileSink):
    """Writes an Arrow IPC stream with one row for each record; pyarrow, pandas, polars and DuckDB read it.

    The columns are name, step, device, process, time and the leaves of the first record: numbers for scalars, tensors
    (`arrow.fixed_shape_tensor`) for arrays, "value" for a single array. A record without one of these leaves has a
    null; a record with another leaf, type or shape is an error at the next barrier. Each batch of records becomes one
    record batch of the file.

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
            RegistrationError: the file cannot be opened, is being written already, or was not written by an `Arrow`
                sink.
        """
        self._open("arrow", path, file)

    def _callout_check(self, sent: Any) -> None:
        _check_axes(self, sent, complex_parts=1)


class Npy(FileSink):
    """Writes one row for each record to a ".npy" file, which `numpy.load` reads at any time, even with `mmap_mode`.

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
        """Opens the file, which no other sink or process may be writing. With "{leaf}", a file opens at its first record.

        Args:
            path: created if missing, emptied unless `append`. "{leaf}" in it becomes the leaf's name, "{process}"
                `jax.process_index()`.
            **file: replace, fsync, only_process and name: see `FileSink`; append: add rows behind those that the file
                holds.

        Raises:
            RegistrationError: the file cannot be opened, is being written already, or holds another array.
        """
        self._open("npy", path, file)

    def _callout_check(self, sent: Any) -> None:
        _check_axes(self, sent, before=1)


class Zarr(FileSink):
    """Writes a Zarr store of version 3. Each leaf has an array, which grows along its first axis by a row a record.

    The array has the tap's name, or "name/leaf" for a value of several leaves. Zarr and TensorStore read the array
    while it grows. Shards (`sharding="local"`) are written to their places in the whole array; other records of several
    devices need `devices`.

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
            rows: the array has so many rows from the beginning on. Rows that are not written are 0; the array's
                attribute `rows` holds the number of rows that are written.
            chunk_rows: rows of a chunk, which is a file; by default as many as fit in 4 MiB.
            devices: the devices that send records, in the order of a second axis; a number is the one in this process's
                records.
            shared: other processes write the rows of other devices or shards of the same store; needs `append`.
            **file: replace, fsync, only_process and name, which also names taps that have none: see `FileSink`; append:
                keep the arrays that exist, and add rows behind theirs.

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

    _SHAPES = ("_axes_before",)

    def _callout_check(self, sent: Any) -> None:
        _check_axes(self, sent, before=self._axes_before)
