# SPDX-License-Identifier: Apache-2.0
"""Tests exported programs that JAX's own callbacks carry: each callback is in the file by its name, for any platform."""

import dataclasses
import pickle
import re

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
import settings
from callout import _jax_compat
from exporting import F32, NAMES, bind_everything, everything, export_for, loaded
from jax import lax
from jax.experimental import serialize_executable
from jax.extend import mlir as jax_mlir
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

pytestmark = pytest.mark.cpu_only("it runs programs for a CPU")

X = np.linspace(0, 1, 8, dtype=np.float32)
F32S = jax.ShapeDtypeStruct(X.shape, X.dtype)


@pytest.fixture(autouse=True)
def _always():
    with settings.fallback("always"):
        yield


def on_tpu(exported, *args):
    """Returns the text of a program for a TPU that calls an exported one."""
    return jax.jit(loaded(exported).call).trace(*args).lower(lowering_platforms=("tpu",)).as_text()


def channels(text):
    return [int(found) for found in re.findall(r"channel_handle<handle = (\d+)", text)]


@pytest.mark.parametrize("exported_for", [("tpu",), ("cpu", "tpu"), ("rocm", "tpu", "cuda")])
def test_a_program_for_a_tpu_sends_and_receives(bind, exported_for):
    exported = export_for(everything, F32, platforms=exported_for)
    assert callout.exported_names(exported) == NAMES
    assert exported.mlir_module().count("custom_call @callout.v1.") == len(NAMES)
    bind_everything(bind)
    text = on_tpu(exported, F32)
    assert "callout.v" not in text
    # An ordered tap and a debug callback wait for the host's answer.
    assert (text.count("stablehlo.send"), text.count("stablehlo.recv")) == (5, 4)
    assert sorted(channels(text)) == list(range(2, 2 + 9))


def test_the_backend_gets_the_functions_to_call(bind, monkeypatch):
    attached = []

    def attach(module, platform, function, operands, results, sent, received):
        attached.append((platform, function, operands, len(results), list(sent), list(received)))

    monkeypatch.setattr(_jax_compat, "attach_transfers", attach)
    bind("call", "tap")

    def program(x):
        y = callout.pure_callback("call", F32S, x)
        callout.tap("tap", y, every=2)
        return y

    text = on_tpu(export_for(program, F32S, platforms=["tpu"]), F32S)
    (call, tap) = attached
    assert sorted(channels(text)) == sorted([*call[4], *call[5], *tap[4], *tap[5]])
    assert (call[0], call[2:4]) == ("tpu", ([(np.dtype(np.float32), X.shape)], 1))
    (result,) = call[1](X)
    assert np.array_equal(result, X + 1)
    for _ in range(3):
        assert tap[1](X) == ()
    callout.barrier_wait(60)
    assert bind == [("call", X.tolist()), ("tap", X.tolist()), ("tap", X.tolist())]


def in_two_places(x):
    inner = jax.jit(lambda x: callout.pure_callback("call", F32, x))
    outer = jax.jit(lambda x: inner(x) + inner(x * 2))
    return outer(x) + outer(x + 1)


def in_composite(x):
    return lax.composite(lambda x: callout.pure_callback("call", F32, x), name="callout.test")(x)


@pytest.mark.parametrize(("f", "result", "arrived"), [(in_two_places, 13, [1, 2, 2, 4]), (in_composite, 2, [1])])
def test_calls_in_inner_functions(bind, f, result, arrived):
    bind("call")
    text = on_tpu(export_for(f, F32, platforms=["tpu"]), F32)
    assert (text.count("stablehlo.send"), text.count("stablehlo.recv")) == (1, 1)
    assert float(loaded(export_for(f, F32)).call(1.0)) == result
    assert sorted(value for _, value in bind) == arrived


def test_unreachable_calls_of_the_platform_are_not_carried(bind):
    def program(x):
        call = lambda x: callout.pure_callback("call", F32, x)  # noqa: E731
        return lax.platform_dependent(x, cpu=call, default=lambda x: x * 10)

    exported = export_for(program, F32, platforms=("cpu", "tpu"))
    bind("call")
    assert "custom_call" not in (text := on_tpu(exported, F32))
    assert channels(text) == []
    assert float(loaded(exported).call(1.0)) == 2
    assert bind == [("call", 1.0)]


def test_calls_without_a_jax_counterpart_are_rejected_at_export():
    def program(x):
        return callout.buffer_callback.buffer_callback("call", F32)(x)

    with pytest.raises(
        NotImplementedError, match=r"not supported on platform tpu.*a registered name, and taps, go by JAX"
    ):
        export_for(program, F32, platforms=["tpu"])
    with pytest.raises(NotImplementedError, match="not supported on platform METAL"):
        export_for(everything, F32, platforms=["METAL"])


