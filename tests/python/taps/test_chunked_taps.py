# SPDX-License-Identifier: Apache-2.0
"""Tests taps with `flush_interval`: loops collect records in chunks, and receivers cannot tell the difference."""

import contextlib
import functools
import json
import re
import threading

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout._primitives.loop_counters import Counter
from failing import fails
from jax import lax
from meshes import sharded
from platforms import BY_FALLBACK, ON_CUDA

NEVER_FIRST = 1e-6  # seconds: no step is as short, so that each chunk is one step
LONG = 100.0  # seconds: chunks are as long as they can be


def tap(values, flush_interval, x, **options):
    return callout.tap(values.append, x, flush_interval=flush_interval, **options)


def while_loop(tap, x):
    return lax.while_loop(lambda x: x < 20, lambda x: tap(x) + 1, x)


def scan_with_results(tap, x):
    return lax.scan(lambda c, y: (tap(c + y), c * y), x, jnp.arange(300.0))


def reversed_scan(tap, x):
    return lax.scan(lambda c, y: (tap(c + y), c * y), x, jnp.arange(30.0), reverse=True)


def taken_branch(tap, x):
    return lax.fori_loop(0, 50, lambda i, x: lax.cond(i % 3 == 0, tap, lambda x: x + 2, x) + 1, x)


def nested_scans(tap, x):
    return lax.fori_loop(0, 40, lambda i, x: lax.fori_loop(0, 8, lambda k, x: tap(x) + k, x), x)


def inner_while(tap, x):
    return lax.fori_loop(0, 6, lambda i, x: while_loop(tap, 0 * x + 15) + x, x)


def long_inner_loop(tap, x):
    return lax.fori_loop(0, 2, lambda i, x: lax.fori_loop(0, 5000, lambda k, x: tap(x) + 1, x), x)


def function_twice(tap, x):
    inner = jax.jit(tap)
    return lax.fori_loop(0, 30, lambda i, x: inner(inner(x) + 1) + 1, x)


def gradient(tap, x):
    def loss(x):
        c, ys = lax.scan(lambda c, _: (tap(jnp.sin(c)) * 1.1, c), x, None, length=12)
        return c + ys.sum()

    return jax.grad(loss)(x)


def checkpoint(tap, x):
    step = jax.checkpoint(lambda c, _: (tap(jnp.sin(c) * c), c))
    return jax.value_and_grad(lambda x: lax.scan(step, x, None, length=12)[0])(x)


def custom_rules(tap, x):
    return jax.grad(lambda x: lax.fori_loop(0, 5, lambda i, x: tap(jax.nn.relu(x)), x))(x)


def threaded(tap, x):
    return callout.threaded(functools.partial(while_loop, tap))(x)


def whole_batch(tap, x):
    return jax.vmap(lambda x: lax.fori_loop(0, 10, lambda i, x: tap(x) + 1, x))(x + jnp.arange(3.0))


def parting_conds(tap, x):
    def step(i, x):
        return lax.cond(x % 2 == 0, lambda x: tap(x) + 1, lambda x: x + 3, x)

    return jax.vmap(lambda x: lax.fori_loop(0, 10, step, x))(x + jnp.arange(4.0))


def parting_loops(tap, x):
    return jax.vmap(functools.partial(while_loop, tap))(x + jnp.array([0, 15, 18, 30.0]))


