# SPDX-License-Identifier: Apache-2.0
"""Tests vmap of cond and while: callbacks run for the active lanes, as in the programs without vmap.

Each program is compared with a loop over its lanes in Python: results, values of each callback with their counts, and
the order of each lane's.
"""

from collections import Counter

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from callout import ffi
from jax import lax
from lane_programs import (
    CONDS,
    LOOPS,
    both_branches,
    fori,
    nested_jit,
    one_branch,
    scan_in_cond,
    while_body,
    while_both,
    while_in_cond,
)

LANES = jnp.arange(5)
VALUES = jnp.array([0.5, 3.0, -1.0, 6.0, 2.0])


class Log:
    """Records callbacks: (name, lane, value)."""

    def __init__(self):
        self.seen = []
        self.names = set()

    def __call__(self, name, lane, value):
        self.seen.append((name, int(lane), np.asarray(value).tolist()))

    def take(self):
        jax.effects_barrier()
        callout.barrier_wait()
        seen, self.seen = self.seen, []
        return seen


@pytest.fixture
def log():
    log = Log()
    yield log
    for name in log.names:
        callout.unregister(name)


def tap(log, name, lane, x, **options):
    return callout.tap(lambda value: log(name, *value), (lane, x), **options)[1]


def ordered_tap(log, name, lane, x):
    return tap(log, name, lane, x, ordered=True)


def stepped_tap(log, name, lane, x):
    return tap(log, name, lane, x, step=lane)


def debug(log, name, lane, x, **options):
    callout.debug_callback(lambda lane, x: log(name, lane, x), lane, x, **options)
    return x


def ordered_debug(log, name, lane, x):
    return debug(log, name, lane, x, ordered=True)


def io(log, name, lane, x):
    def call(lane, x):
        log(name, lane, x)
        return x

    return callout.io_callback(call, jax.ShapeDtypeStruct(x.shape, x.dtype), lane, x)


def named(log, name, lane, x):
    if f"lanes.{name}" not in log.names:
        log.names.add(f"lanes.{name}")
        callout.register(f"lanes.{name}", lambda value: log(name, *value))
    return callout.tap(f"lanes.{name}", (lane, x))[1]


def buffers(log, name, lane, x):
    def call(_ctx, out, lane, x):
        log(name, np.asarray(lane), np.array(x))
        np.asarray(out)[...] = np.asarray(x)

    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return callout.buffer_callback.buffer_callback(call, shape, has_side_effect=True)(lane, x)


KINDS = [tap, ordered_tap, stepped_tap, debug, ordered_debug, io, named]
OF_BUFFERS = [
    pytest.mark.cpu_only("NumPy does not read memory of a device"),
    pytest.mark.native_only(platforms.BUFFERS),
]
KINDS.append(pytest.param(buffers, marks=OF_BUFFERS))
DIFFERENTIABLE = [tap, ordered_tap, debug]
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
differentiable = pytest.mark.parametrize("kind", DIFFERENTIABLE, ids=lambda kind: kind.__name__)


programs = pytest.mark.parametrize("program", [*CONDS, *LOOPS], ids=lambda program: program.__name__)
loops = pytest.mark.parametrize("program", LOOPS, ids=lambda program: program.__name__)
conds = pytest.mark.parametrize("program", CONDS, ids=lambda program: program.__name__)
few = pytest.mark.parametrize(
    "program",
    [both_branches, scan_in_cond, nested_jit, while_both, while_in_cond],
    ids=lambda program: program.__name__,
)


def bound(program, kind, log):
    return lambda lane, x: program(lambda *args: kind(log, *args), lane, x)


def of_each_lane(f, log, *args):
    """Computes the oracle: (results, records) of the program of one lane, in a loop in Python."""
    of_one = jax.jit(f)
    return np.stack([of_one(*(arg[i] for arg in args)) for i in range(len(args[0]))]), log.take()


def by_lane(seen):
    lanes = {}
    for name, lane, value in seen:
        lanes.setdefault(lane, []).append((name, value))
    return lanes


