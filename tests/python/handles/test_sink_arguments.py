# SPDX-License-Identifier: Apache-2.0
"""Tests sinks as arguments of programs: one compiled program, with a file or a function for each run."""

import copy
import gc
import json
import pickle
import weakref

import callout
import jax
import jax.numpy as jnp
import meshes
import numpy as np
import pytest
from callout import _ext, sinks
from jax import lax
from jax.sharding import PartitionSpec as P

pytestmark = [
    pytest.mark.native_only("records are delivered by the core"),
]


def new_log(**options):
    """Returns a program that sends five values to its argument; `log.traces` counts how often JAX traces it."""

    @jax.jit
    def log(sink, w):
        log.traces += 1

        def step(i, w):
            callout.tap(sink, {"w": w, "i": i}, **options)
            return w + 1

        return lax.fori_loop(0, 5, step, w)

    log.traces = 0
    return log


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class TestOneProgram:
    def test_each_run_writes_into_its_file(self, tmp_path):
        log = new_log(name="state")
        for run in range(3):
            log(sinks.JsonLines(tmp_path / f"{run}.jsonl"), 10.0 * run)
        callout.barrier_wait()
        for run in range(3):
            records = lines(tmp_path / f"{run}.jsonl")
            assert [record["w"] for record in records] == [10 * run + i for i in range(5)]
            assert [record["i"] for record in records] == list(range(5))
            assert {record["name"] for record in records} == {"state"}
        assert log.traces == 1

    def test_each_run_calls_its_function(self):
        log, runs = new_log(), []
        for _ in range(3):
            seen = []
            runs.append(seen)
            log(sinks.Function(seen.append), 1.0)
        callout.barrier_wait()
        assert [[float(value["w"]) for value in seen] for seen in runs] == [[1, 2, 3, 4, 5]] * 3
        assert log.traces == 1

    def test_sinks_of_one_kind_that_check_alike_share_a_program(self, tmp_path):
        log = new_log()
        log(sinks.Print("{w} {i}", fd=2), 1.0)
        log(sinks.Print("{w} {i}", fd=1), 1.0)
        assert log.traces == 1
        with pytest.raises(ValueError, match="nothing"):
            log(sinks.Print("{nothing}"), 1.0)
        log(sinks.Arrow(tmp_path / "a.arrow"), 1.0)
        log(sinks.Arrow(tmp_path / "b.arrow", rotate_bytes=1 << 20), 1.0)
        assert log.traces == 3
        callout.barrier_wait()

    def test_a_tap_without_a_name_has_the_sinks_name(self, tmp_path):
        log = new_log()
        log(sinks.JsonLines(tmp_path / "a", name="first"), 1.0)
        log(sinks.JsonLines(tmp_path / "b"), 1.0)
        callout.barrier_wait()
        assert [lines(tmp_path / name)[0]["name"] for name in "ab"] == ["first", "json_lines"]

    def test_options_of_taps(self, tmp_path):
        log = new_log(every=2, ordered=True, step=7)
        log(sinks.JsonLines(tmp_path / "a"), 1.0)
        callout.barrier_wait()
        assert lines(tmp_path / "a") == []  # step 7 is no multiple of 2
        log = new_log(min_interval=0, on_full="fail", step=8)
        log(sinks.JsonLines(tmp_path / "b"), 1.0)
        callout.barrier_wait()
        assert [line["step"] for line in lines(tmp_path / "b")] == [8] * 5

    def test_keywords_of_functions(self):
        seen = []

        def note(value, device, transforms, index):
            seen.append((value.tolist(), device, transforms, index))

        @jax.jit
        def program(sink, x):
            return jax.vmap(
                lambda x: callout.tap(sink, x, with_device=True, with_transforms=True, with_index=True), in_axes=1
            )(x)

        program(sinks.Function(note), jnp.ones((3, 2)))
        callout.barrier_wait()
        ((value, device, transforms, index),) = seen
        assert value == [[1, 1], [1, 1], [1, 1]]
        assert device == jax.devices()[0]
        assert transforms == (("batch", {"batch_dims": (1,)}),)
        assert index == (slice(0, 3), slice(0, 2))

    def test_functions_get_jax_arrays_on_request(self):
        seen = []
        log = new_log()
        log(sinks.Function(callout.options(seen.append, args="jax")), 1.0)
        callout.barrier_wait()
        assert isinstance(seen[0]["w"], jax.Array)

    def test_tees(self, tmp_path):
        log, seen, counts = new_log(), [], [sinks.Statistics(), sinks.Statistics()]
        captured = []
        for run in range(2):
            tee = sinks.Tee(
                sinks.JsonLines(tmp_path / str(run)), counts[run], sinks.Function(seen.append), captured.append
            )
            log(tee, 1.0)
            callout.barrier_wait()
            assert len(lines(tmp_path / str(run))) == 5
            assert len(seen) == 5 * (run + 1)
        assert [count["statistics.w"].count for count in counts] == [5, 5]
        assert len(captured) == 10
        assert log.traces == 1

    def test_captured_sinks_are_parts_of_the_program(self):
        counts = sinks.Statistics()
        program = jax.jit(lambda x: callout.tap(counts, x, name="x"))
        program(1.0)
        callout.barrier_wait()
        assert counts["x"].count == 1


