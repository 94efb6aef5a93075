# SPDX-License-Identifier: Apache-2.0
"""Tests the bars: jax-tqdm's functions, programs that fail or run side by side, notebooks."""

import gc
import io
import threading
import weakref

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from callout.progress import PBar, _bars, loop_tqdm, scan_tqdm
from callout.progress._settings import make_settings
from jax import lax


def count(c, _):
    return c + 1, c


def counts(frames):
    return [frame.done for frame in frames]


@pytest.mark.parametrize("n", [1, 7, 20, 21, 25, 399])
def test_drop_ins_update_twenty_times(screen, n):
    steps = lax.scan(scan_tqdm(n, **screen.like_jax_tqdm())(count), 0, jnp.arange(n))[0]
    total = lax.fori_loop(0, n, loop_tqdm(n, **screen.like_jax_tqdm(desc="loop"))(lambda i, v: v + i), 0)
    assert (int(steps), int(total)) == (n, n * (n - 1) // 2)
    assert screen.ends(f"Running for {n:,} iterations") == screen.ends("loop") == (n, n)


def test_drop_ins_take_a_print_rate_and_an_array(screen):
    rows = jnp.ones((100, 3))
    step = scan_tqdm(100, print_rate=30, **screen.like_jax_tqdm())(lambda c, x: (c + 1, x[1]))
    carry, ys = lax.scan(step, 0, (jnp.arange(100), rows))
    assert int(carry) == 100
    np.testing.assert_array_equal(ys, rows)
    assert set(counts(screen.frames())) <= {0, 30, 60, 90, 100}


def test_drop_ins_take_a_message_and_ignore_their_own_settings(screen):
    options = screen.like_jax_tqdm(
        message="training", desc="not this", total=3, mininterval=9, maxinterval=9, miniters=9
    )
    lax.scan(scan_tqdm(10, **options)(count), 0, jnp.arange(10))
    assert screen.ends("training") == (10, 10)


def test_drop_ins_name_the_iterations(screen):
    lax.scan(scan_tqdm(10_000, **screen.like_jax_tqdm())(count), 0, jnp.arange(10_000))
    assert screen.bars("Running for 10,000 iterations") == 1


@pytest.mark.parametrize("make", [scan_tqdm, loop_tqdm])
def test_drop_ins_reject_the_same_as_jax_tqdm(make):
    with pytest.raises(ValueError, match="print_rate must be an integer of at least 1, got 0"):
        make(10, print_rate=0)
    with pytest.raises(ValueError, match="print_rate must not exceed the number of steps 10, got 11"):
        make(10, print_rate=11)
    with pytest.raises(ValueError, match="print_rate must not exceed the number of steps 0, got 1"):
        make(0, print_rate=1)
    make(0)
    make(10.0, print_rate=2.0)
    with pytest.raises(ValueError, match="tqdm_type must be one of"):
        make(10, tqdm_type="console")


def test_pbar_is_a_pytree_of_number_and_value():
    bar = PBar(id=1, carry={"a": 2})
    assert jax.tree.leaves(bar) == [1, 2]
    assert jax.tree.map(lambda v: v + 1, bar) == PBar(2, {"a": 3})
    assert bar.replace(carry=3) == PBar(1, 3)


def test_drop_ins_stack_bars_under_vmap(screen):
    step = scan_tqdm(50, **screen.like_jax_tqdm())(count)
    loop = loop_tqdm(50, **screen.like_jax_tqdm(desc="loop"))(lambda i, v: v + i)

    def run(i):
        return lax.scan(step, PBar(i, 0), jnp.arange(50))[0].carry, lax.fori_loop(0, 50, loop, PBar(i, 0)).carry

    steps, totals = jax.jit(jax.vmap(run))(jnp.arange(4))
    assert steps.tolist() == [50] * 4
    assert totals.tolist() == [1225] * 4
    assert screen.bars("Running for 50 iterations") == screen.bars("loop") == 4


def failing(screen, at, **more):
    """Returns a program with a bar that fails at step `at` if its argument is true."""

    def check(x, fails):
        if fails and x == at:
            raise ValueError("boom")
        return x

    def step(c, x):
        return c, callout.pure_callback(check, jax.ShapeDtypeStruct((), jnp.float32), x, c)

    bar = screen.bar(desc="fit", print_rate=1, **more)
    return jax.jit(lambda fails: lax.scan(bar(step), fails, jnp.arange(10.0))[1])


@pytest.mark.native_only(platforms.RUN)
def test_the_bar_of_a_failed_program_ends_with_the_next(screen):
    run = failing(screen, at=5)
    for _ in range(2):
        with pytest.raises(Exception, match="boom"):
            jax.block_until_ready(run(True))
    assert screen.ends("fit")[0] == 5
    assert not screen.getvalue().endswith("\n")
    jax.block_until_ready(run(False))
    assert screen.bars("fit") == 3
    assert screen.ends("fit") == (10, 10)
    assert "\x1b[A" not in screen.getvalue()  # each bar was in the uppermost line


@pytest.mark.devices(2)
def test_sum_of_devices_that_failed_ends_with_the_next_program(screen):
    mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices()[:2])
    program = failing(screen, at=3, devices="sum")
    run = jax.jit(
        jax.shard_map(
            lambda f: program(f[0])[None], mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d"), check_vma=False
        )
    )
    with pytest.raises(Exception, match="boom"):
        jax.block_until_ready(run(jnp.array([False, True])))
    callout.barrier_wait()
    jax.block_until_ready(run(jnp.array([False, False])))
    assert screen.ends("fit") == (20, 20)


