# SPDX-License-Identifier: Apache-2.0
"""Programs that one version of Callout exported into tests/python/golden, and that all later versions must load.

Each case traces a program of one kind of callback, option or sink. golden_runs.py exports and runs them.
"""

import dataclasses
import functools
import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import callout
import callout.host_callback as hcb
import ffi_calls
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from callout.buffer_callback import buffer_callback
from callout.progress import PBar, loop_tqdm, progress, scan_tqdm
from jax import lax
from jax.sharding import PartitionSpec as P

DEVICES = 4

F32 = jax.ShapeDtypeStruct((), jnp.float32)
V3 = jax.ShapeDtypeStruct((3,), jnp.float32)
X = np.float32(1.5)
XS = np.arange(3, dtype=np.float32)
GRID = np.arange(12, dtype=np.float32).reshape(4, 3)


@dataclasses.dataclass(frozen=True)
class Case:
    """A program with its arguments."""

    program: Callable[..., Any]
    arguments: tuple[Any, ...]
    platforms: tuple[str, ...] | None = None
    sharded: tuple[P, ...] | None = None  # over DEVICES devices
    x64: bool = False
    shape: str | None = None  # symbolic, of all arguments
    has_vjp: bool = False  # the file has derivatives, too
    fails: bool = False
    shapes: tuple[dict[str, int], ...] = ()  # values for `shape`; one file has programs for all


CASES: dict[str, Case] = {}


def case(name: str, program: Callable[..., Any], *arguments: Any, **more: Any) -> None:
    """Adds a case."""
    CASES[name] = Case(program, arguments, **more)


def like(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def pure(x: Any, **more: Any) -> Any:
    return callout.pure_callback("add_one", like(x), x, **more)


def io(x: Any, **more: Any) -> Any:
    return callout.io_callback("ordered.add_one" if more.get("ordered") else "io.add_one", like(x), x, **more)


def looped(body: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """Returns ten steps of `body`."""
    return lambda x: lax.fori_loop(0, 10, lambda i, x: body(i, x), x)


def tapped(**options: Any) -> Callable[[Any], Any]:
    """Returns a tap in a loop, with options."""
    return looped(lambda i, x: callout.tap("tap", x + i.astype(x.dtype), **options))


# Calls.
case("pure", pure, X)
case("pure_vector", pure, XS)
case("pure_two_operands", lambda x, y: callout.pure_callback("sum", like(x), x, y), XS, XS)
case("pure_in_loop", looped(lambda _, x: pure(x)), X)
case("pure_in_cond", lambda x: lax.cond(x > 1, pure, lambda x: x, x), X)
case(
    "several_results", lambda x: callout.pure_callback("three", (V3, jax.ShapeDtypeStruct((3,), jnp.int32), F32), x), XS
)
for method in ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized"):
    case(f"vmap_{method}", jax.vmap(functools.partial(pure, vmap_method=method)), XS)
case(
    "vmap_with_unbatched",
    jax.vmap(lambda x, y: callout.pure_callback("sum", F32, x, y, vmap_method="expand_dims"), (0, None)),
    XS,
    X,
)
case("io", io, X)
case("io_ordered", functools.partial(io, ordered=True), X)
case("io_vmap", jax.vmap(io), XS)
case("debug", lambda x: (callout.debug_callback("none", x), x)[1], X)
case("debug_ordered", lambda x: (callout.debug_callback("ordered.none", x, ordered=True), x)[1], X)
case("buffer_aliases", lambda x: buffer_callback("native", like(x), input_output_aliases={0: 0})(x), XS)
case("buffer_side_effect", lambda x: buffer_callback("native", like(x), has_side_effect=True)(x), XS)
case("buffer_capturable", lambda x: buffer_callback("native", like(x), command_buffer_compatible=True)(x), XS)
case("native_call", lambda x: callout.pure_callback("native", like(x), x), XS)
case("derivatives", jax.grad(lambda x: jnp.sin(callout.tap("tap", x * x))), X)

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "bfloat16", "int4", "uint4"),
    *("float8_e4m3fn", "float8_e5m2"),
)


def both(x: Any) -> Any:
    return callout.tap("tap", callout.pure_callback("same", like(x), x))


for dtype in DTYPES:
    values = np.array([0, 1, 1], np.dtype(getattr(ml_dtypes, dtype, dtype)))
    case(f"dtype_{dtype}", both, values, x64=True)
case("empty", both, np.zeros((0, 3), np.float32))

case("derivatives_in_file", lambda x: jnp.sin(callout.tap("ordered.tap", x, ordered=True)), X, has_vjp=True)
case("symbolic", both, XS, shape="n")

