# SPDX-License-Identifier: Apache-2.0
"""Tests flags that stop programs, on one device and on several; any other value is an error that names the value."""

import copy
import pickle
import signal
import threading

import callout
import failing
import jax
import jax.numpy as jnp
import meshes
import numpy as np
import pytest
from callout import _ext
from callout._targets import handles
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

pytestmark = pytest.mark.native_only("programs read flags by a handler of XLA FFI")

GONE = r"callout: StopFlag: the object of this handle is gone, because nothing in Python refers to it any more"
FOREIGN = r"callout: StopFlag: its leaf is no handle of this process"


@jax.jit
def count(stop, n):
    return lax.while_loop(lambda i: (i < n) & ~stop.is_set(), lambda i: i + 1, 0)


@jax.jit
def ask(stop):
    return stop.is_set()


class AtStep:
    """Calls a function of the host when a program has begun its loop, so that no test waits for a fixed time."""

    def __init__(self, function):
        self.began = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(function,))
        self.thread.start()

    def _run(self, function):
        assert self.began.wait(timeout=60)
        function()

    def __call__(self, i):
        return callout.tap(lambda _: self.began.set(), i, step=i, every=1000)


def endless(stop, begins):
    return jax.jit(lambda stop: lax.while_loop(lambda i: ~stop.is_set(), lambda i: begins(i) + 1, 1))(stop)


class TestOutsideOfPrograms:
    def test_is_set_until_it_is_cleared(self):
        stop = callout.StopFlag()
        assert stop.is_set() is False
        stop.set()
        assert stop.is_set() is True
        assert repr(stop) == "<StopFlag: set>"
        stop.clear()
        assert stop.is_set() is False

    def test_the_timeout_sets_it_and_begins_again(self):
        assert callout.StopFlag(timeout=0).is_set()
        stop = callout.StopFlag(timeout=1e6)
        assert not stop.is_set()
        with stop as entered:
            assert entered is stop
            assert not stop.is_set()

    @pytest.mark.parametrize("timeout", [-1, float("nan"), "1", True])
    def test_a_timeout_is_a_duration(self, timeout):
        with pytest.raises(ValueError, match="timeout must be None or 0 or more seconds, got"):
            callout.StopFlag(timeout=timeout)

    @pytest.mark.parametrize("signals", [None, "SIGINT", 2.5])
    def test_signals_are_numbers(self, signals):
        with pytest.raises(TypeError, match="signals must be numbers of signals"):
            callout.StopFlag(signals=signals)

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, 0, "SIGINT"])
    def test_signals_can_be_caught(self, number):
        with pytest.raises(ValueError, match="signals must be numbers of signals that can be caught, got"):
            callout.StopFlag(signals=[number])

    def test_copies_are_refused(self):
        stop = callout.StopFlag()
        for make in (copy.deepcopy, copy.copy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied or pickled: nobody would set the copy"):
                make(stop)


class TestInPrograms:
    def test_a_program_asks_it_each_time(self):
        stop = callout.StopFlag()
        assert int(count(stop, 5)) == 5
        stop.set()
        assert int(count(stop, 5)) == 0
        stop.clear()
        assert int(count(stop, 5)) == 5

    def test_one_program_serves_all_flags(self):
        flags = [callout.StopFlag() for _ in range(3)]
        flags[1].set()
        assert [bool(ask(flag)) for flag in flags] == [False, True, False]
        assert ask._cache_size() == 1

    def test_another_thread_stops_a_loop_and_its_state_is_kept(self):
        stop = callout.StopFlag()
        begins = AtStep(stop.set)
        assert int(endless(stop, begins)) > 1000
        begins.thread.join()

    def test_the_timeout_stops_a_loop(self):
        assert int(count(callout.StopFlag(timeout=0.01), 2_000_000_000)) < 2_000_000_000

    def test_a_program_that_captures_it_asks_it_too(self):
        stop = callout.StopFlag()
        program = jax.jit(lambda: stop.is_set())
        assert not program()
        stop.set()
        assert program()

    @pytest.mark.cpu_only("on a GPU the thread that dispatches a loop launches its steps")
    def test_dispatch_does_not_wait_for_the_program(self):
        stop = callout.StopFlag()
        steps = count(stop, 2_000_000_000)  # the program is so cheap that XLA runs it in its caller's thread
        stop.set()
        assert int(steps) < 2_000_000_000

    def test_setting_it_in_a_program_is_refused(self):
        stop = callout.StopFlag()
        for name in ("set", "clear"):
            with pytest.raises(TypeError, match=rf"callout\.StopFlag\.{name}\(\) inside a function that JAX traces"):
                jax.jit(lambda stop, name=name: getattr(stop, name)())(stop)

    def test_transformations_pass_it_through(self):
        stop, other = callout.StopFlag(), callout.StopFlag()
        other.set()
        assert not jax.jit(lambda s: lax.scan(lambda s, _: (s, s.is_set()), s, length=3))(stop)[1].any()
        choose = jax.jit(lambda p, a, b: lax.cond(p, lambda: a, lambda: b).is_set())
        assert [bool(choose(p, stop, other)) for p in (True, False)] == [False, True]
        assert bool(jax.jit(lambda s: s.is_set()).lower(stop).compile()(other))
        donating = jax.jit(lambda s: (s, s.is_set()), donate_argnums=0)
        donated, is_set = donating(jax.device_put(other, jax.devices()[0]))
        assert is_set
        assert donated.is_set()
        assert float(jax.grad(lambda x: jnp.where(stop.is_set(), 0.0, x * x))(3.0)) == 6

    def test_the_same_leaf_is_the_same_flag(self):
        stop = jax.tree.map(lambda leaf: leaf, callout.StopFlag())
        callout.barrier_wait()
        stop.set()
        assert ask(stop)

    def test_a_batch_of_flags_is_one_a_lane(self):
        flags = [callout.StopFlag() for _ in range(3)]
        flags[2].set()
        batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *flags)
        assert jax.vmap(lambda stop: stop.is_set())(batch).tolist() == [False, False, True]
        assert jax.jit(jax.vmap(count))(batch, jnp.arange(3) + 4).tolist() == [4, 5, 0]
        nested = jax.tree.map(lambda leaf: leaf[None], batch)
        assert jax.vmap(jax.vmap(lambda stop: stop.is_set()))(nested).tolist() == [[False, False, True]]
        assert jax.vmap(count, in_axes=(None, 0))(flags[0], jnp.arange(3)).tolist() == [0, 1, 2]
        with pytest.raises(TypeError, match=r"it holds handles of the shape \(3,\): jax.vmap maps it"):
            batch.is_set()


