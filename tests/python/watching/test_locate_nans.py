# SPDX-License-Identifier: Apache-2.0
"""Tests `callout.locate_nans`: the line where NaN and infinities begin, under every transformation."""

import contextlib
import functools
import re
import sys
import warnings
from pathlib import Path

import callout
import jax
import jax.numpy as jnp
import numpy as np
import planted_nans as planted
import platforms
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from located import THREADS_OWN, found
from planted_gradients import BACKWARD, backward


def here(text):
    """Returns the line of this file that ends with the text, in the form of reports."""
    lines = Path(__file__).read_text().splitlines()
    (number,) = [i for i, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return f"{__file__}:{number} "


def complaint(plant, texts):
    """Returns the error in the reports about a plant; None if they are right."""
    # In the backward pass, NaN may follow from an infinity, and is reported as such.
    began = [text for text in texts if "out of infinite inputs" not in text or plant.name == "masked_softmax"]
    place = f"{plant.file}:{plant.line()} in "
    if not began or not began[0].startswith(f"locate_nans: {plant.kind} at {place}") or "# HERE" not in began[0]:
        return f"{plant.name}: expected {plant.kind} at {place}, got {texts}"
    if not all(place in text for text in began):
        return f"{plant.name}: elsewhere, too: {texts}"
    if plant.passes and plant.passes not in began[0]:
        return f"{plant.name}: expected {plant.passes!r}, got {texts}"
    return None


@pytest.mark.parametrize("program", ["forward", "grad outside", "grad inside"])
def test_planted_nans_are_found_at_their_lines(program):
    if program == "forward" and platforms.ON_CUDA and platforms.on_software_gpu():
        pytest.skip(platforms.SOLVERS)
    plants, plain, located = {
        "forward": (planted.FORWARD, planted.forward, callout.locate_nans(planted.forward)),
        "grad outside": (BACKWARD, jax.grad(backward), jax.grad(callout.locate_nans(backward))),
        "grad inside": (BACKWARD, jax.grad(backward), callout.locate_nans(jax.grad(backward))),
    }[program]
    f = jax.jit(located)
    texts, results = found(f, planted.values(plants, -1))
    assert texts == []
    good = jax.jit(plain)(planted.values(plants, -1))
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5), results, good)
    complaints = [complaint(plant, found(f, planted.values(plants, i))[0]) for i, plant in enumerate(plants)]
    assert [each for each in complaints if each] == []


def test_a_report_has_everything():
    @callout.locate_nans
    def f(x, w):
        def step(carry, row):
            with jax.named_scope("encoder"):
                scaled = carry * row
                carry = jnp.log(scaled)  # all
            return jnp.exp(carry), carry

        return jax.lax.scan(step, w, x)[1]

    x = np.ones((3, 2), np.float32)
    x[2, 1] = -4
    (text,), _ = found(jax.jit(f), x, np.array([1, 2], np.float32))
    assert text == (
        f"locate_nans: NaN at {here('all')}in {f.__qualname__}.<locals>.step: `carry = jnp.log(scaled)  # all`; log, "
        "forward, in encoder; f32[2] at [1], step 2, device 0; inputs: f32[2] -8.0"
    )
    eager, _ = found(f, x, np.array([1, 2], np.float32))
    assert eager == [text]


def test_lanes_are_reported_and_inactive_ones_are_not_checked():
    def f(x):
        def positive(y):
            return jnp.log(y)

        return jax.lax.cond(x > 0, positive, lambda y: jax.lax.while_loop(lambda z: z < 0.5, more, y), x)

    def more(y):
        return y + 1 + 0 * jnp.sqrt(-0.5 - y)  # root

    batched = jax.jit(jax.vmap(jax.vmap(callout.locate_nans(f)), in_axes=1))
    x = np.array([[1, -2.5, 3], [-5.5, 2, -7.5]], np.float32)
    texts, _ = found(batched, x)
    assert texts == []
    x[1, 1] = 0
    (text,), _ = found(batched, x)
    assert here("root") in text
    assert ", lane (1,1), step 0, " in text