# Taps.
for option, told in {
    "plain": {},
    "ordered": {"ordered": True},
    "block": {"on_full": "block"},
    "drop_newest": {"on_full": "drop_newest"},
    "fail": {"on_full": "fail"},
    "every": {"every": 3},
    "min_interval": {"min_interval": 1e6},
    "sample": {"sample": 1e-9},
    "named": {"name": "a name, with signs: ä%\"'"},
    "only_device": {"only_device": 0},
    "only_device_not_this": {"only_device": 7},
    "only_process": {"only_process": 0},
    "only_process_not_this": {"only_process": 1},
}.items():
    case(f"tap_{option}", tapped(**told), X)
case("tap_step", looped(lambda i, x: callout.tap("tap", x + 1, step=i)), X)
case("tap_step_every", looped(lambda i, x: callout.tap("tap", x + 1, step=i, every=4)), X)
case("tap_step_vmap", jax.vmap(lambda x, i: callout.tap("tap", x, step=i)), XS, np.arange(3, dtype=np.int32))
TREE = {"b": {"c d": XS, 'e"\n%': GRID}, "a": [X, np.int32(3)], "": (np.float32(4),)}
case("tap_tree", lambda tree: callout.tap("tap", tree), TREE)
case("tap_result", lambda x: callout.tap("tap", x + 1, result=x), X)
case(
    "tap_ordered_name",
    lambda x: callout.tap("ordered.tap", callout.tap("ordered.tap", x, ordered=True) + 1, ordered=True),
    X,
)
case("tap_vmap", jax.vmap(lambda x: callout.tap("tap", x)), XS)
case("tap_key", lambda x: (callout.tap("tap", jax.random.key(7)), x)[1], X)
case(
    "threaded",
    callout.threaded(lambda x: callout.tap("tap", io(callout.tap("tap", pure(x)), ordered=True), ordered=True)),
    X,
)
case(
    "threaded_loop",
    callout.threaded(looped(lambda i, x: callout.tap("ordered.tap", io(x, ordered=True), step=i, ordered=True))),
    X,
)

# The name of a sink, which is bound later; its taps have a name, leaves and steps.
SINK = "sink"
case("sink", looped(lambda i, x: callout.tap(SINK, {"x": x + i, "half": x / 2}, step=i)["x"]), X)
case("sink_vector", looped(lambda _, x: callout.tap(SINK, x + 1, name="vector")), XS)


def _arrays_step(i: Any, x: Any) -> Any:
    value = {"x": x, "above": x > 5, "half": x.astype(jnp.bfloat16), "n": i}
    return callout.tap(SINK, value, name="run/chain", step=2 * i)["x"] + 1


case("sink_arrays", looped(_arrays_step), XS)

# Watches.
for stop in (False, True):
    action = "stop" if stop else "report"
    case(f"watch_{action}", lambda x, stop=stop: callout.watch(x, f"golden.{stop}", stop=stop) * 2, XS)
case("watch_nan", lambda x: callout.watch(x, "golden.2", inf=False), np.array([1, np.inf, np.nan], np.float32))
case("watch_inf", lambda x: callout.watch(x, "golden.3", nan=False), np.array([1, np.inf, np.nan], np.float32))
case("watch_tree", lambda x: callout.watch({"x": x, "y": [x + 1]}, "golden.4", every=2, step=4)["x"], XS)
case("watch_gradient", jax.grad(lambda x: callout.watch(x * x, "golden.5", gradient=True)), X)


# Progress bars.
def scanned(bar: Any, unroll: int = 1) -> Callable[[Any], Any]:
    return lambda x: lax.scan(bar(lambda c, x: (c + x, c)), x, jnp.arange(10.0, dtype=jnp.float32), unroll=unroll)[0]


def drawn(*arguments: Any, **more: Any) -> Any:
    return progress(*arguments, **{"tqdm_type": "std", "mininterval": 0, **more})


BAR_FORMAT = "{desc}: {percentage:3.0f}%|{bar:10}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
for option, bar in {
    "plain": drawn(),
    "desc": drawn(desc="with ä 100% {braces}"),
    "total": drawn(10, "ten"),
    "print_rate": drawn(print_rate=3),
    "field": drawn(loss=lambda out: out[0]),
    "fields": drawn(loss=lambda out: out[0], sum=lambda out: out[1]),
    "format": drawn(bar_format=BAR_FORMAT),
    "short_format": drawn(bar_format="{l_bar}{bar}{r_bar}"),
    "look": drawn(ncols=60, unit="step", unit_scale=True, ascii=" #", colour="green", leave=False, dynamic_ncols=False),
    "look2": drawn(
        unit_divisor=1024, unit_scale=2.5, position=1, smoothing=0.5, initial=5, maxinterval=20.0, disable=False
    ),
    "look3": drawn(ascii=True, nrows=20, delay=0, miniters=2, write_bytes=False, postfix={"a": 1.5}),
    "colour": drawn(colour="#00ff00", leave=None),
    "disabled": drawn(disable=True),
    "interval": drawn(mininterval=0.25),
    "auto": progress(tqdm_type="auto"),
    "sum": drawn(devices="sum"),
    "every_process": drawn(only_process=None),
}.items():
    case(f"progress_{option}", scanned(bar), np.float32(0))