class Messages:
    """Sends messages of loops, without the loops."""

    def __init__(self, screen):
        tqdm = {"file": screen, "mininterval": 0, "leave": None}
        settings = make_settings("test", 10, tqdm_type="std", tqdm=tqdm)
        self.loop = _bars.Loop(settings, (), total=10)

    def send(self, number, run, flags=0, steps=0, device=0):
        head = np.array([0, 0, number, 0, run, 0, device, 1, steps, flags], np.uint32)
        self.loop((head, None, None, ()))


@pytest.mark.native_only(platforms.RUN)
def test_bar_that_was_ended_too_early_continues(screen):
    messages = Messages(screen)
    messages.send(2**31, run=1, flags=_bars.FIRST)
    messages.send(2**31, run=1, steps=4)
    messages.send(2**31 + 1, run=2, flags=_bars.FIRST)  # another program on the device
    messages.send(2**31 + 1, run=2, flags=_bars.LAST, steps=10)
    messages.send(2**31, run=1, flags=_bars.LAST, steps=6)
    assert counts(screen.frames()) == [0, 4, 4, 0, 10, 10, 4, 10, 10]


def test_bars_of_other_devices_and_of_the_same_run_stay(screen):
    messages = Messages(screen)
    messages.send(2**31, run=1, flags=_bars.FIRST)
    messages.send(2**31 + 1, run=1, flags=_bars.FIRST)  # nested
    messages.send(2**31 + 2, run=2, flags=_bars.FIRST, device=1)
    assert counts(screen.frames()) == [0, 0, 0]  # no bar has ended or moved
    for number, device in ((2**31, 0), (2**31 + 1, 0), (2**31 + 2, 1)):
        messages.send(number, run=1 + device, flags=_bars.LAST, device=device)


def test_messages_of_failed_programs_do_not_pile_up(screen):
    messages = Messages(screen)
    for i in range(1000):
        messages.send(2**31 + i, run=i + 1, flags=_bars.FIRST)
    assert len(_bars.board._shown) <= _bars._MAX_SHOWN + 1
    _bars.board.close()


