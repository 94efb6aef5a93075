# SPDX-License-Identifier: Apache-2.0
"""Tests files of arrays: rejected arrays, and opening a file again."""

import callout
import jax
import numpy as np
import pytest
import zarr
from pyarrow import ipc


@pytest.mark.parametrize(
    ("make", "most", "dtype"),
    [
        (lambda folder: callout.sinks.Arrow(folder / "x.arrow"), 64, np.float32),
        (lambda folder: callout.sinks.Arrow(folder / "x.arrow"), 63, np.complex64),
        (lambda folder: callout.sinks.Npy(folder / "x.npy"), 63, np.complex64),
        (lambda folder: callout.sinks.Zarr(folder / "x.zarr"), 63, np.float32),
        (lambda folder: callout.sinks.Zarr(folder / "x.zarr", devices=[0]), 62, np.float32),
    ],
)
def test_too_many_axes_for_a_file_are_rejected_when_traced(tmp_path, make, most, dtype):
    sink = make(tmp_path)
    f = jax.jit(lambda x: callout.tap(sink, {"x": x}))
    f(np.ones((1,) * most, dtype))
    callout.barrier_wait()
    with pytest.raises(ValueError, match=rf"'x' has {most + 1} axes, which makes 65 in the file, .* at most 64 there"):
        f.lower(jax.ShapeDtypeStruct((1,) * (most + 1), dtype))
    with pytest.raises(ValueError, match=r"which makes 65 in the file"):
        jax.jit(jax.vmap(f)).lower(jax.ShapeDtypeStruct((1,) * (most + 1), dtype))
    sink.close()


def rows_of_arrow(path):
    return ipc.open_stream(path).read_all()["value"].to_pylist()


def rows_of_zarr(path):
    return zarr.open_array(path / "t", mode="r")[:].tolist()


@pytest.mark.parametrize(
    ("make", "rows"),
    [
        (callout.sinks.Arrow, rows_of_arrow),
        (callout.sinks.Npy, lambda path: np.load(path).tolist()),
        (callout.sinks.Zarr, rows_of_zarr),
    ],
)
def test_a_cell_that_opens_an_array_file_may_run_again(tmp_path, make, rows):
    path = tmp_path / "log"
    programs = []
    for value in (-1.5, -2.5):
        sink = make(path, replace=True)
        programs.append(jax.jit(lambda x, sink=sink: callout.tap(sink, x, name="t")))
        programs[-1](value)
        callout.barrier_wait()
    assert rows(path) == [-2.5]
    with pytest.raises(callout.RegistrationError, match="another sink of this process is writing it"):
        make(path)  # without replace=True: the program's sink still has the file
    programs[0](3.0)
    with pytest.raises(callout.TapError, match="closed"):
        callout.barrier_wait()
    last = make(path, append=True, replace=True)
    callout.tap(last, np.float32(4), name="t")
    callout.barrier_wait()
    assert rows(path) == [-2.5, 4.0]
    last.close()
