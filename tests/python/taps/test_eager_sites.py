# SPDX-License-Identifier: Apache-2.0
"""Tests which eager taps share a site, and the lifetime of a site, which keeps nothing alive."""

import collections
import gc
import threading
import weakref

import callout
import jax.numpy as jnp
import numpy as np
import pytest
from callout._primitives import eager
from live_objects import live_counts


def sites():
    callout.barrier_wait(timeout=30)
    return live_counts()["sites"]


def test_a_site_is_made_once_for_each_target_and_place(received):
    def receive(value):
        received.append(value)

    before = sites()
    for i in range(20):
        callout.tap(receive, jnp.float32(i))
        callout.tap(receive, jnp.float32(i), name="other")
        callout.tap(received.tap, jnp.float32(i), every=3)
    assert sites() == before + 3
    assert len(received) == 47


def test_a_site_dies_with_its_function(received):
    before = live_counts()

    def receive(value):
        received.append(value)

    callout.tap(receive, jnp.float32(1))
    callout.barrier_wait()
    dies = weakref.ref(receive)
    del receive
    assert dies() is None
    callout.barrier_wait()
    assert live_counts() == before


def test_sites_keep_neither_objects_of_methods_nor_sinks_alive(tmp_path):
    class Receiver:
        def receive(self, value):
            pass

    receiver, sink = Receiver(), callout.sinks.JsonLines(tmp_path / "out.jsonl")
    for target in (receiver.receive, sink):
        for _ in range(3):
            callout.tap(target, jnp.float32(1), every=2)
    callout.barrier_wait()
    dies = [weakref.ref(receiver), weakref.ref(sink)]
    del receiver, sink, target
    gc.collect()
    assert [each() for each in dies] == [None, None]
    callout.sinks.JsonLines(tmp_path / "out.jsonl")  # nothing writes the file any more


def test_records_outlive_their_function():
    """The function is called while the records are in flight, and dies afterwards."""
    inside, release, got = threading.Event(), threading.Event(), []

    def tap():
        def receive(value):
            inside.set()
            assert release.wait(30)
            got.append(float(value))

        for i in range(3):
            callout.tap(receive, jnp.float32(i))
        return weakref.ref(receive)

    receive = tap()
    assert inside.wait(30)
    gc.collect()
    assert receive() is not None
    release.set()
    callout.barrier_wait()
    assert got == [0, 1, 2]
    gc.collect()
    assert receive() is None


def test_methods_of_one_object_count_by_themselves():
    class Receiver:
        def __init__(self):
            self.got = []

        def one(self, value):
            self.got.append(("one", float(value)))

        def other(self, value):
            self.got.append(("other", float(value)))

    receiver, queue = Receiver(), collections.deque()
    for i in range(4):
        callout.tap(receiver.one, jnp.float32(i), every=3)
        callout.tap(receiver.other, jnp.float32(i), every=2)
        callout.tap(queue.append, jnp.float32(i), every=3)
        callout.tap(queue.appendleft, jnp.float32(i), every=3)
    callout.barrier_wait()
    assert sorted(receiver.got) == [("one", 0), ("one", 3), ("other", 0), ("other", 2)]
    assert [float(value) for value in queue] == [3, 0, 0, 3]


class Slotted:
    """A callable without weak references."""

    __slots__ = ("got",)

    def __init__(self):
        self.got = []

    def append(self, value):
        self.got.append(value)

    def __call__(self, value):
        self.got.append(value)


@pytest.mark.parametrize("value", [float, jnp.float32], ids=["number", "array"])
@pytest.mark.parametrize(
    ("make", "target"),
    [(list, lambda o: o.append), (Slotted, lambda o: o.append), (Slotted, lambda o: o)],
    ids=["list", "method", "callable"],
)
def test_objects_without_weak_references_count_too(make, target, value):
    one, other = make(), make()
    for i in range(30):
        callout.tap(target(one), value(i), every=10)
        callout.tap(target(other), value(i), min_interval=1e6)
    callout.barrier_wait()
    got, rare = (getattr(each, "got", each) for each in (one, other))
    assert [float(each) for each in got] == [0, 10, 20]
    assert [float(each) for each in rare] == [0]


def test_few_objects_without_weak_references_are_kept():
    before = sites()
    lists = [[] for _ in range(3 * eager.MOST_KEPT)]
    for i in range(4):
        for each in lists[: eager.MOST_KEPT]:
            callout.tap(each.append, np.float32(i), every=3)
    callout.barrier_wait()
    assert [[float(value) for value in each] for each in lists[: eager.MOST_KEPT]] == [[0, 3]] * eager.MOST_KEPT
    for each in lists:
        callout.tap(each.append, np.float32(0), every=3)
    assert sites() == before + eager.MOST_KEPT