@pytest.mark.slow
def test_two_threads_draw_their_bars(screen):
    programs = [
        jax.jit(lambda x, i=i: lax.scan(screen.bar(desc=f"t{i}")(count), x, None, length=5000)) for i in range(2)
    ]
    barrier = threading.Barrier(2)

    def work(program):
        for _ in range(5):
            barrier.wait()
            jax.block_until_ready(program(0))

    threads = [threading.Thread(target=work, args=(program,)) for program in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in ("t0", "t1"):
        assert counts(screen.frames(name)).count(5000) >= 5
        assert screen.ends(name) == (5000, 5000)


def test_failure_to_draw_is_a_tap_error(screen):
    class Closed(io.StringIO):
        def write(self, text):
            raise OSError("no screen")

    step = callout.progress.progress(10, file=Closed(), tqdm_type="std")(count)
    assert int(lax.scan(step, 0, None, length=10)[0]) == 10
    with pytest.raises(callout.TapError, match="no screen"):
        callout.barrier_wait()
    lax.scan(screen.bar()(count), 0, None, length=10)
    assert screen.ends() == (10, 10)


def test_failure_to_draw_at_a_barrier_is_a_tap_error(screen):
    class Closing(io.StringIO):
        closed_now = False

        def write(self, text):
            if self.closed_now:
                raise OSError("no screen any more")
            return super().write(text)

    file = Closing()
    body = callout.progress.progress(8, file=file, tqdm_type="std", mininterval=3600)(lambda c: c + 1)
    loop = jax.jit(lambda x: lax.fori_loop(0, 8, lambda i, c: lax.cond(i < 5, body, lambda c: c, c), x))
    assert int(loop(0)) == 5
    jax.effects_barrier()
    callout.tap(lambda value: setattr(file, "closed_now", True), 1.0)  # runs after the steps
    with pytest.raises(callout.TapError, match="no screen any more"):
        callout.barrier_wait()
    callout.barrier_wait()


def test_the_body_and_its_captures_are_released(screen):
    class Held:
        pass

    def run():
        held = Held()
        jax.jit(lambda x: lax.scan(screen.bar()(lambda c, _, keep=held: (c + 1, None)), x, None, length=10))(0)
        return weakref.ref(held)

    alive = run()
    assert screen.ends() == (10, 10)
    jax.clear_caches()
    gc.collect()
    assert alive() is None


def test_decorated_body_looks_like_the_body(screen):
    def step(c, x):
        """What it does."""
        return c, x

    decorated = screen.bar()(step)
    assert decorated.__name__ == "step"
    assert decorated.__doc__ == "What it does."
    assert decorated.__wrapped__ is step


def test_notebook_has_widgets(monkeypatch):
    pytest.importorskip("ipywidgets", reason="the bars of notebooks are ipywidgets, which are not installed")
    drawn = []
    new_bar = _bars.Loop.new_bar

    def keep(*args):
        drawn.append(new_bar(*args))
        return drawn[-1]

    monkeypatch.setattr(_bars.Loop, "new_bar", keep)
    step = callout.progress.progress(10, "nb", tqdm_type="notebook", mininterval=0, value=lambda out: out[0])(count)
    lax.scan(step, 0, None, length=10)
    callout.barrier_wait()
    (bar,) = drawn
    label, middle, numbers = bar.container.children
    assert label.value.split() == ["nb:", "100%"]
    assert (middle.value, middle.max, middle.bar_style) == (10, 10, "success")
    assert "10/10" in numbers.value
    assert "value=10" in numbers.value


def test_forgetting_does_not_wait_for_the_drawing_thread(screen):
    """The collector may run in the thread that draws and holds the lock."""
    step = screen.bar(desc="steps")(count)
    step(0, 0)
    with _bars.board._lock:
        del step
        gc.collect()
    assert not screen.getvalue().endswith("\n")
    lax.scan(screen.bar(desc="next")(count), 0, None, length=10)
    assert screen.ends("next") == (10, 10)
    assert screen.bars("steps") == 1
    assert not _bars.board._forgotten
