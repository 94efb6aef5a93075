# SPDX-License-Identifier: Apache-2.0
"""Tests the native sinks, and Function."""

import contextlib
import copy
import dataclasses
import json
import os
import pickle
import sys
import threading
import types

import callout
import cloudpickle
import jax
import jax.numpy as jnp
import manual
import ml_dtypes
import numpy as np
import platforms
import pytest
from callout import sinks


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.native_only(platforms.RUN)
def test_json_lines_has_leaves_by_name_device_and_time(tmp_path):
    path = tmp_path / "log.jsonl"
    sink = sinks.JsonLines(path)
    f = jax.jit(lambda x: callout.tap(sink, {"loss": x, "grad": (x * 2, x[None])}, name="train"))
    f(jnp.float32(0.1))
    f(jnp.float32(3))
    callout.barrier_wait()
    first, second = lines(path)
    assert first["name"] == "train"
    assert (first["loss"], first["grad.0"], first["grad.1"]) == (0.1, 0.2, [0.1])
    assert (second["loss"], second["device"], second["seq"] - first["seq"]) == (3, 0, 1)
    assert second["run"] != first["run"]
    assert second["time"] >= first["time"] > 1.7e9


def test_json_lines_numbers_read_back_exactly(tmp_path):
    path = tmp_path / "log.jsonl"
    sink = sinks.JsonLines(path, fields=False)
    values = [
        np.float32([[0.1, -1e-38], [3.4e38, 0]]), np.int8([-128, 127]), np.bool_(True), np.complex64(1 + 2j),
        np.float32([np.nan, np.inf, -np.inf]), ml_dtypes.bfloat16(0.15625), np.asarray([-8, 7], ml_dtypes.int4),
        np.zeros((2, 0), np.float32), np.uint32(2**32 - 1),
    ]  # fmt: skip
    for value in values:
        callout.tap(sink, jnp.asarray(value))
    callout.barrier_wait()
    got = [line["value"] for line in lines(path)]
    np.testing.assert_array_equal(np.float32(got[0]), values[0])
    assert got[1:] == [
        [-128, 127], True, [1, 2], ["NaN", "Infinity", "-Infinity"], 0.15625, [-8, 7], [[], []], 2**32 - 1,
    ]  # fmt: skip


def test_json_lines_appends_or_starts_anew(tmp_path):
    path = tmp_path / "log.jsonl"
    for append, expected in [(False, 1), (True, 2), (False, 1)]:
        callout.tap(sinks.JsonLines(path, append=append), 1.0)
        callout.barrier_wait()
        assert len(lines(path)) == expected


