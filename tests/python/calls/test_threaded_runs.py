# SPDX-License-Identifier: Apache-2.0
"""Tests threaded: the order of its programs, several devices, failures, and the parts of JAX that it leaves unchanged."""

import contextlib
import logging
import threading

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from jax import lax
from threaded_programs import ONE, SPEC, Heard, effects_of, run, same


def test_successive_calls_keep_order(received):
    @jax.jit
    @callout.threaded
    def step(x):
        def body(i, c):
            return callout.tap(received.tap, c, ordered=True) + 1

        return lax.fori_loop(0, 3, body, callout.tap(received.tap, x, ordered=True))

    x = jnp.float32(0)
    inputs = [jnp.float32(1000 * i) for i in range(200)]  # programs that are independent of each other
    outs = [step(value) for value in inputs]
    jax.block_until_ready(outs)
    callout.barrier_wait(timeout=30)
    assert received == [1000 * i + j for i in range(200) for j in (0, 0, 1, 2)]
    received.clear()
    for _ in range(200):
        x = step(x)
    x.block_until_ready()
    callout.barrier_wait(timeout=30)
    assert received == [3 * i + j for i in range(200) for j in (0, 0, 1, 2)]


def test_order_holds_among_programs_with_and_without_an_effect(received):
    def f(x):
        return callout.tap(received.tap, callout.tap(received.tap, x, ordered=True) + 0.5, ordered=True)

    plain, threaded = jax.jit(f), jax.jit(callout.threaded(f))
    inputs = [jnp.float32(i) for i in range(60)]
    outs = [(threaded if i % 3 else plain)(x) for i, x in enumerate(inputs)]
    jax.block_until_ready(outs)
    callout.barrier_wait(timeout=30)
    assert received == [i / 2 for i in range(120)]


