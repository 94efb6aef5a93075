# SPDX-License-Identifier: Apache-2.0
"""Writes rules by which XLA (Shardy) propagates shardings between operands and results of a call.

A rule is the text of the attribute `sdy.sharding_rule`: each dimension is a factor, and equal factors are sharded
equally.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_LETTERS = "ijklmnopqrstuvwxyz"


def _name(factor: int) -> str:
    return _LETTERS[factor] if factor < len(_LETTERS) else f"z_{factor - len(_LETTERS) + 1}"


def results_like_operands(operands: Sequence[Any], results: Sequence[Any]) -> str:
    """Returns the rule by which operands and results of one shape are sharded alike."""
    extents: list[int] = []

    def factors(shape: Sequence[int]) -> list[int]:
        begin = len(extents)
        extents.extend(shape)
        return list(range(begin, len(extents)))

    known: dict[tuple[int, ...], list[int]] = {}
    of_operands = []
    for aval in operands:
        of_operands.append(known.get(tuple(aval.shape)) or factors(aval.shape))
        known.setdefault(tuple(aval.shape), of_operands[-1])
    of_results = [known.get(tuple(aval.shape)) or factors(aval.shape) for aval in results]

    def written(values: Sequence[list[int]]) -> str:
        return ", ".join(f"[{', '.join(map(_name, dims))}]" for dims in values)

    sizes = ", ".join(f"{_name(i)}={extent}" for i, extent in enumerate(extents))
    braces = f" {{{sizes}}}" if sizes else ""
    return f"#sdy.op_sharding_rule<({written(of_operands)})->({written(of_results)}){braces}, custom>"