@pytest.mark.parametrize("exported_for", [("tpu",), ("cpu", "tpu")])
def test_without_fallback_platforms_without_native_path_are_rejected(exported_for):
    callout.config.fallback = "off"
    with pytest.raises(NotImplementedError, match=r"callout: '.*': callbacks are not supported on platform tpu"):
        export_for(everything, F32, platforms=exported_for)


@pytest.mark.parametrize("platform", ["tpu", "METAL"])
def test_an_exported_program_is_rejected_on_platforms_without_callbacks(bind, platform):
    bind_everything(bind)
    # A new function, since JAX keeps the lowering of a function even if the setting changes.
    program = loaded(export_for(lambda x: everything(x), F32, platforms=("cpu", "tpu")))
    callout.config.fallback = "off"
    skipped = dataclasses.replace(program, disabled_safety_checks=(jax.export.DisabledSafetyCheck.platform(),))
    with pytest.raises(NotImplementedError, match=f"callbacks are not supported on platform {platform}"):
        jax.jit(skipped.call).trace(F32).lower(lowering_platforms=(platform,))


def test_a_compiled_program_is_not_serialised(bind):
    bind("call")
    program = loaded(export_for(lambda x: callout.pure_callback("call", F32, x), F32))
    compiled = jax.jit(program.call).lower(F32).compile()
    with pytest.raises(pickle.PicklingError, match=r"'call' goes by JAX's own callbacks.*belong to this process"):
        serialize_executable.serialize(compiled)


def test_a_token_follows_the_results(bind):
    """Sends and receives that became a call return a token last."""
    callout.register("two", lambda x: (x + 1, x * 2))
    try:
        exported = jax.export.export(jax.jit(lambda x: (x, x)))(F32)
        written = callout.host.rewrite_host_transfers(SEND_AND_RECEIVE, names={"two": ([1], [2, 3])})
        program = dataclasses.replace(exported, mlir_module_serialized=written)
        assert [float(one) for one in jax.jit(program.call)(3.0)] == [4, 6]
    finally:
        callout.unregister("two")


def test_a_name_that_is_not_bound_is_named():
    callout.register("another", lambda x: x)
    program = loaded(export_for(lambda x: callout.pure_callback("unheard.of", F32, x), F32))
    try:
        with callout.reraise(), pytest.raises(callout.UnboundNameError, match=r"unheard\.of"):
            jax.block_until_ready(program.call(1.0))
    finally:
        callout.unregister("another")


SEND_AND_RECEIVE = """
func.func public @main(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = stablehlo.create_token : !stablehlo.token
  %1 = "stablehlo.send"(%x, %0) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true}
    : (tensor<f32>, !stablehlo.token) -> !stablehlo.token
  %2:2 = "stablehlo.recv"(%1) {channel_handle = #stablehlo.channel_handle<handle = 2, type = 3>, is_host_transfer = true}
    : (!stablehlo.token) -> (tensor<f32>, !stablehlo.token)
  %3:2 = "stablehlo.recv"(%2#1) {channel_handle = #stablehlo.channel_handle<handle = 3, type = 3>, is_host_transfer = true}
    : (!stablehlo.token) -> (tensor<f32>, !stablehlo.token)
  return %2#0, %3#0 : tensor<f32>, tensor<f32>
}
"""


def spread(x):
    callout.tap("tap", x)
    callout.tap("local", x, sharding="local")
    return callout.pure_callback("call", F32S, x) * 2


def mesh():
    return jax.make_mesh((2,), ("d",), axis_types=(AxisType.Auto,), devices=platforms.devices(2))


@pytest.mark.parametrize("count", [1, 2])
def test_over_several_devices(bind, count):
    bind("tap", "local", "call")
    split = NamedSharding(mesh(), P("d"))
    one = jax.ShapeDtypeStruct(X.shape, X.dtype, sharding=split if count == 2 else None)
    program = loaded(export_for(spread, one))
    got = jax.jit(program.call, out_shardings=split)(jax.device_put(X, split))
    callout.barrier_wait(60)
    assert np.allclose(got, (X + 1) * 2)
    assert ("tap", X.tolist()) in bind
    assert ("call", X.tolist()) in bind
    halves = [value for name, value in bind if name == "local"]
    assert sorted(halves) == [X[:4].tolist(), X[4:].tolist()]


