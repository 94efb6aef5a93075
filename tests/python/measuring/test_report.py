# SPDX-License-Identifier: Apache-2.0
"""Tests callout.stats().report(): each rule with numbers that match and numbers that do not, and real programs."""

import dataclasses
import html
import sysconfig
import threading

import callout
import jax
import jax.numpy as jnp
import platforms
import pytest
from callout import _ext
from callout._measuring.report import make_report
from callout._measuring.report.facts import CallbackFacts, Facts, QueueFacts
from callout._measuring.report.rules import RULES
from switching import switching_after

F32 = jax.ShapeDtypeStruct((), "float32")
MS = 1e-3
QUEUE = QueueFacts("python", 0, blocked=0, high_water_bytes=0, capacity_bytes=256_000_000)
# A callback that matches no rule.
CALL = CallbackFacts(
    label="f",
    count=100,
    bytes=800,
    host=3 * MS,
    worker="python",
    calls=100,
    records=0,
    host_p95=40e-6,
    queue_wait_p95=0.0,
    device_wait=3 * MS,
    room_wait=0.0,
    gil_wait=0.1 * MS,
    copy=0.1 * MS,
    function=1 * MS,
    main_thread=0.0,
)
TAP = dataclasses.replace(CALL, calls=0, records=100, device_wait=0.1 * MS, gil_wait=0.0, queue_wait_p95=1e-3)


def findings(*callbacks, queues=(QUEUE,), devices=1, seconds=1.0, delivery_gil=0.0):
    """Returns {rule: finding} of a report."""
    report = make_report(Facts(callbacks, tuple(queues), devices, seconds, delivery_gil))
    found = {finding.rule: finding for finding in report.findings}
    assert len(found) == len(report.findings), "one finding a rule in these programs"
    for finding in report.findings:
        assert finding.advice
    return found


def test_there_is_a_case_here_for_every_rule():
    names = {rule.__name__ for rule in RULES}
    assert names == {name for name, *_ in CASES}


# (rule, facts that match, similar facts that do not match, a part of the finding's text, a part of its advice)
CASES = [
    (
        "errors",
        {"callbacks": [dataclasses.replace(CALL, errors=3)]},
        {"callbacks": [CALL]},
        "failed 3 of 100",
        "reraise",
    ),
    (
        "drops",
        {"callbacks": [dataclasses.replace(TAP, drops=300)]},
        {"callbacks": [TAP]},
        "lost 300 of 400 records",
        "every=2",
    ),
    (
        "queue_blocked",
        {
            "callbacks": [dataclasses.replace(TAP, room_wait=0.5)],
            "queues": [dataclasses.replace(QUEUE, blocked=7)],
        },
        {"callbacks": [TAP]},
        "waited for room 7 times, 500 ms in all, most of it for 'f'",
        "a native sink",
    ),
    (
        "queue_high",
        {"callbacks": [TAP], "queues": [dataclasses.replace(QUEUE, high_water_bytes=230_000_000)]},
        {"callbacks": [TAP], "queues": [dataclasses.replace(QUEUE, high_water_bytes=130_000_000)]},
        "90 % full",
        "queue_bytes = 512000000",
    ),
    (
        "dominant",
        {
            "callbacks": [
                dataclasses.replace(CALL, host=9 * MS, device_wait=9 * MS),
                dataclasses.replace(TAP, host=1 * MS),
            ]
        },
        {"callbacks": [CALL, TAP, dataclasses.replace(TAP, label="g")]},
        "has 90 % of the host time",
        "Begin here",
    ),
    (
        "slow_function",
        {"callbacks": [dataclasses.replace(CALL, host=1.0, device_wait=1.0, function=0.95)]},
        {"callbacks": [dataclasses.replace(CALL, host=1.0, device_wait=1.0, function=0.5)]},
        "held the program 1 s, 95 % of it in the function itself (10 ms a call)",
        "numba_kernel",
    ),
    (
        "gil",
        {"callbacks": [dataclasses.replace(CALL, gil_wait=2.5 * MS)]},
        {"callbacks": [dataclasses.replace(CALL, gil_wait=0.5 * MS)]},
        "(GIL) 2.5 ms, 83 %",
        "callout.tap",
    ),
    (
        "copies",
        {"callbacks": [dataclasses.replace(CALL, copy=2 * MS, bytes=100 << 20)]},
        {"callbacks": [dataclasses.replace(CALL, copy=2 * MS)]},
        "67 % of its time on copies of 1.05 MB a call",
        "zero_copy=True",
    ),
    (
        "many_calls",
        {"callbacks": [dataclasses.replace(CALL, calls=10_000, count=10_000, host=20 * MS, device_wait=20 * MS)]},
        {"callbacks": [dataclasses.replace(CALL, calls=10_000, count=10_000, host=2.0, device_wait=2.0)]},
        "was called 10000 times, 2 us each; 18.9 ms were not in it",
        "vmap_method",
    ),
    (
        "python_taps",
        {"callbacks": [dataclasses.replace(TAP, records=10_000, count=10_000, host=10 * MS)]},
        {"callbacks": [dataclasses.replace(TAP, records=10_000, count=10_000, host=10 * MS, worker="native")]},
        "10000 records",
        "native sink",
    ),
    (
        "queue_wait",
        {"callbacks": [dataclasses.replace(TAP, queue_wait_p95=0.4)]},
        {"callbacks": [TAP]},
        "1 in 20 waited 400 ms",
        "every=2",
    ),
    (
        "delivery_gil",
        {"callbacks": [TAP], "delivery_gil": 0.4},
        {"callbacks": [CALL], "delivery_gil": 0.4},
        "(GIL) 400 ms, 40 % of the profile",
        "native sink",
    ),
    (
        "large_records",
        {"callbacks": [dataclasses.replace(TAP, bytes=100 * (64 << 20))], "devices": 4},
        {"callbacks": [dataclasses.replace(CALL, bytes=100 * (64 << 20))], "devices": 4},
        "67.1 MB a record",
        'sharding="local"',
    ),
    (
        "synchronous",
        {"callbacks": [dataclasses.replace(CALL, main_thread=0.8)]},
        {"callbacks": [dataclasses.replace(CALL, main_thread=0.2)]},
        "main thread 800 ms, 80 %",
        "numpy_only=True",
    ),
]


