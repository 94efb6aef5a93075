# SPDX-License-Identifier: Apache-2.0
"""Measures writing records and arrays to files: Callout's sinks beside other libraries.

Usage: python benchmarks/python/files.py [--rounds 5] [--sinks build/bench/bin/sink_benchmark]
The script runs in its own environment (requirements/bench-files.txt, Python 3.11 or newer) without Callout: the C++
benchmark, if built, measures Callout's sinks. Contenders take turns. Figures are CPU times of all threads, in
nanoseconds for each record, and include closing the file.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import rerun
import zarr
from pyarrow import ipc
from tables import as_json, as_text
from tensorboardX import SummaryWriter

BATCH = 8192  # records, as in sink_benchmark
LARGE, SIDE = 32, 1 << 17  # the number of records, and the size of their two arrays of half a megabyte
SINKS = {"Arrow": "sinks.Arrow", "Zarr": "sinks.Zarr", "Npy": "sinks.Npy", "Csv": "sinks.Csv"}
Write = Callable[[Path, int], None]  # (folder, number of records)


def columns(records: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the steps, and two numbers for each step."""
    return np.arange(records), np.linspace(0, 1, 2 * records, dtype=np.float32).reshape(records, 2)


def rerun_log(folder: Path, records: int) -> None:
    recording = rerun.RecordingStream("benchmark")
    recording.save(folder / "log.rrd")
    for step, (loss, accuracy) in zip(*columns(records), strict=True):
        recording.set_time("step", sequence=step)
        recording.log("train/loss", rerun.Scalars(loss))
        recording.log("train/accuracy", rerun.Scalars(accuracy))
    recording.flush()
    recording.disconnect()


def rerun_columns(folder: Path, records: int) -> None:
    recording = rerun.RecordingStream("benchmark")
    recording.save(folder / "log.rrd")
    steps, values = columns(records)
    for first in range(0, records, BATCH):
        some = slice(first, first + BATCH)
        index = rerun.TimeColumn("step", sequence=steps[some])
        for i, name in enumerate(("loss", "accuracy")):
            recording.send_columns(f"train/{name}", [index], rerun.Scalars.columns(scalars=values[some, i]))
    recording.flush()
    recording.disconnect()


def tensorboard_scalars(folder: Path, records: int) -> None:
    with SummaryWriter(str(folder / "events"), max_queue=BATCH) as writer:
        for step, (loss, accuracy) in zip(*columns(records), strict=True):
            writer.add_scalar("loss", loss, step)
            writer.add_scalar("accuracy", accuracy, step)


def h5py_rows(folder: Path, records: int, at_once: int = 1) -> None:
    with h5py.File(folder / "log.h5", "w") as file:
        rows = file.create_dataset("rows", (0, 2), np.float32, maxshape=(None, 2), chunks=(BATCH, 2))
        _, values = columns(records)
        for first in range(0, records, at_once):
            rows.resize(first + at_once, axis=0)
            rows[first : first + at_once] = values[first : first + at_once]


def zarr_rows(folder: Path, records: int, at_once: int = 1) -> None:
    array = zarr.create_array(folder / "log.zarr", shape=(0, 2), chunks=(BATCH, 2), dtype=np.float32, compressors=None)
    _, values = columns(records)
    for first in range(0, records, at_once):
        array.append(values[first : first + at_once])


def arrow_batches(folder: Path, records: int) -> None:
    names = ["name", "step", "loss", "accuracy"]
    steps, values = columns(records)
    writer = None
    with (folder / "log.arrows").open("wb") as file:
        for first in range(0, records, BATCH):
            some = slice(first, first + BATCH)
            fields = [["train"] * len(steps[some]), steps[some], values[some, 0], values[some, 1]]
            batch = pa.RecordBatch.from_arrays([pa.array(field) for field in fields], names)
            writer = writer or ipc.new_stream(file, batch.schema)
            writer.write_batch(batch)
        assert writer is not None
        writer.close()


def h5py_large(folder: Path, records: int) -> None:
    with h5py.File(folder / "log.h5", "w") as file:
        shape = (0, SIDE)
        arrays = [
            file.create_dataset(name, shape, np.float32, maxshape=(None, SIDE), chunks=(8, SIDE)) for name in "ab"
        ]
        value = np.full(SIDE, 0.1, np.float32)
        for i in range(records):
            for rows in arrays:
                rows.resize(i + 1, axis=0)
                rows[i] = value


def zarr_large(folder: Path, records: int) -> None:
    options = {"shape": (0, SIDE), "chunks": (8, SIDE), "dtype": np.float32, "compressors": None}
    arrays = [zarr.create_array(folder / name, **options) for name in "ab"]  # type: ignore[arg-type]
    value = np.full((1, SIDE), 0.1, np.float32)
    for _ in range(records):
        for rows in arrays:
            rows.append(value)


