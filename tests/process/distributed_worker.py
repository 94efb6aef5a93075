# SPDX-License-Identifier: Apache-2.0
"""One of two processes with two CPU devices each: `python distributed_worker.py RANK PORT SCENARIO FOLDER`.

With the port 0, the process is the only one and has all four devices. It writes its findings to FOLDER/RANK.json.
"""

import io
import json
import os
import re
import sys
import warnings
from pathlib import Path

os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={2 if sys.argv[2] != '0' else 4}"

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np
from callout import ffi
from callout.buffer_callback import buffer_callback
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

sys.path.append(str(Path(__file__).parents[1] / "python" / "support"))
import distributed_files
import distributed_modern
import ffi_calls

RANK, PORT, SCENARIO, FOLDER = int(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])
LIKE = jax.ShapeDtypeStruct((8,), jnp.float32)
f32 = jax.ShapeDtypeStruct((), jnp.float32)
seen: dict = {}
heard: list = []


def double(value):
    heard.append(value.tolist())
    return value * 2


def fail(value):
    raise KeyError("only the owner knows")


def took() -> list:
    """Returns the values that callbacks of this process received since the last call."""
    jax.effects_barrier()
    callout.barrier_wait(60)
    values = list(heard)
    heard.clear()
    return values


def spread(shape, mesh, spec):
    value = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return jax.make_array_from_callback(shape, NamedSharding(mesh, spec), lambda index: value[index])


def shards(value):
    return [shard.data.tolist() for shard in value.addressable_shards]


def error_of(run):
    try:
        run()
    except Exception as error:  # noqa: BLE001
        return type(error).__mro__[0].__name__, isinstance(error, callout.CallbackError), str(error).splitlines()[0]
    return None


def taps(mesh, x):
    def local(value, *, device, index):
        (rows, columns) = index
        heard.append([value.tolist(), device.id, device.process_index, rows.start, columns.start])

    square = Mesh(mesh.devices.reshape(2, 2), ("a", "b"))
    keywords = {"sharding": "local", "with_device": True, "with_index": True}
    jax.jit(lambda v: callout.tap(local, v, **keywords))(spread((2, 4), square, P("a", "b")))
    seen["local"] = sorted(took(), key=lambda record: record[1])

    def whole(value, *, device):
        heard.append([value.tolist(), device.id])

    for k in range(4):
        jax.jit(lambda v, k=k: callout.tap(whole, v, device_index=k, with_device=True))(x)
        seen[f"gather {k}"] = took()
    backwards = spread((8,), Mesh(mesh.devices[::-1], "d"), P("d"))
    jax.jit(lambda v: callout.tap(whole, v, with_device=True))(backwards)
    seen["gather 0 of a reversed mesh"] = took()
    callout.tap(double, x, sharding="local")
    seen["eager local"] = sorted(took())
    seen["eager gather"] = error_of(lambda: callout.tap(double, x))
    seen["eager call"] = error_of(lambda: callout.pure_callback(double, LIKE, x))
    jax.jit(lambda v: callout.tap(whole, v, with_device=True))(jnp.arange(2.0))
    seen["own device"] = took()
    seen["queues"] = sorted(queue["device"] for queue in callout.stats()["queues"])


def calls(mesh, x):
    on_third = callout.options(double, device_index=2)
    last = SingleDeviceSharding(jax.devices()[3])
    for name, call in {
        "pure": lambda v: callout.pure_callback(double, LIKE, v),
        "pure on 2": lambda v: callout.pure_callback(on_third, LIKE, v),
        "pure on the last": lambda v: callout.pure_callback(double, LIKE, v, sharding=last),
        "io": lambda v: callout.io_callback(double, LIKE, v),
        "io ordered on 2": lambda v: callout.io_callback(on_third, LIKE, v, ordered=True),
    }.items():
        seen[name] = [shards(jax.jit(call)(x)), took()]
    jax.jit(lambda v: callout.debug_callback(double, v))(x)
    seen["debug"] = took()
    jax.jit(lambda v: callout.debug_callback(double, v, partitioned=True))(x)
    seen["debug partitioned"] = sorted(took())

    def once(value):
        return callout.pure_callback(double, jax.ShapeDtypeStruct((2,), jnp.float32), value)

    mapped = jax.shard_map(once, mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=False)
    seen["shard_map"] = [shards(jax.jit(mapped)(x)), sorted(took())]


