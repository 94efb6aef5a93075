# SPDX-License-Identifier: Apache-2.0
"""Emits the operation by which a program for a CPU or a GPU calls a Python function through JAX, like JAX's rules.

The operation is a custom call with the function's index among the program's host callbacks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo

from ... import _jax_compat
from ..._targets.operation_attributes import call_attributes, is_token, rank_of


@dataclasses.dataclass(frozen=True)
class Placement:
    """The placement of a call: the `device_index` among the partitioned program's devices; None for all devices."""

    device_index: int | None
    partitioned: bool = False  # call with each device's shard, if the platform can


def _sharding(kinds: Sequence[Any], placement: Placement) -> dict[str, Any]:
    """Returns the sharding attribute for an op's results."""
    index = placement.device_index
    if not _jax_compat.uses_shardy():
        text = "{manual}" if index is None else f"{{maximal device={index}}}"
        return {"mhlo.sharding": ir.StringAttr.get(text)}
    if index is None:
        ranks = [*map(rank_of, kinds)] or [0]
        each = [f"<mesh<[]>, [{', '.join(['{}'] * rank)}]>" for rank in ranks]
    else:
        each = [f"<mesh<[], device_ids=[{index}]>, []>"] * max(1, len(kinds))
    return {"sdy.sharding": ir.Attribute.parse(f"#sdy.sharding_per_value<[{', '.join(each)}]>")}


def custom_call(
    module: Any,
    platform: str,
    function: Callable[..., Sequence[Any]],
    operands: Sequence[Any],
    kinds: Sequence[Any],
    has_side_effect: bool,
    placement: Placement | None,
) -> Sequence[Any]:
    """Emits a custom call. `kinds`: the types of the results. The first operand and result is a token."""
    if kinds and is_token(kinds[0]):
        inner = function

        def function(token: Any, *arrays: Any) -> Sequence[Any]:
            return (token, *inner(*arrays))

    module.add_host_callback(function)
    partitioned = "_partitioned" if placement is not None and placement.partitioned else ""
    device = "cpu" if platform == "cpu" else "gpu"
    index = ir.IntegerAttr.get(ir.IntegerType.get_unsigned(64), len(module.host_callbacks) - 1)
    target = f"xla_ffi{partitioned}_python_{device}_callback"
    attributes = {
        **call_attributes(target, None, [operand.type for operand in operands], kinds, api_version=1),
        "has_side_effect": ir.BoolAttr.get(has_side_effect),
        "called_computations": ir.ArrayAttr.get([]),
    }
    call = stablehlo.CustomCallOp.build_generic(results=kinds, operands=operands, attributes=attributes)
    call.operation.attributes["mhlo.backend_config"] = ir.DictAttr.get({"index": index})
    annotate(call, kinds, placement)
    return list(call.results)


def annotate(op: Any, kinds: Sequence[Any], placement: Placement | None) -> None:
    """Annotates the op with its placement. `kinds`: the types of its results."""
    if placement is not None:
        for name, attribute in _sharding(kinds, placement).items():
            op.operation.attributes[name] = attribute
