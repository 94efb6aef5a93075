# SPDX-License-Identifier: Apache-2.0
"""Tests barrier_wait: the programs of any thread that it waits for, and its report after the time limit."""

import threading
import warnings

import callout
import callout.host_callback as hcb
import gates
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from callout import _jax_compat
from callout._base import programs, tokens
from callout._jax_compat import devices
from callout._jax_compat import effects as jax_effects
from jax.sharding import AxisType
from thread_states import left_by

F32 = jax.ShapeDtypeStruct((), jnp.float32)
OWN = "programs that this thread has dispatched"
SEVERAL = "programs over several devices"
# On CUDA a tap is in flight once the stream has reached it. Programs of all threads go through the device's stream, so
# the barrier's own programs are held up, too: the program over all devices, if there are several, and the program on
# each.
UNDER_WAY = ["1 records of the python queue on their way from device 0"] * platforms.ON_CUDA
SHARED = [SEVERAL] * (platforms.ON_CUDA and len(jax.devices()) > 1)
BEHIND = [*SHARED, *[OWN] * platforms.ON_CUDA]


@pytest.fixture
def gate():
    gate = gates.gate()
    yield gate
    gate.open()


@pytest.fixture
def mesh():
    return jax.make_mesh((4,), ("d",), devices=platforms.devices(4))


def over_all_devices(function, mesh):
    body = lambda shard: function(shard[0])[None]  # noqa: E731
    return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d"), check_vma=False))


def ones(mesh):
    return jax.device_put(np.ones(4, np.float32), jax.sharding.NamedSharding(mesh, jax.P("d")))


def outstanding(timeout=0.05):
    with pytest.raises(callout.BarrierTimeout) as info:
        callout.barrier_wait(timeout=timeout)
    return str(info.value).split("still outstanding: ")[1].split("; ")


def assert_outstanding(*expected):
    """Waits until the barrier reports exactly `expected`.

    Programs after the first late one get 50 ms, so a busy machine may report more at first.
    """
    for _ in range(20):
        seen = outstanding()
        assert set(expected) <= set(seen), "what is outstanding is never left out"
        if seen == list(expected):
            return
    assert seen == list(expected)


def waits_no_longer(timeout):
    try:
        callout.barrier_wait(timeout=timeout)
    except callout.BarrierTimeout:
        return False
    return True


def in_thread(function, name=None):
    thread = threading.Thread(target=function, name=name)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def test_own_programs_with_taps(gate, received):
    f = jax.jit(lambda x: callout.tap(received.tap, gate.in_program(x)))
    f(jnp.float32(1))
    gate.await_inside()
    assert_outstanding(OWN, *SHARED, *UNDER_WAY)
    gate.open()
    callout.barrier_wait()
    assert received == [1]


def test_own_programs_without_effects(gate):
    f = jax.jit(gate.in_program)
    f(jnp.float32(1))
    gate.await_inside()
    assert_outstanding(OWN, *SHARED)
    gate.open()
    callout.barrier_wait()
    assert gate.left == [1]


def test_barriers_wait_for_taps_of_a_running_thread(gate, received):
    dispatched, go_on = threading.Event(), threading.Event()
    f = jax.jit(lambda x: callout.tap(received.tap, gate.in_program(x)))

    def work():
        f(jnp.float32(1))
        dispatched.set()
        go_on.wait(60)

    thread = threading.Thread(target=work, name="worker")
    thread.start()
    assert dispatched.wait(60)
    gate.await_inside()
    assert_outstanding("programs that thread 'worker' has dispatched", *BEHIND, *UNDER_WAY)
    gate.open()
    callout.barrier_wait()
    assert received == [1]
    go_on.set()
    thread.join()


def test_programs_with_taps_of_a_thread_that_has_ended(gate, received):
    f = jax.jit(lambda x: callout.tap(received.tap, gate.in_program(x)))
    in_thread(lambda: f(jnp.float32(1)))
    gate.await_inside()
    assert_outstanding("programs that a thread which has ended has dispatched", *BEHIND, *UNDER_WAY)
    gate.open()
    callout.barrier_wait(timeout=60)
    assert received == [1]


@pytest.mark.parametrize("devices", [2, 4])
def test_programs_over_several_devices_of_other_threads(gate, devices):
    mesh = jax.make_mesh((devices,), ("d",), devices=platforms.devices(devices))
    x = jax.device_put(np.ones(devices, np.float32), jax.sharding.NamedSharding(mesh, jax.P("d")))
    f = over_all_devices(gate.in_program, mesh)
    in_thread(lambda: f(x))
    gate.await_inside()
    # The program that holds the stream on CUDA has an effect, so the other thread's token is reported, too.
    by_token = ["programs that a thread which has ended has dispatched"] * platforms.ON_CUDA
    assert_outstanding(*by_token, SEVERAL, *[OWN] * platforms.ON_CUDA)
    gate.open()
    callout.barrier_wait()
    assert gate.left == [1] * devices