class TestTransformations:
    def test_control_flow_passes_it_on(self):
        one, other = sinks.Statistics(), sinks.Statistics()

        @jax.jit
        def program(p, one, other, xs):
            chosen = lax.cond(p, lambda: one, lambda: other)

            def step(sink, x):
                lax.cond(x > 1, lambda: callout.tap(sink, x, name="x"), lambda: x)
                return sink, x

            return lax.scan(step, chosen, xs)[1]

        program(True, one, other, jnp.arange(5.0))
        program(False, one, other, jnp.arange(2.0))
        callout.barrier_wait()
        assert one["x"].count == 3
        assert list(other) == []

    def test_derivatives_and_remat(self):
        counts = sinks.Statistics()

        @jax.jit
        def program(sink, x):
            return jax.grad(jax.checkpoint(lambda x: jnp.sin(callout.tap(sink, x, name="x")) ** 2))(x)

        assert float(program(counts, 1.0)) == pytest.approx(2 * np.sin(1) * np.cos(1))
        callout.barrier_wait()
        assert counts["x"].count == 2

    def test_a_batch_of_sinks_gets_a_lane_each(self):
        counts = [sinks.Statistics() for _ in range(3)]
        batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *counts)

        @jax.jit
        def program(batch, xs, y):
            return jax.vmap(lambda sink, x: callout.tap(sink, (x, y), name="x")[0], out_axes=1)(batch, xs)

        assert program(batch, jnp.arange(6.0).reshape(3, 2), 1.0).tolist() == [[0, 2, 4], [1, 3, 5]]
        callout.barrier_wait()
        assert [(count["x.0"].min, count["x.0"].max, count["x.1"].max) for count in counts] == [
            (0, 1, 1),
            (2, 3, 1),
            (4, 5, 1),
        ]

    def test_lanes_that_left_a_loop_send_nothing(self):
        counts = [sinks.Statistics() for _ in range(2)]
        batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *counts)

        def count_down(sink, n):
            return lax.while_loop(lambda n: n > 0, lambda n: callout.tap(sink, n, name="n") - 1, n)

        jax.jit(jax.vmap(count_down))(batch, jnp.array([1, 4]))
        shared = sinks.Statistics()
        jax.jit(jax.vmap(count_down, in_axes=(None, 0)))(shared, jnp.array([1, 4]))
        callout.barrier_wait()
        assert [count["n"].count for count in [*counts, shared]] == [1, 4, 5]

    def test_compiled_ahead_of_time(self):
        one, other = sinks.Statistics(), sinks.Statistics()
        program = jax.jit(lambda sink, x: callout.tap(sink, x, name="x"))
        program.lower(one, 1.0).compile()(other, 1.0)
        callout.barrier_wait()
        assert (list(one), other["x"].count) == ([], 1)

    def test_threaded_programs(self):
        seen = []

        @jax.jit
        @callout.threaded
        def program(sink, x):
            for i in range(3):
                callout.tap(sink, x + i, ordered=True)
            return x

        program(sinks.Function(lambda x: seen.append(float(x))), 1.0)
        callout.barrier_wait()
        assert seen == [1, 2, 3]

    def test_a_program_returns_the_sink(self):
        counts = sinks.Statistics()
        program = jax.jit(lambda sink, x: (sink, callout.tap(sink, x, name="x")))
        returned, _ = program(counts, 1.0)
        again, _ = program(returned, 2.0)
        callout.tap(again, 3.0, name="x")
        callout.barrier_wait()
        assert returned["x"].count == counts["x"].count == 3

    @pytest.mark.devices(4)
    def test_several_devices(self):
        mesh = meshes.mesh_of(4)
        counts, seen = sinks.Statistics(), []
        program = jax.jit(
            jax.shard_map(
                lambda sink, x: callout.tap(sink, x, name="x"), mesh=mesh, in_specs=(P(), P("d")), out_specs=P("d")
            )
        )
        program(counts, jnp.arange(8.0))
        spread = jax.device_put(jnp.arange(8.0), jax.sharding.NamedSharding(mesh, P("d")))
        whole = jax.jit(lambda sink, x: callout.tap(sink, x + 1, name="whole", device_index=1))
        whole(counts, spread)
        local = jax.jit(lambda sink, x: callout.tap(sink, x + 1, sharding="local", with_index=True))
        local(sinks.Function(lambda x, index: seen.append((x.tolist(), index))), spread)
        callout.barrier_wait()
        assert counts["x"].count == 8
        assert counts["whole"].count == 8
        assert sorted(seen) == [([i + 1, i + 2], (slice(i, i + 2),)) for i in (0, 2, 4, 6)]


