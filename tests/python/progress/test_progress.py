# SPDX-License-Identifier: Apache-2.0
"""Tests `progress` on each kind of loop: the bar's text, and its end."""

import gc

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout.progress import progress
from jax import lax

XS = jnp.arange(10.0)


def add(carry, x):
    return carry + x, carry


def test_scan_knows_its_total(screen):
    carry, ys = lax.scan(screen.bar(desc="fit")(add), 0.0, XS)
    assert float(carry) == 45
    assert ys.shape == (10,)
    assert screen.bars("fit") == 1
    assert screen.ends("fit") == (10, 10)


def test_eager_and_compiled_scans_have_a_new_bar_each_run(screen):
    body = screen.bar()(add)
    compiled = jax.jit(lambda x: lax.scan(body, x, XS)[0])
    for _ in range(3):
        compiled(1.0)
    lax.scan(body, 0.0, XS)
    assert screen.bars() == 4
    assert [frame.done for frame in screen.frames() if frame.done in (0, 10)].count(0) == 4
    assert screen.ends() == (10, 10)


@pytest.mark.parametrize("n", [1, 2, 19, 20, 21, 137])
def test_bar_never_decreases_and_ends_at_n(screen, n):
    lax.scan(screen.bar(n)(add), 0.0, jnp.arange(float(n)))
    done = [frame.done for frame in screen.frames()]
    assert done == sorted(done)
    assert (done[0], screen.ends()) == (0, (n, n))


def test_empty_scan_has_no_bar(screen):
    assert float(lax.scan(screen.bar(0)(add), 3.0, XS[:0])[0]) == 3
    assert screen.frames() == []


