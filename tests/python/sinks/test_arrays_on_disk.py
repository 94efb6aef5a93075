# SPDX-License-Identifier: Apache-2.0
"""Tests arrays and records that sinks write, read back by the packages for such files."""

import subprocess
import sys
from types import SimpleNamespace

import callout
import duckdb
import jax
import jax.numpy as jnp
import meshes
import ml_dtypes
import numpy as np
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import tensorstore
import zarr
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


def test_data_frames_and_databases_read_arrow(tmp_path):
    path = tmp_path / "log.arrows"
    sink = callout.sinks.Arrow(path)

    @jax.jit
    def run(w):
        for i in range(3):
            callout.tap(sink, {"loss": jnp.sum(w) + i, "w": w}, name="train", step=i)
        return w

    run(jnp.arange(6.0).reshape(2, 3))
    callout.barrier_wait()
    rows = read(path)
    frame = polars.read_ipc_stream(path)
    found = duckdb.sql("select name, step, loss, w from rows where step > 0 order by step").fetchall()
    assert sorted(frame["step"]) == [0, 1, 2]
    assert dict(zip(frame["step"], frame["loss"], strict=True)) == {0: 15, 1: 16, 2: 17}
    assert frame["w"].ext.storage().to_list() == [[0, 1, 2, 3, 4, 5]] * 3
    assert [(name, step, loss, list(w)) for name, step, loss, w in found] == [
        ("train", 1, 16, [0, 1, 2, 3, 4, 5]),
        ("train", 2, 17, [0, 1, 2, 3, 4, 5]),
    ]
    assert list(rows.to_pandas()["name"]) == ["train"] * 3


def test_arrow_continues_a_file(tmp_path):
    path = tmp_path / "log.arrows"
    for _ in range(2):
        sink = callout.sinks.Arrow(path, append=True)
        callout.tap(sink, {"a": jnp.float32(1), "b": jnp.arange(3)}, name="t")
        callout.barrier_wait()
        before = path.stat().st_size
        callout.tap(sink, {"a": jnp.float32(2)}, name="t")
        sink.close()
        whole = path.stat().st_size
        with path.open("ab") as file:  # writes the incomplete end that a killed process leaves
            file.write(path.read_bytes()[before:-60])
    assert whole < path.stat().st_size
    callout.sinks.Arrow(path, append=True).close()
    assert path.stat().st_size == whole
    table = read(path)
    assert table["step"].to_pylist() == [0, 1, 2, 3]
    assert [None if row is None else list(row) for row in table["b"].to_pylist()] == [[0, 1, 2], None] * 2


