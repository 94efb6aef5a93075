# SPDX-License-Identifier: Apache-2.0
"""Which platforms of an exported program reach a callback.

JAX lowers everything for all platforms that a program is exported for, also what only one of them runs, such as the branch
for CPU in `jax.lax.platform_dependent`. So the refusal is a mark in the module, beside a call that some platforms have or in
the place of one, and what the mark means is decided when the module is complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.extend.mlir import ir

from .._primitives.lowering import REFUSAL, not_supported
from .artifacts import operations


def resolve_refusals(module: Any, platforms: Sequence[str]) -> None:
    """Takes out the refusals that no platform reaches.

    Raises:
        NotImplementedError: a platform reaches a callback or a kernel that it cannot run.
    """
    if not any(_is_refusal(operation) for operation in operations(module.operation)):
        return
    main: Any = ir.SymbolTable(module.operation)["main"]
    refused: dict[tuple[str, str], list[str]] = {}
    for index, platform in enumerate(platforms):
        walk = _Walk(module)
        walk.run(main.entry_block, {main.arguments[0]: index})
        for mark in walk.reached:
            if platform not in mark[0].split(","):
                refused.setdefault(mark, []).append(platform)
    for (supported, label), others in sorted(refused.items()):
        raise NotImplementedError(not_supported(others, supported.split(","), label=label, exporting=True))
    while refusals := [operation for operation in operations(module.operation) if _is_refusal(operation)]:
        _take_out(refusals[0])


def _is_refusal(operation: Any) -> bool:
    if operation.name != "stablehlo.custom_call":
        return False
    return bool(ir.StringAttr(operation.attributes["call_target_name"]).value == REFUSAL)


def _mark(refusal: Any) -> tuple[str, str]:
    """Returns the platforms that would do, and what is called."""
    key = "mhlo.backend_config" if "mhlo.backend_config" in refusal.attributes else "backend_config"
    said = ir.DictAttr(refusal.attributes[key])
    return str(ir.StringAttr(said["supported"]).value), str(ir.StringAttr(said["label"]).value)


def _take_out(refusal: Any) -> None:
    if not refusal.results:
        refusal.erase()
        return
    # It stands for results, in a branch that is never taken: another branch does as well.
    choice = refusal.parent
    others = [region.blocks[0] for region in choice.regions if not any(map(_is_refusal, _top(region)))]
    if len(others) == 1:
        _put_in_place_of(choice, others[0])
    else:
        _copy_branch(choice, others[0], refusal)


def _put_in_place_of(choice: Any, branch: Any) -> None:
    *body, terminator = list(branch.operations)
    for operation in body:
        operation.operation.move_before(choice)
    for result, value in zip(choice.operation.results, terminator.operands, strict=True):
        result.replace_all_uses_with(value)
    choice.operation.erase()


def _copy_branch(choice: Any, branch: Any, refusal: Any) -> None:
    """Puts a copy of `branch` in the place of the branch with the refusal."""
    blocks = [region.blocks[0] for region in choice.regions]
    at = next(i for i, block in enumerate(blocks) if block == refusal.operation.block)
    copy = choice.operation.clone(ir.InsertionPoint(choice.operation))
    copied = copy.regions[blocks.index(branch)].blocks[0]
    blocks[at].append_to(copy.regions[at])
    copied.append_to(choice.regions[at])
    copy.operation.erase()


def _top(region: Any) -> list[Any]:
    return [operation.operation for block in region for operation in block]


class _Walk:
    """Runs what decides over branches: the platform's number, constants, conversions and calls."""

    def __init__(self, module: Any):
        self.reached: set[tuple[str, str]] = set()
        self._functions = ir.SymbolTable(module.operation)
        self._results: dict[Any, list[int | None]] = {}

    def run(self, block: Any, known: dict[Any, int | None]) -> list[int | None]:
        """Returns what the block returns, as far as it is known. `known` are the numbers that values are known to have."""
        for view in block:
            operation = view.operation
            if operation.name in ("func.return", "stablehlo.return"):
                return [known.get(value) for value in operation.operands]
            self.reached |= {_mark(operation)} if _is_refusal(operation) else set()
            known.update(zip(operation.results, self._outcome(operation, known), strict=False))
        return []

    def _outcome(self, operation: Any, known: dict[Any, int | None]) -> list[int | None]:
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

    def _call(self, name: str, inputs: list[int | None]) -> list[int | None]:
        key = (name, *inputs)
        if key not in self._results:
            block = self._functions[name].regions[0].blocks[0]
            self._results[key] = self.run(block, dict(zip(block.arguments, inputs, strict=True)))
        return self._results[key]


def _number(constant: Any) -> int | None:
    if str(constant.results[0].type) not in ("tensor<i32>", "tensor<i64>"):
        return None
    return int(ir.DenseIntElementsAttr(constant.attributes["value"])[0])