def arguments(case):
    return case["callbacks"], {key: value for key, value in case.items() if key != "callbacks"}


@pytest.mark.parametrize(("rule", "given", "other", "text", "advice"), CASES, ids=[case[0] for case in CASES])
def test_a_rule_follows_from_its_numbers(rule, given, other, text, advice):
    callbacks, keywords = arguments(given)
    found = findings(*callbacks, **keywords)
    assert text in found[rule].text
    assert advice in " ".join(found[rule].advice)
    callbacks, keywords = arguments(other)
    assert rule not in findings(*callbacks, **keywords)


def test_several_devices_are_needed_for_shards():
    (finding,) = findings(dataclasses.replace(TAP, bytes=100 * (64 << 20))).values()
    assert "sharding" not in " ".join(finding.advice)


def test_an_unremarkable_profile_has_no_findings():
    assert findings(CALL) == {}
    text = str(make_report(Facts((CALL,), (QUEUE,), 1, 1.0)))
    assert text.endswith("Nothing stands out.")
    assert text.startswith("1 callback, 3 ms on the host in a profile of 1 s; programs were held 3 ms.")


def test_the_counters_alone_make_a_report():
    _ext.reset_statistics()
    assert str(callout.stats().report()) == "No callback has run."
    pause = threading.Event()

    def slow(x):
        pause.wait(0.005)
        return x

    quick = callout.options(lambda x: x, name="quick")
    f = jax.jit(lambda x: callout.pure_callback(callout.options(slow, name="slow"), F32, x))
    g = jax.jit(lambda x: callout.pure_callback(quick, F32, x))
    for _ in range(3):
        f(1.0).block_until_ready()
        g(1.0).block_until_ready()
    report = callout.stats().report()
    (finding,) = [finding for finding in report.findings if not finding.rule.startswith("queue")]  # of other tests
    assert (finding.rule, finding.label) == ("dominant", "slow")
    text = str(report)
    assert text.startswith("2 callbacks, ")
    assert "'slow' has " in text
    assert text.index("slow  ") < text.index("quick  "), "those with the most time first"
    assert repr(report) == text
    assert report._repr_html_() == f"<pre>{html.escape(text)}</pre>"  # a notebook shows this