PROGRAMS = [
    while_loop,
    scan_with_results,
    reversed_scan,
    taken_branch,
    nested_scans,
    inner_while,
    long_inner_loop,
    function_twice,
    gradient,
    checkpoint,
    custom_rules,
    threaded,
    whole_batch,
    parting_conds,
    parting_loops,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_records_and_results_are_those_of_single_sends(program):
    def run(flush_interval):
        values = []
        out = jax.jit(functools.partial(program, functools.partial(tap, values, flush_interval)))(jnp.float32(1))
        jax.block_until_ready(out)
        callout.barrier_wait(timeout=60)
        return jax.tree.map(np.asarray, out), [np.asarray(value).tolist() for value in values]

    want = run(0)
    assert want[1]
    for flush_interval in (NEVER_FIRST, LONG):
        got = run(flush_interval)
        jax.tree.map(np.testing.assert_array_equal, got[0], want[0])
        assert got[1] == want[1]


DTYPES = ["bool", "int8", "uint16", "int32", "float16", "bfloat16", "float8_e4m3fn", "complex64", "int4", "uint2"]


def test_records_of_trees_have_their_leaves_and_dtypes(received):
    def step(i, x):
        tree = {name: jnp.full((2, 3), i % 2).astype(name) for name in DTYPES}
        callout.tap(received.tap, {**tree, "none": jnp.zeros((0, 2)), "scalar": x}, flush_interval=LONG)
        return x + 1

    jax.block_until_ready(jax.jit(lambda x: lax.fori_loop(0, 20, step, x))(jnp.float32(0)))
    callout.barrier_wait(timeout=60)
    assert [float(value["scalar"]) for value in received] == list(range(20))
    for i, value in enumerate(received):
        assert value["none"].shape == (0, 2)
        for name in DTYPES:
            assert value[name].dtype == jnp.dtype(name)
            assert np.array_equal(value[name], np.full((2, 3), i % 2).astype(jnp.dtype(name)))


def test_sinks_get_each_step_in_order_once(tmp_path):
    path = tmp_path / "steps.jsonl"
    sink = callout.sinks.JsonLines(path)

    @jax.jit
    def run(x):
        return lax.fori_loop(
            0, 100_000, lambda i, x: callout.tap(sink, x * 0.999, step=i, flush_interval=0.1) + 0.001, x
        )

    run(jnp.float32(1))
    callout.barrier_wait(timeout=60)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(100_000))
    assert np.all(np.diff([line["seq"] for line in lines]) == 1)


def test_every_and_sample_leave_out_steps(received):
    @jax.jit
    def run(x):
        def step(i, x):
            callout.tap(received.tap, i, step=i + 3, every=5, flush_interval=LONG)
            return x + 1

        return lax.fori_loop(0, 1000, step, x)

    run(jnp.float32(0))
    callout.barrier_wait(timeout=60)
    assert [int(value) for value in received] == list(range(2, 1000, 5))


def test_sinks_as_arguments_share_a_program(tmp_path):
    @jax.jit
    def run(sink, x):
        return lax.fori_loop(0, 100, lambda i, x: callout.tap(sink, x, flush_interval=LONG) + 1, x)

    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for number, path in enumerate(paths):
        run(callout.sinks.JsonLines(path), jnp.float32(1000 * number))
    callout.barrier_wait(timeout=60)
    for number, path in enumerate(paths):
        values = [json.loads(line)["value"] for line in path.read_text().splitlines()]
        assert values == [1000 * number + i for i in range(100)]
    assert run._cache_size() == 1


def test_slow_steps_arrive_one_by_one():
    arrived = [threading.Event() for _ in range(10)]

    def wait_for_the_step_before(i):
        assert i < 2 or arrived[int(i) - 2].wait(30)
        return np.float32(0)

    def step(i, x):
        callout.tap(lambda i: arrived[int(i)].set(), i, flush_interval=NEVER_FIRST)
        return x + callout.pure_callback(
            callout.options(wait_for_the_step_before, numpy_only=True), jax.ShapeDtypeStruct((), jnp.float32), i
        )

    jax.block_until_ready(jax.jit(lambda x: lax.fori_loop(0, 10, step, x))(jnp.float32(0)))
    callout.barrier_wait(timeout=60)
    assert all(event.is_set() for event in arrived)


def test_a_failing_check_is_behind_the_records_of_its_chunk(received):
    def step(i, x):
        received_x = callout.tap(received.tap, x, flush_interval=LONG)
        return callout.error_if(received_x, x >= 700, "too large") + 1

    with fails("too large"):
        jax.block_until_ready(jax.jit(lambda x: lax.fori_loop(0, 5000, step, x))(jnp.float32(0)))
    with contextlib.suppress(callout.CheckError):  # a GPU may have gone on: checks of later steps fail, too
        callout.barrier_wait(timeout=60)
    values = [float(value) for value in received]
    assert values == list(range(len(values)))
    assert len(values) >= 701 if ON_CUDA else len(values) == 701


def test_records_before_a_failed_chunk_arrive_once(received):
    def fail(i):
        if i == 700:
            raise ValueError("step 700")
        return np.float32(0)

    def step(i, x):
        callout.tap(received.tap, i, flush_interval=LONG)
        return x + callout.pure_callback(fail, jax.ShapeDtypeStruct((), jnp.float32), i)

    with pytest.raises(ValueError, match="step 700"):
        jax.block_until_ready(jax.jit(lambda x: lax.fori_loop(0, 5000, step, x))(jnp.float32(0)))
    callout.barrier_wait(timeout=60)
    values = [int(value) for value in received]
    assert values == list(range(len(values)))
    assert len(values) <= 701