@pytest.mark.parametrize("unroll", [2, 4, 10, 20, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_unrolled_scan(screen, unroll, reverse):
    body = screen.bar(loss=lambda out: out[0])(add)
    got = lax.scan(body, 0.0, XS, unroll=unroll, reverse=reverse)
    expected = lax.scan(add, 0.0, XS, unroll=unroll, reverse=reverse)
    assert all(map(np.array_equal, got, expected))
    assert screen.bars() == 1
    assert screen.ends() == (10, 10)


def test_scan_of_structures_and_of_nothing(screen):
    lax.scan(screen.bar()(lambda c, x: (c, {"s": x["a"] + x["b"][0]})), (), {"a": XS, "b": (XS,)})
    lax.scan(screen.bar()(lambda c, _: (c, None)), None, None, length=10)
    assert screen.bars() == 2
    assert screen.ends() == (10, 10)


def test_fori_loop_with_constant_bounds_knows_its_total(screen):
    assert int(lax.fori_loop(3, 10, screen.bar()(lambda i, v: v + i), 0)) == 42
    assert screen.ends() == (7, 7)


def test_fori_loop_with_traced_bounds_has_none(screen):
    loop = jax.jit(lambda n: lax.fori_loop(0, n, screen.bar()(lambda i, v: v + i), 0))
    assert int(loop(7)) == 21
    assert screen.ends() == (7, None)


def test_while_loop_of_unknown_length_shows_its_fields(screen):
    halve = screen.bar(desc="solve", error=lambda v: v[1])(lambda v: (v[0] + 1, v[1] / 2))
    steps, error = jax.jit(lambda: lax.while_loop(lambda v: v[1] > 1e-2, halve, (0, 1.0)))()
    assert int(steps) == 7
    assert screen.ends("solve") == (7, None)
    assert float(screen.frames()[-1].fields["error"]) == pytest.approx(float(error), rel=1e-2)


def test_while_loop_that_ends_early_closes_its_bar(screen):
    assert int(lax.while_loop(lambda v: v < 4, screen.bar(100)(lambda v: v + 1), 0)) == 4
    assert screen.ends() == (4, 100)
    lax.scan(screen.bar(desc="next")(add), 0.0, XS)
    assert screen.getvalue().splitlines()[-1].rstrip().endswith("]")
    assert "\x1b[A" not in screen.getvalue()  # the next bar is not below an open one


def test_while_loop_without_steps(screen):
    assert int(lax.while_loop(lambda v: v < 0, screen.bar()(lambda v: v - 1), 3)) == 3
    assert screen.ends() == (0, None)


def test_map(screen):
    np.testing.assert_array_equal(lax.map(screen.bar(desc="map")(lambda x: 2 * x), XS), 2 * XS)
    assert screen.ends("map") == (10, 10)


@pytest.mark.parametrize("compile_it", [False, True])
def test_map_with_a_batch_size_counts_elements(screen, compile_it):
    def run(xs):
        return lax.map(screen.bar(10, y=lambda out: out)(lambda x: 2 * x), xs, batch_size=4)

    np.testing.assert_array_equal((jax.jit(run) if compile_it else run)(XS), 2 * XS)
    assert screen.bars() == 1
    assert screen.ends() == (10, 10)
    assert screen.frames()[-1].fields["y"] == "11"  # the mean of the last batch of the loop


@pytest.mark.parametrize("compile_it", [False, True])
@pytest.mark.parametrize("n", [9, 3, 1])
def test_map_with_one_left_over_or_less_than_a_batch(screen, compile_it, n):
    def run(xs):
        return lax.map(screen.bar(n)(lambda x: 2 * x), xs, batch_size=4)

    for count in (1, 2):
        np.testing.assert_array_equal((jax.jit(run) if compile_it else run)(XS[:n]), 2 * XS[:n])
        assert screen.bars() == count
        assert screen.ends() == (n, n)


def test_leftover_of_one_without_a_total_has_no_bar(screen):
    jax.jit(lambda xs: lax.map(screen.bar()(lambda x: 2 * x), xs, batch_size=4))(XS[:9])
    assert screen.bars() == 1
    assert screen.ends() == (8, 8)


def test_without_jit_lanes_of_vmap_are_no_steps(screen):
    with jax.disable_jit():
        jax.vmap(lambda c: lax.scan(screen.bar(10, "scan")(add), c, XS)[0])(jnp.arange(3.0))
        step = screen.bar(5, "fori")(lambda i, c: c + 1)
        jax.vmap(lambda c: lax.fori_loop(0, 5, step, c))(jnp.arange(3.0))
        inner = screen.bar(10, "inner")(add)
        lax.map(lambda c: lax.scan(inner, c, XS)[0], jnp.arange(2.0), batch_size=2)
    assert screen.ends("scan") == (10, 10)
    assert screen.ends("fori") == (5, 5)
    assert screen.ends("inner") == (10, 10)
    assert screen.bars() == 3


def test_fields_show_the_bodys_results(screen):
    def body(c, x):
        return {"loss": c["loss"] * 0.5, "n": c["n"] + 1}, x > 3

    bar = screen.bar(
        loss=lambda out: out[0]["loss"], count=lambda out: out[0]["n"], late=lambda out: out[1], two=lambda _: 2
    )
    lax.scan(bar(body), {"loss": jnp.float32(1024), "n": 0}, XS)
    assert screen.frames()[-1].fields == {"loss": "1", "count": "10", "late": "1", "two": "2"}
    assert screen.frames()[0].fields == {}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "uint32", "bool"])
def test_fields_of_all_kinds_of_numbers(screen, dtype):
    def body(c, _):
        return c, None

    lax.scan(screen.bar(value=lambda out: out[0])(body), jnp.ones((), dtype), XS)
    assert screen.frames()[-1].fields["value"] == "1"


def test_field_that_is_no_scalar_is_refused(screen):
    with pytest.raises(TypeError, match=r"callout.progress: field 'x' must be a scalar, got float32\[10\]"):
        lax.scan(screen.bar(x=lambda _: XS)(add), 0.0, XS)
    with pytest.raises(TypeError, match="field 'x' must be a number, got 'text'"):
        lax.scan(screen.bar(x=lambda _: "text")(add), 0.0, XS)
    with pytest.raises(TypeError, match="field 'x' must be a number, but its function returned None"):
        lax.scan(screen.bar(x=lambda _: None)(add), 0.0, XS)
    with pytest.raises(TypeError, match="field 'x' must be a real number, got complex64"):
        lax.scan(screen.bar(x=lambda out: lax.complex(out[0], out[0]))(add), 0.0, XS)


def test_print_rate_counts_steps(screen):
    lax.scan(screen.bar(print_rate=4)(add), 0.0, XS)
    assert sorted({frame.done for frame in screen.frames()}) == [0, 4, 8, 10]


