# SPDX-License-Identifier: Apache-2.0
"""Whether an operation would happen at once. Nothing public tells; `Primitive.bind` finds out in 6 us.

Nor does anything public tell whether a function is being traced for a program.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .versions import MISSING

try:
    from jax._src.array import ArrayImpl as _ArrayImpl
    from jax._src.core import eval_trace as _eval_trace
    from jax._src.core import trace_ctx as _trace_ctx

    _trace_ctx.trace  # noqa: B018 - an AttributeError if it is not there
except (ImportError, AttributeError):
    _ArrayImpl = _eval_trace = None  # type: ignore[assignment, misc]
    _trace_ctx: Any = None  # type: ignore[no-redef]
    MISSING.append("jax._src.core.trace_ctx")


try:
    from jax._src.interpreters.partial_eval import DynamicJaxprTrace as _ProgramTrace
except ImportError:
    _ProgramTrace = None  # type: ignore[assignment, misc]
    MISSING.append("jax._src.interpreters.partial_eval.DynamicJaxprTrace")


def is_tracing_a_program() -> bool:
    """Returns True inside a function that JAX traces for a program, and False in an eager `vmap` or `grad`."""
    trace = None if _trace_ctx is None or _ProgramTrace is None else _trace_ctx.trace
    while trace is not None and not isinstance(trace, _ProgramTrace):
        trace = getattr(trace, "parent_trace", None)
    return trace is not None


def happens_now(values: Iterable[Any]) -> bool:
    """Returns True if JAX evaluates an operation on these leaves here, and they are arrays: no numbers, keys, references.

    False means nothing: a `bind` finds out.
    """
    return _trace_ctx is not None and _trace_ctx.trace is _eval_trace and {_ArrayImpl}.issuperset(map(type, values))