def test_order_holds_where_xla_has_work_to_spread(received):
    work = jnp.ones((96, 96))

    @jax.jit
    @callout.threaded
    def f(x, work):
        for i in range(20):  # values that are ready at different times, the first ones last
            value = x + i
            for _ in range((20 - i) // 2):
                value = value + 0 * (work @ (work * value))[0, 0]
            callout.tap(received.tap, value, ordered=True)
        return x

    for _ in range(10):
        f(jnp.float32(0), work).block_until_ready()
    callout.barrier_wait(timeout=30)
    assert received == list(range(20)) * 10


@pytest.mark.cpu_only("XLA:GPU calls the host in the thread that dispatches")
@pytest.mark.native_only(platforms.SYNCHRONOUS)
def test_dispatch_does_not_wait_for_the_program_before(received):
    entered, opened = threading.Event(), threading.Event()

    def hold(x):
        entered.set()
        assert opened.wait(60)
        return x

    hold = callout.options(hold, numpy_only=True)
    work = jnp.ones((64, 64))

    @jax.jit
    @callout.threaded
    def slow(x):
        x = callout.tap(received.tap, x, ordered=True)
        x = callout.pure_callback(hold, SPEC, x + 0 * (work @ work)[0, 0])
        return callout.tap(received.tap, x + 1, ordered=True)

    @jax.jit
    @callout.threaded
    def quick(x):
        return callout.tap(received.tap, x + 0 * (work @ work)[0, 0], ordered=True) + 1

    x, y, other = jnp.float32(1), jnp.float32(5), jnp.float32(7)
    jax.block_until_ready([quick(y), work])
    callout.barrier_wait()
    received.clear()
    outs, returned = [], threading.Event()

    def dispatch():
        outs.append(slow(x))
        outs.append(quick(y))
        outs.append(quick(other))
        returned.set()
        jax.block_until_ready(outs)

    thread = threading.Thread(target=dispatch)
    thread.start()
    try:
        assert entered.wait(60)
        assert returned.wait(60), "a dispatch waited for the program before it"
    finally:
        opened.set()
        thread.join()
    callout.barrier_wait(timeout=30)
    assert [float(value) for value in received] == [1, 2, 5, 7]
    assert [float(out) for out in outs] == [2, 6, 8]


def messages(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "callout"]


def test_unthreadable_programs_fall_back_with_one_warning(received, caplog):
    mesh = jax.make_mesh((1,), ("d",))

    def f(x):
        x = callout.tap(received.tap, x, ordered=True)
        y = jax.shard_map(
            lambda v: callout.tap(received.tap, v + 1, ordered=True), mesh=mesh, in_specs=jax.P(), out_specs=jax.P()
        )(x)
        return callout.tap(received.tap, y + 1, ordered=True)

    threaded = callout.threaded(f)
    with caplog.at_level(logging.WARNING, "callout"):
        for value in (1.0, jnp.ones(2), 5):
            jax.jit(threaded)(value)
    callout.barrier_wait(timeout=30)
    assert [np.max(value) for value in received] == [1, 2, 3, 1, 2, 3, 5, 6, 7]
    assert effects_of(threaded, ONE) == effects_of(f, ONE) != set()
    (message,) = messages(caplog)
    assert "test_unthreadable_programs" in message
    assert message.endswith("keeps JAX's ordered effects: shard_map cannot pass a token on")


INSPECTED = {
    "check": lambda f: lambda x: f(callout.error_if(x, x < 0, "negative")),
    "located nans": lambda f: callout.locate_nans(lambda x: f(jnp.log(jnp.exp(x)))),
}


@pytest.mark.parametrize("inspected", INSPECTED)
def test_inspections_need_no_token(received, caplog, inspected):
    def body(i, x):
        x = callout.tap(received.tap, x, ordered=True)
        return callout.tap(received.tap, x + 1, ordered=True)

    checked = INSPECTED[inspected](lambda x: lax.fori_loop(0, 2, body, x))
    with caplog.at_level(logging.WARNING, "callout"):
        jax.jit(callout.threaded(checked))(jnp.float32(0)).block_until_ready()
        jax.jit(jax.grad(callout.threaded(checked)))(jnp.float32(0)).block_until_ready()
    callout.barrier_wait(60)
    assert received == [0, 1, 1, 2] * 2
    assert messages(caplog) == []


def test_a_check_in_a_threaded_function_fails_its_program(received):
    checked = INSPECTED["check"](lambda x: callout.tap(received.tap, x, ordered=True))
    with pytest.raises(callout.CheckError, match="negative"):
        platforms.ended(jax.jit(callout.threaded(checked))(jnp.float32(-1)))
    with contextlib.suppress(callout.CheckError):
        jax.effects_barrier()


def test_a_loop_over_a_mutable_array_falls_back(received, caplog):
    def f(x):
        ref = jax.new_ref(x)

        def step(i, _):
            ref[...] = callout.tap(received.tap, ref[...], ordered=True) + 1

        lax.fori_loop(0, 3, step, None)
        return ref[...]

    with caplog.at_level(logging.WARNING, "callout"):
        assert float(jax.jit(callout.threaded(f))(ONE)) == 4
    callout.barrier_wait()
    assert received == [1, 2, 3]
    assert messages(caplog)[0].endswith("scan with a mutable array cannot pass a token on")


def test_callbacks_of_jax_in_the_function_keep_their_effects(received):
    def f(x):
        def step(c, _):
            jax.debug.callback(received.tap, c + 100, ordered=True)
            return callout.tap(received.tap, c, ordered=True) + 1, None

        return lax.scan(step, x, None, length=3)[0]

    threaded = callout.threaded(f)
    assert float(jax.jit(threaded)(ONE)) == 4
    callout.barrier_wait()
    assert sorted(float(value) for value in received) == [1, 2, 3, 101, 102, 103]
    assert len(effects_of(threaded, ONE)) == 1


def test_a_function_that_returns_nothing_keeps_its_effect(received, caplog):
    f = callout.threaded(lambda x: callout.debug_callback(received.tap, x, ordered=True))
    with caplog.at_level(logging.WARNING, "callout"):
        for _ in range(2):
            jax.jit(f)(1.0)
    jax.effects_barrier()
    assert received == [1, 1]
    (message,) = messages(caplog)
    assert message.endswith("it returns nothing that could depend on them")


def test_errors_are_raised(received):
    def fail(x):
        raise KeyError("nothing here")

    f = jax.jit(callout.threaded(lambda x: callout.io_callback(fail, SPEC, callout.tap(received.tap, x), ordered=True)))
    for _ in range(3):
        with pytest.raises(KeyError, match="nothing here"), callout.reraise():
            jax.block_until_ready(f(1.0))
    g = jax.jit(callout.threaded(lambda x: callout.tap(fail, x, ordered=True)))
    g(1.0).block_until_ready()
    with pytest.raises(callout.TapError, match="nothing here"):
        callout.barrier_wait()
    assert received == [1, 1, 1]


def test_calls_hear_the_taps_before_them():
    heard = Heard()
    take, call = heard.receiver("tap"), heard.receiver("call")

    @jax.jit
    @callout.threaded
    def f(x):
        def body(i, c):
            callout.tap(take, i, ordered=True)
            callout.debug_callback(call, i, ordered=True)
            return c + 1

        return lax.fori_loop(0, 100, body, x)

    f(1.0).block_until_ready()
    callout.barrier_wait()
    assert heard.records == [(name, i) for i in range(100) for name in ("tap", "call")]


def sharded(value, mesh):
    return jax.device_put(value, jax.sharding.NamedSharding(mesh, jax.P("d")))


@pytest.mark.collectives
@pytest.mark.devices(2)
@pytest.mark.native_only(platforms.SHARDS)
def test_jit_over_several_devices():
    x = sharded(jnp.arange(4.0), jax.make_mesh((2,), ("d",)))

    def program(o, x, where):
        x = o.tap("first", x, device_index=where)
        y = callout.io_callback(
            callout.options(lambda v: v * 2, device_index=where), jax.ShapeDtypeStruct((4,), "float32"), x, ordered=True
        )
        o.tap("local", x, sharding="local")
        o.tap("second", y, on_full="fail", device_index=where)
        return lax.fori_loop(0, 2, lambda i, c: o.tap("loop", c, device_index=where) + 1, x + y)

    def split(ran):
        out, records = ran
        local = sorted(record for record in records if record[0] == "local")
        return out, [record for record in records if record[0] != "local"] + local

    for where in (0, 1):
        plain = split(run(lambda o, w=where: jax.jit(lambda v: program(o, v, w)), x))
        same(plain, split(run(lambda o, w=where: jax.jit(callout.threaded(lambda v: program(o, v, w))), x)))
        assert ("local", [0, 1]) in plain[1]
        assert plain[0][0].tolist() == [2, 5, 8, 11]


@pytest.mark.devices(2)
def test_inside_shard_map(received):
    mesh = jax.make_mesh((2,), ("d",))

    def f(x):
        def condition(c):
            return callout.tap(received.tap, c, ordered=True)[0] < 2

        x = lax.cond(x[0] > 0, lambda v: v, lambda v: callout.tap(received.tap, v, ordered=True), x)
        return lax.while_loop(condition, lambda c: callout.tap(received.tap, c, ordered=True) + 1, x)

    g = jax.jit(jax.shard_map(callout.threaded(f), mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d")))
    np.testing.assert_array_equal(g(sharded(jnp.arange(2.0), mesh)), [2, 2])
    callout.barrier_wait(timeout=30)
    assert sorted(float(value[0]) for value in received) == [0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert not effects_of(g, sharded(jnp.arange(2.0), mesh))


def test_export(received):
    callout.register("test.threaded", received.tap)
    try:
        f = jax.jit(callout.threaded(lambda x: callout.tap("test.threaded", x, ordered=True) + 1))
        disabled = [jax.export.DisabledSafetyCheck.custom_call("callout.v1.tap")]
        exported = jax.export.export(f, disabled_checks=disabled)(ONE)
        assert not exported.ordered_effects
        assert not exported.unordered_effects
        assert float(jax.jit(exported.call)(ONE)) == 2
        callout.barrier_wait(timeout=30)
        assert [float(value) for value in received] == [1]
    finally:
        callout.unregister("test.threaded")


def test_a_nonfunction_argument_is_named():
    with pytest.raises(TypeError, match=r"callout\.threaded: expected a function, got 3"):
        callout.threaded(3)


def test_an_eager_ordered_callback_runs_after_threaded_programs():
    order, opened = [], threading.Event()

    def wait(x):
        opened.wait(30)
        return x

    @jax.jit
    @callout.threaded
    def f(m):
        # The product makes the program large enough for XLA's own threads.
        y = callout.pure_callback(
            callout.options(wait, numpy_only=True), jax.ShapeDtypeStruct((), jnp.float32), (m @ m)[0, 0]
        )
        return callout.tap(lambda _: order.append("program"), y, ordered=True)

    out = f(jnp.ones((256, 256)))
    opener = threading.Timer(0.2, opened.set)  # late: without ordering, the eager callback below comes first
    opener.start()
    callout.io_callback(lambda: order.append("eager"), None, ordered=True)
    assert order == ["program", "eager"]
    jax.block_until_ready(out)
    opener.join()
