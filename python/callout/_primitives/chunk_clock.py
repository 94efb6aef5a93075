# SPDX-License-Identifier: Apache-2.0
"""The clock that a loop in chunks asks between its chunks: how many steps the next chunk may have.

The state and the rule are in src/sinks/progress_bar.h.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.extend import core as jex_core
from jax.interpreters import mlir

from .._targets.target import NamedTarget
from . import context, lowering
from .call import lower_call

CLOCK_STATE = jax.core.ShapedArray((8,), np.dtype(np.uint32))
CLOCK_CHUNK = 7  # the index of the number of steps in the state

clock_p = jex_core.Primitive("callout_progress_clock")
_CLOCK = NamedTarget("progress_clock:")


def ask_clock(state: Any, interval_us: int) -> Any:
    """Returns the state after a chunk, with the length of the next chunk. `interval_us`: 0 leaves the length unchanged."""
    return clock_p.bind(state, np.uint32(interval_us))


@clock_p.def_abstract_eval
def _clock_abstract_eval(*_: Any) -> Any:
    return CLOCK_STATE


def _lower_clock(ctx: mlir.LoweringRuleContext, *args: Any) -> list[Any]:
    # The call has a side effect, so that XLA does not merge the calls of two loops.
    return lower_call(ctx, args, "callout.progress", _CLOCK, ordered=False, has_side_effect=True)


lowering.register(clock_p, _lower_clock)


def has_clock(ctx: mlir.LoweringRuleContext) -> bool:
    """Returns whether each device runs the lowered code on its own, and can ask the clock."""
    return context.num_devices(ctx) < 2 and not context.automatic_axes(ctx)
