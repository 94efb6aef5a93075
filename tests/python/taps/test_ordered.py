# SPDX-License-Identifier: Apache-2.0
"""Tests ordered=True: program order of taps and calls over loops and successive programs, on each device."""

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

F32 = jax.ShapeDtypeStruct((), jnp.float32)


@pytest.fixture
def log():
    """Records events in order; `tap`, `io` and `show` append to it."""

    class Log(list):
        def tap(self, name, x):
            return callout.tap(lambda v: self.append((name, float(v))), x, ordered=True)

        def io(self, name, x):
            def callback(v):
                self.append((name, float(v)))
                return v

            return callout.io_callback(callback, F32, x, ordered=True)

        def show(self, name, x):
            callout.debug_callback(lambda v: self.append((name, float(v))), x, ordered=True)
            return x

    return Log()


def taken(log):
    callout.barrier_wait(timeout=60)
    result = list(log)
    log.clear()
    return result


def test_taps_and_calls_are_in_program_order_among_each_other(log):
    @jax.jit
    def f(x):
        log.tap("a", x)
        log.io("b", x)
        log.tap("c", x)
        log.show("d", x)
        log.tap("e", x)
        return x

    for i in range(30):
        f(float(i))
    assert taken(log) == [(name, i) for i in range(30) for name in "abcde"]


def test_independent_operations_do_not_change_the_order(log):
    @jax.jit
    def f(m, x):
        log.tap("slow", jnp.tanh(m @ m).sum() * 0)
        log.tap("fast", x)
        log.io("again", x)
        return x

    for _ in range(20):
        f(jnp.ones((200, 200)), 1.0)
    assert taken(log) == [("slow", 0), ("fast", 1), ("again", 1)] * 20


def test_control_flow(log):
    def f(x):
        x = log.tap("begin", x)
        x = lax.cond(x > 0, lambda v: log.tap("true", v), lambda v: log.io("false", v), x)
        x, _ = lax.scan(lambda c, _: (log.io("scan", log.tap("step", c) + 1), None), x, length=2)
        x = lax.while_loop(lambda c: log.tap("cond", c) < 13, lambda c: log.show("body", c) + 1, x)
        return log.tap("end", x)

    steps = [("step", 10), ("scan", 11), ("step", 11), ("scan", 12)]
    loop = [("cond", 12), ("body", 12), ("cond", 13)]
    assert float(jax.jit(f)(10.0)) == 13
    assert taken(log) == [("begin", 10), ("true", 10), *steps, *loop, ("end", 13)]
    jax.jit(f)(-1.0)
    assert taken(log)[:2] == [("begin", -1), ("false", -1)]


def test_different_programs_and_eager_operations_in_turn(log):
    f = jax.jit(lambda x: log.tap("f", lax.fori_loop(0, 100, lambda _, c: jnp.sin(c), x) * 0))
    g = jax.jit(lambda x: log.io("g", x))
    for i in range(10):
        f(1.0)
        g(float(i))
        log.tap("eager tap", float(i))
        log.io("eager io", float(i))
    expected = []
    for i in range(10):
        expected += [("f", 0), ("g", i), ("eager tap", i), ("eager io", i)]
    assert taken(log) == expected


def test_compiled_ahead_of_time_and_called_many_times(log):
    compiled = jax.jit(lambda x: log.show("show", log.io("io", log.tap("tap", x)))).lower(jnp.float32(0)).compile()
    for i in range(10):
        assert float(compiled(jnp.float32(i))) == i
    assert taken(log) == [(name, i) for i in range(10) for name in ("tap", "io", "show")]


def test_grad_vmap_and_remat_keep_order(log):
    def f(x):
        y = log.tap("a", jnp.sin(x))
        return log.tap("b", y * 2)

    jax.jit(jax.grad(f))(0.0)
    assert [name for name, _ in taken(log)] == ["a", "b"]
    jax.jit(jax.grad(lambda x: jnp.sin(jax.checkpoint(f)(x))))(0.0)
    assert [name for name, _ in taken(log)] == ["a", "b", "a", "b"]
    rows = []
    jax.jit(jax.vmap(lambda x: callout.tap(lambda v: rows.append(v.tolist()), x, ordered=True)))(jnp.arange(3))
    callout.barrier_wait()
    assert rows == [[0, 1, 2]]


def while_with_a_tap_in_its_condition(seen):
    def condition(c):
        return callout.tap(lambda v: seen.append(("c", v.tolist())), c < 2, ordered=True)

    def body(c):
        return callout.tap(lambda v: seen.append(("b", v.tolist())), c + 1, ordered=True)

    return lambda x: lax.while_loop(condition, body, x)


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_vmap_of_a_while_loop_with_a_tapping_condition(jit):
    seen = []
    f = jax.vmap(while_with_a_tap_in_its_condition(seen))
    np.testing.assert_array_equal((jax.jit(f) if jit else f)(jnp.arange(5)), [2, 2, 2, 3, 4])
    callout.barrier_wait()
    assert seen == [
        *(("c", True), ("c", True), ("c", False), ("c", False), ("c", False)),
        *(("b", 1), ("b", 2)),
        *(("c", True), ("c", False)),
        *(("b", 2), ("c", False)),
    ]


