# SPDX-License-Identifier: Apache-2.0
"""Compares the sinks of statistics with NumPy."""

import threading

import callout
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from callout import sinks
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

HUGE = np.float32(np.finfo(np.float32).max)


def summary_of(values, **kwargs):
    """Returns the summary that a Histogram makes of an array."""
    sink = sinks.Histogram(**kwargs)
    callout.tap(sink, values, name="x")
    callout.barrier_wait()
    return sink["x"]


def check_moments(summary, values):
    """Checks that the moments of the finite elements are NumPy's, in double precision."""
    values = np.asarray(values, np.float64).ravel()
    finite = values[np.isfinite(values)]
    assert summary.size == values.size
    assert summary.count == finite.size
    assert summary.nans == np.isnan(values).sum()
    assert summary.pos_infs == (values == np.inf).sum()
    assert summary.neg_infs == (values == -np.inf).sum()
    assert summary.zeros == (values == 0).sum()
    if finite.size == 0:
        assert summary.sum == 0
        assert np.isnan([summary.mean, summary.std, summary.variance, summary.min, summary.max]).all()
        return
    scale = np.abs(finite).max()
    assert (summary.min, summary.max) == (finite.min(), finite.max())
    np.testing.assert_allclose(summary.sum, finite.sum(), rtol=1e-12, atol=1e-12 * scale * finite.size)
    np.testing.assert_allclose(summary.mean, finite.mean(), rtol=1e-12, atol=1e-13 * scale)
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_allclose(summary.std, finite.std(), rtol=1e-9, atol=1e-13 * scale)
        np.testing.assert_allclose(summary.variance, summary.std**2, rtol=1e-9)


def check_quantiles(summary, values):
    """Checks that the quantiles are NumPy's within the error that the summary states."""
    finite = np.sort(np.asarray(values, np.float64).ravel())
    finite = finite[np.isfinite(finite)]
    q = np.linspace(0, 1, 23)
    if finite.size == 0:
        assert np.isnan(summary.quantile(q)).all()
        return
    neighbours = [np.quantile(finite, q, method=method) for method in ("lower", "higher")]
    reach = np.abs(neighbours).max(axis=0)
    tolerance = (summary.relative_error + 1e-12) * np.maximum(reach, np.finfo(np.float64).tiny)
    assert (np.abs(summary.quantile(q) - np.quantile(finite, q)) <= tolerance).all()


floats = st.floats(width=32) | st.sampled_from([0.0, -0.0, 1e-45, -1e-38, np.nan, np.inf, -np.inf, float(HUGE)])


@settings(deadline=None, max_examples=60)
@given(
    st.lists(hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=2, min_side=0), elements=floats), max_size=4)
)
def test_numbers_of_any_floats_are_numpys(arrays):
    sink = sinks.Histogram()
    for array in arrays:
        callout.tap(sink, array, name="x")
    callout.barrier_wait()
    if not arrays:
        assert sink.snapshot() == {}
        return
    together = np.concatenate([array.ravel() for array in arrays])
    assert sink["x"].records == len(arrays)
    check_moments(sink["x"], together)
    check_quantiles(sink["x"], together)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=200),
    st.integers(1, 40) | st.lists(st.integers(-60, 60), min_size=2, max_size=8, unique=True).map(sorted),
)
def test_given_bins_count_as_numpys(values, bins):
    limits = {"range": (-20, 30.5)} if isinstance(bins, int) else {}
    values = np.float32(values)
    counts, edges = summary_of(values, bins=bins, **limits).histogram()
    expected, expected_edges = np.histogram(values.astype(np.float64), bins, **limits)
    np.testing.assert_array_equal(edges, expected_edges)
    np.testing.assert_array_equal(counts, expected)


def test_a_million_elements_in_a_jitted_loop():
    values = np.random.default_rng(1).normal(3, 1e-2, (3, 1_000_000)).astype(np.float32)
    sink = sinks.Histogram(bins=50, range=(2.9, 3.1))
    jax.block_until_ready(jax.jit(lambda x: jax.lax.map(lambda row: callout.tap(sink, row, name="x").sum(), x))(values))
    callout.barrier_wait()
    summary = sink["x"]
    check_moments(summary, values)
    check_quantiles(summary, values)
    np.testing.assert_array_equal(summary.histogram()[0], np.histogram(values.astype(np.float64), 50, (2.9, 3.1))[0])
    estimated, edges = summary.histogram(20)
    exact, exact_edges = np.histogram(values.astype(np.float64), 20)
    np.testing.assert_array_equal(edges, exact_edges)
    assert estimated.sum() == values.size
    # Only elements near an edge may be in the neighboring bin: the density bounds their number.
    assert np.abs(estimated - exact).max() <= 4 * summary.relative_error * 3 / 1e-2 * values.size


