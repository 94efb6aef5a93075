# SPDX-License-Identifier: Apache-2.0
"""Tests programs with several meshes: arguments over two, a resharding between, a shard_map over each, nested jits."""

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from callout import ffi
from callout.buffer_callback import buffer_callback
from callout.numba import numba_kernel
from jax.sharding import AxisType, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

numba = pytest.importorskip("numba")

pytestmark = [pytest.mark.devices(4), pytest.mark.usefixtures("handlers")]

X = np.arange(8, dtype=np.float32)
LIKE = jax.ShapeDtypeStruct((8,), jnp.float32)


def plus_one(value):
    return value + np.float32(1)


def like(value):
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


def fill(_, out, value):
    np.asarray(out)[...] = np.asarray(value) + np.float32(1)


def affine(v):
    return ffi.ffi_call("test.affine", like(v), sharding="gather")(v, a=np.float32(1), b=np.int64(1))


@numba.njit
def numba_plus_one(x, out):
    for i in range(x.size):
        out[i] = x[i] + np.float32(1)


class Nowhere:
    def write(self, _):
        pass

    def flush(self):
        pass


def with_bar(value):
    bar = callout.progress.progress(desc="meshes", tqdm_type="std", file=Nowhere())
    return jax.lax.scan(bar(lambda c, _: (c + 0.25, None)), value, None, length=4)[0]


@pytest.fixture(scope="module")
def native(cache):
    source = """
    #include "callout/kernel.h"
    void plus_one(callout::In<float> x, callout::Out<float> y) {
      for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] + 1;
    }
    CALLOUT_KERNEL(plus_one);
    """
    return callout.cpp.load_inline(source, {"plus_one": {"vmap_method": "parallel"}})


ENTRIES = {
    "pure": lambda v: callout.pure_callback(plus_one, like(v), v),
    "pure on another": lambda v: callout.pure_callback(callout.options(plus_one, device_index=2), like(v), v),
    "io": lambda v: callout.io_callback(plus_one, like(v), v),
    "ordered io": lambda v: callout.io_callback(plus_one, like(v), v, ordered=True),
    "debug": lambda v: callout.debug_callback(lambda _: None, v) or v + 1,
    "ordered debug": lambda v: callout.debug_callback(lambda _: None, v, ordered=True) or v + 1,
    "tap": lambda v: callout.tap(lambda _: None, v) + 1,
    "ordered tap": lambda v: callout.tap(lambda _: None, v, ordered=True) + 1,
    "watch": lambda v: callout.watch(v, "meshes") + 1,
    "buffer": lambda v: buffer_callback(fill, like(v))(v),
    "ffi": affine,
    "cpp": None,
    "numba": lambda v: numba_kernel(numba_plus_one, like(v))(v),
    "progress": with_bar,
    "check": lambda v: callout.check((v >= 0).all(), "{v}", v=v) or v + 1,
    "error_if": lambda v: callout.error_if(v, v < 0, "negative {value}") + 1,
    "call": lambda v: hcb.call(plus_one, v, result_shape=like(v)),
    "id_tap": lambda v: hcb.id_tap(lambda *_: None, v) + 1,
    "threaded": callout.threaded(lambda v: callout.io_callback(plus_one, like(v), v)),
}


@pytest.fixture(params=platforms.entries(ENTRIES))
def call(request, native):
    """Returns a function that adds one and uses the entry point."""
    return ENTRIES[request.param] or native.plus_one


@pytest.fixture(params=[AxisType.Auto, AxisType.Explicit], ids=str)
def meshes(request):
    devices = jax.devices()[:4]
    return (
        jax.make_mesh((4,), ("a",), devices=devices, axis_types=(request.param,)),
        jax.make_mesh((2, 2), ("x", "y"), devices=devices, axis_types=(request.param,) * 2),
    )


def spread(mesh, *axes):
    return jax.device_put(X, NamedSharding(mesh, P(*axes)))


def check(*results, plus):
    jax.effects_barrier()
    callout.barrier_wait(60)
    for result in results:
        np.testing.assert_array_equal(result, X + plus)


def test_arguments_over_two_meshes(meshes, call):
    one, other = meshes
    check(*jax.jit(lambda v, w: (call(v), call(w)))(spread(one, "a"), spread(other, "x")), plus=1)


