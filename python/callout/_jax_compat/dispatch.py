# SPDX-License-Identifier: Apache-2.0
"""Reads JAX's dispatch of jitted functions, and decides whether JAX would evaluate an operation at once.

No public API tells whether JAX would evaluate an operation at once; `Primitive.bind` decides in 6 us. No public API
tells whether a function is being traced for a program, either.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import jax

from .versions import MISSING


def jitted_function_maker() -> tuple[Any, str] | None:
    """Returns the module and the name of JAX's function that makes jitted functions; None if it is not as expected."""
    try:
        from jax._src.pjit import _jax
    except ImportError:
        _jax = None
    if not hasattr(_jax, "pjit"):
        MISSING.append("jax._src.pjit._jax.pjit")
        return None
    return _jax, "pjit"


def fast_path_decision() -> tuple[Any, str] | None:
    """Returns the module and the name of JAX's function that admits programs to C++ dispatch; None if not as expected."""
    try:
        from jax._src import pjit
    except ImportError:
        pjit = None  # type: ignore[assignment]
    if not hasattr(pjit, "_get_fastpath_data"):
        MISSING.append("jax._src.pjit._get_fastpath_data")
        return None
    return pjit, "_get_fastpath_data"


def without_effects(executable: Any) -> Any:
    """Returns a copy of an executable without its unordered effects; None for ordered effects or an unknown class."""
    try:
        call = copy.copy(executable.unsafe_call)
        if call.ordered_effects or not call.has_unordered_effects:
            return None
        call.has_unordered_effects = False
        executable = copy.copy(executable)
        executable._unsafe_call = call
    except AttributeError:
        return None
    return executable


def local_devices_of(executable: Any) -> Sequence[jax.Device]:
    """Returns the devices of this process that an executable runs on."""
    return list(executable.xla_executable.local_devices())


def dispatch_registry() -> Any:
    """Returns the pytree registry by which C++ builds a jitted function's results; None if there is none."""
    try:
        from jax._src.tree_util import dispatch_registry as registry
    except ImportError:
        MISSING.append("jax._src.tree_util.dispatch_registry")
        return None
    return registry


try:
    from jax._src.array import ArrayImpl as _ArrayImpl
    from jax._src.core import eval_trace as _eval_trace
    from jax._src.core import trace_ctx as _trace_ctx

    _trace_ctx.trace  # noqa: B018 - raises AttributeError if it is missing
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
    """Returns True if JAX would evaluate an operation on these leaves now, and they are arrays: no keys, no references.

    False means unknown: `bind` then decides.
    """
    if _trace_ctx is None or _trace_ctx.trace is not _eval_trace:
        return False
    for value in values:  # noqa: SIM110 - `all` takes twice as long for a few values
        if type(value) is not _ArrayImpl:
            return False
    return True
