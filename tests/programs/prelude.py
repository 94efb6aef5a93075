# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F403, F405 - printed programs use the names of NumPy and of listening.py
"""The functions of printed programs; a program that is printed for a reader begins with this file.

They are arithmetic on small integers, loops that track their position, and callbacks that record their arguments.
"""

import contextlib
import functools
import io
import os

os.environ.update({"JAX_PLATFORMS": "cuda,cpu"} if os.environ.get("CALLOUT_TEST_PLATFORM") == "cuda" else {})
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import callout
import callout.host_callback as hcb  # noqa: F401 - for programs, as are others below
import jax
import jax.numpy as jnp
import ml_dtypes  # noqa: F401 - names of dtypes for NumPy
import numpy as np
from callout.buffer_callback import buffer_callback  # noqa: F401
from callout.progress import progress
from jax import lax
from jax.ad_checkpoint import checkpoint_name  # noqa: F401
from listening import *

ON_CUDA = os.environ.get("CALLOUT_TEST_PLATFORM") == "cuda"
ON_SOFTWARE_GPU = ON_CUDA and "Software" in jax.devices()[0].device_kind  # the software GPU cannot run NCCL's kernels
if ON_CUDA and jax.default_backend() != "gpu":
    raise RuntimeError(f"CALLOUT_TEST_PLATFORM=cuda: JAX's default backend is {jax.default_backend()!r}, not a GPU")

# Arithmetic that is exact in float32


def wrap(x, modulus=8):
    return x - modulus * jnp.floor(x / modulus)


def matrix(n):
    return ((np.arange(n)[:, None] * 2 + np.arange(n)) % 3 - 1).astype(np.float32)


def dot(x):
    return jnp.dot(matrix(x.shape[0]), x, precision="highest")


def grow(x, n, axis):
    steps = jnp.arange(n, dtype=x.dtype).reshape([n if i == axis else 1 for i in range(x.ndim + 1)])
    return jnp.expand_dims(x, axis) + steps


@functools.cache
def value(number):
    """Makes a value of the host, which programs capture."""
    return callout.HostValue(np.float32(number))


@functools.cache
def flag(is_set):
    """Makes a flag of the host, which programs capture."""
    return callout.StopFlag(timeout=0 if is_set else None)


def to(x, dtype):
    """Converts x, which is wrapped, to the dtype of a callback's operand."""
    return x > 0 if dtype == "bool" else x.astype(dtype)


def on(place):
    return jax.sharding.SingleDeviceSharding(jax.devices()[place])


def back(x, like):
    return (x.real if jnp.iscomplexobj(x) else x).astype(like.dtype)


# Loops: pos * 8 + i is the position of iteration i


def barred(bar, total=None):
    """Returns a decorator that gives a loop's body a bar, a debug callback of JAX's instead, or nothing."""
    if bar is None:
        return lambda body: body
    if bar == "debug":
        return lambda body: lambda *args: (jax.debug.callback(lambda: None), body(*args))[1]
    return progress(total, f"bar{bar}", file=drawn[0], leave=True, position=0)


def while_(pos, count, body, *carry, look=None, bar=None):
    @barred(bar)
    def step(state):
        i, *carry = state
        return (i + 1, *body(pos * 8 + i, *carry))

    def more(state):
        if look is not None:
            look(pos * 8 + state[0], *state[1:])
        return state[0] < count % 4

    return lax.while_loop(more, step, (count * 0, *carry))[1:]


def fori_(pos, count, body, *carry, bar=None):
    first = count * 0  # zero, in the dtype of count
    return lax.fori_loop(first, count % 4, barred(bar)(lambda i, c: tuple(body(pos * 8 + i, *c))), tuple(carry))


def scan_(pos, n, body, carry, xs, bar=None, **options):
    @barred(bar, n)
    def step(carry, row):
        i, *x = row
        outs = body(pos * 8 + i, *carry, *x)
        return tuple(outs[: len(carry)]), tuple(outs[len(carry) :])

    carry, ys = lax.scan(step, tuple(carry), (jnp.arange(n, dtype=jnp.int32), *xs), **options)
    return (*carry, *ys)


def ref_(pos, n, body, x):
    ref = jax.new_ref(x)

    def step(i, _):
        ref[...] = body(pos * 8 + i, ref[...])[0]

    lax.fori_loop(jnp.int32(0), jnp.int32(n), step, None)
    return (ref[...],)


def cond_(pos, index, branches, *args):
    if len(branches) == 2:
        return lax.cond(index % 2 == 1, branches[1], branches[0], pos, *args)
    return lax.switch(index % len(branches), branches, pos, *args)


def map_(pos, n, body, *xs, bar=None, **options):
    steps = jnp.arange(n, dtype=jnp.int32)
    step = barred(bar, n)(lambda row: tuple(body(pos * 8 + row[0], *row[1:])))
    return lax.map(step, (steps, *xs), **options)


def vmap_(pos, n, body, in_axes, out_axes, *args, **options):
    def lane(i, *args):
        return tuple(body(pos * 8 + i, *args))

    return jax.vmap(lane, (0, *in_axes), tuple(out_axes), **options)(jnp.arange(n, dtype=jnp.int32), *args)


