# SPDX-License-Identifier: Apache-2.0
"""Tests callout.profile: its events of calls, taps and deliveries, and the timeline."""

import collections
import shutil
import threading

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
import trace_format
from callout import _ext
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from profiled import F32, counts, double, loop, named


@pytest.fixture
def blocked():
    """Makes a tap function that waits until the test releases it."""

    class Blocked:
        def __init__(self):
            self.entered, self.release = threading.Event(), threading.Event()

        def tap(self, _):
            self.entered.set()
            assert self.release.wait(60)

    blocked = Blocked()
    yield blocked
    blocked.release.set()
    callout.barrier_wait()


def test_calls_have_events_of_their_parts():
    with callout.profile() as profile:
        loop(lambda x: callout.pure_callback(named(double, "double"), F32, x) / 2, 10)
    seen = counts(profile)
    for kind in ("call", "wait for GIL", "function"):
        assert seen[kind, "double"] == 10
    assert seen["copy", "double"] == 20, "arguments and results"
    calls = profile.events[profile.events["kind"] == "call"]
    assert set(calls["row"]) == {"device 0"}
    assert set(calls["bytes"]) == {8}
    assert not calls["failed"].any()
    assert (calls["begin_ns"] >= 0).all()
    assert (calls["end_ns"] <= profile.seconds * 1e9 + 1e6).all()


def test_taps_are_seen_from_the_copy_to_the_function(received):
    tap = named(received.tap, "seen")
    with callout.profile() as profile:
        loop(lambda x: callout.tap(tap, x) + 1, 10)
    assert len(received) == 10
    seen = counts(profile)
    for kind in ("tap", "delivery", "function", "copy"):
        assert seen[kind, "seen"] == 10
    assert seen["flush", "seen"] >= 1
    assert seen["queue", ""] >= 1
    events = profile.events
    assert set(events[events["kind"] == "delivery"]["row"]) == {"delivery thread callout-python0"}
    assert set(events[events["kind"] == "function"]["row"]) == {"Python functions"}
    deliveries = events[events["kind"] == "delivery"]
    assert (deliveries["begin_ns"] >= deliveries["queued_ns"]).all()
    assert (events[events["kind"] == "tap"]["level"] > 0).all()


@pytest.mark.native_only(platforms.BUFFERS)
def test_every_way_out_is_seen(received):
    def fill(context, out, x):
        np.asarray(out)[...] = np.asarray(x)

    x = jnp.arange(3, dtype=jnp.float32)
    sink = callout.sinks.Null(name="sink")
    with callout.profile() as profile:
        jax.jit(lambda x: callout.tap(sink, x))(x)
        jax.jit(lambda x: callout.buffer_callback.buffer_callback(fill, x)(x))(x)
        jax.jit(lambda x: callout.io_callback(named(lambda x: None, "io"), None, x))(x)
        jax.jit(lambda x: callout.debug_callback(named(lambda x: None, "debug"), x))(x)
        jax.jit(lambda x: hcb.id_tap(lambda value, transforms: received.append(value), x))(x)
        jax.jit(lambda x: callout.tap(named(received.append, "ordered"), x, ordered=True))(x)
        callout.pure_callback(named(double, "eager"), x, x)
        callout.tap(named(received.append, "eager tap"), x)
    kinds = collections.defaultdict(set)
    for event in profile.events:
        kinds[event["label"]].add(event["kind"])
    assert kinds["sink"] >= {"tap", "delivery", "flush"}
    for name in ("io", "debug", "eager"):
        assert kinds[name] >= {"call", "function"}
    for name in ("ordered", "eager tap"):
        assert kinds[name] >= {"tap", "delivery", "function"}
    assert any("fill" in label and {"call", "function", "wait for GIL"} <= kinds[label] for label in kinds)
    assert any("lambda" in label and {"tap", "delivery", "function"} <= kinds[label] for label in kinds)


@pytest.mark.native_only(platforms.BUFFERS)
def test_native_functions_are_seen(cache):
    source = """
    #include "callout/kernel.h"
    void triple(callout::In<float> x, callout::Out<float> y) {
      for (int64_t i = 0; i < x.size(); ++i) y[i] = 3 * x[i];
    }
    CALLOUT_KERNEL(triple);
    """
    triple = callout.cpp.load_inline(source, name="native").triple
    x = jnp.ones(3, jnp.float32)
    with callout.profile() as profile:
        jax.jit(triple)(x).block_until_ready()
    (call,) = profile.events[profile.events["kind"] == "call"]
    assert "triple" in call["label"]
    assert (call["worker"], call["device"], call["row"]) == ("native", 0, "device 0")


