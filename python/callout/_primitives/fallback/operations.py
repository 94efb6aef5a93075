# SPDX-License-Identifier: Apache-2.0
"""The operations by which a program calls a Python function through JAX, as JAX's own lowering rules write them.

On a CPU and on GPUs that is a custom call with the function's place among the program's host callbacks. On a TPU the
operands are sent to the host and the results received, each op with the token of the one before. JAX's rules need the
platform's backend for that, and one platform. These do not: where there is no backend, the function is not attached, and
the program can be looked at but not run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir

from ... import _jax_compat

_DEVICE_TO_HOST, _HOST_TO_DEVICE = 2, 3
_DUMMY = (np.dtype(np.float32), ())  # sent or received where there is nothing else


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where a call runs: on `device_index` of those that the compiler spreads the program over; on all if None."""

    device_index: int | None
    partitioned: bool = False  # with the shard of each, where the platform can


def _is_token(kind: Any) -> bool:
    return bool(kind == mlir.token_type())


def _tensor(kind: Any) -> Any:
    return ir.RankedTensorType(kind)


def _sharding(kinds: Sequence[Any], placement: Placement) -> dict[str, Any]:
    """The attribute with the shardings of an op's results."""
    index = placement.device_index
    if not _jax_compat.uses_shardy():
        text = "{manual}" if index is None else f"{{maximal device={index}}}"
        return {"mhlo.sharding": ir.StringAttr.get(text)}
    if index is None:
        ranks = [0 if _is_token(kind) else _tensor(kind).rank for kind in kinds] or [0]
        each = [f"<mesh<[]>, [{', '.join(['{}'] * rank)}]>" for rank in ranks]
    else:
        each = [f"<mesh<[], device_ids=[{index}]>, []>"] * max(1, len(kinds))
    return {"sdy.sharding": ir.Attribute.parse(f"#sdy.sharding_per_value<[{', '.join(each)}]>")}


def _layouts(kinds: Sequence[Any]) -> Any:
    """Row-major, as NumPy has it."""
    ranks = [0 if _is_token(kind) else _tensor(kind).rank for kind in kinds]
    index = ir.IndexType.get()
    orders: list[Any] = [np.arange(rank, dtype=np.int64)[::-1].copy() for rank in ranks]
    return ir.ArrayAttr.get([ir.DenseIntElementsAttr.get(order, type=index) for order in orders])


def custom_call(
    module: Any,
    platform: str,
    function: Callable[..., Sequence[Any]],
    operands: Sequence[Any],
    kinds: Sequence[Any],
    has_side_effect: bool,
    placement: Placement | None,
) -> Sequence[Any]:
    """On a CPU or a GPU. `kinds`: the types of the results; a token is the first of operands and results."""
    if kinds and _is_token(kinds[0]):
        inner = function

        def function(token: Any, *arrays: Any) -> Sequence[Any]:
            return (token, *inner(*arrays))

    module.add_host_callback(function)
    partitioned = "_partitioned" if placement is not None and placement.partitioned else ""
    device = "cpu" if platform == "cpu" else "gpu"
    index = ir.IntegerAttr.get(ir.IntegerType.get_unsigned(64), len(module.host_callbacks) - 1)
    attributes = {
        "call_target_name": ir.StringAttr.get(f"xla_ffi{partitioned}_python_{device}_callback"),
        "has_side_effect": ir.BoolAttr.get(has_side_effect),
        "backend_config": ir.StringAttr.get(""),
        "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1),
        "called_computations": ir.ArrayAttr.get([]),
        "operand_layouts": _layouts([operand.type for operand in operands]),
        "result_layouts": _layouts(kinds),
    }
    call = stablehlo.CustomCallOp.build_generic(results=kinds, operands=operands, attributes=attributes)
    call.operation.attributes["mhlo.backend_config"] = ir.DictAttr.get({"index": index})
    if placement is not None:
        _set(call, _sharding(kinds, placement))
    return list(call.results)


def _set(op: Any, attributes: dict[str, Any]) -> None:
    for name, attribute in attributes.items():
        op.operation.attributes[name] = attribute


class _Transfers:
    """Sends and receives of one callback, one after the other."""

    def __init__(self, module: Any, token: Any, placement: Placement | None):
        self._module = module
        self._placement = placement
        self.token = stablehlo.create_token() if token is None else token
        self.sent: list[int] = []
        self.received: list[int] = []

    def send(self, value: Any) -> None:
        """Sends a value to the host."""
        channel = self._module.new_channel()
        handle = stablehlo.ChannelHandle.get(channel, _DEVICE_TO_HOST)
        op = stablehlo.SendOp([value], self.token, handle, is_host_transfer=ir.BoolAttr.get(True))
        self.token = self._finish(op, channel, [mlir.token_type()])[0]
        self.sent.append(channel)

    def receive(self, kind: Any) -> Any:
        """A value of this type from the host."""
        channel = self._module.new_channel()
        handle = stablehlo.ChannelHandle.get(channel, _HOST_TO_DEVICE)
        kinds = [kind, mlir.token_type()]
        op = stablehlo.RecvOp(kinds, self.token, handle, is_host_transfer=ir.BoolAttr.get(True))
        value, self.token = self._finish(op, channel, kinds)
        self.received.append(channel)
        return value

    def _finish(self, op: Any, channel: int, kinds: Sequence[Any]) -> list[Any]:
        op.operation.attributes["mhlo.frontend_attributes"] = ir.DictAttr.get(
            {
                "_xla_host_transfer_handler_name": ir.StringAttr.get("pjrt_rendezvous"),
                "_xla_host_transfer_rendezvous": ir.StringAttr.get(str(channel)),
            }
        )
        if self._placement is not None:
            _set(op, _sharding(kinds, self._placement))
        return list(op.operation.results)


Specs = Sequence[tuple[Any, Sequence[int]]]


def host_transfers(
    module: Any,
    platform: str,
    function: Callable[..., Sequence[Any]],
    operands: Sequence[Any],
    kinds: Sequence[Any],
    specs: tuple[Specs, Specs],
    has_side_effect: bool,
    placement: Placement | None,
) -> Sequence[Any]:
    """On a TPU. `specs`: dtype and shape of each operand and each result, without the token, which is first of both."""
    ordered = bool(kinds) and _is_token(kinds[0])
    token, operands, kinds = (operands[0], operands[1:], kinds[1:]) if ordered else (None, operands, kinds)
    sent, received = list(specs[0]), [spec for spec in specs[1] if 0 not in spec[1]]
    awaits = (ordered or has_side_effect) and not received  # nothing else tells a barrier that the callback is done
    transfers = _Transfers(module, token, placement)
    for operand in operands or [mlir.ir_constant(np.zeros(_DUMMY[1], _DUMMY[0]))]:
        transfers.send(operand)
    results = [
        mlir.ir_constant(np.zeros(shape, dtype)) if 0 in shape else transfers.receive(kind)
        for kind, (dtype, shape) in zip(kinds, specs[1], strict=True)
    ]
    if awaits:
        transfers.receive(ir.RankedTensorType.get((), ir.F32Type.get()))
    has_operands = bool(sent)

    def run(*arrays: Any) -> Sequence[Any]:
        outs = function(*arrays) if has_operands else function()
        kept = tuple(out for out, (_, shape) in zip(outs, specs[1], strict=True) if 0 not in shape)
        return (np.zeros((), np.float32),) if awaits else kept

    _jax_compat.attach_transfers(
        *(module, platform, run),
        *(sent or [_DUMMY], [_DUMMY] if awaits else received),
        *(transfers.sent, transfers.received),
    )
    return [transfers.token, *results] if ordered else results