@pytest.mark.parametrize("granularity", ["line", "operation"])
def test_results_of_diverging_loops_are_checked_after_vmap(granularity):
    def f(x):
        return jax.lax.while_loop(lambda c: c > 1, lambda c: jnp.log(c - 3) + c - 5, x)  # loop

    batched = jax.jit(callout.locate_nans(jax.vmap(f), granularity=granularity))
    assert found(batched, np.array([5, 0.5, 4.5], np.float32))[0] == []  # finished lanes discard their NaN
    (text,), _ = found(batched, np.array([5, 0.5, 2.5], np.float32))
    assert here("loop") in text
    assert "; while, forward; f32[3] at [2], device 0; inputs: f32[3] 2.5" in text


def test_one_bad_lane_does_not_hide_another():
    def f(x):
        return jnp.sqrt(x)

    (text,), _ = found(jax.jit(jax.vmap(callout.locate_nans(f))), np.array([np.nan, 1, -1], np.float32))
    assert "f32[] at [], lane 2, device 0; inputs: f32[] -1.0" in text


def test_stop_fails_with_the_same_class_at_every_call():
    f = jax.jit(callout.locate_nans(lambda x: jnp.log(x) + 1, stop=True))
    for _ in range(4):
        assert np.isfinite(f(np.float32(2)))
        with pytest.raises(callout.NonFiniteError, match=re.escape(f"locate_nans: NaN at {__file__}:")) as caught:
            platforms.ended(f(np.float32(-1)))
        assert isinstance(caught.value, FloatingPointError)
        with contextlib.suppress(callout.NonFiniteError):
            jax.effects_barrier()


def test_warnings_that_are_errors_fail_the_program():
    f = jax.jit(callout.locate_nans(lambda x: jnp.log(x)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(callout.NonFiniteError, match="NaN at"):
            platforms.ended(f(np.float32(-1)))
    with contextlib.suppress(callout.NonFiniteError):
        jax.effects_barrier()


@pytest.mark.native_only(platforms.RUN)
def test_a_run_reports_a_place_once_many_runs_less_often():
    def f(x):
        return jax.lax.map(jnp.log, x)

    located = jax.jit(callout.locate_nans(f))
    counts = [len(found(located, np.full(5, -1, np.float32))[0]) for _ in range(20)]
    assert counts == [1] * 10 + [0] * 5 + [1] + [0] * 4


def test_infinities_may_be_skipped_and_masks_are_intended():
    def f(x):
        scores = jnp.where(x > 0, x, -jnp.inf)
        logs = jnp.log(jnp.abs(x))
        return jax.nn.softmax(scores + logs)

    zero = np.array([1, 0, 2], np.float32)
    (text,), _ = found(jax.jit(callout.locate_nans(f)), zero)
    assert "infinity" in text
    assert found(jax.jit(callout.locate_nans(f, infinities=False)), zero)[0] == []
    (text,), _ = found(jax.jit(callout.locate_nans(f, infinities=False)), np.zeros(3, np.float32))
    assert "softmax" in text
    assert "out of infinite inputs" in text


def test_granularity_selects_the_checked_values():
    def inner(x):
        logs = jnp.log(x)
        return jnp.where(x > 0, logs, 0)

    def f(x):
        with jax.named_scope("head"):
            return inner(x) + 1

    bad = np.float32(-1)
    for granularity in ("operation", "line"):
        (text,), _ = found(jax.jit(callout.locate_nans(f, granularity=granularity)), bad)
        assert "logs = jnp.log(x)" in text
        assert "in head" in text
    for granularity in ("function", "module"):  # the mask is inside
        assert found(jax.jit(callout.locate_nans(f, granularity=granularity)), bad)[0] == []
        (text,), _ = found(jax.jit(callout.locate_nans(lambda x: jnp.sqrt(f(x) - 2), granularity=granularity)), bad)
        assert "NaN" in text


@pytest.mark.native_only(platforms.TEXT)
def test_the_switch_leaves_nothing():
    def f(x):
        return jnp.log(x)

    plain = jax.jit(f).lower(jnp.ones(2)).as_text()
    callout.config.locate_nans = False
    try:
        assert jax.jit(callout.locate_nans(f)).lower(jnp.ones(2)).as_text() == plain
    finally:
        callout.config.locate_nans = True
    assert "nans:" in jax.jit(callout.locate_nans(f)).lower(jnp.ones(2)).as_text()


def test_derivatives_are_those_of_the_function():
    def f(x):
        return jnp.sum(jax.nn.logsumexp(x * x) * jnp.tanh(x)) + jax.nn.relu(x).sum()

    def all_of(f):
        return jax.jit(lambda x: (jax.grad(f)(x), jax.hessian(f)(x), jax.vmap(jax.grad(jax.checkpoint(f)))(x[None])))

    x = np.array([0.5, -1, 2], np.float32)
    texts, results = found(all_of(callout.locate_nans(f)), x)
    assert texts == []
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6), results, all_of(f)(x))