def test_failed_calls_and_deliveries_are_marked():
    def bad(x):
        raise KeyError("no")

    with callout.profile() as profile:
        callout.tap(named(bad, "bad tap"), 1.0)
        with pytest.raises(KeyError):
            callout.pure_callback(named(bad, "bad call"), F32, 1.0)
    with pytest.raises(KeyError):
        callout.barrier_wait()
    events = profile.events
    failed = events[events["failed"]]
    assert {(event["kind"], event["label"]) for event in failed} == {("delivery", "bad tap"), ("call", "bad call")}
    assert profile.summary()["bad call"]["errors"] == 1


@pytest.mark.cpu_only("records of a GPU wait for room with the thread that puts them into the queue")
def test_drops_and_waits_for_room_are_seen(small_queue, blocked):
    big = jnp.zeros(2_000_000, jnp.float32)  # two of these do not fit into the queue
    drops = jax.jit(lambda x: callout.tap(named(blocked.tap, "drops"), x, on_full="drop_newest"))
    waits = jax.jit(lambda x: callout.tap(named(blocked.tap, "waits"), x))

    def times_blocked():
        return sum(queue["blocked"] for queue in callout.stats()["queues"])

    with callout.profile() as profile:
        drops(big).block_until_ready()
        assert blocked.entered.wait(60)
        for _ in range(2):
            drops(big).block_until_ready()
        before = times_blocked()
        thread = threading.Thread(target=lambda: waits(big).block_until_ready())
        thread.start()
        while times_blocked() == before:
            pass
        blocked.release.set()
        thread.join()
    seen = counts(profile)
    assert (seen["tap", "drops"], seen["drop", "drops"]) == (1, 2)
    assert (seen["tap", "waits"], seen["wait for room", "waits"]) == (1, 1)
    summary = profile.summary()
    assert (summary["drops"]["drops"], summary["drops"]["records"]) == (2, 1)
    assert 0 < summary["waits"]["room_wait_seconds"] <= summary["waits"]["device_wait"]["total"]
    report = str(profile.report())
    assert "lost 2 of 3 records" in report
    assert "programs waited for room 1 times" in report.replace("\n   ", " ")


@pytest.mark.native_only(platforms.DEVICE)
@pytest.mark.devices(2)
def test_several_devices_have_a_row_each(received):
    mesh = jax.make_mesh((2,), ("d",), devices=jax.devices()[:2])
    x = jax.device_put(jnp.zeros(4, jnp.float32), NamedSharding(mesh, P("d")))
    tap = named(received.tap, "shards")
    with callout.profile() as profile:
        jax.jit(lambda x: callout.tap(tap, x, sharding="local"))(x).block_until_ready()
    taps = profile.events[profile.events["kind"] == "tap"]
    assert sorted(taps["row"]) == ["device 0", "device 1"]


def test_the_timeline_is_valid_for_viewers(tmp_path, received):
    tap = named(received.tap, 'tap "ü" \\')
    path = tmp_path / "trace.json"
    with callout.profile(path) as profile:
        loop(lambda x: callout.pure_callback(named(double, "double"), F32, callout.tap(tap, x)) / 2, 50)
    whole = trace_format.load(path)
    events = whole["traceEvents"]
    trace_format.check(events)
    assert whole["otherData"]["events_left_out"] == 0
    spans = [event for event in events if event["ph"] == "X"]
    assert len(spans) == (profile.events["kind"] != "queue").sum()
    assert sum(event["ph"] == "s" for event in events) == 50
    levels = [event for event in events if event["name"] == "python queue of device 0"]
    assert {event["ph"] for event in levels} == {"C"}
    assert levels[-1]["args"] == {"bytes": 0}
    assert max(event["args"]["bytes"] for event in levels) > 0
    profile.save(tmp_path / "trace.json.gz")
    assert trace_format.load(tmp_path / "trace.json.gz") == whole


