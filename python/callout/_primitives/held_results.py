# SPDX-License-Identifier: Apache-2.0
"""Puts a barrier between a CUDA program's only result and the values of callbacks, because XLA:GPU crashes otherwise.

XLA:GPU fuses the operation that computes an array into its readers, and removes the operation. It tries to do so even
if the array is the only result of the program or of a loop's step, which cannot be removed: XLA then crashes the
process ("Check failed: computation_->RemoveInstruction(producer) is OK"; JAX 0.11.2 and 0.12.0.1). The crash needs a
reader whose value is no result, so only programs with callbacks are affected, with JAX's own callbacks, too: `y =
sin(x); callback(x > y, x + y); return y`. With an optimization barrier, the result and the value that is read are
different values.
"""

from __future__ import annotations

import threading
from typing import Any

from jax.extend.mlir import ir

from .._targets.operation_attributes import create_before

_lowering = threading.local()


def note_callback() -> None:
    """Notes that the module that this thread lowers has a callback with an effect."""
    _lowering.has_callbacks = True


def take_note() -> bool:
    """Returns whether such a callback was noted since the last call of `take_note`."""
    noted = getattr(_lowering, "has_callbacks", False)
    _lowering.has_callbacks = False
    return noted


def hold(module: Any) -> None:
    """Puts a barrier behind the only result of the program and of each loop's step. Requires the module's context."""
    ends: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name == "func.func" and ir.StringAttr(op.attributes["sym_name"]).value == "main":
            ends.append(_last(op.regions[0]))
        elif op.name == "stablehlo.while" and len(op.results) == 1:
            ends.append(_last(op.regions[1]))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for end in ends:
        values = list(end.operands)
        if len(values) == 1 and not isinstance(values[0].owner, ir.Block):
            barrier = create_before("stablehlo.optimization_barrier", values, {}, [values[0].type], end)
            end.operands[0] = barrier.result


def _last(region: Any) -> Any:
    operations = list(region.blocks[0].operations)
    return operations[-1].operation