def test_two_bars_of_one_loop(screen):
    body = screen.bar(desc="fine")(screen.bar(desc="coarse", print_rate=5)(add))
    lax.scan(body, 0.0, XS)
    assert screen.ends("fine") == screen.ends("coarse") == (10, 10)
    assert screen.bars("fine") == screen.bars("coarse") == 1


def test_two_loops_of_one_program_do_not_mix(screen):
    body = screen.bar()(add)
    jax.jit(lambda x, y: (lax.scan(body, x, XS)[0], lax.scan(body, y, XS)[0]))(1.0, 2.0)
    assert screen.bars() == 2
    assert all(frame.done <= 10 for frame in screen.frames())


def test_nested_loops_have_a_bar_each_time(screen):
    inner = screen.bar(desc="inner")(add)
    outer = screen.bar(desc="outer")(lambda c, x: (lax.scan(inner, c, XS)[0], x))
    assert float(jax.jit(lambda x: lax.scan(outer, x, jnp.arange(3.0))[0])(0.0)) == 135
    assert screen.ends("outer") == (3, 3)
    assert screen.bars("outer") == 1
    assert screen.bars("inner") == 3


def test_loop_in_a_loop_without_a_bar(screen):
    inner = screen.bar(desc="inner")(add)
    jax.jit(lambda x: lax.fori_loop(0, 3, lambda _, c: lax.scan(inner, c, XS)[0], x))(0.0)
    assert screen.bars("inner") == 3
    assert screen.ends("inner") == (10, 10)


def test_marker_under_a_cond_counts_how_often_it_is_reached(screen):
    body = screen.bar(5)(lambda c: c + 1)
    loop = jax.jit(lambda x: lax.fori_loop(0, 10, lambda i, c: lax.cond(i % 2 == 0, body, lambda c: c, c), x))
    assert int(loop(0)) == 5
    assert screen.ends() == (5, 5)
    assert screen.bars() == 1


def test_a_stopped_bar_shows_its_progress_at_a_barrier(screen):
    """tqdm draws only at a step after its interval, and no further step comes."""
    body = progress(8, "some", file=screen, tqdm_type="std", mininterval=3600)(lambda c: c + 1)
    loop = jax.jit(lambda x, n: lax.fori_loop(0, 8, lambda i, c: lax.cond(i < n, body, lambda c: c, c), x))
    assert int(loop(0, 5)) == 5
    assert screen.ends("some") == (5, 8)
    drawn = len(screen.frames("some"))
    callout.barrier_wait()
    assert len(screen.frames("some")) == drawn  # the barrier does not draw a bar that has not moved
    assert int(loop(0, 3)) == 3  # continues the bar, and ends it
    assert screen.ends("some") == (8, 8)


def test_without_jit_each_step_draws(screen):
    with jax.disable_jit():
        lax.scan(screen.bar(10, loss=lambda out: out[0])(add), 0.0, XS)
        lax.map(screen.bar(10, "map")(lambda x: x), XS, batch_size=4)
    assert [frame.done for frame in screen.frames()][:11] == list(range(11))
    assert screen.ends("map") == (10, 10)


def test_bar_of_python_steps_closes_with_its_function(screen):
    body = screen.bar(desc="steps")(add)
    carry = 0.0
    for x in range(3):
        carry, _ = body(carry, x)
    assert carry == 3
    assert screen.ends("steps") == (3, None)
    assert not screen.getvalue().endswith("\n")
    del body
    gc.collect()
    assert screen.getvalue().endswith("\n")


def test_over_an_iterable_it_is_tqdm(screen):
    bar = screen.bar(range(5), "plain")
    assert list(bar) == list(range(5))
    assert len(bar) == 5
    assert screen.ends("plain") == (5, 5)
    assert list(screen.bar((i for i in range(3)), "endless")) == [0, 1, 2]
    assert screen.ends("endless") == (3, None)


def test_iterable_of_a_decorator_tells_the_total(screen):
    lax.while_loop(lambda v: v < 5, screen.bar(range(5))(lambda v: v + 1), 0)
    assert screen.ends() == (5, 5)


