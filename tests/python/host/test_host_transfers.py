# SPDX-License-Identifier: Apache-2.0
"""Tests send and receive ops of host callbacks that become calls."""

import callout
import callout.host
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from callout._export import artifacts
from jax import lax
from jax.extend import mlir as jax_mlir
from jax.extend.core import Primitive
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir

pytestmark = pytest.mark.cpu_only(platforms.HOST)

F32 = jax.ShapeDtypeStruct((), jnp.float32)


def handle(channel, kind):
    return (
        f"<{{channel_handle = #stablehlo.channel_handle<handle = {channel}, type = {kind}>, is_host_transfer = true}}>"
    )


def send(result, value, token, channel, kind=2, type_="tensor<f32>"):
    return (
        f'{result} = "stablehlo.send"({value}, {token}) {handle(channel, kind)} : '
        f"({type_}, !stablehlo.token) -> !stablehlo.token"
    )


def recv(result, token, channel, kind=3, type_="tensor<f32>"):
    return (
        f'{result}:2 = "stablehlo.recv"({token}) {handle(channel, kind)} : '
        f"(!stablehlo.token) -> ({type_}, !stablehlo.token)"
    )


def program(*lines, returns="%x"):
    return "\n".join(
        [
            "module @jit_f {",
            "func.func public @main(%x: tensor<f32>, %y: tensor<2x3xf32>) -> tensor<f32> {",
            "%0 = stablehlo.after_all : !stablehlo.token",
            *lines,
            f"return {returns} : tensor<f32>",
            "}",
            "}",
        ]
    )


ONE = program(
    send("%1", "%y", "%0", 2, type_="tensor<2x3xf32>"),
    send("%2", "%x", "%1", 1),
    recv("%3", "%2", 4),
    "%4 = stablehlo.negate %3#0 : tensor<f32>",
    recv("%5", "%3#1", 3),
    "%6 = stablehlo.add %4, %5#0 : tensor<f32>",
    returns="%6",
)


def text_of(artifact):
    with artifacts.opened(artifact) as module:
        return str(module)


def rewritten(text, **names):
    return text_of(callout.host.rewrite_host_transfers(text, **names))


def names_of(text, **names):
    with artifacts.opened(callout.host.rewrite_host_transfers(text, **names)) as module:
        return artifacts.names(module)


def test_a_callback_becomes_one_call():
    text = rewritten(ONE)
    assert "stablehlo.send" not in text
    assert "stablehlo.recv" not in text
    assert "stablehlo.custom_call @callout.v1.call(%arg0, %arg1, %0)" in text
    assert 'backend_config = {callback = "channels:1,2->3,4"}' in text
    assert "(tensor<f32>, tensor<2x3xf32>, !stablehlo.token) -> (tensor<f32>, tensor<f32>, !stablehlo.token)" in text
    # Channel 4 is received first and is the second result.
    assert "stablehlo.negate %1#1" in text


def test_the_call_keeps_its_place_in_the_chain():
    text = rewritten(
        program(send("%1", "%x", "%0", 1), recv("%2", "%1", 2), send("%3", "%2#0", "%2#1", 3), recv("%4", "%3", 4))
    )
    assert "(%arg0, %0)" in text
    assert "(%1#0, %1#1)" in text


@pytest.mark.parametrize("form", ["text", "generic", "locations", "bytecode", "artifact"])
def test_all_forms_of_a_program_are_taken(form):
    with mlir.make_ir_context() as context, ir.Location.unknown(context):
        module = ir.Module.parse(ONE)
        source = {
            "text": lambda: ONE.encode(),
            "generic": lambda: module.operation.get_asm(print_generic_op_form=True),
            "locations": lambda: module.operation.get_asm(enable_debug_info=True),
            "bytecode": lambda: mlir.module_to_bytecode(module),
            "artifact": lambda: jax_mlir.serialize_portable_artifact(module, "1.9.0", True),
        }[form]()
    artifact = callout.host.rewrite_host_transfers(source)
    assert text_of(artifact).count("channels:1,2->3,4") == 1
    if form == "artifact":
        assert artifacts.version_of(artifact) == "1.9.0"


def test_the_version_can_be_chosen():
    assert artifacts.version_of(callout.host.rewrite_host_transfers(ONE, stablehlo_version="1.8.0")) == "1.8.0"


def test_chains_may_lie_between_one_another():
    text = program(
        "%00 = stablehlo.after_all : !stablehlo.token",
        send("%1", "%x", "%0", 1),
        send("%2", "%x", "%00", 2),
        recv("%3", "%1", 3),
        recv("%4", "%2", 4),
    )
    assert names_of(text) == ("channels:1->3", "channels:2->4")


SENDS = program(send("%1", "%x", "%0", 1), send("%2", "%x", "%1", 2), send("%3", "%x", "%2", 3), recv("%4", "%3", 4))


