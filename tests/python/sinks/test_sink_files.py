# SPDX-License-Identifier: Apache-2.0
"""Tests the properties of all sinks that write files: one writer, rotation, resuming, closing."""

import functools
import inspect
import json
import os
import re

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout import sinks

BOTH = pytest.mark.parametrize("make", [sinks.JsonLines, sinks.Csv])


@BOTH
def test_two_sinks_never_write_one_file(tmp_path, make):
    path = tmp_path / "log"
    first = make(path, append=True)
    callout.tap(first, 1.0)
    for append in (False, True):
        with pytest.raises(
            callout.RegistrationError, match=rf"cannot open '{path}' for .*: another sink of this process"
        ):
            make(path, append=append)
    callout.barrier_wait()
    before = path.read_text()
    first.close()
    second = make(path, append=True)
    callout.tap(second, 2.0)
    callout.barrier_wait()
    assert path.read_text().startswith(before)
    assert path.read_text() != before


@BOTH
def test_a_file_may_be_opened_again_after_its_sink_died(tmp_path, make):
    for _ in range(3):
        sink = make(tmp_path / "log")
        sink.itself = sink  # a reference cycle, which only the garbage collector finds
        callout.tap(sink, 1.0)
        del sink


def test_a_closed_sink_takes_nothing(tmp_path):
    path = tmp_path / "log"
    sink = sinks.JsonLines(path, fields=False)
    callout.tap(sink, 1.0)
    callout.barrier_wait()
    sink.close()
    sink.close()
    callout.tap(sink, 2.0)
    with pytest.raises(callout.TapError, match=f"cannot write to '{path}': it is closed"):
        callout.barrier_wait()
    assert path.read_text() == '{"name": "json_lines", "value": 1}\n'


def test_closing_reports_lost_records():
    sink = sinks.JsonLines("/dev/full")
    callout.tap(sink, 1.0)
    with pytest.raises(
        callout.TapError, match=r"cannot write to '/dev/full': No space left on device; 1 records are lost"
    ):
        callout.barrier_wait()
    sink.close()


def test_rotated_files_are_each_readable(tmp_path):
    path = tmp_path / "log.jsonl"
    sink = sinks.JsonLines(path, rotate_bytes=2000, keep=3, fields=False)
    jax.jit(lambda n: jax.lax.fori_loop(0, n, lambda i, c: callout.tap(sink, i) * 0 + c, 0))(1000)
    callout.barrier_wait()
    files = [path.with_name(f"log.jsonl.{i}") for i in (3, 2, 1)] + [path]
    values = [json.loads(line)["value"] for file in files for line in file.read_text().splitlines()]
    assert values == list(range(1000 - len(values), 1000))
    assert len(list(tmp_path.iterdir())) == 4
    assert all(1900 < file.stat().st_size <= 2000 for file in files[:-1])


def test_the_path_may_have_the_process(tmp_path):
    for make in (sinks.JsonLines, sinks.Csv, sinks.TensorBoard):
        sink = make(str(tmp_path / f"{make.__name__}.{{process}}"))
        assert sink.path == str(tmp_path / f"{make.__name__}.0")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Csv.0", "JsonLines.0", "TensorBoard.0"]


def write_from_one_process(folder, monkeypatch, make):
    """Acts as the first of two processes, with a sink that it writes and one that it does not write."""
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    sink = make(folder / "here", only_process=0)
    other = make(folder / "there", only_process=1, name=f"other {make.__name__}")
    for each in (sink, other):
        jax.jit(lambda x, each=each: callout.tap(each, x, name="t"))(1.0)
    callout.barrier_wait()
    assert callout.stats()["callbacks"][f"other {make.__name__}"]["calls"] == 1
    assert [path.name for path in folder.iterdir()] == ["here"]
    assert other.path == str(folder / "there")
    for each in (sink, other, other):
        each.close()
    assert not callout.sinks.close(folder / "there")


@BOTH
def test_one_process_of_several_opens_the_file(tmp_path, monkeypatch, make):
    write_from_one_process(tmp_path, monkeypatch, make)


@pytest.mark.parametrize("make", [sinks.TensorBoard, sinks.Arrow, sinks.Npy, sinks.Zarr])
def test_one_process_opens_the_file_of_arrays_or_events(tmp_path, monkeypatch, make):
    write_from_one_process(tmp_path, monkeypatch, make)


