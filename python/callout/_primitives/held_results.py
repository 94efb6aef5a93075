# SPDX-License-Identifier: Apache-2.0
"""A CUDA program's only result is not what its callbacks' values are computed of.

XLA:GPU fuses what computes an array with those that read it, and takes the array's own computation away. It does so even if
the array is the only result of the program or of a loop's step, which cannot be taken away: its compiler then ends the
process ("Check failed: computation_->RemoveInstruction(producer) is OK"; JAX 0.11.2 and 0.12.0.1). It takes a reader whose
value is no result, so only programs with callbacks are hit: `y = sin(x); callback(x > y, x + y); return y`, with JAX's own,
too. Behind an optimization barrier the result is another value than that which is read.
"""

from __future__ import annotations

import threading
from typing import Any

from jax.extend.mlir import ir

from .._targets.operation_attributes import create_before

_lowering = threading.local()


def note_callback() -> None:
    """Notes that the module that this thread is lowering has a callback that is called for its effect."""
    _lowering.has_callbacks = True


def take_note() -> bool:
    """Tells whether one was noted since the last time."""
    noted = getattr(_lowering, "has_callbacks", False)
    _lowering.has_callbacks = False
    return noted


def hold(module: Any) -> None:
    """Puts a barrier behind the only results of the program and of the steps of its loops. In the module's context."""
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