@pytest.mark.devices(2)
def test_arrow_has_the_device_of_each_row(tmp_path):
    sink = callout.sinks.Arrow(tmp_path / "log.arrows")

    def chain(x):
        return jax.lax.fori_loop(0, 20, lambda i, x: callout.tap(sink, x, step=i) + 1, x)

    mesh = meshes.mesh_of(2)
    jax.jit(jax.shard_map(chain, mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d")))(100 * meshes.sharded(2, size=2))
    callout.barrier_wait()
    table = read(tmp_path / "log.arrows")
    assert table.num_rows == 40
    for device, begin in zip(mesh.devices, (0, 100), strict=True):
        rows = table.filter(pc.field("device") == device.id)
        assert list(map(list, rows["value"].to_pylist())) == [[begin + i] for i in range(20)]
        assert rows["step"].to_pylist() == list(range(20))


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


def record_rows(sink, w, name="run"):
    @jax.jit
    def run(w):
        def step(w, i):
            value = {"w": w, "loss": w.sum(), "ok": w > 0, "half": w.astype(jnp.bfloat16), "none": w[:0], "n": i}
            callout.tap(sink, value, name=name)
            return w + 1, None

        return jax.lax.scan(step, w, jnp.arange(50, dtype=jnp.int16))[0]

    run(w)
    callout.barrier_wait()


def test_zarr_grows_and_continues(tmp_path):
    path = tmp_path / "runs.zarr"
    w = np.zeros((2, 3), np.float32)
    sink = callout.sinks.Zarr(path, chunk_rows=7)
    record_rows(sink, w, "a/run")
    group = zarr.open_group(path, mode="r")["a/run"]
    assert {name: (array.shape, str(array.dtype)) for name, array in group.arrays()} == {
        "w": ((50, 2, 3), "float32"),
        "loss": ((50,), "float32"),
        "ok": ((50, 2, 3), "bool"),
        "half": ((50, 2, 3), "float32"),
        "none": ((50, 0, 3), "float32"),
        "n": ((50,), "int16"),
    }
    sink.close()
    sink = callout.sinks.Zarr(path, append=True)  # the store keeps its chunks
    record_rows(sink, w + 50, "a/run")
    callout.tap(sink, jnp.float32(1), name="one")
    sink.close()
    group = zarr.open_group(path, mode="r")["a/run"]
    expected = np.broadcast_to(np.arange(100, dtype=np.float32)[:, None, None], (100, 2, 3))
    np.testing.assert_array_equal(group["w"][:], expected)
    np.testing.assert_array_equal(group["half"][:], expected)
    np.testing.assert_array_equal(group["ok"][:], expected > 0)
    np.testing.assert_array_equal(group["n"][:], np.arange(100) % 50)
    kvstore = {"driver": "file", "path": str(path / "a/run/loss")}
    store = tensorstore.open({"driver": "zarr3", "kvstore": kvstore}).result()
    np.testing.assert_array_equal(store.read().result(), 6 * np.arange(100))
    assert zarr.open_group(path, mode="r")["one"][:].tolist() == [1]
    callout.sinks.Zarr(path).close()
    assert list(zarr.open_group(path, mode="r").members()) == []


@pytest.mark.devices(2)
def test_devices_and_shards_have_their_places(tmp_path):
    devices = jax.devices()[:2]
    mesh = jax.sharding.Mesh(np.array(devices), ("i",))
    sharding = jax.NamedSharding(mesh, jax.P("i"))
    chains = callout.sinks.Zarr(tmp_path / "chains", devices=devices, rows=30, chunk_rows=7)
    shards = callout.sinks.Zarr(tmp_path / "shards")

    @jax.jit
    def run(x):
        def chain(x):
            def step(x, _):
                callout.tap(chains, x[0], name="draws")
                return x + 1, None

            return jax.lax.scan(step, x, None, length=20)[0]

        callout.tap(shards, x, name="whole", sharding="local")
        return jax.shard_map(chain, mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P("i"))(x)

    x = np.array([[0, 0, 0], [100, 100, 100]], np.float32)
    run(jax.device_put(x, sharding))
    callout.barrier_wait()
    draws = zarr.open_array(tmp_path / "chains/draws", mode="r")
    assert draws.shape == (30, 2, 3)
    np.testing.assert_array_equal(draws[:20], np.arange(20)[:, None, None] + x)
    assert not draws[20:].any()
    assert draws.attrs["rows"] == {"0/0": 20, "1/0": 20}
    whole = zarr.open_array(tmp_path / "shards/whole", mode="r")
    assert whole.shape == (1, 2, 3)
    np.testing.assert_array_equal(whole[0], x)
    single = callout.sinks.Npy(tmp_path / "mixed.npy")
    jax.jit(
        lambda x: jax.shard_map(lambda x: callout.tap(single, x), mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P("i"))(
            x
        )
    )(jax.device_put(x, sharding))
    with pytest.raises(callout.TapError, match=r"rows of device \d and of device \d would mix"):
        callout.barrier_wait()


def test_each_process_writes_the_rows_of_its_own_devices(tmp_path):
    """Simulates processes with a GPU each: the global ids are 0 and 1, and each process calls its own device 0."""

    def gpu(process, number):
        return SimpleNamespace(platform="cuda", process_index=process, id=number, local_hardware_id=0)

    devices = [gpu(1, 0), gpu(0, 1)]
    sink = callout.sinks.Zarr(tmp_path / "z", shared=True, append=True, devices=devices)
    callout.tap(sink, jnp.float32(5), name="a")
    sink.close()
    array = zarr.open_array(tmp_path / "z/a", mode="r")
    assert array.attrs["rows"] == {"1": 1}
    assert array[:].tolist() == [[0, 5]]


WRITER = """
import sys
import callout, jax, jax.numpy as jnp, numpy as np
rank, path, rows = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
# Records of a process have numbers of their own: no device here is the other one.
sink = callout.sinks.Zarr(path, shared=True, append=True, devices=[0, 99] if rank == 0 else [99, 0], chunk_rows=7)

@jax.jit
def run(x):
    def step(x, _):
        callout.tap(sink, {"x": x, "square": x * x}, name="chain")
        return x + 1, None
    return jax.lax.scan(step, x, None, length=rows)[0]

print("ready", flush=True)
for begin in sys.stdin:
    run(jnp.full(3, float(begin)))
    callout.barrier_wait()
    print("written", flush=True)
"""


@pytest.mark.slow
def test_two_processes_write_one_store_at_the_same_time(tmp_path):
    path, rows = tmp_path / "shared.zarr", (100, 60)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(rank), str(path), str(rows[rank])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]

    def hear(writer, expected):
        assert writer.stdout.readline() == expected + "\n"

    try:
        for writer in writers:
            hear(writer, "ready")
        with pytest.raises(callout.RegistrationError, match="is writing it"):
            callout.sinks.Zarr(path, append=True)  # a folder that is not shared
        for begin in (0, 1000):
            for rank, writer in enumerate(writers):
                writer.stdin.write(f"{begin + 500 * rank}\n")
                writer.stdin.flush()
            for writer in writers:
                hear(writer, "written")
        for writer in writers:
            writer.stdin.close()
            assert writer.wait(60) == 0
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
            writer.stdout.close()
    x = zarr.open_array(path / "chain/x", mode="r")
    assert x.shape == (200, 2, 3)
    assert x.attrs["rows"] == {"0/0": 200, "1/0": 120}
    for rank, count in enumerate(rows):
        runs = [begin + 500 * rank + np.arange(count) for begin in (0, 1000)]
        expected = np.concatenate(runs)[:, None] + np.zeros(3)
        np.testing.assert_array_equal(x[: 2 * count, rank], expected)
        np.testing.assert_array_equal(
            zarr.open_array(path / "chain/square", mode="r")[: 2 * count, rank], np.float32(expected) ** 2
        )
    assert not x[120:, 1].any()


def test_stores_that_cannot_be_written(tmp_path):
    sink = callout.sinks.Zarr(tmp_path / "z")
    with pytest.raises(callout.RegistrationError, match="another sink of this process is writing it"):
        callout.sinks.Zarr(tmp_path / "z", append=True)
    for value, name, expected in [
        (jnp.float32(1), "a", None),
        (jnp.ones(2), "a", r"'a': a row of it is f32\[2\], expected f32\[\]"),
        ({"x": jnp.ones(2)}, "a", "'a/x': '.*/z/a' is no group"),
        (jnp.ones(2), "../b", r"'\.\./b': it is no name of a Zarr array"),
        (jnp.ones(2), "", None),
    ]:
        callout.tap(sink, value, name=name or "ok")
        if expected is None:
            callout.barrier_wait()
        else:
            with pytest.raises(callout.TapError, match=expected):
                callout.barrier_wait()
    sink.close()
    (tmp_path / "z/a/zarr.json").write_text("[" * 1000)
    sink = callout.sinks.Zarr(tmp_path / "z", append=True)
    callout.tap(sink, jnp.float32(1), name="a")
    with pytest.raises(callout.TapError, match=r"its zarr\.json is none of an array"):
        callout.barrier_wait()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").touch()
    with pytest.raises(callout.RegistrationError, match="it is a folder with other things in it"):
        callout.sinks.Zarr(tmp_path / "mine")
    with pytest.raises(ValueError, match="shared=True needs append=True"):
        callout.sinks.Zarr(tmp_path / "s", shared=True)


def test_npy_grows_and_continues(tmp_path):
    record_rows(callout.sinks.Npy(tmp_path / "{leaf}.npy"), np.zeros((2, 3), np.float32))
    seen = np.load(tmp_path / "w.npy", mmap_mode="r")
    np.testing.assert_array_equal(seen, np.broadcast_to(np.arange(50)[:, None, None], (50, 2, 3)))
    assert np.load(tmp_path / "none.npy").shape == (50, 0, 3)
    assert np.load(tmp_path / "ok.npy").dtype == bool
    callout.sinks.close(tmp_path / "{leaf}.npy")
    path = tmp_path / "w.npy"
    np.save(path, np.ones((9, 2), np.float16))  # another program wrote the file
    for value in (2, 3):
        sink = callout.sinks.Npy(path, append=True)
        callout.tap(sink, jnp.full(2, value, jnp.float16))
        callout.barrier_wait()
        callout.tap(sink, jnp.full(2, value, jnp.float32))
        with pytest.raises(callout.TapError, match=r"'value' is f32\[2\], expected f16\[2\] as the rows before"):
            callout.barrier_wait()
        callout.tap(sink, {"a": 1, "b": 2})
        with pytest.raises(callout.TapError, match="the value has 2 leaves, and a file takes one"):
            callout.barrier_wait()
        sink.close()
    np.testing.assert_array_equal(np.load(path)[8:, 0], [1, 2, 3])
    for bytes_, expected in [
        (b"no", "it is no .npy file"),
        (path.read_bytes()[:100], "its head is not whole"),
        (path.read_bytes()[:-1], "it has less bytes than its head tells"),
        (path.read_bytes().replace(b"(11", b"(-1"), "its head is malformed"),
        (path.read_bytes().replace(b"<f2", b"|O8"), "'|O8', which no sink writes"),
    ]:
        (tmp_path / "bad.npy").write_bytes(bytes_)
        with pytest.raises(callout.RegistrationError, match=expected.replace("|", "[|]")):
            callout.sinks.Npy(tmp_path / "bad.npy", append=True)
