# SPDX-License-Identifier: Apache-2.0
"""Tests which records a tap sends: `every`, `step`, `sample`, `only_process`, `only_device`; decided before any copy."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from jax import lax


def delivered(received):
    callout.barrier_wait(timeout=30)
    return [np.asarray(value).tolist() for value in received]


def test_every_uses_the_step(received):
    @jax.jit
    def train(start):
        return lax.fori_loop(start, start + 7, lambda i, c: callout.tap(received.tap, c, step=i, every=5) + 1, 0)

    assert int(train(8)) == 7
    assert int(train(15)) == 7
    assert delivered(received) == [2, 0, 5]  # steps 10; 15 and 20


def test_a_step_follows_any_number_of_leaves(received):
    f = jax.jit(lambda xs: callout.tap(received.tap, xs, step=4, every=2))
    for count in (1, 15, 16, 17, 40):
        f([jnp.float32(i) for i in range(count)])
    callout.barrier_wait(timeout=30)
    assert [[float(leaf) for leaf in value] for value in received] == [
        [float(i) for i in range(count)] for count in (1, 15, 16, 17, 40)
    ]


def test_eager_every_uses_the_step(received):
    receive = received.tap
    for i in range(3, 12):
        assert callout.tap(receive, jnp.float32(i), step=i, every=4) == i
    callout.tap(receive, jnp.float32(0), step=2**31, every=4)
    assert delivered(received) == [4, 8, 0]


def test_a_step_is_no_part_of_value_structure_or_transformations(received):
    seen = []

    def receive(value, *, transforms):
        seen.append((np.shape(value["a"]), transforms))

    def f(x, i):
        out = callout.tap(receive, {"a": x}, step=i, with_transforms=True)
        assert set(out) == {"a"}
        return out["a"]

    np.testing.assert_array_equal(jax.vmap(f, (0, None))(jnp.ones((3, 2)), 1), np.ones((3, 2)))
    jax.vmap(f, (None, 0))(jnp.ones(2), jnp.arange(3))  # a batched step counts by its first lane
    jax.jit(jax.vmap(f))(jnp.ones((3, 2)), jnp.arange(3))
    callout.barrier_wait()
    batch = ("batch", {"batch_dims": (0,)})
    assert seen == [((3, 2), (batch,)), ((2,), ()), ((3, 2), (batch,))]


def test_steps_survive_derivatives(received):
    def f(x, i):
        return callout.tap(received.tap, x, step=i, every=2) ** 2

    step = jax.jit(jax.grad(f))
    assert [float(step(3.0, i)) for i in range(4)] == [6.0] * 4
    assert float(jax.jvp(lambda x: f(x, jnp.int32(2)), (3.0,), (1.0,))[1]) == 6
    assert float(jax.grad(jax.checkpoint(lambda x: f(x, 1)))(3.0)) == 6
    assert delivered(received) == [3, 3, 3]


def test_a_tapped_linear_rule_is_transposed_with_its_step(received):
    @jax.custom_jvp
    def same(x, i):
        return x

    @same.defjvp
    def _(primals, tangents):
        x, i = primals
        return x, callout.tap(received.tap, tangents[0], step=i, every=2)

    grad = jax.jit(jax.grad(lambda x, i: 5 * same(x, i)))
    assert [float(grad(1.0, i)) for i in range(3)] == [5, 5, 5]
    assert delivered(received) == [5, 5]


def test_ordered_and_threaded_taps_have_steps_too(received):
    def f(n):
        return lax.fori_loop(0, n, lambda i, c: callout.tap(received.tap, c, step=i, every=3, ordered=True) + 1, 0)

    assert int(jax.jit(f)(7)) == 7
    assert int(jax.jit(callout.threaded(f))(7)) == 7
    assert delivered(received) == [0, 3, 6] * 2


@pytest.mark.parametrize(
    ("setting", "others"),
    [({"every": 4}, {}), ({"sample": 0.3}, {}), ({"min_interval": 1e-4}, {}), ({"every": 3}, {"every": 2})],
    ids=str,
)
def test_steps_that_a_sink_counts_are_those_of_the_values(tmp_path, setting, others):
    """A program may be far ahead of its taps: on a GPU, the host has queued all before the first record arrives."""
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    sinks = [callout.sinks.Csv(path) for path in paths]

    @jax.jit
    def train(start):
        def step(at, _):
            for sink, settings in zip(sinks, (setting, others), strict=True):
                callout.tap(sink, at, **settings)
            return at + 1, None

        return lax.scan(step, start, length=400)[0]

    train(train(jnp.int32(0))).block_until_ready()
    callout.barrier_wait(timeout=30)
    for path, settings in zip(paths, (setting, others), strict=True):
        callout.sinks.close(path)
        rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
        steps = [int(row[1]) for row in rows]
        assert steps == [int(row[-1]) for row in rows]
        if "every" in settings:
            assert steps == list(range(0, 800, settings["every"]))


@pytest.mark.parametrize("policy", ["drop_newest", "fail", "block"])
def test_nothing_is_lost_while_the_queue_has_room(received, policy):
    """A program may be far ahead of its taps: these records exceed the room in a GPU's ring."""

    def step(i, x):
        return callout.tap(received.tap, x, on_full=policy) + 1

    jax.jit(lambda x: lax.fori_loop(0, 10_000, step, x))(jnp.zeros(256, jnp.int32)).block_until_ready()
    callout.barrier_wait(timeout=60)
    assert [int(value[0]) for value in received] == list(range(10_000))


