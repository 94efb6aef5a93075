# SPDX-License-Identifier: Apache-2.0
"""Finds the operations that a module's `main` can reach, by evaluating branches on constants.

JAX lowers the whole program for all platforms of an export, even parts that only one of them runs; the platform's index
chooses the branch. For each operation, the result also tells whether it is inside a shard_map.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from typing import Any

from jax.extend.mlir import ir

Known = int | None
"""The number of a value, if it is known."""


class Spread(enum.Enum):
    """Tells whether the compiler or the user partitions an operation."""

    AUTOMATIC = "the compiler"
    PARTLY_MANUAL = "the compiler, over the axes that a shard_map leaves to it"
    MANUAL = "the user, by shard_map"


def reached(
    module: Any, is_sought: Callable[[Any], bool], known: Mapping[Any, int] | None = None
) -> dict[Any, set[Spread]]:
    """Returns the reachable operations for which `is_sought` is true, in order. `known`: numbers of `main`'s arguments."""
    walk = _Walk(module, is_sought)
    main: Any = ir.SymbolTable(module.operation)["main"]
    walk.run(main.entry_block, dict(known or {}))
    return walk.reached


class _Walk:
    """Evaluates operations that choose branches: the platform's index, constants, conversions and calls."""

    def __init__(self, module: Any, is_sought: Callable[[Any], bool]):
        self.reached: dict[Any, set[Spread]] = {}
        self._is_sought = is_sought
        self._functions = ir.SymbolTable(module.operation)
        self._results: dict[Any, list[Known]] = {}
        self._manual_axes: frozenset[str] = frozenset()
        self._spread = Spread.AUTOMATIC

    def run(self, block: Any, known: dict[Any, Known]) -> list[Known]:
        """Evaluates a block, and returns its results as far as they are known."""
        for view in block:
            operation = view.operation
            if operation.name in ("func.return", "stablehlo.return"):
                return [known.get(value) for value in operation.operands]
            if self._is_sought(operation):
                self.reached.setdefault(operation, set()).add(self._spread)
            known.update(zip(operation.results, self._outcome(operation, known), strict=False))
        return []

    def _outcome(self, operation: Any, known: dict[Any, Known]) -> list[Known]:
        inputs = [known.get(value) for value in operation.operands]
        match operation.name:
            case "stablehlo.constant":
                return [_number(operation)]
            case "stablehlo.convert":
                return inputs
            case "func.call":
                return self._call(operation.attributes["callee"], inputs)
            case "stablehlo.composite":
                return self._call(operation.attributes["decomposition"], inputs)
            case "stablehlo.custom_call" if "called_computations" in operation.attributes:
                for name in ir.ArrayAttr(operation.attributes["called_computations"]):
                    self._call(name, None)
                return []
            case "stablehlo.case" if inputs[0] is not None:
                last = len(operation.regions) - 1
                taken = inputs[0] if 0 <= inputs[0] <= last else last
                return self.run(operation.regions[taken].blocks[0], known)
            case "sdy.manual_computation":
                self._run_manually(operation, inputs, known)
                return []
        for region in operation.regions:
            for block in region:
                self.run(block, known)
        return []

    def _call(self, symbol: Any, inputs: list[Known] | None) -> list[Known]:
        """Evaluates a function. `inputs`: None if all are unknown."""
        name = ir.FlatSymbolRefAttr(symbol).value
        block = self._functions[name].regions[0].blocks[0]
        numbers = [None] * len(block.arguments) if inputs is None else inputs
        key = (name, self._manual_axes, *numbers)
        if key not in self._results:
            self._results[key] = self.run(block, dict(zip(block.arguments, numbers, strict=True)))
        return self._results[key]

    def _run_manually(self, operation: Any, inputs: list[Known], known: dict[Any, Known]) -> None:
        before = self._manual_axes, self._spread
        self._manual_axes |= set(re.findall(r'"([^"]+)"', str(operation.attributes["manual_axes"])))
        is_all = self._manual_axes >= self._mesh_axes(operation)
        self._spread = Spread.MANUAL if is_all else Spread.PARTLY_MANUAL
        block = operation.regions[0].blocks[0]
        self.run(block, {**known, **dict(zip(block.arguments, inputs, strict=True))})
        self._manual_axes, self._spread = before

    def _mesh_axes(self, operation: Any) -> set[str]:
        """Returns the axes of the mesh in an operation's shardings; none without a mesh."""
        shardings = " ".join(str(operation.attributes[f"{side}_shardings"]) for side in ("in", "out"))
        mesh = re.search(r"<@([\w.$-]+)", shardings)
        if mesh is None or mesh[1] not in self._functions:
            return set()
        return set(re.findall(r'"([^"]+)"\s*=', str(self._functions[mesh[1]].attributes["mesh"])))


def _number(constant: Any) -> int | None:
    if str(constant.results[0].type) not in ("tensor<i32>", "tensor<i64>"):
        return None
    return int(ir.DenseIntElementsAttr(constant.attributes["value"])[0])