def test_an_object_without_weak_references_dies_at_the_next_tap():
    class Held:
        pass

    def tap():
        held = Held()
        callout.tap([held].append, np.float32(0), every=2)
        return weakref.ref(held)

    held = tap()
    callout.barrier_wait()
    last = []
    callout.tap(last.append, np.float32(0))
    assert held() is None


def test_options_that_are_made_for_each_tap_are_one_site():
    class Receiver:
        def __init__(self):
            self.got = []

        def receive(self, value):
            self.got.append(float(value))

        receive = callout.options(receive, numpy_only=True)

    receiver, got = Receiver(), []
    for i in range(6):
        callout.tap(receiver.receive, jnp.float32(i), every=3)
        callout.tap(callout.options(got.append, name="test_eager_sites"), jnp.float32(i), every=2)
        callout.tap(callout.options(got.append, name="another"), jnp.float32(100 + i), every=3)
    callout.barrier_wait()
    assert receiver.got == [0, 3]
    assert sorted(map(float, got)) == [0, 2, 4, 100, 103]


def test_functions_of_a_module_count_by_themselves(capsys):
    for i in range(3):
        callout.tap(print, jnp.int32(i), every=2)
        callout.tap(repr, jnp.int32(i), every=2)
    callout.barrier_wait()
    assert capsys.readouterr().out == "0\n2\n"


def test_taps_of_jax_and_numpy_arrays_share_a_site():
    got = []

    def receive(value):
        got.append(int(value["a"]))

    for i in range(4):
        callout.tap(receive, {"a": (jnp.int32 if i % 2 else np.int32)(i)}, every=3)
    callout.barrier_wait()
    assert got == [0, 3]


def test_arguments_of_an_eager_tap_are_checked_each_time(tmp_path):
    x = jnp.float32(1)
    callout.tap(print, x, every=2, only_device=1)
    for wrong in ({"every": True}, {"every": 2.0, "only_device": 1}, {"every": 2, "only_device": True}):
        with pytest.raises(ValueError, match="must be an integer"):
            callout.tap(print, x, **wrong)
    with pytest.raises(TypeError, match="name must be a str"):
        callout.tap(print, x, name=["unhashable"])


def test_leaves_are_named_by_the_values_own_keys(tmp_path):
    names = []
    for i, key in enumerate(("a", 1, True, 1.0)):
        path = tmp_path / f"{i}.csv"
        callout.tap(callout.sinks.Csv(path), {key: jnp.float32(1)})
        callout.barrier_wait()
        names.append(path.read_text().splitlines()[0].split(",")[-1])
    assert names == ["a", "1", "True", "1.0"]


def test_a_name_that_is_bound_anew_is_another_target():
    got = []
    callout.register("test_eager_sites", lambda value: got.append(("first", float(value))))
    try:
        for i in range(3):
            callout.tap("test_eager_sites", jnp.float32(i), every=2)
        callout.register("test_eager_sites", lambda value: got.append(("second", float(value))), replace=True)
        for i in range(3):
            callout.tap("test_eager_sites", jnp.float32(i), every=2)
        callout.barrier_wait()
    finally:
        callout.unregister("test_eager_sites")
    assert got == [("first", 0), ("first", 2), ("second", 0), ("second", 2)]


def test_structures_of_one_function_have_sites_of_their_own(received):
    def receive(value):
        received.append(value if isinstance(value, dict) else float(value))

    for i in range(4):
        callout.tap(receive, jnp.float32(i), every=2)
        callout.tap(receive, {"a": jnp.float32(i)}, every=3)
    callout.barrier_wait()
    assert received == [0, {"a": 0}, 2, {"a": 3}]


def test_names_that_a_loop_makes_do_not_pile_up(received):
    def receive(value):
        received.append(value)

    before = sites()
    for i in range(3000):
        callout.tap(receive, np.float32(i), name=f"step {i}")
    assert sites() - before <= eager.MOST_OF_ONE
    assert len(received) == 3000


def test_threads_share_a_site(received):
    def receive(value):
        received.append(value)

    def send():
        for i in range(50):
            callout.tap(receive, np.float32(i), every=10)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    callout.barrier_wait()
    assert len(received) == 20