@pytest.mark.parametrize("fsync", ["never", "batch", 0, 0.5, 1e9])
def test_fsync(tmp_path, fsync):
    for make in (sinks.JsonLines, sinks.Csv, sinks.TensorBoard):
        sink = make(tmp_path / make.__name__, fsync=fsync)
        callout.tap(sink, 1.0)
        callout.barrier_wait()
        sink.close()


@pytest.mark.parametrize("make", [sinks.JsonLines, sinks.Csv, sinks.Arrow, sinks.Npy, sinks.Zarr, sinks.TensorBoard])
def test_folders_are_made_and_the_users_is_known(make, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    sink = make("~/of/many/runs")
    assert sink.path == str(tmp_path / "of" / "many" / "runs")
    assert repr(sink) == f"{make.__name__}({sink.path!r}, name={sink._callout_callback.label!r})"
    callout.tap(sink, jnp.float32(1))
    callout.barrier_wait()
    assert (tmp_path / "of" / "many" / "runs").exists()
    assert sinks.close("~/of/many/runs")


def test_sinks_have_reprs():
    assert repr(sinks.Null()) == "Null(name='null')"
    assert repr(sinks.Print("{value}", name="p")) == "Print('{value}', name='p')"
    assert repr(sinks.Function(print)) == f"Function({print!r})"
    assert repr(sinks.Tee(sinks.Null(), "named", print)) == f"Tee(Null(name='null'), 'named', {print!r})"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fsync": "always"}, 'fsync must be "never", "batch" or 0 or more seconds, got \'always\''),
        ({"fsync": -1}, "or 0 or more seconds, got -1"),
        ({"fsync": True}, "or 0 or more seconds, got True"),
        ({"fsync": float("nan")}, "or 0 or more seconds, got nan"),
        ({"rotate_bytes": 0}, "rotate_bytes must be an integer of at least 1, got 0"),
        ({"rotate_bytes": 1e6}, "rotate_bytes must be an integer of at least 1"),
        ({"rotate_bytes": 9, "keep": 0}, "keep must be an integer of at least 1, got 0"),
        ({"only_process": 1}, "only_process must be None or the index of one of the 1 processes, 0 to 0, got 1"),
        ({"only_process": -1}, "0 to 0, got -1"),
        ({"only_process": True}, "0 to 0, got True"),
        ({"only_process": "0"}, "0 to 0, got '0'"),
        ({"keep": 3}, "keep is how many rotated files are kept, and needs rotate_bytes"),
    ],
)
@BOTH
def test_arguments_are_checked(tmp_path, make, arguments, message):
    with pytest.raises(ValueError, match=f"callout.sinks.{make.__name__}: .*{message}"):
        make(tmp_path / "log", **arguments)
    assert list(tmp_path.iterdir()) == []


@BOTH
def test_signatures_have_the_options_of_files(tmp_path, make):
    parameters = inspect.signature(make).parameters
    assert {"append", "replace", "fsync", "only_process", "name", "rotate_bytes", "keep"} < set(parameters)
    given = {name: each.default for name, each in parameters.items() if name != "path"}
    sink = make(tmp_path / "log", **{name: value for name, value in given.items() if value is not None})
    assert sink._callout_callback.label == given["name"]
    with pytest.raises(TypeError, match=r"unexpected arguments: expected append, .*, keep, got colour"):
        make(tmp_path / "other", colour=True)


def test_devices_are_not_rotated():
    with pytest.raises(callout.RegistrationError, match="cannot open '/dev/null' for JSON lines: only regular files"):
        sinks.JsonLines("/dev/null", rotate_bytes=100)


def test_all_sinks_get_records_from_jit_and_loops(tmp_path):
    several = [sinks.JsonLines(tmp_path / "j"), sinks.Csv(tmp_path / "c"), sinks.TensorBoard(tmp_path / "t")]

    @jax.jit
    def f(x):
        def step(x, _):
            for sink in several:
                callout.tap(sink, {"x": x, "n": jnp.linalg.norm(x)}, name="f")
            return x * 2, None

        return jax.lax.scan(step, x, None, length=500)[0]

    f(jnp.full(3, 1e-30))
    callout.barrier_wait()
    records = [json.loads(line) for line in (tmp_path / "j").read_text().splitlines()]
    columns = np.genfromtxt(tmp_path / "c", delimiter=",", names=True)
    assert len(records) == len(columns) == 500
    np.testing.assert_array_equal(columns["step"], np.arange(500))
    finite = columns["x0"] < 1e38
    np.testing.assert_array_equal(
        columns["x0"][finite], [r["x"][0] for r, ok in zip(records, finite, strict=True) if ok]
    )