def test_a_barrier_waits_for_devices_with_overwritten_tokens(gate, mesh, received):
    f = over_all_devices(lambda x: callout.tap(received.tap, gate.in_program(x)), mesh)
    g = jax.jit(lambda x: callout.tap(received.tap, x))
    f(ones(mesh))
    for device in mesh.devices.flat:
        g(jax.device_put(jnp.float32(2), device))
    gate.await_inside()
    assert SEVERAL in outstanding()
    gate.open()
    callout.barrier_wait()
    assert sorted(received) == [1, 1, 1, 1, 2, 2, 2, 2]


def test_several_threads_at_once(gate, mesh, received):
    jax.jit(lambda x: callout.tap(received.tap, gate.in_program(x)))(jnp.float32(1))
    f = jax.jit(lambda x: callout.tap(received.tap, x))
    g = over_all_devices(lambda x: callout.tap(received.tap, x), mesh)
    dispatched = threading.Barrier(5)
    seen = []

    def work():
        f(jnp.float32(1))
        g(ones(mesh))
        dispatched.wait(60)
        callout.barrier_wait()
        seen.append(len(received))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    dispatched.wait(60)
    assert seen == []
    gate.open()
    for thread in threads:
        thread.join(60)
    assert seen == [21] * 4


def test_with_a_timeout_that_suffices(received):
    jax.jit(lambda x: callout.tap(received.tap, x))(1.0)
    callout.barrier_wait(timeout=60)
    assert received == [1]
    assert any(waits_no_longer(0) for _ in range(20))


def test_a_timeout_leaves_nothing_behind(received):
    def wait():
        callout.barrier_wait(timeout=60)

    wait()
    assert left_by(wait) < 0.1


def test_inside_a_callback_it_raises(received):
    def wait(value):
        with pytest.raises(callout.CallbackError) as info:
            callout.barrier_wait()
        received.append(str(info.value))
        return value

    x = jnp.float32(1)
    jax.jit(lambda x: callout.pure_callback(wait, F32, x))(x).block_until_ready()
    callout.pure_callback(wait, F32, x)
    jax.jit(lambda x: jax.pure_callback(wait, F32, x))(x).block_until_ready()
    jax.jit(lambda x: jax.debug.callback(lambda v: received.append(wait(v)), x))(x)
    jax.effects_barrier()
    texts = [text for text in received if isinstance(text, str)]
    assert texts == ["callout.barrier_wait() inside a callback would wait for the callback's own program"] * 4


def test_how_a_program_ended_is_not_its_business(received):
    def fail(value):
        raise ValueError("not for the barrier")

    f = jax.jit(lambda x: callout.tap(received.tap, callout.pure_callback(fail, F32, x)))

    def dispatch():
        try:
            f(1.0)
        except jax.errors.JaxRuntimeError:
            pass  # the program ran in its caller

    for run in (dispatch, lambda: in_thread(dispatch)):
        run()
        callout.barrier_wait()
        callout.barrier_wait(timeout=60)
    jax.jit(lambda x: callout.tap(received.tap, x))(1.0)
    jax.effects_barrier()  # the failed program's token is gone


@pytest.mark.native_only(platforms.SYNCHRONOUS)
def test_it_leaves_failures_of_callbacks_to_the_barrier_of_jax():
    fails = [False]

    def callback(_):
        if fails[0]:
            raise KeyError("for JAX's barrier")

    callback = callout.options(callback, numpy_only=True)
    f = jax.jit(lambda x: (callout.debug_callback(callback, x), x + 1)[1])
    for _ in range(3):  # the last call takes JAX's fast path
        f(1.0).block_until_ready()
    fails[0] = True
    f(1.0)
    callout.barrier_wait()
    callout.barrier_wait(timeout=60)
    with pytest.raises(KeyError, match="for JAX's barrier"):
        jax.effects_barrier()
    jax.effects_barrier()


def test_under_other_settings_and_while_tracing(received):
    with jax.transfer_guard("disallow_explicit"), jax.disable_jit(), jax.checking_leaks(), jax.debug_nans(True):
        programs.forget_trivial()
        callout.barrier_wait()
        callout.barrier_wait(timeout=60)

    @jax.jit
    def traced(x):
        callout.barrier_wait()
        return callout.tap(received.tap, x)

    with pytest.warns(UserWarning, match="inside a function that JAX traces"):
        traced(1.0)
    callout.barrier_wait()
    assert received == [1]


def _mesh(number, kind):
    return jax.make_mesh((number,), ("d",), axis_types=(kind,), devices=platforms.devices(number))