def test_bars_without_an_iterable_cannot_be_iterated(screen):
    with pytest.raises(TypeError, match="nothing to go over"):
        iter(screen.bar(5))
    with pytest.raises(TypeError, match="fields"):
        iter(screen.bar([1, 2], loss=lambda out: out))
    with pytest.raises(TypeError, match="not known"):
        len(screen.bar())


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"iterable_or_n": -1}, ValueError, "at least 0, got -1"),
        ({"print_rate": 0}, ValueError, "print_rate must be an integer of at least 1, got 0"),
        ({"iterable_or_n": 5, "print_rate": 6}, ValueError, "must not exceed the number of steps 5, got 6"),
        ({"tqdm_type": "gui"}, ValueError, "tqdm_type must be one of"),
        ({"devices": "all"}, ValueError, "devices must be one of"),
        ({"los": 0.5}, TypeError, "los: neither an argument of tqdm nor a callable"),
        ({"total": 5}, TypeError, "total=5: pass the number of steps as the first argument"),
        ({"iterable_or_n": "fit"}, TypeError, "must be the number of steps, got 'fit'; a text goes to desc="),
        ({"iterable_or_n": 2.5}, TypeError, "must be an integer of at least 0, got 2.5"),
        ({"desc": 3}, TypeError, "desc must be a str, got 3"),
        ({"lock_args": (True,)}, ValueError, "lock_args cannot be passed on"),
        ({"mininterval": None}, ValueError, "mininterval must be a number of seconds, got None"),
        ({"mininterval": float("nan")}, ValueError, "mininterval must be a number of seconds, got nan"),
    ],
)
def test_arguments_that_cannot_be_are_refused(arguments, kind, text):
    with pytest.raises(kind, match=f"callout.progress: .*{text}|callout.progress: {text}"):
        progress(**arguments)


def test_whole_floats_are_numbers_of_steps(screen):
    lax.scan(screen.bar(10.0, print_rate=5.0)(add), 0.0, XS)
    assert sorted({frame.done for frame in screen.frames()}) == [0, 5, 10]
    assert screen.ends() == (10, 10)


@pytest.mark.parametrize("told", [{"print_rate": 2**31}, {"print_rate": 2**40}, {"mininterval": float("inf")}])
def test_updates_as_rare_as_can_be(screen, told):
    assert int(jax.jit(lambda x: lax.while_loop(lambda v: v < 10, screen.bar()(lambda v: v + 1), x))(0)) == 10
    bar = progress(file=screen, tqdm_type="std", **told)
    assert int(jax.jit(lambda x: lax.while_loop(lambda v: v < 10, bar(lambda v: v + 1), x))(0)) == 10
    assert float(jax.jit(lambda x: lax.scan(bar(add), x, XS)[0])(0.0)) == 45
    assert screen.ends() == (10, 10)


def test_python_loops_draw_at_the_print_rate_in_one_process(screen):
    assert list(screen.bar(range(10), print_rate=5)) == list(range(10))
    assert sorted({frame.done for frame in screen.frames()}) == [0, 5, 10]
    written = screen.getvalue()
    assert list(screen.bar(range(10), only_process=1)) == list(range(10))
    assert screen.getvalue() == written


def test_arguments_go_to_tqdm(screen):
    lax.scan(progress(10, file=screen, disable=True)(add), 0.0, XS)
    assert screen.frames() == []
    lax.scan(screen.bar(10, unit="sample", initial=5, bar_format="{n}<{unit}>", ascii=True)(add), 0.0, XS)
    callout.barrier_wait()
    assert "15<sample>" in screen.getvalue()


def test_only_the_named_process_draws(screen):
    lax.scan(screen.bar(only_process=1)(add), 0.0, XS)
    assert screen.frames() == []
    lax.scan(screen.bar(only_process=None)(add), 0.0, XS)
    assert screen.ends() == (10, 10)


def test_steps_take_time_and_chunks_follow_it(screen):
    """A step that takes longer than a chunk should take gets a chunk of its own."""

    def slow(c, x):
        return c + callout.pure_callback(wait, jax.ShapeDtypeStruct((), jnp.float32), x), None

    seen = []

    def wait(x):
        seen.append(len(screen.getvalue()))
        return x

    lax.scan(progress(10, file=screen, tqdm_type="std", mininterval=1e-9)(slow), 0.0, XS)
    assert sorted({frame.done for frame in screen.frames()}) == list(range(11))