@BOTH
def test_a_cell_that_opens_a_file_may_run_again(tmp_path, make):
    path = tmp_path / "log"
    programs = []
    for value in (-1.5, -2.5):  # a sign, which neither times nor steps have
        sink = make(path, replace=True)
        programs.append(jax.jit(lambda x, sink=sink: callout.tap(sink, x, name="t")))
        programs[-1](value)
        callout.barrier_wait()
    assert path.read_text().count("-2.5") == 1
    assert "-1.5" not in path.read_text()
    programs[0](3.0)
    with pytest.raises(callout.TapError, match="closed"):
        callout.barrier_wait()
    make(path, append=True, replace=True)
    assert path.read_text().count("-2.5") == 1


@BOTH
def test_a_cell_run_again_without_replace_gets_a_hint(tmp_path, make):
    first = make(tmp_path / "log")
    message = (
        rf"another sink of this process is writing it; close that one first\. A cell of a notebook that is run again passes "
        rf"replace=True: callout\.sinks\.{make.__name__}\(path, replace=True\) first closes the sink that writes the file$"
    )
    with pytest.raises(callout.RegistrationError, match=message):
        make(tmp_path / "log")
    first.close()


def test_other_errors_of_sinks_do_not_mention_notebooks(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(callout.RegistrationError, match=r": Not a directory$"):
        sinks.JsonLines(tmp_path / "file" / "log", replace=True)


@BOTH
def test_a_sink_held_by_a_program_is_closed_by_path(tmp_path, make, monkeypatch):
    path = tmp_path / "log"
    f = jax.jit(functools.partial(callout.tap, make(path)))
    f(-1.5)
    monkeypatch.chdir(tmp_path)
    assert sinks.close("log")
    assert "-1.5" in path.read_text()
    assert not sinks.close(path)
    make(path).close()
    with pytest.raises(callout.TapError, match="closed"):
        f(2.0), callout.barrier_wait()


def test_the_sinks_of_a_folder_are_closed_by_its_path(tmp_path):
    callout.tap(sinks.TensorBoard(tmp_path), 1.0)
    kept = sinks.TensorBoard(tmp_path / ".")
    assert sinks.close(tmp_path)
    callout.tap(kept, 1.0)
    with pytest.raises(callout.TapError, match="closed"):
        callout.barrier_wait()


def write_in_a_folder_that_is_not_utf8(tmp_path, make):
    folder = tmp_path / os.fsdecode(b"of \xff")
    folder.mkdir()
    path = folder / "file"
    sink = make(path)
    callout.tap(sink, 1.0, step=0)
    callout.barrier_wait()
    assert sinks.close(path)
    assert list(folder.iterdir()) == [path]


@BOTH
def test_paths_need_not_be_utf8(tmp_path, make):
    write_in_a_folder_that_is_not_utf8(tmp_path, make)


@pytest.mark.parametrize("make", [sinks.Arrow, sinks.Npy, sinks.Zarr, sinks.TensorBoard])
def test_paths_of_arrays_and_events_need_not_be_utf8(tmp_path, make):
    write_in_a_folder_that_is_not_utf8(tmp_path, make)


def test_paths_may_be_bytes(tmp_path):
    sinks.JsonLines(os.fsencode(tmp_path / "file")).close()
    assert (tmp_path / "file").exists()


def test_an_impossible_path_is_rejected_by_name():
    with pytest.raises(ValueError, match="no file has the path") as refused:
        sinks.JsonLines("a\ud800")
    assert str(refused.value) == (
        "callout.sinks: no file has the path 'a\\ud800': expected characters that the file system's encoding (utf-8) has, "
        "or what os.fsdecode makes of bytes"
    )


def test_the_home_of_an_unknown_user_is_rejected(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (
        "callout.sinks: there is no user 'no_such_user' whose folder '~no_such_user/runs.csv' could begin with; "
        "'./~no_such_user/runs.csv' is a file below the current folder"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        sinks.Csv("~no_such_user/runs.csv")
    assert not list(tmp_path.iterdir())
    sinks.Csv("./~no_such_user/runs.csv").close()
    assert (tmp_path / "~no_such_user" / "runs.csv").exists()
