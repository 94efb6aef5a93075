# SPDX-License-Identifier: Apache-2.0
"""Which operations of a module its `main` can come to, as far as constants decide over branches.

JAX lowers everything for all platforms that a program is exported for, also what only one of them runs, and the branch is
chosen by the platform's number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jax.extend.mlir import ir

Known = int | None
"""The number that a value is known to have."""


def reached(module: Any, is_sought: Callable[[Any], bool], known: Mapping[Any, int]) -> list[Any]:
    """Returns the operations that `is_sought` and `main` comes to. `known`: numbers of its arguments."""
    walk = _Walk(module, is_sought)
    main: Any = ir.SymbolTable(module.operation)["main"]
    walk.run(main.entry_block, dict(known))
    return list(dict.fromkeys(walk.reached))


class _Walk:
    """Runs what decides over branches: the platform's number, constants, conversions and calls."""

    def __init__(self, module: Any, is_sought: Callable[[Any], bool]):
        self.reached: list[Any] = []
        self._is_sought = is_sought
        self._functions = ir.SymbolTable(module.operation)
        self._results: dict[Any, list[Known]] = {}

    def run(self, block: Any, known: dict[Any, Known]) -> list[Known]:
        """Returns what the block returns, as far as it is known."""
        for view in block:
            operation = view.operation
            if operation.name in ("func.return", "stablehlo.return"):
                return [known.get(value) for value in operation.operands]
            if self._is_sought(operation):
                self.reached.append(operation)
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
                return self._call(ir.FlatSymbolRefAttr(operation.attributes["callee"]).value, inputs)
            case "stablehlo.case" if inputs[0] is not None:
                last = len(operation.regions) - 1
                taken = inputs[0] if 0 <= inputs[0] <= last else last
                return self.run(operation.regions[taken].blocks[0], known)
        for region in operation.regions:
            for block in region:
                self.run(block, known)
        return []

    def _call(self, name: str, inputs: list[Known]) -> list[Known]:
        key = (name, *inputs)
        if key not in self._results:
            block = self._functions[name].regions[0].blocks[0]
            self._results[key] = self.run(block, dict(zip(block.arguments, inputs, strict=True)))
        return self._results[key]


def _number(constant: Any) -> int | None:
    if str(constant.results[0].type) not in ("tensor<i32>", "tensor<i64>"):
        return None
    return int(ir.DenseIntElementsAttr(constant.attributes["value"])[0])
