# SPDX-License-Identifier: Apache-2.0
"""Runs programs of modern JAX over the devices of two processes, or of one, for distributed_worker.py.

All entry points are used with transformations in a shard_map over Explicit axes, two meshes, mutable arrays, `threaded`
and order.
"""

import callout
import callout.host_callback as hcb
import ffi_calls
import jax
import numpy as np
from callout.buffer_callback import buffer_callback
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P


def like(value):
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


def entries(heard):
    """Makes functions that double their argument and record it."""

    def double(value):
        heard.append(np.asarray(value).tolist())
        return value * 2

    def fill(_, out, value):
        heard.append(np.array(value).tolist())
        np.asarray(out)[...] = 2 * np.asarray(value)

    def told(value, transforms):
        heard.append(value.tolist())

    callout.register("distributed.double", double)
    return {
        "pure": lambda v: callout.pure_callback(double, like(v), v, vmap_method="sequential"),
        "io": lambda v: callout.io_callback(double, like(v), v),
        "buffer": lambda v: buffer_callback(fill, like(v), vmap_method="sequential")(v),
        "tap": lambda v: 2 * callout.tap(double, v)[...],
        "debug": lambda v: callout.debug_callback(double, v) or 2 * v[...],
        "ordered debug": lambda v: callout.debug_callback(double, v, ordered=True) or 2 * v[...],
        "threaded": callout.threaded(lambda v: 2 * callout.tap(double, v, ordered=True)[...]),
        "ordered io": lambda v: callout.io_callback(double, like(v), v, ordered=True),
        "ordered tap": lambda v: 2 * callout.tap(double, v, ordered=True)[...],
        "local tap": lambda v: 2 * callout.tap(double, v, sharding="local")[...],
        "named tap": lambda v: 2 * callout.tap("distributed.double", v)[...],
        "debug of shards": lambda v: callout.debug_callback(double, v, partitioned=True) or 2 * v[...],
        "id_tap": lambda v: 2 * hcb.id_tap(told, v)[...],
        "hcb call": lambda v: hcb.call(double, v, result_shape=like(v)),
    }


NATIVE = """
#include "callout/kernel.h"
void twice(callout::In<float> x, callout::Out<float> y) {
  for (int64_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i];
}
CALLOUT_KERNEL(twice);
"""


def native_entries(folder):
    """Makes functions that call no Python function while the program runs."""
    callout.config.cache_dir = str(folder)
    ffi_calls.register(folder / "libhandlers.so")
    compiled = callout.cpp.load_inline(NATIVE, {"twice": {"vmap_method": "sequential"}}, name="distributed")
    sink = callout.sinks.Null()
    return {
        "cpp": compiled.twice,
        "ffi": lambda v: ffi_calls.affine(v, vmap_method="sequential") - 1,
        "sink": lambda v: 2 * callout.tap(sink, v)[...],
        "watch": lambda v: 2 * callout.watch(v, "distributed")[...],
        "check": lambda v: 2 * callout.error_if(v, v[...] < 0, "{value} at {index}")[...],
        "locate_nans": callout.locate_nans(lambda v: 2 * v[...], stop=True),
    }


def attempt(run, shards, took):
    """Returns each device's result and the values that this process received, or the error of the program."""
    try:
        return [shards(run()), took()]
    except Exception as error:  # noqa: BLE001 - the test says which are
        took()
        return type(error).__name__


def differentiable(call):
    wrapped = jax.custom_jvp(call)
    wrapped.defjvp(lambda primals, tangents: (call(*primals), 2 * tangents[0]))
    return wrapped


TRANSFORMATIONS = {
    "scan": lambda f, v: jax.lax.scan(lambda c, _: (f(c), None), v, None, length=2)[0],
    "while": lambda f, v: jax.lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, f(c[1])), (0, v))[1],
    "vmap": lambda f, v: jax.vmap(f)(v[:, None])[:, 0],
    "remat": lambda f, v: jax.grad(lambda c: (jax.checkpoint(differentiable(f))(c) ** 2).sum())(v),
}


CALLS = ("pure", "io", "ordered io", "buffer", "hcb call", "cpp", "ffi", "debug", "ordered debug", "debug of shards")


def modern(part, folder, seen, took, heard, spread, shards):
    """Fills `seen` for a part of the entry points, "calls" or the others; the other arguments are the worker's."""
    devices = np.asarray(jax.devices())
    mesh = jax.sharding.Mesh(devices, "d", axis_types=(AxisType.Explicit,))
    square = jax.sharding.Mesh(devices.reshape(2, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    x, on_square = spread((8,), mesh, P("d")), spread((8,), square, P("x"))
    on_mesh = NamedSharding(mesh, P("d"))

    def by_shards(f):
        return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("d"), out_specs=P("d")))

    def written(v, call):
        ref = jax.new_ref(v)
        ref[...] = ref[...] * 3
        return call(ref)

    for name, call in {**entries(heard), **native_entries(folder)}.items():
        if (name in CALLS) != (part == "calls"):
            continue
        for form, transformed in TRANSFORMATIONS.items():
            run = by_shards(lambda v, call=call, transformed=transformed: transformed(call, v))
            seen[f"{name} in {form}"] = attempt(lambda run=run: run(x), shards, took)
        both = jax.jit(lambda v, w, call=call: call(v) + jax.sharding.reshard(call(w), on_mesh))
        move = jax.jit(lambda v, call=call: call(jax.sharding.reshard(call(v), NamedSharding(square, P("y")))))
        refs = by_shards(lambda v, call=call: written(v, call))
        seen[f"{name} over two meshes"] = attempt(lambda both=both: both(x, on_square), shards, took)
        seen[f"{name} before and after a resharding"] = attempt(lambda move=move: move(x), shards, took)
        seen[f"{name} of a mutable array"] = attempt(lambda refs=refs: refs(x), shards, took)