def same(seen, expected, in_order=False):
    assert Counter(map(repr, seen)) == Counter(map(repr, expected))
    if in_order:
        assert by_lane(seen) == by_lane(expected)


def agrees(f, log, *transformed, in_order=False):
    """Compares each of `transformed`, by default `jax.jit(jax.vmap(f))`, with a loop over the lanes that calls `f`."""
    expected, calls = of_each_lane(f, log, LANES, VALUES)
    assert calls
    for of_all in transformed or [jax.jit(jax.vmap(f))]:
        np.testing.assert_allclose(of_all(LANES, VALUES), expected, rtol=1e-6)
        same(log.take(), calls, in_order=in_order)


@programs
@pytest.mark.parametrize("kind", [tap, io], ids=lambda kind: kind.__name__)
def test_lanes_call_as_the_program_of_one_does(program, kind, log):
    agrees(bound(program, kind, log), log)


@few
@kinds
def test_every_kind_of_callback(program, kind, log):
    agrees(bound(program, kind, log), log, in_order=kind in (ordered_tap, ordered_debug))


@few
def test_operation_by_operation(program, log):
    f = bound(program, tap, log)
    agrees(f, log, jax.vmap(f))


@conds
@differentiable
def test_gradients(program, kind, log):
    f = bound(program, kind, log)
    of_one = jax.grad(f, argnums=1)
    of_all = jax.grad(lambda lanes, values: jax.vmap(f)(lanes, values).sum(), argnums=1)
    agrees(of_one, log, jax.jit(jax.vmap(of_one)), jax.jit(of_all))


@loops
@differentiable
def test_forward_mode(program, kind, log):
    def of_one(lane, x):
        return jax.jvp(lambda x: bound(program, kind, log)(lane, x), (x,), (jnp.ones_like(x),))[1]

    def of_all(lanes, values):
        f = jax.vmap(bound(program, kind, log))
        return jax.jvp(lambda values: f(lanes, values), (values,), (jnp.ones_like(values),))[1]

    agrees(of_one, log, jax.jit(jax.vmap(of_one)), jax.jit(of_all))


@few
@pytest.mark.parametrize("kind", [tap, ordered_tap, debug, io], ids=lambda kind: kind.__name__)
def test_two_vmaps(program, kind, log):
    f = bound(program, kind, log)
    lanes, values = jnp.arange(6).reshape(2, 3), jnp.array([[0.5, 3.0, -1.0], [6.0, 2.0, 1.5]])
    expected, calls = of_each_lane(f, log, lanes.ravel(), values.ravel())
    for transformed in (jax.vmap(jax.vmap(f)), jax.vmap(jax.vmap(f), in_axes=1, out_axes=1)):
        np.testing.assert_allclose(jax.jit(transformed)(lanes, values).ravel(), expected, rtol=1e-6)
        same(log.take(), calls, in_order=kind is ordered_tap)


def test_a_predicate_of_one_vmap_only(log):
    """The lanes of the other vmap take the branch together: a tap gets them as a batch, a debug callback one by one."""

    def f(x, y):
        return lax.cond(x > 1, lambda: tap(log, "taken", 0, x + y), lambda: y)

    xs, ys = jnp.array([0.0, 2.0, 3.0]), jnp.array([10.0, 20.0])
    jax.jit(jax.vmap(jax.vmap(f, (0, None)), (None, 0)))(xs, ys)
    assert sorted(value for *_, value in log.take()) == [[12, 22], [13, 23]]
    jax.jit(jax.vmap(jax.vmap(f, (None, 0)), (0, None)))(xs, ys)
    assert sorted(value for *_, value in log.take()) == [[12, 22], [13, 23]]


