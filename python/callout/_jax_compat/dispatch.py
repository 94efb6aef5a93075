# SPDX-License-Identifier: Apache-2.0
"""How JAX dispatches jitted functions."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import jax

from .versions import MISSING


def jitted_function_maker() -> tuple[Any, str] | None:
    """Returns the module and the name by which JAX makes what `jax.jit` returns; None if they are not as expected."""
    try:
        from jax._src.pjit import _jax
    except ImportError:
        _jax = None
    if not hasattr(_jax, "pjit"):
        MISSING.append("jax._src.pjit._jax.pjit")
        return None
    return _jax, "pjit"


def fast_path_decision() -> tuple[Any, str] | None:
    """Returns the module and the name of what decides whether C++ dispatches a program; None if it is not as expected."""
    try:
        from jax._src import pjit
    except ImportError:
        pjit = None  # type: ignore[assignment]
    if not hasattr(pjit, "_get_fastpath_data"):
        MISSING.append("jax._src.pjit._get_fastpath_data")
        return None
    return pjit, "_get_fastpath_data"


def without_effects(executable: Any) -> Any:
    """Returns a copy of an executable that tells of no unordered effects; None if it has ordered ones, or is another."""
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
    """Returns the registry of pytrees by which C++ makes a jitted function's results; None if there is none."""
    try:
        from jax._src.tree_util import dispatch_registry as registry
    except ImportError:
        MISSING.append("jax._src.tree_util.dispatch_registry")
        return None
    return registry