case("progress_unroll", scanned(drawn(), unroll=3), np.float32(0))
case("progress_fori", lambda x: lax.fori_loop(0, 10, drawn(10)(lambda i, c: c + i), x), np.float32(0))
case("progress_while", lambda x: lax.while_loop(lambda c: c < 10, drawn(10)(lambda c: c + 1), x), np.float32(0))
case("progress_map", lambda x: lax.map(drawn()(jnp.sin), x), XS)
case("progress_map_batches", lambda x: lax.map(drawn(10)(jnp.sin), x, batch_size=4), np.arange(10, dtype=np.float32))
case("progress_single", drawn(10)(lambda c: c + 1), np.float32(0))
case(
    "progress_scan_tqdm",
    lambda x: lax.scan(scan_tqdm(10, tqdm_type="std")(lambda c, i: (c + i, None)), x, jnp.arange(10))[0],
    np.int32(0),
)
case(
    "progress_loop_tqdm",
    lambda x: lax.fori_loop(0, 10, loop_tqdm(10, tqdm_type="std")(lambda i, c: c + i), x),
    np.int32(0),
)


def bars_of_vmap(x: Any) -> Any:
    body = scan_tqdm(10, tqdm_type="std")(lambda c, i: (c + i, None))
    return jax.vmap(lambda x, i: lax.scan(body, PBar(i, x), jnp.arange(10))[0].carry)(x, jnp.arange(3))


case("progress_pbar", bars_of_vmap, np.zeros(3, np.int32))

# Prints of host_callback.
case("id_print", lambda x: hcb.id_print(x, what="x"), X)
case("id_print_tree", lambda tree: hcb.id_print(tree, what="tree %,;\"'\\\n ä☃"), TREE)
case("id_print_threshold", lambda x: hcb.id_print(x, threshold=5), GRID)
case("id_print_device", lambda x: hcb.id_print(x, a="before", z="behind", tap_with_device=True), X)
case("id_print_vmap", jax.vmap(lambda x: hcb.id_print(x)), XS)
case("id_print_grad", jax.grad(lambda x: hcb.id_print(x * x, of="primal")), X)
case("id_print_loop", looped(lambda i, x: hcb.id_print((i, x + 1))[1]), X)
case("id_print_nothing", lambda x: (hcb.id_print((), what="nothing"), x)[1], X)

# Foreign functions, with attributes of each kind.
case("ffi", lambda x: ffi_calls.affine(x, 3.0, 2), XS)
case(
    "ffi_attributes",
    lambda x: ffi_calls.moments(
        x, mode="mean", weights=np.array([1, 2, 3], np.int32), options={"scale": np.float32(2)}
    ),
    XS,
)

# Code that programs embed.
CPP = """
#include "callout/kernel.h"
void scale(callout::In<float, 0> x, callout::Attr<"by", float> by, callout::Out<float, 0> y) { y = by * x; }
CALLOUT_KERNEL(scale);
"""


@functools.cache
def carried() -> Any:
    """Builds the library that programs embed. They contain the digest of its one file."""
    return callout.cpp.load_inline(CPP, flags=["-Os", "-s"], name="golden", embed=True)


case("cpp_embedded", lambda x: carried().scale.options(out=F32)(x, by=2.0), X)
case("cpp_embedded_lanes", jax.vmap(lambda x: carried().scale.options(out=F32, vmap_method="parallel")(x, by=2.0)), XS)


# Values that are sent to the host and received from it. No tracing makes these ops, so the program is text.
_SENT = "is_host_transfer = true}> :"
_HANDLE = "<{channel_handle = #stablehlo.channel_handle<handle ="
TRANSFERS = f"""
module @jit_f {{
func.func public @main(%x: tensor<f32>, %y: tensor<2x3xf32>) -> tensor<f32> {{
%0 = stablehlo.after_all : !stablehlo.token
%1 = "stablehlo.send"(%x, %0) {_HANDLE} 1, type = 2>, {_SENT} (tensor<f32>, !stablehlo.token) -> !stablehlo.token
%2 = "stablehlo.send"(%y, %1) {_HANDLE} 2, type = 2>, {_SENT} (tensor<2x3xf32>, !stablehlo.token) -> !stablehlo.token
%3:2 = "stablehlo.recv"(%2) {_HANDLE} 3, type = 3>, {_SENT} (!stablehlo.token) -> (tensor<f32>, !stablehlo.token)
return %3#0 : tensor<f32>
}}
}}
"""