def test_rematerialised_loops_and_branches(log):
    f = jax.grad(jax.checkpoint(bound(one_branch, tap, log)), argnums=1)
    expected, calls = of_each_lane(f, log, LANES, VALUES)
    for transformed in (
        jax.vmap(f),
        jax.grad(lambda lanes, values: jax.checkpoint(jax.vmap(bound(one_branch, tap, log)))(lanes, values).sum(), 1),
    ):
        np.testing.assert_allclose(jax.jit(transformed)(LANES, VALUES), expected)
        same(log.take(), calls)


def test_checkpoint_with_prevent_cse_for_each_operand(log):
    def f(lane, x):
        again = jax.checkpoint(lambda lane, y: jnp.sin(tap(log, "again", lane, y)) * y, prevent_cse=(False, True))
        return lax.cond(x > 1, again, lambda _, y: y, lane, x)

    f = jax.grad(f, argnums=1)
    expected, calls = of_each_lane(f, log, LANES, VALUES)
    np.testing.assert_allclose(jax.jit(jax.vmap(f))(LANES, VALUES), expected, rtol=1e-6)
    same(log.take(), calls)


def test_order_is_place_by_place_and_lane_by_lane(log):
    jax.jit(jax.vmap(bound(both_branches, ordered_tap, log)))(LANES, VALUES)
    # The branches run in turn, each for its lanes.
    assert [(name, lane) for name, lane, _ in log.take()] == [
        *(("other", lane) for lane in (0, 2)),
        *(("taken", lane) for lane in (1, 3, 4)),
    ]
    jax.jit(jax.vmap(bound(fori, ordered_debug, log)))(LANES, VALUES)
    # The iterations run one after the other.
    assert [lane for _, lane, _ in log.take()] == [1, 2, 3, 4, 2, 3, 4, 3, 4, 4]


def test_ordered_io_is_refused_as_in_every_vmap(log):
    def f(x):
        return lax.cond(x > 1, lambda: callout.io_callback(log, None, 0, 0, x, ordered=True), lambda: None)

    with pytest.raises(ValueError, match="Cannot `vmap` ordered IO callbacks"):
        jax.vmap(f)(VALUES)


def test_lanes_that_did_not_ask_end_their_loops(log):
    """A call returns zeros to a lane that is not active, with which this loop would not end."""

    def f(lane, x):
        def double(x):
            limit = io(log, "limit", lane, x) + 10
            return lax.while_loop(lambda y: y < limit, lambda y: y * 2, jnp.minimum(x, limit - 10))

        return lax.cond(x > 1, double, lambda x: x, x)

    agrees(f, log)


def test_results_of_lanes_that_are_not_there_do_not_leak(log):
    def f(lane, x):
        return lax.cond(x > 1, lambda: jnp.log(io(log, "taken", lane, x)), lambda: x)

    agrees(f, log)
    gradient = jax.jit(jax.grad(lambda values: jax.vmap(bound(one_branch, tap, log))(LANES, values).sum()))(VALUES)
    np.testing.assert_array_equal(gradient, [1, 2, 1, 2, 2])


@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
@pytest.mark.parametrize("program", [one_branch, while_body, scan_in_cond], ids=lambda program: program.__name__)
def test_threaded_programs(program, inside, log):
    f = bound(program, tap, log)
    threaded = jax.vmap(callout.threaded(f)) if inside else callout.threaded(jax.vmap(f))
    agrees(f, log, jax.jit(threaded), in_order=True)


def test_host_callback_keeps_its_whole_batch(log):
    def f(x):
        return lax.cond(
            x > 1,
            lambda x: callout.host_callback.id_tap(lambda value, transforms: log("tap", 0, value), x),
            lambda x: x,
            x,
        )

    jax.jit(jax.vmap(f))(VALUES)
    assert log.take() == [("tap", 0, VALUES.tolist())]


def test_watches_see_lanes_that_are_there():
    def f(x):
        return lax.cond(x > 0, lambda x: callout.watch(jnp.log(x), "live lanes"), lambda x: x, x)

    jax.block_until_ready(jax.jit(jax.vmap(f))(jnp.array([-1.0, 1.0, -2.0, jnp.inf])))
    callout.barrier_wait()
    counts = callout.stats()["watches"]["live lanes"]
    assert (counts["calls"], counts["bad_calls"]) == (2, 1)


