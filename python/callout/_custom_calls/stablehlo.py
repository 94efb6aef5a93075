# SPDX-License-Identifier: Apache-2.0
"""A small writer of StableHLO text: the one function that XLA's partitioner takes from us (see partitioning.py)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from jax.interpreters import mlir


@dataclasses.dataclass(frozen=True)
class Value:
    """Names a value of the program. `element` is MLIR's name of the dtype, "" for a token."""

    name: str
    dims: tuple[int, ...]
    element: str

    @property
    def type(self) -> str:
        """Writes the type as MLIR does."""
        if not self.element:
            return "!stablehlo.token"
        return f"tensor<{'x'.join([*map(str, self.dims), self.element])}>"

    @property
    def layout(self) -> str:
        """Returns the row-major layout, as FFI handlers expect it."""
        return row_major_text(len(self.dims))

    def named(self, name: str) -> Value:
        """Returns another value of this type."""
        return dataclasses.replace(self, name=name)

    def of(self, element: str) -> Value:
        """Returns the type of an array of the same shape."""
        return dataclasses.replace(self, element=element)


def row_major_text(rank: int) -> str:
    """Returns the layout of an array whose last axis is the most minor."""
    order = ", ".join(str(axis) for axis in reversed(range(rank)))
    return f"dense<[{order}]> : tensor<{rank}xindex>" if rank else "dense<> : tensor<0xindex>"


def alias_text(result: int | None, operand: int) -> str:
    """Says that a result, None for the only one, is in the place of an operand."""
    index = "" if result is None else str(result)
    return (
        f"#stablehlo.output_operand_alias<output_tuple_indices = [{index}], operand_index = {operand}, "
        "operand_tuple_indices = []>"
    )


STATUS = Value("", (), "i32")


def value_of(shape: Any, name: str = "") -> Value:
    """Returns the value that an XLA shape describes."""
    if not shape.is_array():
        return Value(name, (), "")
    with mlir.make_ir_context():
        return Value(name, tuple(shape.dimensions()), str(mlir.dtype_to_ir_type(np.dtype(shape.numpy_dtype()))))


def _types(values: Sequence[Value]) -> str:
    return ", ".join(value.type for value in values)


def _names(values: Sequence[Value]) -> str:
    return ", ".join(value.name for value in values)


class Writer:
    """Writes the lines of a function."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._count = 0

    def module(self, arguments: Sequence[Value], results: Sequence[Value]) -> bytes:
        """Returns the finished text."""
        declared = ", ".join(f"{value.name}: {value.type}" for value in arguments)
        head = f"module @p {{\nfunc.func public @main({declared}) -> ({_types(results)}) {{"
        return "\n".join([head, *self._lines, self._leave("return", results), "}", "}"]).encode()

    def _leave(self, keyword: str, values: Sequence[Value]) -> str:
        return f"{keyword} {_names(values)} : {_types(values)}" if values else keyword

    def _fresh(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def op(self, result: Value, text: str) -> Value:
        """Appends `<name> = <text>`; the result's type is given."""
        name = self._fresh()
        self._lines.append(f"{name} = {text}")
        return result.named(name)

    def unary(self, operation: str, operand: Value, element: str) -> Value:
        """Adds an operation that changes the element type only."""
        result = operand.of(element)
        return self.op(result, f"stablehlo.{operation} {operand.name} : ({operand.type}) -> {result.type}")

    def constant(self, kind: Value, text: str) -> Value:
        """Adds a constant, or an array full of one."""
        return self.op(kind, f"stablehlo.constant dense<{text}> : {kind.type}")

    def zeros(self, kind: Value) -> Value:
        """Adds zeros of any dtype."""
        if kind.element == "i1":
            return self.constant(kind, "false")
        if kind.element.startswith("complex"):
            return self.constant(kind, "(0.0, 0.0)")
        return self.constant(kind, "0.0" if kind.element.startswith(("f", "bf")) else "0")

    def device_index(self) -> Value:
        """Adds the index of this device in the program's device assignment."""
        return self.op(Value("", (), "ui32"), "stablehlo.partition_id : tensor<ui32>")

    def custom_call(
        self, target: str, config: str, operands: Sequence[Value], results: Sequence[Value], in_place: int = 0
    ) -> list[Value]:
        """Adds an FFI call. The last `in_place` operands may share memory with the results."""
        name = self._fresh()
        head = f"{name}:{len(results)} = " if results else ""
        begin = len(operands) - in_place
        aliases = ", ".join(alias_text(i if in_place > 1 else None, begin + i) for i in range(in_place))
        self._lines.append(
            f"{head}stablehlo.custom_call @{target}({_names(operands)}) {{api_version = 4 : i32, has_side_effect = true, "
            f"backend_config = {config}, operand_layouts = [{', '.join(value.layout for value in operands)}], "
            f"result_layouts = [{', '.join(value.layout for value in results)}], "
            f"output_operand_aliases = [{aliases}]}} : ({_types(operands)}) -> ({_types(results)})"
        )
        return [result.named(f"{name}#{i}") for i, result in enumerate(results)]

    def begin_if(self, condition: Value, results: Sequence[Value]) -> list[Value]:
        """Opens the true branch; `next_branch` and `end_if` follow."""
        name = self._fresh()
        head = f"{name}:{len(results)} = " if results else ""
        self._lines.append(f'{head}"stablehlo.if"({condition.name}) ({{')
        return [result.named(f"{name}#{i}") for i, result in enumerate(results)]

    def next_branch(self, values: Sequence[Value]) -> None:
        """Ends the true branch with its results."""
        self._lines += [self._leave("stablehlo.return", values), "}, {"]

    def end_if(self, values: Sequence[Value]) -> None:
        """Ends the false branch with its results."""
        self._lines += [self._leave("stablehlo.return", values), f"}}) : (tensor<i1>) -> ({_types(values)})"]

    def all_reduce(self, operand: Value, operation: Literal["add", "maximum"]) -> Value:
        """Adds the sum or maximum over all devices, on all of them: of the one replica that there is, all partitions."""
        name, scalar = self._fresh(), f"tensor<{operand.element}>"
        self._lines += [
            f'{name} = "stablehlo.all_reduce"({operand.name}) <{{channel_handle = '
            "#stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<0> : tensor<1x1xi64>}> ({",
            f"^bb0(%x: {scalar}, %y: {scalar}):",
            f"%s = stablehlo.{operation} %x, %y : {scalar}",
            f"stablehlo.return %s : {scalar}",
            f"}}) : ({operand.type}) -> {operand.type}",
        ]
        return operand.named(name)