def mesh_of(n, axis_type="Auto", rows=None):
    kind, devices = getattr(jax.sharding.AxisType, axis_type), jax.devices()[:n]
    if rows:
        return jax.make_mesh((rows, n // rows), ("d", "e"), axis_types=(kind, kind), devices=devices)
    return jax.make_mesh((n,), ("d",), axis_types=(kind,), devices=devices)


def shard_map_(pos, n, body, split, outs, *args, axis_type="Auto", varying=False, rows=None, **options):
    mesh, spec, axes = mesh_of(n, axis_type, rows), jax.sharding.PartitionSpec, ("d", "e") if rows else "d"
    in_specs = (spec(), *(spec(axes) if yes else spec() for yes in split))

    def shard(pos, *args):
        if varying:
            args = [x if yes else lax.pcast(x, axes, to="varying") for x, yes in zip(args, split, strict=True)]
        return tuple(body(pos * 8 + lax.axis_index(axes).astype(jnp.int32), *args))

    mapped = jax.shard_map(shard, mesh=mesh, in_specs=in_specs, out_specs=(spec(axes),) * outs, **options)
    if axis_type == "Auto":
        return mapped(pos, *args)
    where = [jax.NamedSharding(mesh, s) for s in (*in_specs, spec())]
    placed = [jax.sharding.reshard(x, s) for x, s in zip((pos, *args), where[:-1], strict=True)]
    return [jax.sharding.reshard(x, where[-1]) for x in mapped(*placed)]


# Derivatives, of the first argument


def jvp_(pos, body, x, tangent, *rest):
    return jax.jvp(lambda x: body(pos, x, *rest)[0], (x,), (tangent,))


def linearize_(pos, body, x, tangent, *rest):
    y, linear = jax.linearize(lambda x: body(pos, x, *rest)[0], x)
    return y, linear(tangent)


def varying_as(x, y):
    """Returns x with the varying axes that a cotangent of y has in a shard_map."""
    missing = tuple(jax.typeof(y).manual_axis_type.varying - jax.typeof(x).manual_axis_type.varying)
    return lax.pcast(x, missing, to="varying") if missing else x


def vjp_(pos, body, x, cotangent, *rest):
    y, pull = jax.vjp(lambda x: body(pos, x, *rest)[0], x)
    return y, pull(varying_as(cotangent, y))[0]


def grad_(pos, body, x, cotangent, *rest):
    def weighted(x):
        y = body(pos, x, *rest)[0]
        return jnp.sum(y * cotangent), y

    g, y = jax.grad(weighted, has_aux=True)(x)
    return y, g


def custom_jvp_(pos, function, slope, x):
    @jax.custom_jvp
    def call(pos, x):
        return function(pos, x)[0]

    @call.defjvp
    def _(primals, tangents):
        return function(*primals)[0], slope(*primals)[0] * tangents[1]

    return (call(pos, x),)


def custom_vjp_(pos, function, forward, backward, x):
    @jax.custom_vjp
    def call(pos, x):
        return function(pos, x)[0]

    call.defvjp(lambda pos, x: (forward(pos, x)[0], (pos, x)), lambda kept, g: (None, backward(*kept, g)[0]))
    return (call(pos, x),)


# Running


def forget():
    """Resets the records before the next program."""
    events.clear()
    calls.clear()
    failing.clear()
    allowed.clear()
    raised.clear()
    drawn[0] = io.StringIO()
    folder = sinks.pop(FOLDER, None)
    sinks.clear()
    if folder:
        folder.cleanup()
    while names:
        callout.unregister(names.pop())


def run(program, inputs, mode="jit", runs=2, wide=False):
    """Runs a program `runs` times; returns the results of the last run after everything is delivered."""
    with jax.enable_x64(wide):
        return run_here(program, inputs, mode, runs)


def run_here(program, inputs, mode, runs):

    def main(*args):
        outs = program(jnp.int32(0), *args)
        return tuple(x + 0 for x in outs) if failing else tuple(outs)  # arguments that are passed through cannot fail

    def fresh():
        if not mode.startswith("sharded"):
            return [jnp.asarray(x) for x in inputs]
        mesh, spec = mesh_of(int(mode.removeprefix("sharded"))), jax.sharding.PartitionSpec
        specs = [spec("d") if np.ndim(x) else spec() for x in inputs]
        return [jax.device_put(x, jax.NamedSharding(mesh, s)) for x, s in zip(inputs, specs, strict=True)]

    if mode == "jit" or mode.startswith("sharded"):
        f = jax.jit(main)
    elif mode == "donate":
        f = jax.jit(main, donate_argnums=tuple(range(len(inputs))))
    elif mode == "aot":
        f = jax.jit(main).lower(*fresh()).compile()
    elif mode == "threaded":
        f = jax.jit(callout.threaded(main))
    else:
        f = main
    results, output = (), io.StringIO()
    with contextlib.redirect_stdout(output):
        try:
            for _ in range(runs):
                with catching():
                    outs = f(*fresh())
                    results = jax.block_until_ready(outs) if failing else outs
            return [np.asarray(x) for x in results]
        finally:
            with catching():
                callout.barrier_wait()
            with contextlib.suppress(*[Wrong] * bool(failing)):  # runs of a failing program raise, too
                jax.effects_barrier()
            printed(output.getvalue())


@contextlib.contextmanager
def catching():
    """Records an error if the program is expected to fail."""
    if not failing:
        yield
        return
    try:
        yield
    except Exception as error:  # noqa: BLE001 - it is looked at later
        raised.append(error)
    else:
        raised.append(None)
