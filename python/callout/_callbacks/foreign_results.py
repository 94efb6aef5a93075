# SPDX-License-Identifier: Apache-2.0
"""The results of a foreign function: declared, a function of the arguments, or read from its signature."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.tree_util import PyTreeDef

from .. import _jax_compat
from .._targets import random_keys
from .._targets.function_targets import is_leaf
from .foreign_call import signatures

_TOKEN: Any = _jax_compat.abstract_token()


@dataclasses.dataclass(frozen=True)
class Results:
    """Holds the results of one call: a pytree of objects with `shape` and `dtype`, keys and tokens."""

    wanted: Sequence[Any]
    of_handler: Sequence[random_keys.Result]
    tree: PyTreeDef
    is_single: bool  # one array, in nothing

    def rebuilt(self, outs: Sequence[Any]) -> Any:
        """Returns what the handler filled, in the structure that was declared."""
        return jax.tree.unflatten(self.tree, random_keys.wrapped(outs, self.of_handler))


def are_fixed(declared: Any) -> bool:
    """Returns False for results that depend on the arguments."""
    return _is_result(declared) or not (declared is None or callable(declared))


def read(where: str, declared: Any) -> Results:
    """Reads declared results. ValueError for one without shape and dtype."""
    if isinstance(declared, Sequence) and type(declared) not in (list, tuple) and not hasattr(declared, "_fields"):
        declared = tuple(declared) if isinstance(declared, tuple) else list(declared)
    wanted, tree = jax.tree.flatten(declared, is_leaf=lambda value: value is None or _is_result(value))
    results = []
    for i, one in enumerate(wanted):
        if one is _TOKEN:
            results.append(random_keys.Result(one))
        elif _is_result(one):
            results.append(random_keys.result(one))
        else:
            raise ValueError(f"{where}: result_shape_dtypes must have 'shape' and 'dtype'; got {one!r} at position {i}")
    return Results(wanted, results, tree, is_leaf(tree))


def for_arguments(
    where: str, target: str, declared: Callable[..., Any] | None, args: Any, attributes: Mapping[str, Any]
) -> Results:
    """Returns the results for arguments: what `declared` returns for their shapes, or what the signature says."""
    shapes = jax.tree.map(_shape_of, args)
    if declared is not None:
        return read(where, declared(*shapes, **attributes))
    if target not in signatures:
        raise TypeError(
            f"{where}: its results are not known: say result_shape_dtypes, or register the target with a signature that "
            "says their shapes"
        )
    operands = [random_keys.result(shape).aval for shape in jax.tree.leaves(shapes) if shape is not _TOKEN]
    results = signatures[target].results_for(target, operands)
    return read(where, results[0] if len(results) == 1 else tuple(results))


def _is_result(value: Any) -> bool:
    return value is _TOKEN or (hasattr(value, "shape") and hasattr(value, "dtype"))


def _shape_of(value: Any) -> Any:
    aval = jax.typeof(value)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype) if hasattr(aval, "shape") else aval