class TestWhatIsNoFlag:
    def test_arithmetic_is_refused(self):
        with pytest.raises(TypeError, match=r"does not accept dtypes? .*key<stop_flag>"):
            jax.tree.map(lambda x: 0.9 * x, callout.StopFlag())

    def test_a_map_over_one_flag_is_refused(self):
        with pytest.raises(ValueError, match="rank"):
            jax.vmap(lambda stop: stop.is_set())(callout.StopFlag())

    def test_it_is_no_random_key(self):
        with pytest.raises(TypeError, match="handles of objects of the host, and no random keys"):
            jax.random.uniform(callout.StopFlag()._leaf)

    def test_other_leaves_are_refused(self):
        for value in (1.0, jax.random.key(0), callout.HostValue(1)._leaf):
            wrong = jax.tree.map(lambda _, value=value: value, callout.StopFlag())
            with pytest.raises(TypeError, match=r"callout\.StopFlag: its leaf must be its handle, got"):
                ask(wrong)

    def test_zeros_and_handles_of_other_processes_are_refused(self):
        zeros = jax.tree.map(jnp.zeros_like, callout.StopFlag())
        with failing.fails(FOREIGN):
            ask(zeros)
        with pytest.raises(callout.CallbackError, match=FOREIGN):
            zeros.is_set()

    def test_forged_handles_are_refused(self):
        stop = callout.StopFlag()
        words = np.asarray(jax.random.key_data(stop._leaf))
        forged = jax.tree.map(
            lambda _: jax.random.wrap_key_data(
                words + np.array([0, 9, 0, 0], np.uint32), impl=stop._type.implementation
            ),
            stop,
        )
        with failing.fails("no object has this handle .*: the numbers of the handle"):
            ask(forged)

    def test_a_flag_without_an_owner_is_gone(self):
        handle = jax.device_put(callout.StopFlag(), jax.devices()[0])
        callout.barrier_wait()
        with failing.fails(GONE):
            ask(handle)
        with pytest.raises(callout.CallbackError, match=GONE):
            handle.set()
        with pytest.raises(TypeError, match="only the flag that was made can be entered"):
            handle.__enter__()

    def test_a_captured_flag_is_not_exported(self):
        stop = callout.StopFlag()
        for program in (jax.jit(lambda: stop.is_set()), jax.jit(lambda: lax.cond(True, stop.is_set, stop.is_set))):
            with pytest.raises(ValueError, match=r"the program has captured a StopFlag, .*: pass it as an argument"):
                callout.export(program)()

    def test_other_platforms_are_refused_without_the_fallback(self, monkeypatch):
        monkeypatch.setattr(callout.config, "fallback", "off")
        traced = ask.trace(callout.StopFlag())
        with pytest.raises(NotImplementedError, match=r"callout\.StopFlag: programs for tpu cannot read it"):
            traced.lower(lowering_platforms=("tpu",))