def order(x):
    def step(_, value):
        callout.tap(lambda v: heard.append(["tap", v[1].item()]), value, ordered=True)
        callout.debug_callback(lambda v: heard.append(["debug", v[1].item()]), value, ordered=True)
        return callout.io_callback(lambda v: heard.append(["io", v[1].item()]) or v * 2, LIKE, value, ordered=True)

    program = jax.jit(lambda v: jax.lax.fori_loop(0, 2, step, v))
    program(program(x))
    seen["order"] = took()


def host_callbacks(x):
    def whole(value, transforms, *, device):
        heard.append([value.tolist(), device.id])

    for k in range(4):
        tap = jax.jit(lambda v, k=k: hcb.id_tap(whole, v, device_index=k, tap_with_device=True))
        seen[f"id_tap {k}"] = [shards(tap(x)), took()]
        call = jax.jit(lambda v, k=k: hcb.call(double, v, result_shape=LIKE, device_index=k))
        seen[f"hcb call {k}"] = [shards(call(x)), took()]
    own = jnp.arange(2.0) + 2 * RANK
    everywhere = jax.pmap(lambda v: hcb.id_tap(whole, v, tap_with_device=True))
    seen["pmap id_tap"] = [shards(everywhere(own)), sorted(took())]
    answers = jax.pmap(lambda v: hcb.call(lambda a: heard.append(a.item()) or a * 2, v, result_shape=v))(own)
    seen["pmap hcb call"] = [shards(answers), sorted(took())]


def progress_bars(mesh, x):
    def last_drawing(spread_loop, **more):
        screen = io.StringIO()
        bar = callout.progress.progress(desc="fit", file=screen, tqdm_type="std", mininterval=0, **more)
        jax.jit(spread_loop(lambda v: jax.lax.scan(bar(lambda c, _: (c + 1, None)), v, None, length=10)[0]))(x)
        took()
        return re.findall(r"fit: 100%.* (\d+/\d+) ", screen.getvalue())[-1:]

    def own_loops(loop):
        return jax.shard_map(loop, mesh=mesh, in_specs=P("d"), out_specs=P("d"))

    seen["bar"] = last_drawing(lambda loop: loop)
    seen["bar of each process"] = last_drawing(own_loops, devices="sum", only_process=None)
    seen["bar of the second"] = last_drawing(own_loops, devices="sum", only_process=1)


def varying(mesh, x):
    """Runs loops, branches and gradients inside shard_map with `check_vma=True`, over the devices of both processes."""

    def fill(_, out, value):
        heard.append(np.array(value).tolist())
        np.asarray(out)[...] = 2 * np.asarray(value)

    def differentiable(call):
        wrapped = jax.custom_jvp(call)
        wrapped.defjvp(lambda primals, tangents: (call(*primals), tangents[0]))
        return wrapped

    for name, call in {
        "pure": lambda v: callout.pure_callback(double, like(v), v, vmap_method="sequential"),
        "io": lambda v: callout.io_callback(double, like(v), v),
        "ordered io": lambda v: callout.io_callback(double, like(v), v, ordered=True),
        "buffer": lambda v: buffer_callback(fill, like(v))(v),
        "hcb call": lambda v: hcb.call(double, v, result_shape=like(v)),
        "tap": lambda v: 2 * callout.tap(double, v),
        "debug": lambda v: callout.debug_callback(double, v) or 2 * v,
    }.items():

        def scan(v, call=call):
            return jax.lax.scan(lambda c, _: (call(c), None), v, None, length=2)[0]

        def cond(v, call=call):
            return jax.lax.cond(v[0] < 4, call, lambda c: c, v)

        def grad(v, call=call):
            return jax.grad(lambda c: (differentiable(call)(c) ** 2).sum())(v)

        for f in (scan, cond, grad):
            mapped = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("d"), out_specs=P("d")))
            seen[f"{name} in {f.__name__}"] = [shards(mapped(x)), sorted(took())]
    everywhere = jax.shard_map(
        lambda: jax.lax.psum(callout.io_callback(lambda: heard.append(0) or np.float32(RANK + 1), f32), "d"),
        mesh=mesh,
        in_specs=(),
        out_specs=P(),
    )
    seen["what each device hears"] = [float(jax.jit(everywhere)().addressable_data(0)), took()]