def test_sent_values_survive_reuse_of_their_memory(received):
    def receive(value):
        received.append((float(value[0]), float(value[-1])))  # does not keep the record's memory

    def send(x):
        return callout.tap(receive, x) + 1

    given_away, kept = jax.jit(send, donate_argnums=0), jax.jit(send)
    x = jnp.zeros(100_000)
    for _ in range(30):
        x = given_away(x)
    for i in range(30, 60):
        value = jnp.full(100_000, float(i))
        kept(value)
        value.delete()
        jnp.full(100_000, -1.0)
        if i % 10 == 0:
            jax.clear_caches()
    callout.barrier_wait(timeout=60)
    assert received == [(i, i) for i in range(60)]


def test_threads_that_run_one_program_count_its_steps_together(received):
    run = jax.jit(lambda x: lax.fori_loop(0, 30, lambda _, c: callout.tap(received.tap, c, every=3) + 1, x))
    with ThreadPoolExecutor(2) as threads:
        ends = list(threads.map(lambda start: int(run(start)), range(0, 2000, 100)))
    assert ends == [start + 30 for start in range(0, 2000, 100)]
    callout.barrier_wait(timeout=60)
    assert len(received) == 200


def test_sample_sends_about_that_part_and_counts_the_rest(received):
    def receive(value):
        received.append(value)

    receive.__qualname__ = "sampled"
    n = 20_000
    jax.jit(lambda: lax.fori_loop(0, n, lambda i, c: callout.tap(receive, i, sample=0.1, result=c), 0))()
    callout.barrier_wait()
    assert 1500 < len(received) < 2500  # 12 standard deviations
    stats = callout.stats()["callbacks"][f"{__name__}.sampled"]
    assert stats["calls"] + stats["skips"] == n


def test_only_process(received):
    f = jax.jit(lambda x: callout.tap(received.tap, callout.tap(received.tap, x, only_process=3) + 1, only_process=0))
    assert float(f(1.0)) == 2
    callout.tap(received.tap, 7.0, only_process=1)
    callout.tap(received.tap, 8.0, only_process=0)
    assert delivered(received) == [2, 8]


def over(devices, size):
    """Returns 0, 1, ..., sharded over these devices."""
    return jax.device_put(
        jnp.arange(float(size)), jax.NamedSharding(jax.sharding.Mesh(np.array(devices), ("d",)), jax.P("d"))
    )


@pytest.mark.native_only(platforms.SHARDS)
@pytest.mark.devices(4)
def test_only_device_in_shard_map_and_on_shards(received):
    devices = jax.devices()
    mesh = jax.sharding.Mesh(np.array(devices[:4]), ("d",))
    x = over(devices[:4], 8)
    spec = jax.P("d")

    def f(v):
        return callout.tap(received.tap, v, only_device=devices[2].id)

    shard_mapped = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec))
    np.testing.assert_array_equal(shard_mapped(x), np.arange(8))
    local = jax.jit(lambda v: callout.tap(received.tap, v, sharding="local", only_device=devices[1].id))
    np.testing.assert_array_equal(local(x), np.arange(8))
    callout.tap(received.tap, x, sharding="local", only_device=devices[3].id)
    assert sorted(delivered(received)) == [[2, 3], [4, 5], [6, 7]]  # devices have queues of their own


@pytest.mark.native_only(platforms.SHARDS)
@pytest.mark.devices(2)
@pytest.mark.collectives
def test_only_the_device_with_the_gathered_value_can_send(received):
    devices = jax.devices()
    x = over(devices[:2], 4)
    for only in range(2):
        for sender in range(2):
            options = {"only_device": devices[only].id, "device_index": sender}
            jax.jit(lambda v, i, options=options: callout.tap(received.tap, v + i, **options))(x, 10 * only + sender)
    assert delivered(received) == [[0, 1, 2, 3], [11, 12, 13, 14]]