@pytest.mark.parametrize("index", ["2 : i64", "-1 : i64", '"all"'])
def test_the_device_that_calls_is_one_of_the_programs(bind, index):
    bind("tap")
    one = jax.ShapeDtypeStruct(X.shape, X.dtype, sharding=NamedSharding(mesh(), P("d")))
    exported = export_for(lambda x: callout.tap("tap", x, device_index=1), one)
    text = exported.mlir_module().replace("device_index = 1 : i64", f"device_index = {index}")
    hostile = dataclasses.replace(exported, mlir_module_serialized=jax_mlir.serialize_portable_artifact(text, "1.13.0"))
    got = re.escape(index.split(" ")[0].replace('"', "'"))
    with pytest.raises(
        callout.CallbackError, match=f"attribute 'device_index' must be one of .* 2 devices, got {got}\n"
    ):
        jax.jit(hostile.call).lower(jax.device_put(X, one.sharding))


def test_in_a_shard_map(bind):
    bind("tap", "call")

    def each(x):
        callout.tap("tap", x)
        return callout.pure_callback("call", jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    program = jax.shard_map(each, mesh=mesh(), in_specs=P("d"), out_specs=P("d"))
    one = jax.ShapeDtypeStruct(X.shape, X.dtype, sharding=NamedSharding(mesh(), P("d")))
    got = jax.jit(loaded(export_for(program, one)).call)(jax.device_put(X, one.sharding))
    callout.barrier_wait(60)
    assert np.array_equal(got, X + 1)
    assert sorted(value for name, value in bind if name == "tap") == [X[:4].tolist(), X[4:].tolist()]


@pytest.mark.parametrize(
    ("options", "arrived"),
    [
        ({}, [X[:4], X[4:]]),
        ({"every": 2}, [X[:4], X[4:]]),
        ({"only_device": 1}, [X[4:]]),
        ({"only_device": 0}, [X[:4]]),
    ],
)
def test_a_program_for_one_device_in_a_shard_map(bind, options, arrived):
    bind("tap")
    half = jax.ShapeDtypeStruct((4,), X.dtype)
    program = loaded(export_for(lambda x: (callout.tap("tap", x, **options), x * 2)[1], half))
    each = jax.shard_map(program.call, mesh=mesh(), in_specs=P("d"), out_specs=P("d"), check_vma=False)
    got = jax.jit(each)(jax.device_put(X, NamedSharding(mesh(), P("d"))))
    callout.barrier_wait(60)
    assert np.array_equal(got, X * 2)
    assert sorted(value for _, value in bind) == [half.tolist() for half in arrived]


def test_a_shard_map_that_leaves_an_axis_to_the_compiler(bind):
    bind("tap")
    axes = jax.make_mesh((2, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2, devices=platforms.devices(4))
    spread = NamedSharding(axes, P("a", "b"))

    def each(x):
        callout.tap("tap", x, sharding="local")
        return x * 2

    partly = jax.shard_map(each, mesh=axes, axis_names={"a"}, in_specs=P("a"), out_specs=P("a"), check_vma=False)
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    program = loaded(export_for(partly, jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=spread)))
    got = jax.jit(program.call)(jax.device_put(x, spread))
    callout.barrier_wait(60)
    assert np.array_equal(got, x * 2)
    parts = [x[i : i + 2, j : j + 2].tolist() for i in (0, 2) for j in (0, 2)]
    assert sorted(value for _, value in bind) == parts


def test_unreachable_calls_in_a_shard_map_are_not_carried(bind):
    bind("call")

    def each(x):
        call = lambda x: callout.pure_callback("call", jax.ShapeDtypeStruct(x.shape, x.dtype), x)  # noqa: E731
        return lax.platform_dependent(x, cpu=call, default=lambda x: x * 10)

    program = jax.shard_map(each, mesh=mesh(), in_specs=P("d"), out_specs=P("d"))
    one = jax.ShapeDtypeStruct(X.shape, X.dtype, sharding=NamedSharding(mesh(), P("d")))
    assert channels(on_tpu(export_for(program, one, platforms=("cpu", "tpu")), one)) == []


def test_a_failure_is_the_functions_own(bind):
    def refuse(x):
        raise LookupError("mine")

    bind("call", returns=refuse)
    program = loaded(export_for(lambda x: callout.pure_callback("call", F32, x), F32))
    with callout.reraise(), pytest.raises(LookupError, match="mine"):
        jax.block_until_ready(program.call(1.0))


def test_reexported_programs_have_custom_calls(bind):
    bind_everything(bind)
    program = loaded(export_for(everything, F32))
    again = export_for(lambda x: program.call(x) + 1, F32)
    assert callout.exported_names(again) == NAMES
    assert "python_cpu_callback" not in again.mlir_module()
    assert float(loaded(again).call(1.0)) == float(everything(jnp.float32(1))) + 1
    callout.barrier_wait(60)