def test_an_ordered_tap_stays_in_order_with_others():
    events = []

    def step(i, x):
        callout.tap(lambda i: events.append(("a", int(i))), i, ordered=True, flush_interval=LONG)
        callout.tap(lambda i: events.append(("b", int(i))), i, ordered=True, flush_interval=LONG)
        return x + 1

    jax.block_until_ready(jax.jit(lambda x: lax.fori_loop(0, 20, step, x))(jnp.float32(0)))
    callout.barrier_wait(timeout=60)
    assert events == [(name, i) for i in range(20) for name in "ab"]


def run_and_read(program, path, *args):
    """Returns (name, step, value) of each record that a program writes to a sink."""
    sink = callout.sinks.JsonLines(path)
    jax.block_until_ready(jax.jit(functools.partial(program, sink))(*args))
    callout.barrier_wait(timeout=60)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["seq"] for line in lines] == list(range(lines[0]["seq"], lines[0]["seq"] + len(lines)))
    return [(line["name"], line["step"], line["value"]) for line in lines]


@pytest.mark.skipif(BY_FALLBACK, reason="records of different taps arrive chunk by chunk by JAX's callbacks")
def test_records_of_a_loop_are_merged_by_step(tmp_path):
    def program(sink, x):
        def step(i, x):
            callout.tap(sink, x, name="before", step=i, flush_interval=LONG)
            callout.tap(sink, x + 0.5, name="after", step=i, flush_interval=LONG)
            return x + 1

        return lax.fori_loop(0, 5000, step, x)

    want = [(name, i, i + more) for i in range(5000) for name, more in (("before", 0), ("after", 0.5))]
    assert run_and_read(program, tmp_path / "both.jsonl", jnp.float32(0)) == want


@pytest.mark.skipif(BY_FALLBACK, reason="records of different taps arrive chunk by chunk by JAX's callbacks")
def test_records_of_conds_and_inner_loops_are_merged_in_program_order(tmp_path):
    def program(sink, x):
        def send(name, x, i, **options):
            callout.tap(sink, x, name=name, step=i, flush_interval=LONG, **options)
            return x + 1

        def step(i, x):
            x = lax.cond(i % 3 == 0, lambda x: send("third", x, i), lambda x: x, x)
            x = lax.fori_loop(0, 4, lambda k, x: send("b", send("a", x, k), k), x)
            x = lax.while_loop(lambda x: x % 8 != 0, lambda x: send("up", x, i), x)
            return send("even", x, i, every=2)

        return lax.fori_loop(0, 600, step, x)

    want, x = [], 0

    def note(name, step):
        nonlocal x
        want.append((name, step, x))
        x += 1

    for i in range(600):
        if i % 3 == 0:
            note("third", i)
        for k in range(4):
            note("a", k)
            note("b", k)
        while x % 8 != 0:
            note("up", i)
        note("even", i)
        if i % 2:
            want.pop()
    assert run_and_read(program, tmp_path / "all.jsonl", jnp.float32(0)) == want


@pytest.mark.skipif(BY_FALLBACK, reason="programs that use JAX's callbacks do not show the taps' attributes")
def test_one_ordered_tap_collects():
    values = []
    f = jax.jit(lambda x: lax.fori_loop(0, 600, lambda i, x: tap(values, LONG, x, ordered=True) + 1, x))
    assert "rows = 1" in f.lower(jnp.float32(0)).as_text()
    jax.block_until_ready(f(jnp.float32(0)))
    callout.barrier_wait(timeout=60)
    assert [float(value) for value in values] == list(range(600))


@pytest.mark.parametrize("sharding", ["gather", "local"])
def test_devices_have_the_same_chunks(sharding):
    def run(flush_interval):
        values = []

        def receive(value, *, index):
            values.append((value.tolist(), str(index)))

        def step(i, x):
            return callout.tap(receive, x, sharding=sharding, with_index=True, flush_interval=flush_interval) + 1

        out = jax.jit(lambda x: lax.fori_loop(0, 300, step, x))(sharded())
        jax.block_until_ready(out)
        callout.barrier_wait(timeout=60)
        return sorted(values)

    want = run(0)
    assert run(LONG) == want
    assert want


