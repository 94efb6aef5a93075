# SPDX-License-Identifier: Apache-2.0
"""Builders of operations in the functions for XLA's partitioner (see partitioned_calls.py).

All builders need a context and an insertion point, which `module_text` sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import func, stablehlo
from jax.interpreters import mlir

from ..operation_attributes import alias, call_attributes, is_token


@contextmanager
def writing() -> Iterator[None]:
    """Sets the context in which types, attributes and operations can be built."""
    with mlir.make_ir_context(), ir.Location.unknown():
        yield


def dictionary(text: bytes) -> Any:
    """Parses XLA's text of a call's attributes."""
    return ir.DictAttr(ir.Attribute.parse(text.decode()))


def module_text(kinds: Sequence[Any], write: Callable[[Sequence[Any]], Sequence[Any]]) -> bytes:
    """Returns the module whose `main` takes values of these types and returns the results of `write`."""
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        main: Any = func.FuncOp("main", ir.FunctionType.get(list(kinds), []))
    with ir.InsertionPoint(main.add_entry_block()):
        results = list(write(list(main.arguments)))
        func.ReturnOp(results)
    main.attributes["function_type"] = ir.TypeAttr.get(
        ir.FunctionType.get(list(kinds), [value.type for value in results])
    )
    return str(module).encode()


def type_of(shape: Any) -> Any:
    """Returns the type of the value that an XLA shape describes."""
    if not shape.is_array():
        return mlir.token_type()
    return array_type(shape.dimensions(), mlir.dtype_to_ir_type(np.dtype(shape.numpy_dtype())))


def array_type(dims: Sequence[int], element: str | Any) -> Any:
    """Returns the type of an array. `element`: an MLIR type, or its text."""
    return ir.RankedTensorType.get(list(dims), ir.Type.parse(element) if isinstance(element, str) else element)


def dims_of(kind: Any) -> list[int]:
    """Returns the extents of an array's type."""
    return list(ir.RankedTensorType(kind).shape)


def element_of(kind: Any) -> str:
    """Returns MLIR's name of an array's dtype; "" for a token."""
    return "" if is_token(kind) else str(ir.RankedTensorType(kind).element_type)


def full(kind: Any, text: str) -> Any:
    """Emits an array filled with a constant, or an array of nested lists."""
    return stablehlo.ConstantOp(ir.Attribute.parse(f"dense<{text}> : {kind}")).result


def zeros(kind: Any) -> Any:
    """Emits zeros of any dtype."""
    element = element_of(kind)
    if element == "i1":
        return full(kind, "false")
    if element.startswith("complex"):
        part = zeros(array_type(dims_of(kind), element[len("complex<") : -1]))
        return stablehlo.complex(part, part)
    return full(kind, "0.0" if element.startswith(("f", "bf")) else "0")


def custom_call(
    target: str, config: Mapping[str, Any], operands: Sequence[Any], kinds: Sequence[Any], in_place: int = 0
) -> list[Any]:
    """Emits an FFI call. The last `in_place` operands may share memory with the results."""
    begin = len(operands) - in_place
    aliases = [alias(i if in_place > 1 else None, begin + i) for i in range(in_place)]
    attributes = {
        **call_attributes(target, config, [operand.type for operand in operands], kinds),
        "called_computations": ir.ArrayAttr.get([]),
        "output_operand_aliases": ir.ArrayAttr.get(aliases),
    }
    call = stablehlo.CustomCallOp.build_generic(results=list(kinds), operands=list(operands), attributes=attributes)
    return list(call.results)


def choose(
    condition: Any, kinds: Sequence[Any], then: Callable[[], Sequence[Any]], otherwise: Callable[[], Sequence[Any]]
) -> list[Any]:
    """Emits a conditional with two branches."""
    op = stablehlo.IfOp(list(kinds), condition)
    for region, branch in zip(op.regions, (then, otherwise), strict=True):
        with ir.InsertionPoint(region.blocks.append()):
            stablehlo.ReturnOp(list(branch()))
    return list(op.results)


def all_reduce(operand: Any, operation: Literal["add", "maximum"]) -> Any:
    """Emits the sum or maximum over all devices (all partitions of the only replica), for all devices."""
    op = stablehlo.AllReduceOp(
        [operand.type],
        [operand],
        replica_groups=ir.Attribute.parse("dense<0> : tensor<1x1xi64>"),
        channel_handle=stablehlo.ChannelHandle.get(1, 1),
    )
    scalar = array_type([], ir.RankedTensorType(operand.type).element_type)
    block = op.regions[0].blocks.append(scalar, scalar)
    with ir.InsertionPoint(block):
        combined = {"add": stablehlo.add, "maximum": stablehlo.maximum}[operation](*block.arguments)
        stablehlo.ReturnOp([combined])
    return op.results[0]