def test_threads_that_overlap_do_not_cross_in_a_row(tmp_path):
    f = jax.jit(lambda x: callout.pure_callback(named(double, "threads"), F32, x))
    f(jnp.float32(1))
    with callout.profile(tmp_path / "trace.json") as profile:
        threads = [
            threading.Thread(target=lambda: [f(jnp.float32(i)).block_until_ready() for i in range(50)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    trace_format.check(trace_format.load(tmp_path / "trace.json")["traceEvents"])
    assert counts(profile)["call", "threads"] == 200


def test_events_that_do_not_fit_are_counted():
    with callout.profile(max_events=10) as profile:
        loop(lambda x: callout.pure_callback(named(double, "double"), F32, x) / 2, 20)
    assert len(profile.events) <= 10
    assert profile.left_out >= 90
    assert f"{profile.left_out} events did not fit" in str(profile.report()).replace("\n", " ")


def test_the_summary_has_numbers_and_a_table(received):
    tap = named(received.tap, "a tap")
    with callout.profile() as profile:
        loop(lambda x: callout.pure_callback(named(double, "a call"), F32, callout.tap(tap, x)) / 2, 20)
        callout.tap(tap, 1.0, every=1)
    call, seen = (profile.summary()[label] for label in ("a call", "a tap"))
    assert (call["calls"], call["records"], call["bytes"], call["worker"]) == (20, 0, 160, "python")
    assert (seen["calls"], seen["records"], seen["taps"]) == (0, 21, 21)
    for part in ("gil_wait_seconds", "copy_seconds", "function_seconds"):
        assert 0 < call[part] < call["host"]["total"]
    assert 0 < call["host"]["p50"] <= call["host"]["p95"] <= call["host"]["max"] <= call["host"]["total"]
    assert call["device_wait"] == call["host"], "a call holds its program wholly"
    assert seen["queue_wait"]["max"] > 0
    assert seen["device_wait"]["total"] > 0
    lines = str(profile.summary()).splitlines()
    assert lines[0].split()[:3] == ["callback", "calls", "records"]
    assert len({len(line) for line in lines if line.rstrip() == line}) == 1, "columns are aligned"
    assert profile.summary()._repr_html_() == f"<pre>{profile.summary()}</pre>"  # a notebook shows this


def test_skips_are_those_of_the_profile():
    tap = named(lambda _: None, "every fifth")
    for _ in range(2):
        with callout.profile() as profile:
            loop(lambda x: callout.tap(tap, x, every=5) + 1, 10)
        assert profile.summary()["every fifth"]["skips"] == 8


def test_one_profile_at_a_time():
    with callout.profile(), pytest.raises(RuntimeError, match="recorded already"), callout.profile():
        pass
    assert not _ext.is_recording()


def test_a_profile_is_over_once():
    profile = callout.profile()
    with pytest.raises(RuntimeError, match="nothing before the end"):
        profile.summary()
    with profile:
        pass
    assert str(profile.summary()) == "No callback ran."
    with pytest.raises(RuntimeError, match="is over"), profile:
        pass


def test_a_block_that_fails_leaves_its_profile():
    def fails(x):
        raise ZeroDivisionError

    profile = callout.profile()
    with pytest.raises(ZeroDivisionError), profile:
        callout.pure_callback(named(fails, "double"), F32, 1.0)
    assert counts(profile)["call", "double"] == 1
    assert not _ext.is_recording()


def test_a_profile_inside_a_callback_does_not_wait_for_it():
    profiles = []

    def profiled(x):
        with callout.profile() as profile:
            callout.pure_callback(named(double, "inner"), F32, 1.0)
        profiles.append(profile)
        return x

    jax.jit(lambda x: callout.pure_callback(profiled, F32, x))(jnp.float32(1)).block_until_ready()
    assert counts(profiles[0])["call", "inner"] == 1


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="max_events must be an integer of at least 1, got 0"):
        callout.profile(max_events=0)


class FixedError(Exception):
    """An exception that does not allow notes."""

    def __setattr__(self, name, value):
        raise RuntimeError("nothing can be set")


@pytest.mark.parametrize("kind", [KeyError, FixedError])
def test_an_unwritable_timeline_does_not_hide_an_error(tmp_path, kind):
    error, folder = kind("the user's"), tmp_path / "folder"
    folder.mkdir()

    def run():
        with callout.profile(folder / "trace.json"):
            shutil.rmtree(folder)
            folder.touch()
            raise error

    with pytest.raises(kind) as info:
        run()
    assert info.value is error
    if kind is KeyError:
        assert "the timeline was not written" in error.__notes__[0]


def test_a_profile_creates_its_folder_and_has_a_repr(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    with callout.profile("~/of/runs/trace.json") as profile:
        assert repr(profile) == "<profile('~/of/runs/trace.json')>"
        callout.tap(lambda value: None, 1.0)
    assert (tmp_path / "of" / "runs" / "trace.json").exists()
    assert repr(profile) == f"<profile('~/of/runs/trace.json'), {len(profile.events)} events>"
    assert repr(callout.profile()) == "<profile()>"
