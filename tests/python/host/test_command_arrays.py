# SPDX-License-Identifier: Apache-2.0
"""Tests the sinks of arrays that the command binds: other packages and `cat` read their files."""

import json

import callout
import command
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
import zarr
from pyarrow import ipc

pytestmark = [
    pytest.mark.skipif(bool(command.missing()), reason=command.missing() or "there is one"),
    pytest.mark.cpu_only(platforms.HOST),
]


def rows_of(path, *flags):
    """Returns the rows that `callout cat` prints."""
    done = command.run_command("cat", path, *flags)
    assert (done.code, done.err) == (0, "")
    return [json.loads(line) for line in done.out.splitlines()]


def test_packages_and_cat_read_arrays_written_by_the_command(tmp_path):
    @jax.jit
    def f(w):
        def step(i, w):
            callout.tap("table", {"loss": jnp.sum(w), "w": w}, step=i)
            callout.tap("store", {"w": w, "n": i}, name="a/run")
            callout.tap("array", w)
            return w + 1

        return jax.lax.fori_loop(0, 5, step, w)

    table, store, array = tmp_path / "log.arrows", tmp_path / "runs.zarr", tmp_path / "w.npy"
    w = np.arange(6, dtype=np.float32).reshape(2, 3)
    bound = [f"table=arrow:{table}", f"store=zarr,chunk_rows=2:{store}", f"array=npy:{array}"]
    done = command.Program(tmp_path, f, w).run(w, bind=bound)
    assert (done.code, done.err) == (0, "")
    expected = np.arange(5, dtype=np.float32)[:, None, None] + w
    np.testing.assert_array_equal(done.results[0], w + 5)

    records = ipc.open_stream(table).read_all()
    records.validate(full=True)
    assert records["step"].to_pylist() == list(range(5))
    assert set(records["name"].to_pylist()) == {"table"}
    assert set(records["device"].to_pylist()) == set(records["process"].to_pylist()) == {0}
    assert records["loss"].to_pylist() == expected.sum((1, 2)).tolist()
    np.testing.assert_array_equal(records["w"].combine_chunks().to_numpy_ndarray(), expected)
    group = zarr.open_group(store, mode="r")["a/run"]
    assert group["w"].chunks == (2, 2, 3)
    np.testing.assert_array_equal(group["w"][:], expected)
    assert group["n"][:].tolist() == list(range(5))
    np.testing.assert_array_equal(np.load(array), expected)

    rows = rows_of(table)
    assert [(row["step"], row["loss"], row["w"]) for row in rows] == [
        (i, value.sum(), value.tolist()) for i, value in enumerate(expected)
    ]
    assert [row["value"] for row in rows_of(store / "a/run/w")] == expected.tolist()
    assert [row["value"] for row in rows_of(store, "--limit", 100) if row["array"] == "a/run/n"] == list(range(5))
    assert [row["value"] for row in rows_of(array, "--limit", 2)] == expected[:2].tolist()
