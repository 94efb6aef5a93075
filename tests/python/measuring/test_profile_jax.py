# SPDX-License-Identifier: Apache-2.0
"""Tests callout.profile beside JAX's own profiler: one time axis, and annotations."""

import callout
import jax
import pytest
import trace_format
from profiled import F32, double, loop, named


def jax_spans(events, name):
    return [event for event in events if event.get("name") == name and "cat" not in event and event["ph"] == "X"]


def check_alignment(events, label):
    """Checks that JAX's annotation of each call lies in our span of the call."""
    ours = [event for event in events if event.get("cat") == "function" and event["name"] == label]
    theirs = jax_spans(events, label)
    assert len(ours) == len(theirs) > 0
    for own, other in zip(
        sorted(ours, key=lambda event: event["ts"]), sorted(theirs, key=lambda event: event["ts"]), strict=True
    ):
        slack = 20  # microseconds: the offset between the two clocks is known to one or two
        assert own["ts"] - slack <= other["ts"]
        assert other["ts"] + other["dur"] <= own["ts"] + own["dur"] + slack


def test_jax_and_callout_have_one_time_axis(tmp_path):
    path = tmp_path / "both.json.gz"
    with callout.profile(path, jax=tmp_path / "jax"):
        loop(lambda x: callout.pure_callback(named(double, "aligned"), F32, x) / 2, 5)
    events = trace_format.load(path)["traceEvents"]
    check_alignment(events, "aligned")
    pids = {event["pid"] for event in events if event.get("cat") == "function"}
    assert len(pids) == 1
    assert not pids & {event["pid"] for event in events if "cat" not in event and event["ph"] != "M"} - pids
    own = [event for event in events if event["pid"] in pids]
    trace_format.check(own)


def test_a_capture_that_was_there_before_is_joined_later(tmp_path):
    with jax.profiler.trace(str(tmp_path / "jax")), callout.profile() as profile:
        loop(lambda x: callout.pure_callback(named(double, "joined"), F32, x) / 2, 5)
    profile.save(tmp_path / "both.json", jax=tmp_path / "jax")
    check_alignment(trace_format.load(tmp_path / "both.json")["traceEvents"], "joined")


def test_a_capture_within_the_profile_is_joined_by_its_begin(tmp_path):
    with callout.profile() as profile, jax.profiler.trace(str(tmp_path / "jax")):
        loop(lambda x: callout.pure_callback(named(double, "within"), F32, x) / 2, 5)
    profile.save(tmp_path / "both.json", jax=tmp_path / "jax")
    check_alignment(trace_format.load(tmp_path / "both.json")["traceEvents"], "within")


def test_a_folder_without_a_capture_is_named(tmp_path):
    with callout.profile() as profile:
        pass
    with pytest.raises(FileNotFoundError, match=r"no .*trace.json.gz below .*nothing"):
        profile.save(tmp_path / "both.json", jax=tmp_path / "nothing")


@pytest.mark.parametrize("annotate", [True, False, None])
def test_annotations_are_made_when_asked_for_or_captured(tmp_path, annotate, monkeypatch):
    made = []

    class Annotation(jax.profiler.TraceAnnotation):
        def __init__(self, name, **kwargs):
            made.append(name)
            super().__init__(name, **kwargs)

    monkeypatch.setattr(jax.profiler, "TraceAnnotation", Annotation)
    with callout.profile(annotate=annotate):
        callout.pure_callback(named(double, "annotated"), F32, 1.0)
    assert made.count("annotated") == (1 if annotate else 0)
    with callout.profile(annotate=annotate, jax=tmp_path):
        callout.pure_callback(named(double, "annotated"), F32, 1.0)
    assert made.count("annotated") == {True: 2, False: 0, None: 1}[annotate]
    made.clear()
    callout.pure_callback(named(double, "annotated"), F32, 1.0)
    assert made == []


def test_an_exception_leaves_an_annotated_function():
    def bad(x):
        raise LookupError("as it is")

    with callout.profile(annotate=True), pytest.raises(LookupError, match="as it is"):
        callout.pure_callback(bad, F32, 1.0)
