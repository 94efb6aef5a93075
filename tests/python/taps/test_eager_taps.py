# SPDX-License-Identifier: Apache-2.0
"""Tests that an eager tap is a site, as in programs: it counts, skips and sends the same records."""

import csv
import functools
import gc
import pickle
import threading
import weakref

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from callout._primitives import eager
from live_objects import live_counts, settle, wait_until

COUNTERS = ("calls", "bytes", "drops", "skips", "errors")


def counters(label):
    callout.barrier_wait(timeout=30)
    found = callout.stats()["callbacks"].get(label)
    return None if found is None else {each: found[each] for each in COUNTERS}


def rows(path):
    """Returns the records of a CSV file without columns that differ between runs; devices have no order."""
    with path.open() as file:
        lines = list(csv.DictReader(file))
    kept = [{key: value for key, value in line.items() if key not in ("run", "time", "seq")} for line in lines]
    return sorted(kept, key=lambda line: int(line["device"]))


def spread():
    devices = np.array(jax.devices()[:4])
    return jax.sharding.NamedSharding(jax.sharding.Mesh(devices, "d"), jax.P("d"))


def compare(tmp_path, send, values, steps=None):
    """Compares eager taps and taps in a program that send the same values to functions and to sinks."""
    seen = {}
    for kind in ("eager", "jitted"):
        got = []

        def receive(value, *, device, got=got):
            got.append((device.id, np.asarray(value).tolist()))

        path = tmp_path / f"{kind}.csv"
        sink = callout.sinks.Csv(path, name="receiver")
        for target, more in ((callout.options(receive, name="receiver"), {"with_device": True}), (sink, {})):
            callout.barrier_wait()
            callout.stats.reset()
            tap = functools.partial(send, target, **more)
            run = jax.jit(tap) if kind == "jitted" else tap
            for value, step in zip(values, [None] * len(values) if steps is None else steps, strict=True):
                run(value) if step is None else run(value, step=step)
            seen[kind, type(target).__name__] = counters("receiver")
        seen[kind, "records"] = sorted(got)
        seen[kind, "rows"] = rows(path)
        del sink
    for what in ("FunctionWithOptions", "Csv", "records", "rows"):
        assert seen["eager", what] == seen["jitted", what], what
    return seen["eager", "records"], seen["eager", "FunctionWithOptions"]


VALUES = [jnp.full(3, float(i)) for i in range(11)]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ({}, range(11)),
        ({"every": 4}, [0, 4, 8]),
        ({"min_interval": 3600.0}, [0]),
        ({"every": 3, "min_interval": 3600.0, "name": "thin"}, [0]),
        ({"on_full": "drop_newest", "every": 5}, [0, 5, 10]),
        ({"only_device": 0, "every": 2}, [0, 2, 4, 6, 8, 10]),
        ({"only_device": 1, "every": 2}, []),
        ({"only_process": 0}, range(11)),
        ({"only_process": 1, "every": 2}, []),
        ({"ordered": True, "every": 6}, [0, 6]),
    ],
)
def test_eager_and_jitted_taps_count_and_send_the_same(tmp_path, arguments, sent):
    records, counted = compare(tmp_path, functools.partial(callout.tap, **arguments), VALUES)
    assert [value[0] for _, value in records] == list(sent)
    is_sender = arguments.get("only_device", 0) == 0 and arguments.get("only_process", 0) == 0
    assert counted["skips"] == (len(VALUES) - len(sent) if is_sender else 0)


def test_eager_and_jitted_taps_count_the_same_steps(tmp_path):
    records, counted = compare(
        tmp_path, functools.partial(callout.tap, every=4), VALUES, [np.int32(step) for step in range(5, 16)]
    )
    assert [value[0] for _, value in records] == [3, 7]  # steps 8 and 12
    assert counted["skips"] == 9


@pytest.mark.native_only(platforms.DEVICE)
@pytest.mark.devices(4)
@pytest.mark.parametrize(("arguments", "calls"), [({"every": 2}, 12), ({"every": 2, "only_device": 2}, 3)])
def test_eager_and_jitted_taps_of_shards_count_by_device(tmp_path, arguments, calls):
    values = [jax.device_put(jnp.arange(4.0) + 10 * i, spread()) for i in range(5)]
    records, counted = compare(tmp_path, functools.partial(callout.tap, sharding="local", **arguments), values)
    assert len(records) == counted["calls"] == calls
    assert counted["skips"] == calls // 3 * 2


@pytest.mark.native_only(platforms.DEVICE)
@pytest.mark.devices(4)
def test_eager_and_jitted_taps_of_one_place_count_by_device(tmp_path):
    """The devices take turns; each has a first time of its own."""
    devices = jax.devices()
    values = [jax.device_put(jnp.float32(i), devices[i % 2]) for i in range(8)]
    records, _ = compare(tmp_path, functools.partial(callout.tap, every=3), values)
    assert records == [(devices[0].id, 0.0), (devices[0].id, 6.0), (devices[1].id, 1.0), (devices[1].id, 7.0)]