class TestLife:
    def test_a_program_writes_on_when_its_sink_has_no_owner(self, tmp_path):
        log = new_log()
        log(sinks.JsonLines(tmp_path / "a"), 1.0)
        callout.barrier_wait()
        assert len(lines(tmp_path / "a")) == 5

    def test_the_file_of_a_dropped_sink_is_free(self, tmp_path):
        log = new_log()
        for _ in range(3):
            log(sinks.JsonLines(tmp_path / "a", append=True), 1.0)
        callout.barrier_wait()
        assert len(lines(tmp_path / "a")) == 15

    def test_dropped_sinks_and_functions_go(self):
        callout.barrier_wait()
        before = _ext.live_host_objects()
        log = new_log()
        for _ in range(20):
            log(sinks.Null(), 1.0)
            log(sinks.Function(lambda value: None), 1.0)
        gc.collect()
        callout.barrier_wait()
        assert _ext.live_host_objects() == before

    def test_a_function_that_refers_to_its_sink_is_collected(self):
        class Run:
            def __init__(self):
                self.log, self.seen = sinks.Function(self.note), []

            def note(self, value):
                self.seen.append(value)

        run = Run()
        jax.jit(lambda log, x: callout.tap(log, x))(run.log, 1.0)
        callout.barrier_wait()
        assert len(run.seen) == 1
        gone = weakref.ref(run)
        del run
        gc.collect()
        assert gone() is None

    def test_a_sink_that_is_gone_is_an_error(self):
        leaves, tree = jax.tree.flatten(sinks.Null())
        handle = jax.tree.unflatten(tree, [jax.device_put(leaves[0], jax.devices()[0])])
        del leaves
        gc.collect()
        callout.barrier_wait()
        with pytest.raises(ValueError, match=r"the sink of this Null is gone"):
            callout.tap(handle, 1.0)
        jax.jit(lambda sink, x: callout.tap(sink, x))(handle, 1.0)
        with pytest.raises(callout.TapError, match="sink: the object of this handle is gone"):
            callout.barrier_wait()

    def test_errors_are_those_of_the_sink(self):
        def fails(value):
            raise ArithmeticError("of this run")

        new_log()(sinks.Function(fails), 1.0)
        with pytest.raises(ArithmeticError, match="of this run"):
            callout.barrier_wait()


class TestOnlyTaps:
    def test_methods_are_for_the_host(self, tmp_path):
        sink = sinks.JsonLines(tmp_path / "a")
        with pytest.raises(TypeError, match=r"JsonLines\.close\(\) inside a function that JAX traces"):
            jax.jit(lambda sink: sink.close())(sink)
        with pytest.raises(AttributeError, match="'path': inside of a program a sink takes taps, and nothing else"):
            jax.jit(lambda sink: len(sink.path))(sink)
        with pytest.raises(TypeError, match=r"Statistics\.keys\(\) inside a function that JAX traces"):
            jax.jit(lambda sink: sink["x"])(sinks.Statistics())
        assert jax.jit(lambda sink: len(repr(sink)))(sink) > 0

    def test_calls_refuse_it(self):
        with pytest.raises(TypeError, match="is a sink, which takes taps"):
            jax.jit(lambda sink: callout.io_callback(sink, None))(sinks.Null())

    def test_arithmetic_is_refused(self):
        with pytest.raises(TypeError, match="does not accept dtype"):
            jax.tree.map(lambda x: 0.9 * x, sinks.Null())

    def test_other_leaves_are_refused(self):
        for value in (1.0, callout.StopFlag()._leaf):
            wrong = jax.tree.map(lambda _, value=value: value, sinks.Null())
            with pytest.raises(TypeError, match=r"callout\.sinks: its leaf must be its handle"):
                jax.jit(lambda sink: callout.tap(sink, 1.0))(wrong)

    def test_keywords_are_for_functions(self):
        with pytest.raises(TypeError, match="are for Python functions"):
            jax.jit(lambda sink: callout.tap(sink, 1.0, with_device=True))(sinks.Null())

    def test_copies_and_pickles(self):
        sink = sinks.Function(len)
        new_log()(sink, 1.0)
        callout.barrier_wait()
        assert pickle.loads(pickle.dumps(sink))._callout_function is len
        counts = sinks.Statistics()
        jax.jit(lambda sink: callout.tap(sink, 1.0, name="x"))(copy.copy(counts))
        callout.barrier_wait()
        assert counts["x"].count == 1
