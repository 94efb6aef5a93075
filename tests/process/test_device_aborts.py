# SPDX-License-Identifier: Apache-2.0
"""Tests programs that would crash XLA if Callout did not reject them, each in a process of its own."""

import pytest

DEVICES = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
SETUP = """
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
grid = Mesh(np.array(jax.devices()).reshape(2, 2), ("a", "b"))
x = jax.device_put(jnp.arange(16.0).reshape(4, 4), NamedSharding(grid, P("a", "b")))
seen = []
def over(axes, f):
    specs = P(*axes)
    return jax.jit(jax.shard_map(f, mesh=grid, in_specs=specs, out_specs=specs, axis_names=set(axes), check_vma=False))
"""


def program(body):
    return "\n".join([SETUP, body, 'print("alive", flush=True)'])


@pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])
def test_gathering_a_value_that_is_manual(run, ordered):
    """Guards against replicating an operand with manual sharding: "Check failed: !IsManualLeaf()"."""
    done = run(
        program(f"""
over("ab", lambda v: callout.tap(lambda t: seen.append(t.shape), v, ordered={ordered}))(x)
over("ab", lambda v: callout.io_callback(lambda t: t, jax.ShapeDtypeStruct((2, 2), v.dtype), v, ordered={ordered}))(x)
callout.barrier_wait()
assert seen == [(2, 2)] * 4, seen
"""),
        **DEVICES,
    )
    assert (done.code, done.out) == (0, "alive\n"), done.err


def test_ordered_taps_over_compiler_axes_do_not_abort(run):
    """Guards against a crash of JAX before 0.12: "Check failed: buffer != nullptr"."""
    done = run(
        program("""
new = tuple(map(int, jax.__version__.split(".")[:2])) >= (0, 12)
for use in (
    lambda v: callout.tap(lambda t: seen.append(t.shape), v, ordered=True),
    lambda v: callout.tap(lambda t: seen.append(t.shape), v, ordered=True, sharding="local"),
    lambda v: (callout.debug_callback(lambda t: seen.append(t.shape), v, ordered=True), v)[1],
):
    try:
        jax.block_until_ready(over("a", use)(x))
        assert new
    except NotImplementedError as error:
        assert not new and "needs JAX 0.12 or newer" in str(error)
callout.barrier_wait()
assert len(seen) == (8 if new else 0), seen
"""),
        **DEVICES,
    )
    assert (done.code, done.out) == (0, "alive\n"), done.err


@pytest.mark.parametrize("entry", ["pure_callback", "io_callback"])
def test_a_failure_on_the_one_device_that_calls(run, entry):
    """The other devices wait for the failed one in a collective, whose process XLA ends after 40 seconds."""
    done = run(
        program(f"""
def boom(_):
    raise KeyError("no result")
f = jax.jit(lambda v: callout.{entry}(boom, jax.ShapeDtypeStruct((4, 4), v.dtype), v).sum() + v.sum())
for _ in range(3):
    try:
        with callout.reraise():
            jax.block_until_ready(f(x))
        raise AssertionError("nothing was raised")
    except KeyError:
        pass
"""),
        timeout=100,
        **DEVICES,
    )
    assert (done.code, done.out) == (0, "alive\n"), done.err


def test_without_the_partitioner_there_is_an_error(run, tmp_path):
    """Simulates a jaxlib without the entry point.

    An op that XLA cannot place fails with "Side-effect HLO must have sharding".
    """
    (tmp_path / "sitecustomize.py").write_text(
        "import jax\nimport jaxlib.xla_client\ndel jaxlib.xla_client.register_custom_call_partitioner\n"
    )
    done = run(
        program("""
from callout import _jax_compat
assert "jaxlib.xla_client.register_custom_call_partitioner" in _jax_compat.MISSING
try:
    jax.jit(lambda v: callout.tap(print, v))(x)
    raise AssertionError("nothing was raised")
except NotImplementedError as error:
    assert "shard_map" in str(error), error
over("ab", lambda v: callout.tap(lambda t: seen.append(t.shape), v))(x)
jax.jit(lambda v: callout.tap(seen.append, v))(1.0)
callout.barrier_wait()
assert len(seen) == 5, seen
"""),
        PYTHONPATH=str(tmp_path),
        **DEVICES,
    )
    assert (done.code, done.out) == (0, "alive\n"), done.err