# Over several devices.
SHARDED = (P("d"),)


def mesh() -> Any:
    return jax.make_mesh((DEVICES,), ("d",), devices=jax.devices()[:DEVICES])


def mapped(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Applies `f` to each device's shard."""
    return lambda x: jax.shard_map(f, mesh=mesh(), in_specs=P("d"), out_specs=P("d"), check_vma=False)(x)


def local(x: Any) -> Any:
    return buffer_callback("native", like(x), sharding="local")(x)


def on_one() -> Any:
    return jax.sharding.SingleDeviceSharding(jax.devices()[1])


EIGHT = np.arange(8, dtype=np.float32)
case("devices_gather", lambda x: callout.tap("tap", pure(x)) * 2, EIGHT, sharded=SHARDED)
case("devices_local", lambda x: callout.tap("tap", local(x), sharding="local") * 2, EIGHT, sharded=SHARDED)
case("devices_call_on_one", lambda x: pure(x, sharding=on_one()) * 2, EIGHT, sharded=SHARDED)
case("devices_device_index", lambda x: callout.tap("tap", x, device_index=2) * 2, EIGHT, sharded=SHARDED)
case(
    "devices_ordered",
    lambda x: callout.tap("ordered.tap", io(x, ordered=True), ordered=True) * 2,
    EIGHT,
    sharded=SHARDED,
)
case("devices_shard_map", mapped(lambda x: callout.tap("tap", pure(x))), EIGHT, sharded=SHARDED)
case("devices_watch", lambda x: callout.watch(x, "golden.6") * 2, EIGHT, sharded=SHARDED)
case("devices_print", mapped(lambda x: hcb.id_print(x)), EIGHT, sharded=SHARDED)
case("devices_progress", mapped(scanned(drawn(devices="each", ncols=80))), EIGHT, sharded=SHARDED)
case("devices_fail", lambda x: callout.tap("tap", x, on_full="fail") * 2, EIGHT, sharded=SHARDED)

# Programs for cuda. Those for both platforms are also run on a CPU.
BOTH = ("cpu", "cuda")
case("platforms_call", lambda x: io(pure(x), ordered=True), X, platforms=BOTH)
case("platforms_tap", tapped(every=2, name="both"), X, platforms=BOTH)
case("platforms_watch", lambda x: callout.watch(x, "golden.7"), XS, platforms=BOTH)
case("platforms_print", lambda x: hcb.id_print(x), X, platforms=BOTH)
case("platforms_bar", scanned(drawn()), np.float32(0), platforms=BOTH)
case(
    "cuda_buffer",
    lambda x: buffer_callback("native", like(x), command_buffer_compatible=True)(x),
    XS,
    platforms=("cuda",),
)
CUDA_SOURCE = """extern "C" __global__ void scale(const float* x, float* y, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = factor * x[i];
}
"""


@functools.cache
def kernel(**more: Any) -> Any:
    """Compiles a kernel in PTX."""
    each = {"launch_dims": lambda x, *_: x.size, "constants": {"n": lambda x, *_: x.size}}
    module = callout.cuda.load_inline(CUDA_SOURCE, {"scale": {**each, **more}}, name="golden", arch="sm_90")
    return module.scale


case("cuda_image", lambda x: kernel()(x, factor=2), XS, platforms=("cuda",))
# The kernel reads through the map's first word, which works only on the double of the driver.
CUDA_MAP_SOURCE = """struct alignas(64) CUtensorMap { unsigned long long opaque[16]; };
extern "C" __global__ void through_map(float* y, const __grid_constant__ CUtensorMap map) {
  y[threadIdx.x] = reinterpret_cast<const float*>(map.opaque[0])[threadIdx.x];
}
"""


@functools.cache
def mapped_kernel() -> Any:
    """Compiles a kernel with all settings of a launch."""
    settings = {
        "tensor_maps": {"map": {"argument": 0, "box": 4, "l2_promotion": 128}},
        "out": lambda x: like(x),
        "grid": 2,
        "block": 8,
        "cluster": 2,
        "dependent_launch": True,
        "priority": -1,
    }
    return callout.cuda.load_inline(CUDA_MAP_SOURCE, {"through_map": settings}, name="golden", arch="sm_90").through_map


case("cuda_image_launch", lambda x: mapped_kernel()(x), EIGHT, platforms=("cuda",))
case("cuda_image_lanes", jax.vmap(lambda x: kernel(vmap_method="parallel")(x, factor=2)), GRID, platforms=("cuda",))
