# SPDX-License-Identifier: Apache-2.0
"""Arrays and records that sinks write, read back by the packages that such files are for."""

import callout
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import ipc


def read(path):
    table = ipc.open_stream(path).read_all()
    table.validate(full=True)
    return table


def test_arrow_has_every_type(tmp_path):
    path = tmp_path / "log.arrows"
    sink = callout.sinks.Arrow(path)

    @jax.jit
    def run(w):
        def step(w, i):
            value = {
                "loss": jnp.sum(w * w),
                "w": w.reshape(2, 2),
                "above": w > 0.5,
                "half": w.astype(jnp.bfloat16),
                "c": jax.lax.complex(jnp.zeros(2), w[:2]),
                "tiny": jnp.array([-8, 7], jnp.int4),
                "n": i.astype(jnp.uint8),
                "ok": i > 0,
                "none": jnp.zeros((0, 3)),
                "time": i,
            }
            callout.tap(sink, value, name="träin")
            return w - 1 / 512, None

        return jax.lax.scan(step, w, jnp.arange(300))[0]

    run(jnp.ones(4))
    callout.barrier_wait()
    table = read(path)
    assert table.schema.names[:5] == ["name", "step", "device", "process", "time"]
    assert table.schema.field("time").type == pa.timestamp("us", "UTC")
    assert table.schema.field("w").type == pa.fixed_shape_tensor(pa.float32(), [2, 2])
    assert table.num_rows == 300
    assert set(table["name"].to_pylist()) == {"träin"}
    assert table["step"].to_pylist() == table["value.time"].to_pylist() == list(range(300))
    assert set(table["device"].to_pylist()) == set(table["process"].to_pylist()) == {0}
    times = table["time"].to_pylist()
    assert times == sorted(times)
    halves = (1 - np.arange(300) / 512).astype(ml_dtypes.bfloat16)
    rates = 1 - np.arange(300, dtype=np.float32) / 512

    def tensor(name):
        return table[name].combine_chunks().to_numpy_ndarray()

    np.testing.assert_array_equal(tensor("w"), np.broadcast_to(rates[:, None, None], (300, 2, 2)))
    np.testing.assert_array_equal(tensor("half"), np.broadcast_to(halves[:, None], (300, 4)))
    np.testing.assert_array_equal(tensor("c")[..., 1], np.broadcast_to(rates[:, None], (300, 2)))
    np.testing.assert_array_equal(tensor("tiny"), np.broadcast_to(np.int8([-8, 7]), (300, 2)))
    np.testing.assert_array_equal(table["loss"].to_numpy(), 4 * rates**2)
    assert table["above"].combine_chunks().storage.flatten().to_pylist() == [True] * 4 * 256 + [False] * 4 * 44
    assert table["ok"].to_pylist() == [False] + [True] * 299
    assert table["n"].to_pylist() == [i % 256 for i in range(300)]
    assert table["none"].type.shape == [0, 3]
    assert len(table.to_pandas()) == 300


def test_arrow_goes_on_with_a_file(tmp_path):
    path = tmp_path / "log.arrows"
    for _ in range(2):
        sink = callout.sinks.Arrow(path, append=True)
        callout.tap(sink, {"a": jnp.float32(1), "b": jnp.arange(3)}, name="t")
        callout.barrier_wait()
        before = path.stat().st_size
        callout.tap(sink, {"a": jnp.float32(2)}, name="t")
        sink.close()
        whole = path.stat().st_size
        with path.open("ab") as file:  # as a process does that is killed
            file.write(path.read_bytes()[before:-60])
    assert whole < path.stat().st_size
    callout.sinks.Arrow(path, append=True).close()
    assert path.stat().st_size == whole
    table = read(path)
    assert table["step"].to_pylist() == [0, 1, 2, 3]
    assert [None if row is None else list(row) for row in table["b"].to_pylist()] == [[0, 1, 2], None] * 2


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": 1.0, "b": 2.0}, "'b' is none of its columns: name, step, device, process, time, a"),
        ({"a": np.ones(2, np.float32)}, r"'a' is f32\[2\], expected f32\[\] as in its column"),
    ],
)
def test_arrow_refuses_other_columns(tmp_path, value, expected):
    sink = callout.sinks.Arrow(tmp_path / "log")
    callout.tap(sink, {"a": 1.0}, name="t")
    callout.barrier_wait()
    callout.tap(sink, value, name="t")
    with pytest.raises(callout.TapError, match=expected):
        callout.barrier_wait()
    assert read(tmp_path / "log").num_rows == 1