CPP = """
#include "callout/kernel.h"
callout::Error twice(callout::In<float> x, callout::Out<float> y) {
  for (int64_t i = 0; i < x.size(); ++i) {
    if (x[i] < 0) return callout::Error("a negative number");
    y[i] = 2 * x[i];
  }
  return {};
}
CALLOUT_KERNEL(twice);
"""


def numba_twice():
    import numba

    @numba.njit
    def twice(x, out):
        for i in range(x.size):
            if x[i] < 0:
                raise ValueError("a negative number")
            out[i] = 2 * x[i]

    return callout.numba.numba_kernel(twice, like, vmap_method="sequential")


def like(value):
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


def differentiated(call):
    return call.options(jvp=lambda primals, tangents: (call(*primals), 2 * tangents[0]))


def native(mesh, x):
    """Runs C++ and Numba functions: counts the calls in each process, and records how a failure ends."""
    callout.config.cache_dir = str(FOLDER)
    compiled = callout.cpp.load_inline(CPP, {"twice": {"vmap_method": "sequential"}}, name="distributed")
    last = SingleDeviceSharding(jax.devices()[3])

    def by_shards(f):
        return jax.shard_map(f, mesh=mesh, in_specs=P("d"), out_specs=P("d"))

    for name, call in {"cpp": compiled.twice, "numba": numba_twice()}.items():

        def scan(v, call=call):
            return jax.lax.scan(lambda c, _: (call(c), None), v, None, length=2)[0]

        def cond(v, call=call):
            return jax.lax.cond(v[0] < 4, call, lambda c: c, v)

        def grad(v, call=call):
            return jax.grad(lambda c: (differentiated(call)(c) ** 2).sum())(v)

        for form, f in {
            "whole": call,
            "on the last": call.options(sharding=last),
            "scan": by_shards(scan),
            "cond": by_shards(cond),
            "grad": by_shards(grad),
        }.items():
            callout.stats.reset()
            results = shards(jax.jit(f)(x))
            counted = callout.stats()["callbacks"].values()
            seen[f"{name} {form}"] = [results, sum(each["calls"] for each in counted)]
        seen[f"{name} fails"] = [error_of(lambda f=call: shards(jax.jit(f)(-x))) for _ in range(2)]
        seen[f"{name} afterwards"] = shards(jax.jit(call)(x))


def foreign(mesh, x):
    library = ffi_calls.register(FOLDER / "libhandlers.so")
    for sharding in (None, "gather", "local"):
        out = jax.jit(lambda v, sharding=sharding: ffi_calls.affine(v, sharding=sharding))(x)
        seen[f"ffi {sharding}"] = shards(out)
    rows = spread((4, 2), mesh, P("d"))
    library.largest_rows_seen(-1)
    sums = ffi.ffi_call("test.row_sums", jax.ShapeDtypeStruct((4,), jnp.float32), sharding_rule="i j -> i")
    seen["ffi rule"] = [shards(jax.jit(sums)(rows)), library.largest_rows_seen(0)]
    seen["ffi in shard_map"] = [
        shards(jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("d"), out_specs=P("d")))(x))
        for f in (
            lambda v: jax.lax.scan(lambda c, _: (ffi_calls.affine(c), None), v, None, length=2)[0],
            lambda v: jax.lax.cond(v[0] < 4, ffi_calls.affine, lambda c: c, v),
        )
    ]
    jax.jit(lambda v: (ffi.ffi_call("test.note", (), has_side_effect=True)(v), v + 1)[1])(x).block_until_ready()
    jax.effects_barrier()
    seen["ffi side effect"] = library.noted()