def test_numbers_structures_and_keywords_pass():
    @callout.locate_nans
    def f(tree, n, *, scale):
        return {"y": tree["x"] * scale**n, "n": n, "i": tree["i"] + 1}

    texts, results = found(functools.partial(f, scale=3.0), {"x": jnp.ones(2), "i": jnp.arange(2)}, 2)
    assert texts == []
    assert results["y"].tolist() == [9, 9]
    assert results["n"] == 2
    assert f.__name__ == "f"


def test_wrong_arguments_are_refused():
    with pytest.raises(TypeError, match=r"callout\.locate_nans: expected a function, got 3"):
        callout.locate_nans(3)
    with pytest.raises(ValueError, match=r"granularity must be one of .* got 'word'"):
        callout.locate_nans(jnp.log, granularity="word")


@pytest.mark.collectives
@pytest.mark.native_only(platforms.SHARDS)
@pytest.mark.devices(2)
@pytest.mark.skipif(getattr(sys.flags, "context_aware_warnings", False), reason=THREADS_OWN)
def test_shards_tell_their_device():
    mesh = jax.make_mesh((2,), ("d",))
    sharding = NamedSharding(mesh, P("d"))

    def spread(x):
        def part(y):
            logs = jnp.log(y)  # shard
            return logs + 0 * jax.lax.psum(logs, "d")

        return jax.shard_map(part, mesh=mesh, in_specs=P("d"), out_specs=P("d"))(x)

    def whole(x):
        logs = jnp.log(x)  # whole
        return logs / logs.sum()

    bad = jax.device_put(np.array([1, 2, 3, -4], np.float32), sharding)
    for f in (callout.locate_nans(spread), jax.grad(callout.locate_nans(lambda x: spread(x).sum()))):
        texts, _ = found(jax.jit(f), bad)
        assert texts
        assert all(here("shard") in text for text in texts)
        assert "f32[2] at [1], device 1; inputs: f32[2] -4.0" in texts[0]
    texts, _ = found(jax.jit(callout.locate_nans(whole)), bad)
    assert here("whole") in texts[0]
    assert "f32[2] at [3], device 1, the shard from [2]; inputs: f32[2] -4.0" in texts[0]


def test_nans_in_mutable_arrays_are_found_where_computed():
    """Uses arrays of the program, arguments and loops.

    A value that is read is an input, so NaN that was read is not new.
    """

    def write(ref):
        ref[...] = jnp.log(ref[...]) - 1  # written
        return ref[...] * 2

    def own(x):
        return write(jax.new_ref(x))

    def in_loop(x):
        ref = jax.new_ref(x)
        jax.lax.fori_loop(0, 2, lambda i, count: write(ref).shape[0] + count, 0)
        return ref[...]

    x = np.array([1, -3], np.float32)
    expected = (
        f"NaN at {here('written')}in {write.__qualname__}: `ref[...] = jnp.log(ref[...]) - 1  # written`; log, sub, "
    )
    for f, steps in ((own, ""), (in_loop, "step 0, ")):
        for run in (callout.locate_nans(f), jax.jit(callout.locate_nans(f))):
            (text,), out = found(run, x)
            assert text == f"locate_nans: {expected}forward; f32[2] at [1], {steps}device 0; inputs: f32[2] -3.0"
            np.testing.assert_array_equal(out, f(x))
    located = callout.locate_nans(write)
    for run in (located, jax.jit(located), jax.jit(lambda ref: callout.locate_nans(lambda: write(ref))())):
        ref = jax.new_ref(jnp.asarray(x))
        (text,), out = found(run, ref)
        assert expected in text
        np.testing.assert_array_equal(ref[...], [-1, np.nan])
        np.testing.assert_array_equal(out, [-2, np.nan])
        assert found(run, ref)[0] == [], "an input is NaN already"