def test_names_list_the_channels_of_a_callback():
    assert names_of(SENDS) == ("channels:1,2,3->4",)
    assert names_of(SENDS, names={"loss": ([1], [])}) == ("channels:2,3->4", "loss")
    assert names_of(SENDS, names={"a": ([2, 1], []), "b": ([3], [4])}) == ("a", "b")


@pytest.mark.parametrize(
    ("names", "error"),
    [
        ({"a": ([1], []), "b": ([1], [])}, "'a' and 'b' both have channel 1"),
        ({"a": ([1, 2, 3], [])}, "stablehlo.recv on channel 4 does not come after a send of its callback"),
        ({"a": ([9], [])}, "'a' has channel 9, which the program does not use"),
        ({"a": ([1, 2, 3], [4, 5])}, "'a': expected the channels 1,2,3->4,5, got 1,2,3->4 in the program"),
    ],
)
def test_names_that_do_not_fit_are_refused(names, error):
    with pytest.raises((ValueError, NotImplementedError), match=error):
        callout.host.rewrite_host_transfers(SENDS, names=names)


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ([send("%1", "%x", "%0", 1, kind=1)], r"stablehlo.send on channel 1 is between devices.*got channel type 1"),
        ([recv("%1", "%0", 1)], r"stablehlo.recv on channel 1 does not come after a send"),
        ([recv("%1", "%0", 1), send("%2", "%x", "%1#1", 2)], r"channel 1 does not come after a send"),
        ([send("%1", "%x", "%0", 1), recv("%2", "%0", 2)], r"stablehlo.recv on channel 2 does not come after a send"),
        (
            [
                send("%1", "%x", "%0", 1),
                recv("%2", "%1", 2),
                "%3 = stablehlo.after_all %1 : !stablehlo.token",
            ],
            r"the token of stablehlo.send on channel 1 is used more than once",
        ),
    ],
)
def test_other_patterns_are_refused_by_name(lines, error):
    text = program(*lines).replace(", is_host_transfer = true", "") if "type 1" in error else program(*lines)
    with pytest.raises(NotImplementedError, match=error):
        callout.host.rewrite_host_transfers(text)


def test_names_without_channels_are_refused():
    with pytest.raises(TypeError, match=r"names\['a'\] must be the channels of the operands and of the results"):
        callout.host.rewrite_host_transfers(SENDS, names={"a": 3})


def test_a_channel_of_two_ops_is_refused():
    with pytest.raises(ValueError, match="channel 1 is used by 2 ops"):
        callout.host.rewrite_host_transfers(program(send("%1", "%x", "%0", 1), send("%2", "%x", "%1", 1)))


@pytest.mark.parametrize("module", ["no program", b"ML\xefR\rStableHLO_v1.9.0\x00", b"ML\xefRnothing"])
def test_invalid_programs_are_rejected(module):
    with pytest.raises(ValueError, match="no StableHLO program"):
        callout.host.rewrite_host_transfers(module)


# A primitive like those of libraries that talk to hosts by channels: one op sends a scalar and receives one.
exchange = Primitive("callout_test_exchange")
exchange.def_abstract_eval(lambda x, *, channel: x)


def lower_exchange(ctx, x, *, channel):
    def options(number, kind):
        return {"channel_handle": stablehlo.ChannelHandle.get(number, kind), "is_host_transfer": ir.BoolAttr.get(True)}

    token = stablehlo.SendOp([x], stablehlo.create_token(), **options(channel, 2)).result
    received = stablehlo.RecvOp([x.type, mlir.token_type()], token, **options(channel + 1, 3))
    return [received.results[0]]


mlir.register_lowering(exchange, lower_exchange)


def loop(x):
    return lax.fori_loop(0, 5, lambda i, x: exchange.bind(x, channel=1) + i, x)


def test_an_exported_program_calls_the_registered_function():
    exported = callout.export(jax.jit(loop))(F32)
    assert callout.exported_names(exported) == ("channels:1->2",)
    seen = []
    callout.register("channels:1->2", lambda x: (seen.append(float(x)), np.float32(2 * x))[1])
    try:
        assert float(jax.export.deserialize(exported.serialize()).call(np.float32(1))) == 58
    finally:
        callout.unregister("channels:1->2")
    assert seen == [1, 2, 5, 12, 27]


def test_programs_for_other_platforms_keep_their_ops():
    assert "stablehlo.send" in callout.export(jax.jit(loop), platforms=("cuda",))(F32).mlir_module()


def test_a_program_for_cpu_and_another_platform_is_refused():
    with pytest.raises(NotImplementedError, match="export it once for cpu and once for the others"):
        callout.export(jax.jit(loop), platforms=("cpu", "cuda"))(F32)