_AROUND = {
    "set_mesh, 1 device": lambda: jax.set_mesh(_mesh(1, AxisType.Auto)),
    "set_mesh, 2 devices": lambda: jax.set_mesh(_mesh(2, AxisType.Auto)),
    "set_mesh, 2 devices, explicit": lambda: jax.set_mesh(_mesh(2, AxisType.Explicit)),
    "abstract mesh, 2 devices": lambda: jax.sharding.use_abstract_mesh(_mesh(2, AxisType.Explicit).abstract_mesh),
    "default_device": lambda: jax.default_device(jax.devices()[-1]),
    "disable_jit": jax.disable_jit,
    "ensure_compile_time_eval": jax.ensure_compile_time_eval,
    "rank promotion": lambda: jax.numpy_rank_promotion("raise"),
    "dtype promotion": lambda: jax.numpy_dtype_promotion("strict"),
    "x64": lambda: jax.enable_x64(True),
    "key reuse": lambda: jax.debug_key_reuse(True),
}


@pytest.mark.parametrize("around", _AROUND)
def test_the_first_barrier_may_be_inside_jax_contexts(received, around):
    jax.jit(lambda x: callout.tap(received.tap, x))(jnp.float32(1))
    programs.forget_trivial()
    with _AROUND[around]():
        callout.barrier_wait()
        programs.forget_trivial()
        callout.barrier_wait(timeout=60)
    assert received == [1]


def test_compile_errors_of_the_barrier_are_raised(monkeypatch):
    def fails(*_):
        raise KeyError("compiling")

    monkeypatch.setattr(programs, "_compile", fails)
    programs.forget_trivial()
    with pytest.raises(KeyError, match="compiling"):
        callout.barrier_wait()
    monkeypatch.undo()
    callout.barrier_wait()


def test_threads_that_ended_are_forgotten(received):
    f = jax.jit(lambda x: callout.tap(received.tap, x))
    for _ in range(5 * tokens.MAX_ENDED_THREADS):
        in_thread(lambda: f(1.0))
    while not tokens._sweeping.acquire(timeout=60):
        pass
    tokens._sweeping.release()
    assert len(tokens._threads) <= 3 * tokens.MAX_ENDED_THREADS
    callout.barrier_wait()
    alive = [record for record in tokens._threads.values() if record.life() is not None]
    assert len(tokens._threads) == len(alive)


def test_private_names_that_moved_are_reported_and_replaced(monkeypatch, gate, received):
    assert not [name for name in _jax_compat.MISSING if "token" in name]
    monkeypatch.setattr(jax_effects, "MISSING", [])
    monkeypatch.delattr(type(_jax_compat.runtime_token_set()), "set_output_runtime_token")
    assert jax_effects._find_runtime_token_set() is None
    assert jax_effects.MISSING == ["runtime_tokens.set_output_runtime_token"]
    monkeypatch.undo()
    monkeypatch.setattr(jax_effects, "_runtime_token_set", None)
    monkeypatch.setattr(devices, "_backends_are_initialized", None)
    jax.jit(lambda x: callout.tap(received.tap, gate.in_program(x)))(jnp.float32(1))
    gate.await_inside()
    assert_outstanding(*SHARED, OWN, *UNDER_WAY)
    gate.open()
    callout.barrier_wait()
    assert received == [1]


@pytest.mark.parametrize("timeout", [1e10, 1e300, float("inf")])
def test_a_time_limit_that_no_clock_counts_to_is_none(timeout):
    gate, ended = gates.Gate(), threading.Event()

    def wait():
        callout.barrier_wait(timeout=timeout)
        ended.set()

    callout.tap(gate, 1.0)  # a tap's function can wait on any platform
    gate.await_inside()
    thread = threading.Thread(target=wait)
    thread.start()
    gate.open()
    thread.join(60)
    assert ended.is_set()
    assert gate.left == [1.0]


@pytest.mark.parametrize("barrier", [callout.barrier_wait, hcb.barrier_wait])
def test_a_barrier_inside_a_traced_function_warns_with_its_line(barrier):
    def gradient(f):
        return jax.jit(jax.grad(lambda x: f(x).sum()))

    message = r"callout\.barrier_wait\(\) inside a function that JAX traces waits once, .*: call it after the program"
    for run in (jax.jit, jax.make_jaxpr, lambda f: jax.jit(jax.vmap(f)), gradient):

        def f(x):
            barrier()
            return x

        with pytest.warns(UserWarning, match=message) as caught:
            run(f)(jnp.ones(3))
        assert caught[0].filename == __file__


@pytest.mark.parametrize("transform", [jax.vmap, lambda f: jax.grad(lambda x: f(x).sum())])
def test_a_barrier_inside_an_eager_transformation_waits_for_taps(transform):
    got = []

    def f(x):
        callout.tap(got.append, x)
        callout.barrier_wait()
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        transform(f)(jnp.ones(3))
    assert len(got) == 1
