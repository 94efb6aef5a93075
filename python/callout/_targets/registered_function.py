# SPDX-License-Identifier: Apache-2.0
"""Python functions that are known by a name: programs say nothing of the structure of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .. import _ext, _jax_compat
from .._base import errors, options
from .function_targets import flatten_result, flattener, with_jax_arrays


def _declared_flattener(results: Any, label: str) -> Callable[[Any], Sequence[Any]]:
    """Returns the leaves of a result of that structure and of those shapes."""
    specs, tree = jax.tree.flatten(results)
    flatten_as_declared = flattener(tree, label)

    def flatten(result: Any) -> Sequence[Any]:
        leaves = flatten_as_declared(result)
        for i, (leaf, spec) in enumerate(zip(leaves, specs, strict=True)):
            if np.shape(leaf) != spec.shape:
                raise errors.ResultError(
                    f"callback '{label}': its result {i} does not fit: expected shape {spec.shape}, got {np.shape(leaf)}"
                )
        return leaves

    return flatten


def registered_function(name: str, fn: Callable[..., Any], results: Any = None) -> _ext.Callback:
    """Returns a Python function under a name: it gets the flat leaves, whatever the program that calls it was traced with.

    `results`: what it returns, None where that is not known.
    """
    plain, chosen = options.split(fn)
    label = chosen.name or name
    x64 = _jax_compat.x64_enabled()

    def value_of(leaves: tuple[np.ndarray, ...]) -> Any:
        return leaves[0] if len(leaves) == 1 else leaves

    def flatten(result: Any) -> list[Any]:
        return flatten_result(result, _ext.is_iterator_or_none)[0]

    return _ext.make_python_callback(
        label=label,
        function=with_jax_arrays(plain, x64) if chosen.args == "jax" else plain,
        unflatten_value=value_of,
        flatten=flatten if results is None else _declared_flattener(results, label),
        single_result=results is None,
        zero_copy=chosen.zero_copy,
        numpy_only=chosen.numpy_only,
        canonicalize=not x64,
    )