def arrow_large(folder: Path, records: int) -> None:
    tensor = pa.fixed_shape_tensor(pa.float32(), [SIDE])
    schema = pa.schema([("a", tensor), ("b", tensor)])
    value = np.full(SIDE, 0.1, np.float32)
    with (folder / "log.arrows").open("wb") as file, ipc.new_stream(file, schema) as writer:
        for _ in range(records):
            rows = pa.FixedSizeListArray.from_arrays(pa.array(value), SIDE)
            column = pa.ExtensionArray.from_storage(tensor, rows)
            writer.write_batch(pa.RecordBatch.from_arrays([column, column], schema=schema))


def write_alone(folder: Path, records: int) -> None:
    value = np.full(SIDE, 0.1, np.float32)
    with (folder / "log").open("wb", buffering=0) as file:
        file.writelines(value for _ in range(2 * records))


# Each contender, with the number of records in a round. Slow contenders have fewer.
SCALARS: dict[str, tuple[Write, int]] = {
    "pyarrow, a batch of 8,192 records at a time": (arrow_batches, 16 * BATCH),
    "rerun, `send_columns` of 8,192 records": (rerun_columns, 16 * BATCH),
    "rerun, `log` of each": (rerun_log, 2000),
    "tensorboardX, `add_scalar` of each": (tensorboard_scalars, 2000),
    "h5py, 8,192 rows at a time": (lambda folder, n: h5py_rows(folder, n, BATCH), 16 * BATCH),
    "h5py, each row": (h5py_rows, 2000),
    "zarr-python, `append` of 8,192 rows": (lambda folder, n: zarr_rows(folder, n, BATCH), 16 * BATCH),
    "zarr-python, `append` of each row": (zarr_rows, 200),
}
LARGE_ONES: dict[str, tuple[Write, int]] = {
    "pyarrow": (arrow_large, LARGE),
    "h5py": (h5py_large, LARGE),
    "zarr-python, `append`": (zarr_large, LARGE),
    "`write` alone": (write_alone, LARGE),
}


def as_factor(factor: float) -> str:
    return f"{factor:.1f}x" if factor < 10 else f"{float(f'{factor:.2g}'):,.0f}x"


def measure(write: Write, records: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        write(Path(folder), records)
        return (time.process_time() - start) * 1e9 / records


def measure_sinks(benchmark: str) -> dict[str, float]:
    """Returns for each benchmark of the sinks the CPU time of a record, in nanoseconds."""
    names = "|".join(f"{name}|{name}Large" for name in SINKS)
    command = [benchmark, f"--benchmark_filter=Deliver/({names})/", "--benchmark_format=json"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["benchmarks"]
    return {row["name"].split("/")[1]: 1e9 / row["items_per_second"] for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sinks", default="build/bench/bin/sink_benchmark")
    args = parser.parse_args()
    found: dict[str, list[float]] = {}
    for _ in range(args.rounds):
        for name, (write, records) in random.sample(list((SCALARS | LARGE_ONES).items()), len(SCALARS | LARGE_ONES)):
            found.setdefault(name, []).append(measure(write, records))
        for name, ns in measure_sinks(args.sinks).items() if Path(args.sinks).exists() else ():
            found.setdefault(name, []).append(ns)
    took = {name: statistics.median(rounds) for name, rounds in found.items()}
    small = {SINKS[name]: took[name] for name in SINKS if name in took}
    small |= {name: took[name] for name in SCALARS}
    large = {SINKS[name]: took[f"{name}Large"] for name in SINKS if f"{name}Large" in took}
    large |= {name: took[name] for name in LARGE_ONES}
    least = small.get("sinks.Arrow", min(small.values()))
    gigabytes = 8 * SIDE  # bytes per nanosecond are gigabytes per second
    tables = [
        (
            ["two f32 scalars a record, to a file", "ns a record", "vs sinks.Arrow"],
            [[name, f"{ns:,.0f}", as_factor(ns / least)] for name, ns in sorted(small.items(), key=lambda row: row[1])],
        ),
        (
            ["1 MB a record in two arrays, to a file", "GB/s"],
            [[name, f"{gigabytes / ns:.1f}"] for name, ns in sorted(large.items(), key=lambda row: row[1])],
        ),
    ]
    for head, body in tables:
        print(as_text(head, body), end="\n\n")
    packages = ("pyarrow", "rerun-sdk", "tensorboardX", "h5py", "zarr", "numpy")
    environment = {name: version(name) for name in packages} | {"python": sys.version.split()[0]}
    environment |= {"cores": str(os.cpu_count()), "load": f"{os.getloadavg()[0]:.0f}"}
    Path("build/bench").mkdir(parents=True, exist_ok=True)
    results = {"environment": environment, "command": "python " + " ".join(sys.argv), "tables": as_json(tables)}
    Path("build/bench/files.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