@pytest.mark.parametrize(
    "values",
    [
        np.zeros((0, 3), np.float32), np.full(7, np.nan, np.float32), np.float32(-2.5), np.zeros(5, np.float32),
        np.float32([np.inf, -np.inf, np.inf]), np.float32([1e-45, -1e-45, 3e-39]), np.float32([HUGE, -HUGE, HUGE / 2]),
        np.bool_([True, False, True]), np.int8([-128, 127, 0]), np.uint8([255]), np.int32([-(2**31), 2**31 - 1]),
        np.uint32([2**32 - 1, 0]), np.float16([1.5, 6e-8, np.inf, -65504]),
        np.asarray([0.1, np.nan, 3e38], ml_dtypes.bfloat16),
        np.asarray([0.5, -448, np.nan], ml_dtypes.float8_e4m3fn), np.asarray([np.inf, 1e-5, -57344], ml_dtypes.float8_e5m2),
        np.asarray([-8, 7, 1], ml_dtypes.int4),
    ],
    ids=lambda values: f"{values.dtype}{values.shape}",
)  # fmt: skip
def test_every_kind_of_element(values):
    summary = summary_of(values)
    check_moments(summary, values)
    check_quantiles(summary, values)
    assert summary.histogram(5)[0].sum() == summary.count


def test_complex_numbers_count_with_their_magnitude():
    check_moments(summary_of(np.complex64([3 + 4j, -1j, 0])), [5, 1, 0])


def test_doubles_beyond_the_range_of_their_squares():
    with jax.enable_x64(True):
        for values in ([1e300, 3e300, -2e300], [1e-300, 5e-324, 2e-310], [1e300, 1e-300, 0]):
            summary = summary_of(np.float64(values))
            assert (summary.min, summary.max) == (min(values), max(values))
            scaled = np.float64(values) / max(values)
            np.testing.assert_allclose(summary.std / max(values), scaled.std(), rtol=1e-9)
            check_quantiles(summary, values)
        check_moments(summary_of(np.int64([2**62, -(2**53)])), [2.0**62, -(2.0**53)])


def test_leaves_and_taps_are_counted_apart_and_together():
    sink = sinks.Histogram()
    f = jax.jit(lambda x: callout.tap(sink, {"w": x, "b": [x.sum(), -x]}, name="grads"))
    f(jnp.arange(4.0))
    f(jnp.arange(4.0))
    callout.tap(sink, 2.0)
    callout.barrier_wait()
    assert list(sink) == ["grads.b.0", "grads.b.1", "grads.w", "histogram"]
    assert sink.snapshot().keys() == set(sink)
    assert "grads.w" in sink
    assert "grads" not in sink
    assert sink["grads.w"].records == 2
    assert sink["grads.w"].mean == 1.5
    assert sink["grads.b.1"].max == 0
    assert sink["histogram"].sum == 2
    with pytest.raises(KeyError, match=r"nothing was counted under 'grads'; there is \['grads.b.0'"):
        sink["grads"]
    sink.reset()
    assert sink.snapshot() == {}


def test_small_integers_have_no_error():
    values = np.random.default_rng(3).integers(-300, 512, 5000)
    summary = summary_of(values)
    assert summary.relative_error == 0
    q = np.linspace(0, 1, 50)
    np.testing.assert_allclose(summary.quantile(q), np.quantile(values, q), rtol=1e-12)
    np.testing.assert_array_equal(summary.histogram(25)[0], np.histogram(values, 25)[0])


def test_merge_is_counting_together():
    rng = np.random.default_rng(2)
    a, b = rng.lognormal(0, 3, 1000).astype(np.float32), -rng.lognormal(-4, 1, 300).astype(np.float32)
    merged = summary_of(a).merge(summary_of(b))
    check_moments(merged, np.concatenate([a, b]))
    check_quantiles(merged, np.concatenate([a, b]))
    with pytest.raises(ValueError, match="cannot merge histograms of different edges"):
        merged.merge(summary_of(a, bins=[0, 1]))


def test_statistics_keep_no_quantiles():
    sink = sinks.Statistics()
    callout.tap(sink, jnp.arange(5.0), name="x")
    callout.barrier_wait()
    check_moments(sink["x"], np.arange(5))
    for read in (lambda: sink["x"].quantile(0.5), lambda: sink["x"].histogram(), lambda: sink["x"].relative_error):
        with pytest.raises(ValueError, match="no quantiles are kept"):
            read()


