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
from .._targets.operation_attributes import config_key, is_call_of, operations
from .._targets.reached import reached


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
    """Returns the platforms that would do, and what is called."""
    said = ir.DictAttr(refusal.attributes[config_key(refusal)])
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
