# SPDX-License-Identifier: Apache-2.0
"""Tests files of sinks if the process is killed, the disk is full, or two processes want the same file."""

import csv
import itertools
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import warnings

import numpy as np
import pyarrow.ipc
import pytest
import zarr

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # TensorBoard's dependencies warn when they are imported
    from tensorboard.backend.event_processing import event_file_loader

# Taps without end; the parent process kills this one.
ENDLESS = """
    sink = {make}
    f = jax.jit(lambda n: jax.lax.fori_loop(0, n, lambda i, c: callout.tap(
        sink, {{"i": i, "x": jnp.full(20, i) * 0.1}}, name="t"{interval}) and c, 0))
    while True:
        f(1000).block_until_ready()
"""


def wait_until(process, condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, "it ended"
        assert time.monotonic() < deadline
        time.sleep(0.001)


def total_bytes(folder):
    while folder.exists():
        try:
            return sum(path.stat().st_size for path in folder.iterdir())
        except FileNotFoundError:
            pass  # rotation has renamed the file
    return 0


def kill_while_writing(process, folder, also=lambda: True):
    """Kills a process that writes batches of many kilobytes without end."""
    before = total_bytes(folder)
    wait_until(process, lambda: total_bytes(folder) > before + 200_000 and also())
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("rotate", ["", ", rotate_bytes=100_000"])
def test_json_lines_of_a_killed_process_can_be_continued(start, tmp_path, rotate):
    folder = tmp_path / "out"
    folder.mkdir()
    path = folder / "log"
    make = f"callout.sinks.JsonLines({str(path)!r}, append=True, fields=False{rotate})"
    for _ in range(3):
        kill_while_writing(start(ENDLESS.format(make=make, interval="")), folder)
    newest_first = sorted(folder.iterdir(), key=lambda file: int(file.suffix[1:] or 0))
    if rotate:
        assert len(newest_first) > 5
        assert all(file.stat().st_size <= 100_000 for file in newest_first)
    lines = "".join(file.read_text() for file in reversed(newest_first)).splitlines(keepends=True)
    if not lines[-1].endswith("\n"):
        lines.pop()  # the line that was being written
    numbers = [json.loads(line)["i"] for line in lines]
    starts = [k for k, i in enumerate(numbers) if i == 0 and (k == 0 or numbers[k - 1] != 999)]
    assert 1 <= len(starts) <= 3
    for k, (before, after) in enumerate(itertools.pairwise(numbers)):
        assert after == (before + 1) % 1000 or k + 1 in starts


@pytest.mark.parametrize("interval", ["", ", flush_interval=0.001"])
def test_a_csv_file_of_a_killed_process_can_be_continued(start, tmp_path, interval):
    folder = tmp_path / "out"
    folder.mkdir()
    path = folder / "log.csv"
    for _ in range(2):
        make = f"callout.sinks.Csv({str(path)!r}, append=True)"
        kill_while_writing(start(ENDLESS.format(make=make, interval=interval)), folder)
    text = path.read_text()
    rows = list(csv.DictReader(text[: text.rfind("\n") + 1].splitlines()))
    assert {len(row) for row in rows} == {25}
    assert None not in rows[0]
    steps = [int(row["step"]) for row in rows]
    assert steps == list(range(len(rows))), "the second process went on behind the last step"


@pytest.mark.slow
def test_arrays_of_a_killed_process_can_be_continued(start, run, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    stream, store, one = folder / "log", folder / "store", folder / "x.npy"
    make = (
        f"callout.sinks.Tee(callout.sinks.Arrow({str(stream)!r}, append=True), "
        f"callout.sinks.Zarr({str(store)!r}, append=True), callout.sinks.Npy({str(folder / '{leaf}.npy')!r}, append=True))"
    )
    seen = 0

    def batch_ended():  # a batch ends with a count of both sinks' rows
        return (
            (store / "t/x/zarr.json").exists()
            and zarr.open_array(store / "t/x", mode="r").shape[0] > seen
            and np.load(one, mmap_mode="r").shape[0] > seen
        )

    for _ in range(2):
        kill_while_writing(start(ENDLESS.format(make=make, interval="")), folder, batch_ended)
        x = zarr.open_array(store / "t/x", mode="r")
        rows = x.shape[0]
        assert rows > seen
        np.testing.assert_allclose(x[seen:, 19], np.arange(rows - seen) % 1000 * 0.1, rtol=1e-6)
        assert np.load(one, mmap_mode="r").shape[0] > seen
        seen = rows
    assert run(f"callout.sinks.Arrow({str(stream)!r}, append=True)").code == 0  # cuts the incomplete record off
    table = pyarrow.ipc.open_stream(stream).read_all()
    table.validate(full=True)
    assert table["step"].to_pylist() == list(range(table.num_rows))
    assert table["i"].to_pylist().count(0) >= 2


@pytest.mark.slow
def test_a_killed_process_leaves_an_event_file_that_tensorboard_reads(start, tmp_path):
    folder = tmp_path / "out"
    make = f"callout.sinks.TensorBoard({str(folder)!r})"
    for _ in range(2):
        kill_while_writing(start(ENDLESS.format(make=make, interval="")), folder)
    files = sorted(folder.iterdir())
    assert len(files) == 2
    for path in files:
        version, *events = event_file_loader.EventFileLoader(str(path)).Load()
        assert version.file_version == "brain.Event:2"
        assert [event.step for event in events] == list(range(len(events)))
        assert len(events) > 100


def test_an_awaited_checkpoint_survives_an_exit_at_a_later_step(run, tmp_path):
    done = run(f"""
        def save(step, state):
            np.save({str(tmp_path)!r} + f"/{{step}}.npy", state)

        def at(i, which, fn, *args):
            call = lambda: callout.io_callback(fn, None, *args, ordered=True)
            jax.lax.cond(which(i), call, lambda: None)

        @jax.jit
        def train(x):
            def step(x, i):
                x = x + 1
                at(i, lambda i: i % 25 == 0, save, i, x)
                at(i, lambda i: i == 51, lambda: os._exit(9))
                return x, None

            return jax.lax.scan(step, x, jnp.arange(1, 101))[0]

        jax.block_until_ready(train(jnp.zeros(1000)))
    """)
    assert done.code == 9, done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["25.npy", "50.npy"]
    assert np.load(tmp_path / "50.npy").tolist() == [50.0] * 1000


@pytest.mark.slow
def test_two_processes_never_write_one_file(start, run, tmp_path):
    path = tmp_path / "log"
    process = start(f"""
        sink = callout.sinks.JsonLines({str(path)!r}, fields=False)
        callout.tap(sink, 1.0)
        callout.barrier_wait()
        print("ready", flush=True)
        threading.Event().wait()
    """)
    assert process.stdout.readline() == "ready\n"
    other = f"""
        try:
            sink = callout.sinks.JsonLines({str(path)!r}, fields=False)
            callout.tap(sink, 2.0)
            callout.barrier_wait()
        except callout.RegistrationError as error:
            print(error)
    """
    refused = run(other)
    assert refused.out.startswith(f"cannot open '{path}' for JSON lines: ")
    assert refused.out.endswith((f"process {process.pid} is writing it\n", "another process is writing it\n"))
    assert path.read_text() == '{"name": "json_lines", "value": 1}\n'
    process.kill()
    process.wait()
    assert run(other).out == ""
    assert path.read_text() == '{"name": "json_lines", "value": 2}\n'


def test_a_worker_process_does_not_keep_its_parents_file(start, run, tmp_path):
    path = tmp_path / "log"
    process = start(f"""
        import warnings
        warnings.simplefilter("ignore")  # JAX does not like forks
        sink = callout.sinks.JsonLines({str(path)!r}, append=True)
        r, w = os.pipe()
        if os.fork() == 0:
            print("forked", os.getpid(), flush=True)
            os.close(w)
            os.read(r, 1)  # until the parent is gone, and then for ever
            print("alone", flush=True)
            threading.Event().wait()
        threading.Event().wait()
    """)
    worker = int(process.stdout.readline().split()[1])
    try:
        process.kill()
        assert process.stdout.readline() == "alone\n"
        done = run(f"callout.sinks.JsonLines({str(path)!r}, append=True)")
        assert (done.code, done.err) == (0, "")
    finally:
        os.kill(worker, signal.SIGKILL)


FULL = """
    import resource
    sinks = [callout.sinks.JsonLines({folder!r} + "/j", fields=False), callout.sinks.Csv({folder!r} + "/c"),
             callout.sinks.TensorBoard({folder!r} + "/t")]
    def f(i):
        for sink in sinks:
            callout.tap(sink, {{"i": i}}, name="t")
        return i + 1
    f = jax.jit(f)
    def send(n):
        for i in range(n):
            assert int(f(i)) == i + 1, "the program goes on"
        try:
            callout.barrier_wait()
            return 0
        except callout.TapError as error:
            assert {reason!r} in str(error), error
            return error.count
    assert send(10) == 0
    {fill}
    assert send(2000) > 0
    {make_room}
    assert send(10) == 0
    print("done", flush=True)
"""


def check_what_was_written(folder):
    numbers = [json.loads(line)["i"] for line in (folder / "j").read_text().splitlines()]
    rows = [int(row["i"]) for row in csv.DictReader((folder / "c").read_text().splitlines())]
    (path,) = (folder / "t").iterdir()
    events = list(event_file_loader.EventFileLoader(str(path)).Load())[1:]
    for values in (numbers, rows, [int(event.summary.value[0].tensor.float_val[0]) for event in events]):
        assert values[:10] == list(range(10))
        assert values[-10:] == list(range(10))
        assert 20 <= len(values) < 2020, "something was lost"
        middle = values[10:-10]
        assert middle == sorted(middle), "and what is there is whole and in order"


def test_files_that_may_not_grow(run, tmp_path):
    done = run(
        FULL.format(
            folder=str(tmp_path),
            reason="File too large",
            fill="resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))",
            make_room="resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))",
        )
    )
    assert (done.code, done.out) == (0, "done\n"), done.err
    check_what_was_written(tmp_path)


def test_a_full_disk(run, tmp_path):
    folder = pathlib.Path(tempfile.mkdtemp(dir=tmp_path))
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("may not mount a file system")
    try:
        done = run(
            FULL.format(
                folder=str(folder),
                reason="No space left on device",
                fill=f"open({str(folder)!r} + '/ballast', 'wb').write(bytes(100_000))",
                make_room=f"os.remove({str(folder)!r} + '/ballast')",
            )
        )
        assert (done.code, done.out) == (0, "done\n"), done.err
        check_what_was_written(folder)
    finally:
        subprocess.run(["umount", str(folder)], check=True)