def test_a_resharding_from_one_mesh_to_another(meshes, call):
    one, other = meshes
    is_explicit = one.axis_types == (AxisType.Explicit,)
    move = jax.sharding.reshard if is_explicit else jax.lax.with_sharding_constraint
    check(jax.jit(lambda v: call(move(call(v), NamedSharding(other, P("y")))))(spread(one, "a")), plus=2)


def test_a_jit_over_one_mesh_in_a_jit_over_another(meshes, call):
    one, other = meshes
    if one.axis_types == (AxisType.Explicit,):
        one, other = (jax.sharding.Mesh(mesh.devices, mesh.axis_names) for mesh in meshes)
    inner = jax.jit(call, in_shardings=NamedSharding(other, P("x")), out_shardings=NamedSharding(other, P("y")))
    check(jax.jit(lambda v: call(inner(v)))(spread(one, "a")), plus=2)


def test_shard_maps_over_two_meshes(call):
    devices = jax.devices()[:4]
    one, other = (
        jax.make_mesh((4,), ("a",), (AxisType.Auto,), devices=devices),
        jax.make_mesh((2, 2), ("x", "y"), (AxisType.Auto,) * 2, devices=devices),
    )

    def program(v):
        v = jax.shard_map(call, mesh=one, in_specs=P("a"), out_specs=P("a"))(v)
        return jax.shard_map(call, mesh=other, in_specs=P("x"), out_specs=P("x"))(v)

    check(jax.jit(program)(spread(one, "a")), plus=2)


def test_the_same_function_on_other_devices_of_the_same_process(call):
    devices = jax.devices()
    function = jax.jit(call)
    for chosen in (devices[:4], devices[3::-1], devices[4:]):
        if len(chosen) == 4:
            check(function(spread(jax.sharding.Mesh(np.array(chosen), ("a",)), "a")), plus=1)


@pytest.mark.parametrize("others", [slice(4, 8), slice(2, 6), slice(3, None, -1)], ids=["other", "some", "reversed"])
@pytest.mark.parametrize("form", ["jit", "shard_map", "constraint", "device_put"])
def test_one_program_has_one_list_of_devices_in_jax(form, others):
    """JAX rejects such programs with and without callbacks, as docs/devices.md says."""
    if len(jax.devices()) < 8:
        pytest.skip("needs 8 devices")
    elsewhere = NamedSharding(jax.sharding.Mesh(np.array(jax.devices()[others]), ("a",)), P("a"))

    def inner(f, v):
        return {
            "jit": lambda: jax.jit(f, in_shardings=elsewhere)(v),
            "shard_map": lambda: jax.shard_map(f, mesh=elsewhere.mesh, in_specs=P("a"), out_specs=P("a"))(v),
            "constraint": lambda: f(jax.lax.with_sharding_constraint(v, elsewhere)),
            "device_put": lambda: f(jax.device_put(v, elsewhere)),
        }[form]()

    x = spread(jax.sharding.Mesh(np.array(jax.devices()[:4]), ("a",)), "a")
    for f in (plus_one, ENTRIES["pure"], ENTRIES["tap"], ENTRIES["ordered io"]):
        with pytest.raises(ValueError, match="Received incompatible devices for jitted computation"):
            jax.jit(lambda v, f=f: inner(f, v + 1))(x)


def test_devices_can_be_named_in_programs_of_one_mesh():
    """`sharding=` cannot be resolved in a program of several meshes, as with JAX; `device_index=` can."""
    third = SingleDeviceSharding(jax.devices()[2])

    def call(v):
        return callout.io_callback(plus_one, LIKE, v, sharding=third)

    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]), ("a",))
    other = jax.sharding.Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("x", "y"))
    with pytest.raises(ValueError, match="mesh should be the same across the entire program"):
        jax.jit(lambda v, w: (call(v), w))(spread(mesh, "a"), spread(other, "x"))


@pytest.mark.native_only(platforms.TEXT)
def test_a_named_device_calls_without_operands_and_results():
    third = SingleDeviceSharding(jax.devices()[2])
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]), ("a",))

    def program(v):
        callout.io_callback(lambda: None, None, sharding=third)
        return v + 1

    assert "device_index = 2 : i64" in jax.jit(program).lower(spread(mesh, "a")).as_text()
    check(jax.jit(program)(spread(mesh, "a")), plus=1)
