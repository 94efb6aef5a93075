# SPDX-License-Identifier: Apache-2.0
"""The clock that a loop asks between its chunks of steps; see src/sinks/progress_bar.h."""

from __future__ import annotations

from typing import Any

import jax
import jax.extend.core
import numpy as np
from jax.interpreters import mlir

from .. import _ext
from .._primitives import lowering
from .._primitives.call import lower_call
from .._targets.target import NamedTarget

STATE = jax.core.ShapedArray((8,), np.dtype(np.uint32))
CHUNK = 7  # the place in the state of the number of steps

clock_p = jax.extend.core.Primitive("callout_progress_clock")
_clock = NamedTarget(_ext.progress_clock_name)


@clock_p.def_abstract_eval
def _abstract_eval(*_: Any) -> Any:
    return STATE


def _lower(ctx: mlir.LoweringRuleContext, *args: Any) -> list[Any]:
    # A side effect: two loops must not share one answer.
    return lower_call(ctx, args, "callout.progress", _clock, ordered=False, has_side_effect=True)


lowering.register(clock_p, _lower)


def ask(state: Any, interval_us: int) -> Any:
    """Returns the state after a chunk of steps, with the number of steps of the next one. `interval_us`: 0 leaves that."""
    return clock_p.bind(state, np.uint32(interval_us))
