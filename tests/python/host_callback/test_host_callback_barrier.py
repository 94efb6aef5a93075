# SPDX-License-Identifier: Apache-2.0
"""`barrier_wait`, failing taps, asynchrony, `stop_outfeed_receiver`."""

import threading

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np
import pytest


def failing(value, transforms):
    raise KeyError(f"bad {value}")


def test_failing_taps_affect_no_others_and_the_last_wins(seen):
    def last(value, transforms):
        raise ValueError(f"last {value}")

    @jax.jit
    def f(x):
        hcb.id_tap(failing, x)
        hcb.id_tap(seen.tap, x)
        hcb.id_tap(last, x)
        return hcb.id_tap(seen.tap, x + 1)

    assert f(1) == 2
    with pytest.raises(hcb.CallbackException) as caught:
        hcb.barrier_wait()
    text = str(caught.value)
    assert text.startswith(
        "There were exceptions during callback processing. Last one was: Traceback (most recent call last):\n"
    )
    assert text.endswith("ValueError: last 1\n")
    assert "in last\n" in text
    assert type(caught.value.__cause__) is ValueError
    assert seen == [1, 2]
    hcb.barrier_wait()


def test_one_class_has_two_names():
    assert hcb.TapFunctionException is hcb.CallbackException
    assert issubclass(hcb.CallbackException, callout.CallbackError)


@pytest.mark.devices(4)
def test_it_covers_all_devices_and_other_threads(seen):
    f = jax.jit(lambda x: hcb.id_tap(seen.tap, jnp.sin(jnp.full(200_000, x)).sum() * 0 + x))

    def work(i):
        for k in range(10):
            f(jax.device_put(float(10 * i + k), jax.devices()[i]))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    hcb.barrier_wait("all")
    assert sorted(seen) == [float(i) for i in range(40)]
    for i in range(4):
        assert [x for x in seen if x // 10 == i] == [10.0 * i + k for k in range(10)]


def test_several_threads_wait_at_once(seen):
    f = jax.jit(lambda x: hcb.id_tap(seen.tap, x))
    missing = []

    def work(i):
        for k in range(20):
            f(float(100 * i + k))
            hcb.barrier_wait(f"thread {i}")
            if 100.0 * i + k not in seen:
                missing.append((i, k))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert missing == []


def test_waiting_inside_a_callback_is_refused():
    hcb.id_tap(lambda value, transforms: hcb.barrier_wait(), 1.0)
    with pytest.raises(hcb.CallbackException, match="inside a tap's function"):
        hcb.barrier_wait()
    hcb.id_tap(lambda value, transforms: hcb.stop_outfeed_receiver(), 1.0)
    with pytest.raises(hcb.CallbackException, match=r"stop_outfeed_receiver.* inside a tap's function"):
        hcb.barrier_wait()


def test_the_program_does_not_wait_for_its_taps():
    gate, entered = threading.Event(), threading.Event()

    def slow(value, transforms):
        entered.set()
        gate.wait()

    f = jax.jit(lambda x: hcb.id_tap(slow, x) + 1)
    results = [jax.block_until_ready(f(float(i))) for i in range(100)]  # the first tap still runs
    assert entered.wait(60)
    gate.set()
    assert results == [i + 1 for i in range(100)]
    hcb.barrier_wait()


def test_a_full_queue_makes_it_wait_and_loses_nothing(seen, settings):
    settings("jax_host_callback_max_queue_byte_size", 16_000_000)
    gate = threading.Event()

    def slow(value, transforms):
        gate.wait()
        seen.append(int(value[0]))

    f = jax.jit(lambda x: hcb.id_tap(slow, jnp.full(500_000, x)))  # 2 MB

    def run():
        for i in range(30):
            f(i)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(1.0)
    (queue,) = [q for q in callout.stats()["queues"] if (q["worker"], q["device"]) == ("python", 0)]
    assert thread.is_alive() or queue["blocked"]
    gate.set()
    thread.join(60)
    hcb.barrier_wait()
    assert seen == list(range(30))
    (queue,) = [q for q in callout.stats()["queues"] if (q["worker"], q["device"]) == ("python", 0)]
    assert queue["capacity_bytes"] == 16_000_000


def test_stopping_drains_and_the_next_tap_restarts_threads(seen):
    f = jax.jit(lambda x: hcb.id_tap(seen.tap, x))
    f(1.0)
    hcb.stop_outfeed_receiver()
    assert seen == [1.0]
    assert callout.stats()["live"]["threads"] == 0
    hcb.stop_outfeed_receiver()
    f(2.0)
    hcb.barrier_wait()
    hcb.stop_outfeed_receiver()
    jax.jit(lambda x: hcb.id_tap(seen.tap, -x))(3.0)
    hcb.id_tap(seen.tap, 4.0)
    hcb.barrier_wait()
    assert seen == [1.0, 2.0, -3.0, 4.0]
    assert callout.stats()["live"]["threads"] > 0


def test_stopping_while_others_tap_loses_nothing(seen):
    f = jax.jit(lambda x: hcb.id_tap(seen.tap, x))
    done = threading.Event()

    def stop():
        while not done.is_set():
            hcb.stop_outfeed_receiver()

    stopper = threading.Thread(target=stop)
    stopper.start()
    try:
        for i in range(300):
            f(i)
            if i % 50 == 0:
                hcb.barrier_wait()
    finally:
        done.set()
        stopper.join()
    hcb.barrier_wait()
    assert seen == list(range(300))


def test_threads_that_end_leave_nothing_in_the_interpreter():
    class Local(threading.local):
        pass

    local, gone = Local(), []

    class Value:
        def __del__(self):
            gone.append(1)

    def tap(value, transforms):
        local.value = Value()

    for _ in range(3):
        hcb.id_tap(tap, 1.0)
        hcb.stop_outfeed_receiver()
    assert gone == [1, 1, 1]


class SilentError(Exception):
    def __str__(self):
        raise KeyError("no text")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ValueError("a\0b"), "ValueError: a\0b\n"),
        (lambda: ValueError("\udc80"), "ValueError: \udc80\n"),
        (SilentError, "SilentError: <exception str() failed>\n"),
    ],
    ids=["zero", "surrogate", "silent"],
)
@pytest.mark.parametrize("kind", ["tap", "call"])
def test_exceptions_with_texts_that_cannot_be_written(make, text, kind):
    def fail(*_):
        raise make()

    if kind == "tap":
        jax.jit(lambda x: hcb.id_tap(fail, x))(1.0)
    else:
        with pytest.raises(RuntimeError):
            jax.block_until_ready(jax.jit(lambda x: hcb.call(fail, x, result_shape=x))(1.0))
    with pytest.raises(hcb.CallbackException) as caught:
        hcb.barrier_wait()
    assert type(caught.value.__cause__) is type(make())
    assert str(caught.value).endswith(text)
    assert "in fail\n" in str(caught.value)


def test_errors_survive_stopping():
    hcb.id_tap(failing, 1)
    hcb.stop_outfeed_receiver()
    with pytest.raises(hcb.CallbackException, match="bad 1"):
        hcb.barrier_wait()


def test_accumulating_with_a_barrier():
    accumulator = []

    def host_log(arg, transforms):
        accumulator.append(arg)

    @jax.jit
    def device_fun(x):
        hcb.id_tap(host_log, x)
        hcb.id_tap(host_log, 2.0 * x)
        return x

    device_fun(1.0)
    device_fun(1.0)
    hcb.barrier_wait()
    np.testing.assert_array_equal(accumulator, [1, 2, 1, 2])
