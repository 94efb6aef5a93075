# SPDX-License-Identifier: Apache-2.0
"""Programs for a TPU: their sends and receives, and the values that arrive at the host.

`ci/tpu_check.sh` compiles them; test_transfers.py runs them on a CPU.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

F32 = jax.ShapeDtypeStruct((), jnp.float32)
NAMED = "tpu_programs.double"


@dataclasses.dataclass(frozen=True)
class Program:
    """A program for a TPU. `make(note)` makes the function, whose callbacks call `note` with their arguments.

    `mesh`: how the argument, eight numbers, is sharded over several devices: in a `jit` with automatic or explicit
    axes, or in a `shard_map`. `gathers`: whether devices exchange values. `arrived`: the noted values, `result`: the
    function's result, for arguments from 0 on; None if the program is only compiled.
    """

    name: str
    make: Callable[[Callable[..., Any]], Callable[..., Any]]
    sends: int
    receives: int
    mesh: str = ""
    gathers: bool = False
    arrived: Any = None
    result: Any = None
    in_order: bool = True


def double(x):
    return np.asarray(x * 2, np.float32)


def tap(**options):
    return lambda note: lambda x: callout.tap(note, x, **options) + 1


def tree(note):
    def f(x):
        value = {
            "half": (x[:2] / 2).astype(jnp.bfloat16),
            "flag": x > 5,
            "number": x,
            "nothing": x[:0],
            "small": jnp.int8(-3),
        }
        callout.tap(note, value, step=jnp.int32(7))
        return x

    return f


def in_scan(note, **options):
    def body(carry, _):
        return callout.tap(note, carry, **options) * 2, None

    return lambda x: lax.scan(body, x[1], None, length=5)[0]


def in_cond(note):
    return lambda x: lax.cond(x[1] > 0, lambda y: callout.tap(note, y) + 1, lambda y: y, x)


def in_grad(note):
    return jax.grad(lambda x: jnp.sum(callout.tap(note, x * 2) ** 2))


def calls(note):
    def f(x):
        y = callout.pure_callback(double, x, x)
        y = callout.pure_callback(NAMED, x, y)
        y, _, z = callout.io_callback(lambda v: (v + 1, np.zeros((0, 2), np.float32), v[0]), shapes(x), y, ordered=True)
        callout.debug_callback(lambda v, w: note(v, w[:0]), z, x[:0])
        callout.io_callback(lambda: note("io"), None, ordered=True)
        return y

    return f


def shapes(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct((0, 2), jnp.float32), F32


def ordered(note):
    def f(x):
        x = callout.tap(lambda v: note("first", v[1]), x, ordered=True)
        x = callout.io_callback(lambda v: (note("second", v[1]), double(v))[1], x, x, ordered=True)
        return callout.tap(lambda v: note("third", v[1]), x, ordered=True)

    return f


def checks(note):
    def f(x):
        x = callout.watch(x, "tpu_programs")
        x = callout.warn_if(x, x < 0, "below zero")
        return callout.error_if(x, x > 100, "too big")

    return f


def in_progress(note):
    @callout.progress.scan_tqdm(4)
    def body(carry, i):
        return carry + i.astype(carry.dtype), None

    return lambda x: lax.scan(body, x[0], jnp.arange(4))[0]


def of_host_callback(note):
    def f(x):
        x = hcb.id_tap(lambda value, transforms: note(value), x)
        return hcb.call(double, x, result_shape=x)

    return f


def threaded(note):
    return callout.threaded(lambda x: callout.tap(note, callout.tap(note, x) + 1))


def refusing(note):
    return lambda x: callout.tap(note, x, on_full="fail")


def local(note):
    return lambda x: callout.tap(note, x, sharding="local") + 1


def call_on_one(note):
    return lambda x: callout.pure_callback(double, x, x)


def exported(function):
    """Returns the function as a program that another process has exported, for a TPU, too."""
    spec = jax.ShapeDtypeStruct((8,), jnp.float32)
    return callout.export(jax.jit(function), platforms=("cpu", "tpu"))(spec).call


def exported_calls(note):
    def f(x):
        x = callout.pure_callback(NAMED, x, callout.pure_callback(NAMED, x, x))
        return lax.platform_dependent(x, cpu=lambda x: callout.pure_callback(NAMED, x, x), default=lambda x: x + 1)

    return exported(f)


def exported_tap(note):
    return exported(lambda x: callout.tap(NAMED, x) + 1)


NUMBERS = list(map(float, range(8)))
PLUS_ONE = [x + 1 for x in NUMBERS]
DOUBLED = [x * 2 for x in NUMBERS]
PARTS = [[0, 1], [2, 3], [4, 5], [6, 7]]

PROGRAMS = (
    Program("tap", tap(), 1, 0, arrived=[NUMBERS], result=PLUS_ONE),
    Program("tap of a tree with its step", tree, 1, 0, arrived=None, result=NUMBERS),
    Program("tap in scan", in_scan, 1, 0, arrived=[1, 2, 4, 8, 16], result=32),
    Program("thinned tap in scan", lambda note: in_scan(note, every=2), 1, 0, arrived=[1, 4, 16], result=32),
    Program("tap in cond", in_cond, 1, 0, arrived=[NUMBERS], result=PLUS_ONE),
    Program("tap in vmap", lambda note: jax.vmap(tap()(note)), 1, 0, arrived=[NUMBERS], result=PLUS_ONE),
    Program("tap in grad", in_grad, 1, 0, arrived=[DOUBLED], result=[x * 8 for x in NUMBERS]),
    Program("tap that may fail its program", refusing, 1, 1, arrived=[NUMBERS], result=NUMBERS),
    Program("ordered tap in scan", lambda note: in_scan(note, ordered=True), 1, 1, arrived=[1, 2, 4, 8, 16], result=32),
    Program(
        "ordered taps and call", ordered, 3, 3, arrived=[("first", 1), ("second", 1), ("third", 2)], result=DOUBLED
    ),
    Program("pure, named, io and debug calls", calls, 5, 6, arrived=None, result=[x * 4 + 1 for x in NUMBERS]),
    Program("watch, warn_if and error_if", checks, 3, 1, arrived=[], result=NUMBERS),
    Program("progress bar of a scan", in_progress, 3, 1, arrived=[], result=6),
    Program("host_callback", of_host_callback, 2, 2, arrived=[NUMBERS], result=DOUBLED),
    Program("threaded", threaded, 4, 2, arrived=[NUMBERS, PLUS_ONE], result=PLUS_ONE),
    Program("exported calls", exported_calls, 2, 2, arrived=[], result=[x * 4 + 1 for x in NUMBERS]),
    Program("exported tap", exported_tap, 1, 0, arrived=[], result=PLUS_ONE),
    Program("exported tap in jit over devices", exported_tap, 1, 0, "auto", gathers=True),
    Program("tap in shard_map", tap(), 1, 0, "shard_map", arrived=PARTS, result=PLUS_ONE, in_order=False),
    Program("local tap in shard_map", local, 1, 0, "shard_map", arrived=PARTS, result=PLUS_ONE, in_order=False),
    Program("call in shard_map", call_on_one, 2, 1, "shard_map", arrived=[], result=DOUBLED),
    Program("tap in jit over devices", tap(), 1, 0, "auto", gathers=True),
    Program("local tap in jit over devices, automatic axes", local, 1, 0, "auto", gathers=True),
    Program(
        "local tap in jit over devices, explicit axes",
        local,
        1,
        0,
        "explicit",
        arrived=PARTS,
        result=PLUS_ONE,
        in_order=False,
    ),
    Program("call in jit over devices", call_on_one, 1, 1, "auto", gathers=True),
    Program("checks in jit over devices", checks, 3, 1, "auto", gathers=True),
)


def jitted(program, note, devices):
    """Returns the function, compiled for these devices, and the specification of its argument."""
    function = program.make(note)
    if not program.mesh:
        return jax.jit(function), jax.ShapeDtypeStruct((8,), jnp.float32, sharding=_single(devices))
    kind = jax.sharding.AxisType.Explicit if program.mesh == "explicit" else jax.sharding.AxisType.Auto
    mesh = jax.sharding.Mesh(np.array(devices[:4]), ("d",), axis_types=(kind,))
    spread = jax.NamedSharding(mesh, jax.P("d"))
    if program.mesh == "shard_map":
        function = jax.shard_map(function, mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d"))
    return jax.jit(function), jax.ShapeDtypeStruct((8,), jnp.float32, sharding=spread)


def _single(devices):
    return jax.sharding.SingleDeviceSharding(devices[0]) if devices else None