def test_gradients_of_programs_with_mutable_arrays_are_theirs():
    def f(x):
        ref = jax.new_ref(x)
        ref[...] = jnp.sqrt(ref[...])  # forward
        return (ref[...] ** 2).sum()

    x = np.array([4, -1], np.float32)
    texts, gradient = found(jax.jit(jax.grad(callout.locate_nans(f))), x)
    np.testing.assert_array_equal(gradient, jax.grad(f)(x))
    assert [text for text in texts if here("forward") in text and "forward; " in text]
    assert found(jax.jit(jax.grad(callout.locate_nans(f))), abs(x))[0] == []
    lanes = jax.jit(callout.locate_nans(jax.vmap(jax.grad(f))))
    np.testing.assert_array_equal(found(lanes, abs(x)[:, None])[1].ravel(), [1, 1])


def test_exported_programs_carry_their_places():
    exported = callout.export(jax.jit(callout.locate_nans(lambda x: jnp.log(x) * 2)))(
        jax.ShapeDtypeStruct((2,), jnp.float32)
    )
    assert callout.exported_names(exported) == ()  # no name needs a binding
    loaded = jax.export.deserialize(exported.serialize())
    texts, _ = found(loaded.call, np.array([1, -1], np.float32))
    assert [text for text in texts if f"NaN at {__file__}:" in text]


def test_constants_of_other_signs_are_other_constants():
    f = callout.locate_nans(lambda x, c: jnp.copysign(x, c))
    assert [f(jnp.float32(2), c).tolist() for c in (0.0, -0.0, 0.0)] == [2, -2, 2]


def test_constants_of_loops_with_diverging_lanes_are_intended():
    def f(bad):
        def step(s):
            return jnp.where(s + 1 > 8, bad, s + 1)

        return jax.vmap(lambda s: jax.lax.while_loop(lambda s: s < 9, step, s))

    for bad in (jnp.inf, jnp.nan):
        assert found(jax.jit(callout.locate_nans(f(bad))), np.arange(3, dtype=np.float32))[0] == []
    assert found(jax.jit(callout.locate_nans(f(3e38))), np.arange(3, dtype=np.float32))[0] == []

    def grow(s):
        return s * jnp.float32(1e30)

    grown = jax.vmap(lambda s: jax.lax.while_loop(lambda s: s < 1e38, grow, s))
    (text,), _ = found(jax.jit(callout.locate_nans(grown)), np.array([1, 1e20], np.float32))
    assert "infinity" in text


@pytest.mark.cpu_only("XLA:GPU gives products to a library, or makes kernels of them")
def test_a_gradients_transposed_product_is_computed_as_without():
    def f(w, x):
        y = x @ w
        return jnp.sum(jnp.tanh(y))

    def products(program):
        text = jax.jit(program).lower(np.ones((24, 40), np.float32), np.ones((16, 24), np.float32)).compile().as_text()
        return sorted(re.findall(r"= (f32\[[\d,]*\])\S* dot\(", text))

    plain = products(jax.grad(f))
    assert "f32[24,40]" in plain  # the transposed product has the shape of w
    assert products(callout.locate_nans(jax.grad(f))) == plain
    assert products(jax.grad(callout.locate_nans(f))) == plain


def test_forward_mode_of_python_numbers():
    for tangents in ((1.0,), (jnp.float32(1),)):
        assert jax.jvp(callout.locate_nans(jnp.sin), (1.0,), tangents) == jax.jvp(jnp.sin, (1.0,), tangents)
    _, change = jax.jvp(callout.locate_nans(lambda x, n: x * n), (2.0, 3), (1.0, np.zeros((), jax.dtypes.float0)))
    assert change == 3