def test_json_lines_names_a_file_that_cannot_be_opened(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(callout.RegistrationError, match=r"cannot open '.*file/x' for JSON lines: Not a directory"):
        sinks.JsonLines(tmp_path / "file" / "x")


def test_a_full_disk_is_an_error_at_the_next_barrier():
    sink = sinks.JsonLines("/dev/full", append=True)
    f = jax.jit(lambda x: callout.tap(sink, x) + 1)
    assert float(f(1.0)) == 2
    with pytest.raises(callout.TapError, match="cannot write to '/dev/full': No space left on device"):
        callout.barrier_wait()
    callout.barrier_wait()


def test_escapes(tmp_path):
    path = tmp_path / "log.jsonl"
    callout.tap(sinks.JsonLines(path, fields=False), {'a "b"\\\x01é': 1.0}, name='na"me\n')
    callout.barrier_wait()
    assert lines(path) == [{"name": 'na"me\n', 'a "b"\\\x01é': 1}]


def test_print_writes_lines(tmp_path):
    path = tmp_path / "out"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        sink = sinks.Print(fd=fd)
        callout.tap(sink, jnp.float32(1.5), name="x")
        callout.tap(sink, {"a": jnp.arange(3), "b": jnp.asarray([[True], [False]])}, name="tree")
        callout.tap(sink, jnp.arange(2000), name="long")
        callout.tap(sink, jnp.complex64(1 - 2j), name="z")
        callout.barrier_wait()
    finally:
        os.close(fd)
    assert path.read_text().splitlines() == [
        "x: 1.5",
        "tree: a=[0 1 2] b=[[True] [False]]",
        "long: [0 1 2 ... 1997 1998 1999]",
        "z: 1-2j",
    ]


def test_null_takes_everything():
    sink = sinks.Null(name="nothing")
    jax.jit(lambda x: jax.lax.fori_loop(0, 100, lambda i, c: callout.tap(sink, c) + 1, x))(0.0)
    callout.barrier_wait()
    assert callout.stats()["callbacks"]["nothing"]["calls"] == 100


def test_function_is_the_function(received):
    sink = sinks.Function(received.tap)
    jax.jit(lambda x: callout.tap(sink, x))(1.0)
    callout.barrier_wait()
    assert received == [1]


@dataclasses.dataclass
class Settings:
    sink: object
    rate: float = 0.1


REFUSED = "belongs to this process, and can be neither pickled nor deep-copied"
SENDING = {
    "deepcopy": copy.deepcopy,
    "asdict": dataclasses.asdict,
    "pickle": pickle.dumps,
    "cloudpickle": lambda settings: cloudpickle.dumps(lambda x: callout.tap(settings.sink, x)),
}


@pytest.mark.parametrize("way", SENDING)
@pytest.mark.parametrize("tee", [False, True], ids=["alone", "in a tee"])
def test_a_sink_that_is_copied_or_sent_away_is_named(way, tee):
    sink = sinks.Null(name="losses")
    with pytest.raises(TypeError, match=f"the sink '(losses|tee)' .(Null|Tee). {REFUSED}"):
        SENDING[way](Settings(sinks.Tee(sink, print) if tee else sink))


@pytest.mark.parametrize(
    "make",
    [sinks.JsonLines, sinks.Csv, pytest.param(sinks.Arrow, marks=pytest.mark.native_only("written by the core"))],
)
def test_a_file_sink_is_unpickled_by_its_path(tmp_path, make):
    sink = make(tmp_path / "file", name="log")
    assert copy.deepcopy(Settings(sink)).sink._callout_callback is sink._callout_callback
    assert pickle.loads(pickle.dumps(sink))._callout_callback is sink._callout_callback
    callout.tap(sink, jnp.float32(3))
    sent = pickle.dumps(sink)
    sink.close()
    size = sum(path.stat().st_size for path in tmp_path.rglob("*"))
    again = pickle.loads(sent)
    callout.tap(again, jnp.float32(4))
    again.close()
    assert again.path == sink.path
    assert sum(path.stat().st_size for path in tmp_path.rglob("*")) > size > 0


def test_the_rejection_of_a_pickled_sink_names_the_remedy():
    with pytest.raises(TypeError) as info:
        pickle.dumps(sinks.Null(name="nothing"))
    assert str(info.value) == (
        "callout: the sink 'nothing' (Null) belongs to this process, and can be neither pickled nor deep-copied. Make a "
        "sink in each process, or bind one to a name there by callout.register(name, sink), and pass the name to "
        "callout.tap; copy.copy returns the same sink"
    )


def test_copies_of_sinks_are_the_sink_and_functions_are_pickled():
    sink = sinks.Null(name="copied")
    for each in (sink, copy.copy(sink)):
        callout.tap(each, jnp.float32(3))
    callout.barrier_wait()
    assert callout.stats()["callbacks"]["copied"]["calls"] == 2
    assert pickle.loads(pickle.dumps(sinks.Function(len)))._callout_function is len
    assert copy.deepcopy(Settings(sinks.Function(len))).sink._callout_function is len


def test_names_that_are_not_utf8_are_escaped(tmp_path):
    """os.listdir returns such names for files, and programs use these as keys of dictionaries."""
    name = os.fsdecode(b"a\xff")
    sink = sinks.JsonLines(tmp_path / "log", name=name)
    jax.jit(lambda x: callout.tap(sink, {name: x, "b": x}, name=name))(1.0)
    callout.tap(sink, {name: 2.0, "b": 2.0}, name=name)
    callout.barrier_wait()
    assert [(line["name"], line["a\\udcff"]) for line in lines(tmp_path / "log")] == [("a\\udcff", 1), ("a\\udcff", 2)]
    assert "a\\udcff" in callout.stats()["callbacks"]
    sink.close()


def test_the_manuals_tracker_logs_into_its_own_run(monkeypatch):
    """The fake module keeps an active run for each thread, as MLflow does."""
    active = threading.local()
    runs = {}

    def open_run():
        active.run = types.SimpleNamespace(info=types.SimpleNamespace(run_id=f"run {len(runs)}"))
        runs[active.run.info.run_id] = []
        return active.run

    @contextlib.contextmanager
    def start_run():
        yield open_run()
        del active.run

    def log_metrics(metrics, step, run_id=None):
        if run_id is None:
            run_id = (getattr(active, "run", None) or open_run()).info.run_id
        runs[run_id].append((step, metrics))

    monkeypatch.setitem(sys.modules, "mlflow", types.SimpleNamespace(start_run=start_run, log_metrics=log_metrics))
    (recipe,) = [block for block in manual.blocks("sinks") if "import mlflow" in block]
    exec(recipe, {"callout": callout})
    assert runs == {"run 0": [(0, {"loss": 0.5})]}
