# SPDX-License-Identifier: Apache-2.0
"""A strict reader of the Trace Event Format: events that a viewer would draw wrongly or omit are errors."""

import collections
import gzip
import json
from pathlib import Path

# Keys that each phase needs besides `ph`, `name`, `pid`, `tid` and `ts`.
_KEYS = {"X": {"dur", "cat"}, "i": {"s", "cat"}, "s": {"id", "cat"}, "f": {"id", "cat"}, "C": {"args"}, "M": {"args"}}
_NS = 1000  # decimals of a microsecond


def load(path):
    """Returns the trace in a file as its packets."""
    content = Path(path).read_bytes()
    return json.loads(gzip.decompress(content) if str(path).endswith(".gz") else content)


def nanoseconds(microseconds):
    return round(microseconds * _NS)


def check(events):
    """Raises AssertionError with the first invalid event."""
    for event in events:
        _check_keys(event)
    timed = [event for event in events if event["ph"] != "M"]
    times = [event["ts"] for event in timed]
    assert times == sorted(times), "events are not in the order of time"
    rows = collections.defaultdict(list)
    for event in timed:
        if event["ph"] == "X":
            rows[event["pid"], event["tid"]].append(event)
    named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    assert set(rows) <= named, "a row has no name"
    for spans in rows.values():
        _check_nesting(spans)
    _check_flows(timed, rows)


def _check_keys(event):
    assert {"ph", "name", "pid", "tid", "ts"} <= event.keys(), event
    assert event["ph"] in _KEYS, event
    assert _KEYS[event["ph"]] <= event.keys(), event
    assert isinstance(event["pid"], int), event
    assert isinstance(event["tid"], int), event
    assert isinstance(event["ts"], int | float), event
    if event["ph"] == "X":
        assert event["dur"] >= 0, event
    if event["ph"] == "i":
        assert event["s"] in ("g", "p", "t"), event
    if event["ph"] == "C":
        assert event["args"], event
        assert all(isinstance(value, int | float) for value in event["args"].values()), event


def _check_nesting(spans):
    """Checks that two spans of a row are disjoint or nested, the outer one first."""
    ends = []
    for span in spans:
        begin = nanoseconds(span["ts"])
        end = begin + nanoseconds(span["dur"])
        while ends and ends[-1] <= begin:
            ends.pop()
        assert not ends or end <= ends[-1], f"{span} ends after the span that it lies in"
        ends.append(end)


def _check_flows(events, rows):
    """Checks that each arrow has one begin and one later end, both within a span of their row."""
    flows = collections.defaultdict(dict)
    for event in events:
        if event["ph"] in ("s", "f"):
            assert event["ph"] not in flows[event["id"]], f"{event} is there twice"
            flows[event["id"]][event["ph"]] = event
            assert any(_holds(span, event) for span in rows[event["pid"], event["tid"]]), f"{event} is in no span"
            assert event["ph"] == "s" or event["bp"] == "e", event
    for flow in flows.values():
        assert set(flow) == {"s", "f"}, f"{flow} has one end"
        assert flow["s"]["ts"] <= flow["f"]["ts"], flow


def _holds(span, event):
    begin = nanoseconds(span["ts"])
    return begin <= nanoseconds(event["ts"]) <= begin + nanoseconds(span["dur"])