def test_native_sinks_get_one_record_a_lane(tmp_path):
    path = tmp_path / "lanes.csv"
    sink = callout.sinks.Csv(path)
    jax.jit(jax.vmap(lambda x: lax.cond(x > 1, lambda: callout.tap(sink, {"x": x}), lambda: {"x": x})))(VALUES)
    callout.barrier_wait()
    sink.close()
    rows = path.read_text().splitlines()
    place = rows[0].split(",").index("x")
    assert [float(row.split(",")[place]) for row in rows[1:]] == [3, 6, 2]


@few
def test_foreign_side_effects_run_for_active_lanes(program, log, handlers):
    """`test.note` counts the elements that it gets, which include inactive lanes if any lane is active."""

    def note(_, lane, x):
        ffi.ffi_call("test.note", (), has_side_effect=True, vmap_method="sequential")(x)
        return tap(log, "noted", lane, x)

    f = jax.jit(jax.vmap(lambda lane, x: program(note, lane, x)))
    before = handlers.noted()
    jax.block_until_ready(f(LANES, VALUES))
    assert handlers.noted() - before == len(log.take()) > 0


def test_exported_programs_call_for_lanes_that_are_there(log):
    seen = []
    callout.register("live lanes", seen.append)
    try:
        f = jax.jit(jax.vmap(lambda x: lax.cond(x > 1, lambda: callout.tap("live lanes", x), lambda: x)))
        blob = callout.export(f)(jax.ShapeDtypeStruct((5,), jnp.float32)).serialize()
        jax.block_until_ready(jax.export.deserialize(blob).call(VALUES))
        callout.barrier_wait()
    finally:
        callout.unregister("live lanes")
    assert [float(value) for value in seen] == [3, 6, 2]


@pytest.mark.parametrize("kind", [tap, ordered_tap, debug, io], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("program", [both_branches, while_both], ids=lambda program: program.__name__)
def test_inside_shard_map(program, kind, log):
    devices = jax.devices()[:2]
    if len(devices) < 2:
        pytest.skip("needs two devices")
    mesh = jax.sharding.Mesh(np.array(devices), ("d",))
    lanes, values = jnp.arange(6), jnp.array([0.5, 3.0, -1.0, 6.0, 2.0, 1.5])
    f = bound(program, kind, log)
    expected, calls = of_each_lane(f, log, lanes, values)
    spread = jax.shard_map(jax.vmap(f), mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d"))
    np.testing.assert_allclose(jax.jit(spread)(lanes, values), expected, rtol=1e-6)
    same(log.take(), calls)


@pytest.mark.collectives
def test_a_shard_map_in_a_branch(log):
    if len(jax.devices()) < 2:
        pytest.skip("needs two devices")
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("d",))

    def f(lane, x):
        def of_device(x):
            return tap(log, "shard", lane, x + jax.lax.axis_index("d").astype(jnp.float32))

        spread = jax.shard_map(of_device, mesh=mesh, in_specs=jax.P(), out_specs=jax.P("d"))
        return lax.cond(x[0] > 1, lambda: spread(x).sum(), lambda: x.sum())

    jax.jit(jax.vmap(f))(jnp.arange(3), jnp.array([[0.5], [2.0], [3.0]]))
    same(log.take(), [("shard", lane, [lane + 1.0 + d]) for lane in (1, 2) for d in (0, 1)])


def test_indistinguishable_lanes_are_rejected(log):
    def solve(x):
        matvec = lambda v: 2 * v  # noqa: E731
        return lax.custom_linear_solve(matvec, x, lambda _, b: tap(log, "solve", 0, b) / 2)

    with pytest.raises(NotImplementedError, match="inside custom_linear_solve"):
        jax.vmap(lambda x: lax.cond(x > 1, solve, lambda x: x, x))(VALUES)