def test_a_slow_python_function_is_found():
    pause = threading.Event()

    def slow(x):
        pause.wait(0.005)
        return x

    f = jax.jit(lambda x: callout.pure_callback(callout.options(slow, name="slow"), F32, x))
    f(1.0)
    with callout.profile() as profile:
        for _ in range(5):
            f(1.0).block_until_ready()
    found = {finding.rule: finding for finding in profile.report().findings}
    assert found["slow_function"].label == "slow"
    if not platforms.BY_FALLBACK:  # JAX's callbacks are always synchronous on a CPU
        assert found["synchronous"].label == "slow"


def test_copies_are_found():
    x = jnp.zeros(4_000_000, jnp.float32)
    f = jax.jit(lambda x: callout.pure_callback(callout.options(lambda x: x[0], name="copied"), F32, x))
    with callout.profile() as profile:
        for _ in range(5):
            f(x).block_until_ready()
    assert "copies" in {finding.rule for finding in profile.report().findings}


has_gil = pytest.mark.skipif(bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="there is no GIL to wait for")


def started_before_it_calls(program, called):
    """Returns the result of a run that has not called Python yet; repeats the run if it has, as on a loaded machine."""
    while True:
        called.clear()
        result = program()
        if not called:
            return result
        result.block_until_ready()


@has_gil
@pytest.mark.cpu_only("XLA:GPU calls the host in the thread that dispatches")
@pytest.mark.native_only(platforms.WAITS)
def test_waiting_for_the_interpreter_is_found():
    called = []

    def note(x):
        called.append(x)
        return x

    call = callout.options(note, name="waits", numpy_only=True)
    f = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda _, x: callout.pure_callback(call, F32, x), x))
    late = jax.jit(lambda a: jax.lax.fori_loop(0, 10, lambda _, a: (a @ a) / 1000, a)[0, 0])
    square = jnp.ones((1000, 1000), jnp.float32)
    late(square)
    f(jnp.float32(1)).block_until_ready()
    with callout.profile() as profile:
        # The input is not ready yet, so XLA runs the program on one of its own threads.
        result = started_before_it_calls(lambda: f(late(square)), called)
        while len(called) < 20:  # keeps the GIL busy
            pass
        result.block_until_ready()
    found = {finding.rule: finding for finding in profile.report().findings}
    assert found["gil"].label == "waits"


@pytest.fixture
def long_turns():
    """Lets a thread that waits for the GIL ask for it only after half a second."""
    with switching_after(0.5):
        yield


@has_gil
@pytest.mark.cpu_only("the tap has to come while Python is busy: how long a GPU takes is not known")
@pytest.mark.native_only(platforms.WAITS)
def test_deliveries_that_wait_for_the_interpreter_are_found(received, long_turns):
    tap = callout.options(received.tap, name="late")
    f = jax.jit(lambda x: callout.tap(tap, x))
    square = jnp.ones((1000, 1000), jnp.float32)
    late = jax.jit(lambda a: (a @ a)[0, 0])
    f(late(square)).block_until_ready()
    callout.barrier_wait()
    with callout.profile() as profile:
        # The input is not ready, so the tap comes while this thread is busy.
        started_before_it_calls(lambda: f(late(square)), received)
        while not received:  # holds the GIL until another thread asks for it
            pass
    found = {finding.rule: finding for finding in profile.report().findings}
    assert "delivery_gil" in found


def test_an_eager_call_gets_no_advice_to_be_asynchronous():
    pause = threading.Event()
    with callout.profile() as profile:
        for _ in range(5):
            callout.pure_callback(lambda x: pause.wait(0.005) or x, F32, 1.0)
    assert "synchronous" not in {finding.rule for finding in profile.report().findings}


def test_many_records_in_python_are_found(received):
    tap = callout.options(received.tap, name="many")
    f = jax.jit(lambda x: jax.lax.fori_loop(0, 5000, lambda _, x: callout.tap(tap, x) + 1, x))
    with callout.profile() as profile:
        f(jnp.float32(0)).block_until_ready()
    assert "python_taps" in {finding.rule for finding in profile.report().findings}


def test_large_records_are_found(received):
    x = jnp.zeros(1_000_000, jnp.float32)
    with callout.profile() as profile:
        jax.jit(lambda x: callout.tap(callout.options(received.tap, name="large"), x))(x).block_until_ready()
    (finding,) = [finding for finding in profile.report().findings if finding.rule == "large_records"]
    assert finding.label == "large"
    assert 'sharding="local"' in finding.advice[0], "these tests have several devices"
    received.clear()