@pytest.mark.native_only(platforms.SHARDS)
@pytest.mark.devices(2)
@pytest.mark.collectives
def test_steps_on_shards_and_gathered(received):
    x = over(jax.devices()[:2], 4)
    indices = []

    def receive(value, *, index):
        indices.append((value.tolist(), index))

    f = jax.jit(lambda v, i: callout.tap(receive, v, sharding="local", step=i, every=2, with_index=True))
    g = jax.jit(lambda v, i: callout.tap(received.tap, v, step=i, every=2))
    for i in range(3):
        f(x, i)
        g(x, i)
    assert delivered(received) == [[0, 1, 2, 3]] * 2
    assert sorted(indices) == sorted([([0, 1], (slice(0, 2),)), ([2, 3], (slice(2, 4),))] * 2)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"sample": 0}, ValueError, "sample must be a probability, above 0 and up to 1, got 0"),
        ({"sample": 1.5}, ValueError, "got 1.5"),
        ({"only_process": -1}, ValueError, "only_process must be an integer of at least 0, got -1"),
        ({"only_device": "0"}, ValueError, "only_device must be an integer of at least 0, got '0'"),
        ({"step": 1.5}, TypeError, "step must be an integer scalar, got 1.5"),
        ({"step": True}, TypeError, "step must be an integer scalar, got True"),
        ({"step": np.arange(3)}, TypeError, "step must be an integer scalar, got int64[3]"),
    ],
)
def test_wrong_arguments_are_named(received, arguments, error, text):
    with pytest.raises(error, match=re.escape(text)):
        callout.tap(received.tap, 1.0, **arguments)
    assert delivered(received) == []


@pytest.mark.native_only(platforms.DEVICE)
@pytest.mark.devices(4)
def test_each_device_has_its_own_turns(received):
    devices = jax.devices()[:4]
    mesh = jax.sharding.Mesh(np.array(devices), ("d",))
    x = jax.device_put(jnp.arange(4.0), jax.NamedSharding(mesh, jax.P("d")))
    sent = {device.id: [] for device in devices}

    def receive(value, *, device):
        sent[device.id].append(int(value[1]))

    def f(v):
        def step(i, u):
            callout.tap(receive, (u, i), sharding="local", every=2, with_device=True)
            return u

        return lax.fori_loop(0, 7, step, v)

    run = jax.jit(f)
    for _ in range(2):
        jax.block_until_ready(run(x))
    callout.barrier_wait()
    assert list(sent.values()) == [[0, 2, 4, 6, 1, 3, 5]] * 4


def test_methods_count_for_their_objects(received):
    class Log(list):
        def add(self, value):
            self.append(int(value))

    a, b = Log(), Log()
    for i in range(6):
        callout.tap(a.add, i, every=2)
        callout.tap(b.add, i, every=3)
    callout.barrier_wait()
    assert (a, b) == ([0, 2, 4], [0, 3])


def test_steps_that_jax_would_cut_are_refused(received):
    callout.tap(received.tap, 1.0, step=3_000_000_000, every=1_000_000_000)
    for step in (2**40, np.int64(2**40), np.array(2**40), np.array(2**40, np.uint64)):
        with pytest.raises(OverflowError, match="step 1099511627776 has more than 32 bits, which needs jax_enable_x64"):
            callout.tap(received.tap, 2.0, step=step)
    callout.tap(received.tap, 2.0, step=np.array(3_000_000_000), every=1_000_000_000)
    with jax.enable_x64(True):
        callout.tap(received.tap, np.float32(3), step=2**40, every=2**20)
        callout.tap(received.tap, np.float32(4), step=np.array(2**40), every=2**20)
    assert delivered(received) == [1, 2, 3, 4]


@pytest.mark.parametrize("x64", [False, True])
def test_steps_that_no_record_can_have_are_refused(received, x64):
    with jax.enable_x64(x64):
        steps = [2**63, -(2**63) - 1, np.uint64(2**63), np.array(2**63, np.uint64)]
        for step in [*steps, jnp.uint64(2**63)] if x64 else steps:
            text = re.escape(f"callout.tap: step must be from -2**63 to 2**63 - 1, got {int(step)}")
            with pytest.raises(OverflowError, match=text):
                callout.tap(received.tap, np.float32(1), step=step)
    assert delivered(received) == []


def test_leaves_that_would_have_one_name_have_two(tmp_path):
    sink = callout.sinks.JsonLines(tmp_path / "log.jsonl", fields=False)
    callout.tap(sink, {"a.b": 1, "a": {"b": 2}}, name="n", step=7)
    sink.close()
    assert json.loads((tmp_path / "log.jsonl").read_text()) == {"name": "n", "step": 7, "['a']['b']": 2, "['a.b']": 1}


def test_close_waits_for_sent_records(tmp_path):
    sink = callout.sinks.JsonLines(tmp_path / "log.jsonl")
    f = jax.jit(lambda: lax.fori_loop(0, 50_000, lambda i, c: callout.tap(sink, c) + 1, 0))
    jax.block_until_ready(f())
    sink.close()
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 50_000
