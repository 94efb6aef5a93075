# SPDX-License-Identifier: Apache-2.0
"""Programs of modern JAX over the devices of two processes, for distributed_worker.py.

Transformations in a shard_map over Explicit axes, two meshes, mutable arrays, `threaded` and order.
"""

import callout
import jax
import numpy as np
from callout.buffer_callback import buffer_callback
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P


def like(value):
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


def entries(heard):
    """Functions that double, and hear what they get."""

    def double(value):
        heard.append(np.asarray(value).tolist())
        return value * 2

    def fill(_, out, value):
        heard.append(np.array(value).tolist())
        np.asarray(out)[...] = 2 * np.asarray(value)

    return {
        "pure": lambda v: callout.pure_callback(double, like(v), v, vmap_method="sequential"),
        "io": lambda v: callout.io_callback(double, like(v), v),
        "buffer": lambda v: buffer_callback(fill, like(v), vmap_method="sequential")(v),
        "tap": lambda v: 2 * callout.tap(double, v),
        "debug": lambda v: callout.debug_callback(double, v) or 2 * v[...],
        "ordered debug": lambda v: callout.debug_callback(double, v, ordered=True) or 2 * v[...],
        "threaded": callout.threaded(lambda v: 2 * callout.tap(double, v, ordered=True)),
    }


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


def modern(seen, took, heard, spread, shards):
    """Fills `seen`; the others are the worker's."""
    devices = np.asarray(jax.devices())
    mesh = jax.sharding.Mesh(devices, "d", axis_types=(AxisType.Explicit,))
    square = jax.sharding.Mesh(devices.reshape(2, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    x, on_square = spread((8,), mesh, P("d")), spread((8,), square, P("x"))
    calls = entries(heard)
    for name, call in calls.items():
        for form, transformed in TRANSFORMATIONS.items():
            if (name, form) == ("io", "remat"):
                continue  # refused, as by JAX

            def each(v, call=call, transformed=transformed):
                return transformed(call, v)

            run = jax.jit(jax.shard_map(each, mesh=mesh, in_specs=P("d"), out_specs=P("d")))
            seen[f"{name} in {form}"] = [shards(run(x)), took()]

    def written(v, call):
        ref = jax.new_ref(v)
        ref[...] = ref[...] * 3
        return call(ref)

    for name in ("pure", "debug", "ordered debug"):
        call = calls[name]
        both = jax.jit(lambda v, w, call=call: call(v) + jax.sharding.reshard(call(w), NamedSharding(mesh, P("d"))))
        seen[f"{name} over two meshes"] = [shards(both(x, on_square)), took()]
        move = jax.jit(lambda v, call=call: call(jax.sharding.reshard(call(v), NamedSharding(square, P("y")))))
        seen[f"{name} before and after a resharding"] = [shards(move(x)), took()]
        refs = jax.jit(
            jax.shard_map(lambda v, call=call: written(v, call), mesh=mesh, in_specs=P("d"), out_specs=P("d"))
        )
        seen[f"{name} of a mutable array"] = [shards(refs(x)), took()]