class TestLife:
    def test_a_program_runs_on_when_its_flag_has_no_owner(self):
        stop = callout.StopFlag(timeout=0.2)
        steps = count(stop, 2_000_000_000)
        del stop
        assert int(steps) < 2_000_000_000

    def test_many_are_made_and_dropped(self):
        callout.barrier_wait()
        before = _ext.live_host_objects()
        for _ in range(10_000):
            callout.StopFlag()
        callout.barrier_wait()
        with handles._freeing:  # another thread may be about to free handles
            assert _ext.live_host_objects() == before

    def test_dropped_flags_are_freed_without_a_barrier(self):
        callout.barrier_wait()
        before = _ext.live_host_objects()
        for _ in range(handles._KEPT + 1):
            callout.StopFlag()
        _ = callout.StopFlag()
        with handles._freeing:
            assert _ext.live_host_objects() <= before + 2


class TestSeveralDevices:
    @pytest.mark.devices(8)
    @pytest.mark.collectives
    @pytest.mark.parametrize("stops", [50, pytest.param(1000, marks=pytest.mark.slow)])
    def test_devices_leave_a_loop_at_the_same_step(self, stops):
        mesh = meshes.mesh_of(8)

        def run(stop, x):
            def step(state):
                return state[0] + 1, state[1] + lax.psum(state[1], "d") * 1e-9

            steps, _ = lax.while_loop(lambda state: ~stop.is_set(), step, (jnp.int32(0), x))
            return steps[None]

        program = jax.jit(jax.shard_map(run, mesh=mesh, in_specs=(P(), P("d")), out_specs=P("d")))
        x = jax.device_put(jnp.ones(8), NamedSharding(mesh, P("d")))
        for i in range(stops):
            stop = callout.StopFlag(timeout=1e-4 * (i % 5)) if i % 2 else callout.StopFlag()
            steps = program(stop, x)
            if i % 2 == 0:
                stop.set()
            steps = np.asarray(steps)
            assert (steps == steps[0]).all(), (i, steps)

    @pytest.mark.devices(4)
    @pytest.mark.collectives
    def test_a_jit_over_several_devices_asks_without_a_collective(self):
        stop = callout.StopFlag(timeout=0.01)

        @jax.jit
        def run(stop, x):
            return lax.while_loop(lambda state: ~stop.is_set(), lambda state: (state[0] + 1, state[1] * 0.5), (0, x))

        x = meshes.sharded(4)
        text = run.lower(stop, x).compile().as_text()
        assert "callout.v1.read" in text
        assert "all-reduce" not in text
        steps, y = run(stop, x)
        assert int(steps) >= 0
        assert y.sharding == x.sharding

    @pytest.mark.devices(4)
    @pytest.mark.collectives
    def test_the_answer_of_an_axis_is_that_of_any_device(self):
        stop, mesh = callout.StopFlag(), meshes.mesh_of(4)
        program = jax.jit(
            jax.shard_map(lambda stop: stop.is_set(axis_name="d"), mesh=mesh, in_specs=P(), out_specs=P())
        )
        assert not program(stop)
        stop.set()
        assert program(stop)


class TestSignals:
    def test_a_thread_that_is_not_the_main_one_cannot_enter(self):
        failures = []

        def enter():
            try:
                callout.StopFlag(signals=[signal.SIGUSR1]).__enter__()
            except ValueError as error:
                failures.append(str(error))

        thread = threading.Thread(target=enter, name="worker")
        thread.start()
        thread.join()
        assert failures == [
            "callout.StopFlag: `with` on a flag with signals has to be entered in the main thread, where Python's own "
            "handlers of signals run, got thread 'worker'. Enter it there, and pass the flag"
        ]

    def test_the_second_signal_reaches_the_previous_handler(self):
        before = []
        previous = signal.signal(signal.SIGUSR1, lambda *_: before.append("handled"))
        try:
            with callout.StopFlag(signals=signal.SIGUSR1) as stop:
                begins = AtStep(lambda: signal.raise_signal(signal.SIGUSR1))
                assert int(endless(stop, begins)) > 1000
                begins.thread.join()
                assert stop.is_set()
                assert before == []
                signal.raise_signal(signal.SIGUSR1)
                assert before == ["handled"]
            signal.raise_signal(signal.SIGUSR1)
            assert before == ["handled", "handled"]
        finally:
            signal.signal(signal.SIGUSR1, previous)

    def test_the_second_ctrl_c_interrupts(self, request):
        previous = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
        request.addfinalizer(lambda: signal.signal(signal.SIGINT, previous))
        with callout.StopFlag(signals=[signal.SIGINT]) as stop:
            signal.raise_signal(signal.SIGINT)
            assert stop.is_set()
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
