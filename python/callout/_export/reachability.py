# SPDX-License-Identifier: Apache-2.0
"""Decides which platforms of an exported program reach a callback.

JAX lowers the whole program for all platforms of an export, even parts that only one of them runs, such as the branch
for CPU in `jax.lax.platform_dependent`. So a lowering rule cannot raise an error for a callback that a platform does
not have. Instead it writes a refusal: a mark beside the call, or in the place of the call. When the module is complete,
`resolve_refusals` raises the error or removes the mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.extend.mlir import ir

from .._primitives.lowering import REFUSAL, not_supported
from .._targets.operation_attributes import config_key, is_call_of, operations
from .._targets.reachable import reached


def resolve_refusals(module: Any, platforms: Sequence[str]) -> None:
    """Removes the refusals that no platform reaches.

    Raises:
        NotImplementedError: a platform reaches a callback or a kernel that it cannot run.
    """
    if not any(_is_refusal(operation) for operation in operations(module.operation)):
        return
    main: Any = ir.SymbolTable(module.operation)["main"]
    refused: dict[tuple[str, str], list[str]] = {}
    for index, platform in enumerate(platforms):
        for mark in set(map(_mark, reached(module, _is_refusal, {main.arguments[0]: index}))):
            if platform not in mark[0].split(","):
                refused.setdefault(mark, []).append(platform)
    for (supported, label), others in sorted(refused.items()):
        raise NotImplementedError(not_supported(others, supported.split(","), label=label, exporting=True))
    while refusals := [operation for operation in operations(module.operation) if _is_refusal(operation)]:
        _take_out(refusals[0])


def _is_refusal(operation: Any) -> bool:
    return is_call_of(operation, REFUSAL)


def _mark(refusal: Any) -> tuple[str, str]:
    """Returns the platforms that could run the call, and the name of the callback or kernel."""
    attributes = ir.DictAttr(refusal.attributes[config_key(refusal)])
    return str(ir.StringAttr(attributes["supported"]).value), str(ir.StringAttr(attributes["label"]).value)


def _take_out(refusal: Any) -> None:
    if not refusal.results:
        refusal.erase()
        return
    # The refusal replaces results in a branch that is never taken, so any other branch can take its place.
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
    """Replaces the branch with the refusal by a copy of `branch`."""
    blocks = [region.blocks[0] for region in choice.regions]
    at = next(i for i, block in enumerate(blocks) if block == refusal.operation.block)
    copy = choice.operation.clone(ir.InsertionPoint(choice.operation))
    copied = copy.regions[blocks.index(branch)].blocks[0]
    blocks[at].append_to(copy.regions[at])
    copied.append_to(choice.regions[at])
    copy.operation.erase()


def _top(region: Any) -> list[Any]:
    return [operation.operation for block in region for operation in block]