@pytest.mark.parametrize("jit", [False, True])
def test_a_full_queue_drops_of_eager_and_jitted_taps_alike(small_queue, tmp_path, jit):
    """A dropped record counts as skipped in the next record, and its function is released."""
    inside, release = threading.Event(), threading.Event()

    def block(value):
        inside.set()
        assert release.wait(60)

    class Receiver:
        def receive(self, value):
            got.append(float(value[0]))

    got, receiver = [], Receiver()
    dies = weakref.ref(receiver)
    label = f"test_eager_taps.{Receiver.receive.__qualname__}"
    callout.stats.reset()
    before = live_counts()
    callout.tap(block, jnp.zeros(()))
    assert inside.wait(30)

    def send(value, receive=receiver.receive):
        return callout.tap(receive, value, on_full="drop_newest")

    tap = jax.jit(send) if jit else send
    big = jnp.zeros(1_500_000)  # 6 MB: two fit
    for i in range(4):
        jax.block_until_ready(tap(big + i))

    def drops():
        return callout.stats()["callbacks"].get(label, {"drops": 0})["drops"]

    assert wait_until(lambda: drops() == 2), drops()  # on CUDA a record is rejected when it has arrived
    release.set()
    assert counters(label) == {"calls": 2, "bytes": 12_000_000, "drops": 2, "skips": 0, "errors": 0}
    assert got == [0, 1]
    del receiver, send, tap
    settle(before, gone=dies)  # a thread of XLA may still hold the program
    assert dies() is None


def test_a_rejected_record_raises_and_keeps_no_function(small_queue):
    inside, release = threading.Event(), threading.Event()

    def block(value):
        inside.set()
        assert release.wait(60)

    callout.tap(block, jnp.zeros(3_000_000))
    assert inside.wait(30)

    def refused(value):
        raise AssertionError(value)

    with pytest.raises(callout.CallbackError, match='on_full="fail"'):
        callout.tap(refused, jnp.zeros(3_000_000), on_full="fail")
    dies = weakref.ref(refused)
    del refused
    gc.collect()
    release.set()
    assert dies() is None


def test_small_records_wait_for_a_full_queue_without_the_gil(small_queue):
    inside, release, got = threading.Event(), threading.Event(), []

    def block(value):
        inside.set()
        assert release.wait(60)

    callout.stats.reset()
    callout.tap(block, jnp.zeros(3_000_000))  # 12 MB of 16
    assert inside.wait(30)
    waited = sum(queue["blocked"] for queue in callout.stats()["queues"])
    values = [jnp.full(1000, float(i)) for i in range(2000)]  # 8 MB
    sender = threading.Thread(target=lambda: [callout.tap(got.append, value) for value in values])
    sender.start()
    while sum(queue["blocked"] for queue in callout.stats()["queues"]) == waited:
        sender.join(0.01)
    assert sender.is_alive()
    assert not got
    release.set()
    sender.join(60)
    assert not sender.is_alive()
    callout.barrier_wait(timeout=30)
    assert [float(value[0]) for value in got] == list(range(2000))


def test_a_skipped_eager_tap_does_not_wait_for_its_value(received):
    """The tap neither waits nor copies: it decides before it reads the value."""

    hosted = []

    def to_hosts(values, whole=eager.to_hosts):
        hosted.append(values)
        return whole(values)

    def receive(value):
        received.append(value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eager, "to_hosts", to_hosts)
        for i in range(6):
            callout.tap(receive, jnp.float32(i), every=3)
    callout.barrier_wait()
    assert len(received) == len(hosted) == 2


GIVEN = [np.arange(3.0, dtype=np.float32), np.arange(3.0), np.float32(1.5), np.float64(1.5), 3, 2.5, 1 + 2j, True]
RETURNING = {
    "tap": lambda value: callout.tap(lambda _: None, value),
    "tap of two": lambda value: callout.tap(callout.sinks.Tee(callout.sinks.Null(), callout.sinks.Null()), value),
    "tap with options": lambda value: callout.tap(lambda _: None, value, every=2, step=1),
    "watch": lambda value: callout.watch(value, "given"),
    "watch of gradients": lambda value: callout.watch(value, "given", gradient=True),
    "id_tap": lambda value: hcb.id_tap(lambda *_: None, value),
}


@pytest.mark.parametrize("name", RETURNING)
@pytest.mark.parametrize("value", GIVEN, ids=lambda value: f"{type(value).__name__} {value}")
def test_eager_taps_return_their_value_unchanged(name, value):
    out = RETURNING[name]({"of": value})["of"]
    if name != "id_tap":
        assert out is value
    assert not type(out).__module__.startswith("jax.")
    assert np.array_equal(pickle.loads(pickle.dumps(out)), value)
    callout.barrier_wait()
    callout.watch.reset("given")


def test_eager_watches_count_by_their_site():
    for i in range(6):
        callout.watch(jnp.float32(np.nan if i == 4 else i), "test_eager_taps", every=2)
    callout.barrier_wait()
    watched = callout.stats()["watches"]["test_eager_taps"]
    assert (watched["calls"], watched["nan"], watched["first"]["step"]) == (3, 1, 4)
    callout.watch.reset("test_eager_taps")