def watches(mesh, x):
    bad = jnp.where(x == 5, jnp.nan, x)

    def watched(name):
        first = callout.stats()["watches"][name]["first"]
        if first is None:
            return None
        return [first[key] for key in ("kind", "index", "shard", "device", "step")]

    def everywhere(f):
        return jax.shard_map(f, mesh=mesh, in_specs=P("d"), out_specs=P("d"))

    for name, f in {
        "watch": lambda v: callout.watch(v, "watch", step=7),
        "watch in shard_map": everywhere(
            lambda v: jax.lax.fori_loop(0, 3, lambda i, c: callout.watch(c, "watch in shard_map", step=i) + 1, v)
        ),
        "watch in grad": jax.grad(lambda v: (callout.watch(v, "watch in grad") ** 2).sum()),
    }.items():
        jax.block_until_ready(jax.jit(f)(bad))
        jax.effects_barrier()
        seen[name] = [watched(name), callout.stats()["watches"][name]["elements"]]
    stop = jax.jit(lambda v: callout.watch(v, "watch that stops", stop=True))
    seen["watch that stops"] = [error_of(lambda: shards(stop(bad))) for _ in range(2)]
    checked = jax.jit(lambda v: callout.error_if(v, v < 0, "{value} at {index}"))
    seen["check"] = [error_of(lambda: shards(checked(jnp.where(x == 5, -x, x)))) for _ in range(2)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        located = callout.locate_nans(lambda v: jnp.log(v) * 2)
        jax.block_until_ready(jax.jit(everywhere(located))(jnp.where(x == 5, -x, x + 1)))
    seen["located NaN"] = [str(each.message) for each in caught]


def failures(x):
    for k in (0, 2, 0, 2):
        failing = callout.options(fail, device_index=k)
        pure = jax.jit(lambda v, failing=failing: callout.pure_callback(failing, LIKE, v))
        seen.setdefault(f"pure fails on {k}", []).append(error_of(lambda: shards(pure(x))))  # noqa: B023
    debug = jax.jit(lambda v: callout.debug_callback(fail, v))
    seen["debug fails"] = error_of(lambda: (debug(x), jax.effects_barrier()))
    jax.jit(lambda v: callout.tap(fail, v, device_index=1))(x).block_until_ready()
    seen["tap fails"] = error_of(callout.barrier_wait)
    seen["afterwards"] = [shards(jax.jit(lambda v: callout.pure_callback(double, LIKE, v))(x)), took()]
    failing_call = jax.jit(lambda v: hcb.call(fail, v, result_shape=LIKE))
    seen["hcb call fails"] = error_of(lambda: shards(failing_call(x)))
    seen["hcb barrier"] = error_of(hcb.barrier_wait)
    ordered = jax.jit(lambda v: callout.io_callback(fail, LIKE, v, ordered=True))
    seen["ordered fails"] = error_of(lambda: shards(ordered(x)))


def start() -> None:
    try:
        jax.distributed.initialize(f"localhost:{PORT}", num_processes=2, process_id=RANK, initialization_timeout=60)
    except Exception as error:  # noqa: BLE001
        (FOLDER / f"{RANK}.json").write_text(json.dumps({"not started": repr(error)}))
        sys.exit(3)


def main() -> None:
    if PORT != "0":
        start()
    mesh = Mesh(np.asarray(jax.devices()), "d")
    x = spread((8,), mesh, P("d"))
    seen["devices"] = [device.id for device in jax.local_devices()]
    if SCENARIO == "failures":
        failures(x)
    elif SCENARIO.startswith("modern "):
        distributed_modern.modern(SCENARIO.split()[1], FOLDER, seen, took, heard, spread, shards)
    elif SCENARIO == "native":
        native(mesh, x)
        foreign(mesh, x)
        watches(mesh, x)
    else:
        taps(mesh, x)
        distributed_files.a_file_each(FOLDER, seen, took, x)
        distributed_files.one_file(FOLDER, seen, took, x)
        calls(mesh, x)
        varying(mesh, x)
        order(x)
        host_callbacks(x)
        progress_bars(mesh, x)
    (FOLDER / f"{RANK}.json").write_text(json.dumps(seen))
    if PORT != "0":
        jax.distributed.shutdown()
    if SCENARIO != "works":
        os._exit(0)  # at exit, JAX 0.10 would raise the ordered program's error again


if __name__ == "__main__":
    main()