@pytest.mark.skipif(BY_FALLBACK, reason="programs that use JAX's callbacks do not show the taps' attributes")
def test_the_setting_is_for_taps_that_say_nothing(monkeypatch):
    def text(**options):
        f = lambda x: lax.fori_loop(0, 9, lambda i, x: callout.tap(print, x, **options) + 1, x)  # noqa: E731
        return jax.jit(f).lower(jnp.float32(0)).as_text()

    plain = text()
    assert "rows" not in plain
    assert text(flush_interval=0) == plain
    monkeypatch.setattr(callout.config, "tap_flush_interval", 0.1)
    assert "rows = 1" in text()
    assert text(flush_interval=0) == plain
    monkeypatch.setattr(callout.config, "tap_flush_interval", None)
    assert text() == plain


def test_a_body_keeps_its_fusions_and_copies():
    def compiled(send):
        def step(i, x):
            y = jnp.sin(x) * 0.5 + x
            return send(y)

        return jax.jit(lambda x: lax.fori_loop(0, 1000, step, x)).lower(jnp.ones(64)).compile().as_text()

    plain = compiled(lambda y: y)
    chunked = compiled(lambda y: callout.tap(callout.sinks.Null(), y, flush_interval=LONG))
    # The copies are those of the loops' first values. A copy of the buffer would have its shape.
    assert not re.findall(r"f32\[\d+,64\]\S* copy\(", chunked)
    assert len(re.findall(r" sine\(", chunked)) == len(re.findall(r" sine\(", plain))


def test_a_loop_over_all_integers_keeps_its_chunks(received):
    first, last = -(2**31), 2**31 - 1

    def step(i, x):
        callout.tap(received.tap, i, flush_interval=LONG)
        return x + 1

    def run(stop):
        return lax.while_loop(lambda c: (c[0] < last) & (c[1] < stop), lambda c: (c[0] + 1, step(*c)), (first, 0))

    counted = jax.jit(lambda bound: lax.fori_loop(jnp.int32(first), bound, step, 0))
    jax.block_until_ready([counted(jnp.int32(first + 9000)), jax.jit(run)(9000)])
    callout.barrier_wait(timeout=60)
    assert [int(value) for value in received] == list(range(first, first + 9000)) * 2


def test_the_end_of_a_chunk_does_not_overflow():
    counter = Counter(0, 1)
    first, bound = jnp.int32(-(2**31)), jnp.int32(2**31 - 1)
    assert int(counter.exact_end([first, bound], jnp.int32(100))) == -(2**31) + 100
    assert int(counter.exact_end([bound - 7, bound], jnp.int32(100))) == 2**31 - 1
    assert int(counter.exact_end([bound, first], jnp.int32(100))) == -(2**31)


def test_an_inner_scan_without_steps_sends_nothing(received):
    def step(i, x):
        y, _ = lax.scan(lambda c, _: (callout.tap(received.tap, c, flush_interval=LONG), None), x, None, length=0)
        return callout.tap(received.tap, y + 1, flush_interval=LONG)

    jax.block_until_ready(jax.jit(lambda x: lax.fori_loop(0, 20, step, x))(jnp.float32(0)))
    callout.barrier_wait(timeout=60)
    assert [float(value) for value in received] == list(range(1, 21))


@pytest.mark.parametrize("bad", [-1, float("nan"), "1", True])
def test_a_bad_interval_is_a_value_error(bad):
    with pytest.raises(ValueError, match="flush_interval must be 0 or more seconds, got "):
        jax.make_jaxpr(lambda x: callout.tap(print, x, flush_interval=bad))(1.0)


def test_a_traced_interval_is_a_value_error():
    with pytest.raises(ValueError, match="flush_interval must be 0 or more seconds, got JitTracer"):
        jax.jit(lambda s: callout.tap(print, s, flush_interval=s))(1.0)


def test_a_tap_outside_of_a_loop_sends_at_once(received):
    jax.jit(lambda x: tap(received, LONG, x))(jnp.float32(3))
    callout.tap(received.append, np.float32(4), flush_interval=LONG)
    callout.barrier_wait(timeout=60)
    assert [float(value) for value in received] == [3, 4]
