# SPDX-License-Identifier: Apache-2.0
"""Tests callout.stats() as a table and for Prometheus, parsed by Prometheus' own parser."""

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout import _ext
from callout._measuring import tables

F32 = jax.ShapeDtypeStruct((), "float32")
AWKWARD = 'a "quoted"\\ name\nof two lines, ünïcode'


@pytest.fixture
def used(received):
    """Returns statistics of one call and one tap."""
    _ext.reset_statistics()
    double = callout.options(lambda x: np.float32(2 * x), name=AWKWARD)
    seen = callout.options(received.tap, name="seen")
    jax.jit(lambda x: callout.pure_callback(double, F32, callout.tap(seen, x, every=2)))(1.0).block_until_ready()
    jax.jit(lambda x: jax.lax.fori_loop(0, 10, lambda _, x: callout.tap(seen, x, every=2) + 1, x))(
        jnp.float32(1)
    ).block_until_ready()
    callout.barrier_wait()
    return callout.stats()


def samples(text):
    """Returns {(name, labels): value} of an exposition, and {family: type}."""
    parser = pytest.importorskip("prometheus_client.parser")
    families = list(parser.text_string_to_metric_families(text))
    values = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }
    assert len(values) == sum(len(family.samples) for family in families), "a sample is there twice"
    assert all(family.documentation for family in families)
    return values, {family.name: family.type for family in families}


def test_it_is_a_dict_of_tables(used):
    assert list(used) == ["callbacks", "queues", "live", "prints", "watches", "kernels"]
    assert isinstance(used, dict)
    assert used["callbacks"][AWKWARD]["calls"] == 1


def test_prometheus_reads_every_number(used):
    values, types = samples(used.prometheus())
    names = {
        "calls": "calls_total",
        "bytes": "bytes_total",
        "host_seconds": "host_seconds_total",
        "drops": "dropped_records_total",
        "skips": "skipped_records_total",
        "errors": "errors_total",
    }
    for label, counters in used["callbacks"].items():
        for key, name in names.items():
            assert values[f"callout_callback_{name}", frozenset({("callback", label)})] == counters[key]
    for queue in used["queues"]:
        labels = frozenset({("worker", queue["worker"]), ("device", str(queue["device"]))})
        for key in ("pending_bytes", "high_water_bytes", "capacity_bytes", "on_device", "pinned_bytes"):
            assert values[f"callout_queue_{key}", labels] == queue[key]
        assert values["callout_queue_blocked_total", labels] == queue["blocked"]
    for kind, count in used["live"].items():
        assert values["callout_live_objects", frozenset({("kind", kind)})] == count
    for who, count in used["prints"].items():
        assert values["callout_printed_values_total", frozenset({("formatter", who)})] == count
    for event, count in used["kernels"].items():
        assert values["callout_gpu_kernels_total", frozenset({("event", event)})] == count
    counters = {name for name, kind in types.items() if kind == "counter"}
    gauges = {name for name, kind in types.items() if kind == "gauge"}
    assert len(counters) == 9
    assert len(gauges) == 6
    assert len(types) == 15


def test_the_documentation_names_every_counter_of_callbacks():
    assert [key for key, *_ in _ext.callback_metrics() if f"`{key}`" not in callout.stats.__doc__] == []


def test_an_empty_exposition_is_read(monkeypatch):
    text = callout._measuring.stats.Stats(callbacks={}, queues=[], live={}, prints={}).prometheus()
    assert samples(text) == ({}, {})


def test_the_table_is_aligned_and_has_every_callback(used):
    text = str(used)
    assert text == used.table()
    first, *_ = text.split("\n\n")
    header, *rows = first.splitlines()
    assert header.split() == ["callback", "calls", "bytes", "time", "each", "dropped", "skipped", "errors"]
    assert text.count("seen") == 1
    assert len({len(line) for line in (header, *rows)}) == 1, "numbers are to the right"
    assert "python, device 0" in text
    assert "live:" in text


def test_an_empty_table_says_so():
    assert "No callback has run." in str(callout._measuring.stats.Stats(callbacks={}, queues=[], live={}, prints={}))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0"),
        (1e-9, "1 ns"),
        (1.234e-5, "12.3 us"),
        (0.9996, "1000 ms"),
        (1, "1 s"),
        (3723, "3723 s"),
        (1e-12, "0.001 ns"),
    ],
)
def test_durations_are_readable(seconds, text):
    assert tables.duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (25.6e6, "25.6 MB"), (3e15, "3000 TB")]
)
def test_sizes_are_readable(number, text):
    assert tables.size(number) == text


def test_a_reset_begins_anew_and_a_notebook_shows_a_table():
    def twice_as_much(x):
        return x * 2

    f = jax.jit(lambda x: callout.pure_callback(twice_as_much, jax.ShapeDtypeStruct((), "float32"), x))
    f(1.0)
    label = next(label for label in callout.stats()["callbacks"] if "twice_as_much" in label)
    assert callout.stats()["callbacks"][label]["calls"] == 1
    html = callout.stats()._repr_html_()
    assert html.startswith("<pre>callback ")
    assert "&lt;locals&gt;" in html
    callout.stats.reset()
    assert callout.stats()["callbacks"][label]["calls"] == 0
    f(1.0)
    assert callout.stats()["callbacks"][label]["calls"] == 1


def test_the_table_has_the_findings_of_watches(caplog):
    f = jax.jit(lambda x: callout.watch({"a": x}, "loss <table>"))
    for x in ([1.0, jnp.inf], [jnp.nan, 1.0], [1.0, 1.0]):
        f(jnp.array(x))
    jax.jit(lambda x: callout.watch(x, "fine table"))(jnp.ones(2))
    callout.barrier_wait()
    lines = str(callout.stats()).splitlines()
    assert ["watch", "times", "bad", "NaN", "infinite", "first"] in [line.split() for line in lines]
    (bad,) = (line for line in lines if line.startswith("loss <table>"))
    assert bad.split(maxsplit=6)[2:] == ["3", "2", "1", "1", "inf at [1] of f32[2], 'a', step 0, device 0"]
    (fine,) = (line for line in lines if line.startswith("fine table"))
    assert fine.split()[2:] == ["1", "0", "0", "0"]
    assert "loss &lt;table&gt;" in callout.stats()._repr_html_()
    assert len(caplog.records) == 1