def test_texts():
    sink = sinks.Histogram(name="seen")
    assert repr(sink) == "Histogram(name='seen')"
    callout.tap(sink, {"a": jnp.float32([0, 1, 2, np.nan]), "longer": 3.0}, name="x")
    callout.barrier_wait()
    assert repr(sink).splitlines() == [
        "Histogram(name='seen')",
        "  x.a       Summary(count=3, mean=1, std=0.8165, min=0, p50=1, max=2, zeros=1, nans=1)",
        "  x.longer  Summary(count=1, mean=3, std=0, min=3, p50=3, max=3)",
    ]


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"bins": 0}, "bins must be a number of at least 1, or edges, got 0"),
        ({"bins": [1]}, "two or more ascending numbers"),
        ({"bins": [1, 0]}, "two or more ascending numbers"),
        ({"bins": [0, np.inf]}, "two or more ascending numbers"),
        ({"range": (0, 1)}, "needs a number of bins, got None"),
        ({"bins": 3, "range": (1, 0)}, "range must be two ascending finite numbers"),
        ({"bins": 3, "quantiles": False}, "needs a range"),
    ],
)
def test_bad_bins_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        sinks.Histogram(**kwargs)


def test_bad_quantiles_are_refused():
    with pytest.raises(ValueError, match=r"q must be from 0 to 1, got 1\.5"):
        summary_of(np.float32([1])).quantile(1.5)


def test_readers_see_whole_records_while_the_program_runs():
    sink = sinks.Histogram()
    done = threading.Event()
    torn = []

    def read():
        is_last = False
        while not is_last:
            is_last = done.is_set()
            torn.extend(
                summary
                for summary in sink.snapshot().values()
                if summary.count != 1000 * summary.records or summary.zeros != 500 * summary.records
            )

    row = jnp.concatenate([jnp.zeros(500), jnp.ones(500)])
    reader = threading.Thread(target=read)
    reader.start()
    try:
        f = jax.jit(lambda x: jax.lax.fori_loop(0, 300, lambda _, c: callout.tap(sink, c, name="x"), x))
        for _ in range(3):
            f(row)
        callout.barrier_wait()
    finally:
        done.set()
        reader.join()
    assert not torn
    assert sink["x"].records == 900
    assert sink["x"].mean == 0.5


def test_tee_gives_a_tap_to_sinks_functions_and_names(received, tmp_path):
    histogram, statistics = sinks.Histogram(name="tee_h"), sinks.Statistics(name="tee_s")
    path = tmp_path / "log.jsonl"
    callout.register("tee.named", sinks.JsonLines(path, fields=False))
    devices = []

    def with_device(value, *, device):
        devices.append((float(value), device.id))

    plain = sinks.Tee(histogram, sinks.Tee(statistics, sinks.Function(received.tap)), "tee.named", name="tee_all")
    keyed = sinks.Tee(statistics, with_device)

    @jax.jit
    def f(x):
        callout.tap(keyed, x, name="k", with_device=True)
        return jax.lax.fori_loop(0, 3, lambda i, c: callout.tap(plain, c + i, name="x", every=2), x)

    try:
        assert f(jnp.float32(1)) == 4
        callout.barrier_wait()
    finally:
        callout.unregister("tee.named")
    assert received == [1, 4]
    assert devices == [(1.0, 0)]
    assert histogram["x"].sum == 5
    assert statistics["x"].sum == 5
    assert statistics["k"].sum == 1
    assert path.read_text().splitlines() == ['{"name": "x", "value": 1}', '{"name": "x", "value": 4}']
    calls = {name: callout.stats()["callbacks"][name]["calls"] for name in ("tee_all", "tee_h", "tee_s")}
    assert calls["tee_all"] == calls["tee_h"] == 2
    assert calls["tee_s"] == 3


def test_a_failing_sink_of_a_tee_does_not_affect_others(received):
    broken, counts = sinks.JsonLines("/dev/full", append=True), sinks.Statistics()
    tee = sinks.Tee(broken, counts, received.tap)
    jax.jit(lambda x: callout.tap(tee, x, name="x"))(1.0)
    with pytest.raises(callout.TapError, match="sink 'json_lines': cannot write to '/dev/full': No space left"):
        callout.barrier_wait()
    assert counts["x"].records == 1
    assert received == [1]


def test_a_tee_takes_targets_only():
    with pytest.raises(TypeError, match="one or more"):
        sinks.Tee()
    with pytest.raises(TypeError, match="expected a sink, a callable or the name of a callback, got 3"):
        sinks.Tee(sinks.Null(), 3)
    with pytest.raises(TypeError, match="with_device"):
        callout.tap(sinks.Tee(sinks.Null(), "some.name"), 1.0, with_device=True)


def test_a_tee_of_sinks_can_be_registered():
    statistics = sinks.Statistics()
    callout.register("tee.registered", sinks.Tee(statistics, sinks.Null()))
    try:
        jax.jit(lambda x: callout.tap("tee.registered", x, name="x"))(2.0)
        callout.barrier_wait()
    finally:
        callout.unregister("tee.registered")
    assert statistics["x"].sum == 2
    with pytest.raises(callout.RegistrationError, match="a name stands for one callback"):
        callout.register("tee.mixed", sinks.Tee(statistics, print))