@pytest.mark.slow
def test_vmap_of_while_loops_in_other_places():
    f = while_with_a_tap_in_its_condition([])
    rows = jnp.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(jax.vmap(jax.vmap(f))(rows), [[2, 2, 2], [3, 4, 5]])
    np.testing.assert_array_equal(jax.vmap(lambda r: lax.map(f, r))(rows), [[2, 2, 2], [3, 4, 5]])
    np.testing.assert_array_equal(jax.vmap(jax.vmap(f), in_axes=1, out_axes=1)(rows), [[2, 2, 2], [3, 4, 5]])

    def with_captured_values(n, x):
        condition = lambda c: callout.tap(lambda _: None, c[0] < n, ordered=True)  # noqa: E731
        return lax.while_loop(condition, lambda c: (c[0] + 1, c[1] * x), (0, 1.0))

    counts, powers = jax.vmap(with_captured_values, in_axes=(0, None))(jnp.arange(4), 2.0)
    assert (counts.tolist(), powers.tolist()) == ([0, 1, 2, 3], [1, 2, 4, 8])
    counts, powers = jax.vmap(with_captured_values, in_axes=(None, 0))(2, jnp.array([2.0, 3.0]))
    assert (counts.tolist(), powers.tolist()) == ([2, 2], [4, 9])


def test_a_debug_callback_in_the_condition_of_a_batched_loop():
    seen = []

    def condition(c):
        callout.debug_callback(lambda v: seen.append(float(v)), c, ordered=True)
        return c < 2

    out = jax.vmap(lambda x: lax.while_loop(condition, lambda c: c + 1, x))(jnp.arange(3.0))
    callout.barrier_wait()
    assert out.tolist() == [2, 2, 2]
    assert seen == [0, 1, 2, 1, 2, 2]  # finished lanes do not evaluate the condition


@pytest.mark.devices(4)
def test_each_device_keeps_its_order():
    mesh = jax.make_mesh((4,), ("d",))
    seen = []

    def f(x):
        for step in range(3):
            callout.tap(lambda v, step=step: seen.append((int(v[0]), step)), x, ordered=True)
        return x

    run = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d")))
    x = jax.device_put(jnp.arange(4), jax.NamedSharding(mesh, jax.P("d")))
    for _ in range(5):
        run(x)
    callout.barrier_wait()
    for device in range(4):
        assert [step for owner, step in seen if owner == device] == [0, 1, 2] * 5


def test_an_ordered_call_waits_for_slow_taps_before_it():
    import threading

    may_go, order = threading.Event(), []

    def slow(_):
        may_go.wait(30)
        order.append("tap")

    def call(_):
        order.append("call")

    @jax.jit
    def f(x):
        callout.tap(slow, x, ordered=True)
        callout.io_callback(callout.options(call, numpy_only=True), None, x, ordered=True)
        return x

    runner = threading.Thread(target=lambda: jax.block_until_ready(f(1.0)))
    runner.start()
    assert order == []
    may_go.set()
    runner.join(60)
    jax.effects_barrier()
    callout.barrier_wait()
    assert order == ["tap", "call"]


class Moody:
    """A callback that fails while its flag is set."""

    def __init__(self):
        self.fails = False

    def __call__(self, x):
        if self.fails:
            raise KeyError("moody")
        return x


@pytest.mark.parametrize("ahead_of_time", [False, True], ids=["jit", "compiled"])
@pytest.mark.parametrize(
    "kind",
    ["io", "debug", "numpy_only", pytest.param("two devices", marks=pytest.mark.collectives)],
)
def test_a_failing_ordered_callback_poisons_nothing(log, kind, ahead_of_time):
    moody = Moody()
    x = jnp.float32(1)
    if kind == "two devices":
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("d",))
        x = jax.device_put(jnp.ones(2), jax.NamedSharding(mesh, jax.P("d")))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)

    def program(v):
        if kind == "debug":
            callout.debug_callback(moody, v, ordered=True)
            return v
        callback = callout.options(moody, numpy_only=kind == "numpy_only")
        return callout.io_callback(callback, shape, v, ordered=True)

    f = jax.jit(program)
    f = f.lower(x).compile() if ahead_of_time else f
    g = jax.jit(lambda v: log.tap("after", v.sum()))
    for _ in range(3):
        moody.fails = False
        jax.block_until_ready(f(x))
        moody.fails = True
        with pytest.raises(KeyError, match="moody"), callout.reraise():
            jax.block_until_ready((f(x), jax.effects_barrier()))
        g(x)
        log.io("eager", jnp.float32(2))
    assert taken(log) == [("after", x.sum()), ("eager", 2)] * 3
    jax.effects_barrier()
