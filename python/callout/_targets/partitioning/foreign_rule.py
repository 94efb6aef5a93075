# SPDX-License-Identifier: Apache-2.0
"""A call on each device's shards, where a rule says how the shards of results follow from those of arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax

# Names of the dimensions of each array.
Dims = list[list[str]]


def _dims(side: str) -> Dims:
    return [part.split() for part in side.split(",")] if side.strip() else []


def parse(where: str, rule: str, args: Sequence[Any], results: Sequence[Any]) -> tuple[Dims, Dims]:
    """Reads a rule. ValueError for one that does not fit the arrays."""
    sides = list(map(_dims, rule.split("->")))
    ranks = [[len(array.shape) for array in arrays] for arrays in (args, results)]
    if [[len(dims) for dims in side] for side in sides] != ranks:
        raise ValueError(
            f"{where}: sharding_rule must name each dimension of the arguments and of the results (ranks {ranks[0]} and "
            f"{ranks[1]}), as in 'i j, j -> i'; got {rule!r}"
        )
    extents: dict[str, int] = {}
    for names, array in zip([*sides[0], *sides[1]], [*args, *results], strict=True):
        if len(set(names)) != len(names):
            raise ValueError(f"{where}: sharding_rule {rule!r} names a dimension twice in one array")
        for name, extent in zip(names, array.shape, strict=True):
            if extents.setdefault(name, extent) != extent:
                raise ValueError(
                    f"{where}: sharding_rule {rule!r}: {name!r} is {extents[name]} here and {extent} there"
                )
    return sides[0], sides[1]


def _spread(mesh: Any, dims: Dims, arrays: Sequence[Any]) -> dict[str, Any]:
    """Returns the mesh axes of each dimension that is spread, and evenly."""
    found: dict[str, Any] = {}
    for names, array in zip(dims, arrays, strict=True):
        for name, axes, extent in zip(names, array.sharding.spec, array.shape, strict=False):
            size = math.prod(mesh.shape[axis] for axis in ((axes,) if isinstance(axes, str) else axes or ()))
            if axes is not None and extent % size == 0:
                found.setdefault(name, axes)
    return found


def _shardings(mesh: Any, dims: Dims, spread: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(jax.NamedSharding(mesh, jax.P(*map(spread.get, names))) for names in dims)


def call_on_shards(
    where: str,
    bind: Callable[[Sequence[Any], tuple[Any, ...]], Any],
    rule: str,
    dims: tuple[Dims, Dims],
    args: Sequence[Any],
    results: tuple[Any, ...],
) -> list[Any]:
    """Calls `bind(args, results)` with what each device has of both.

    Args:
        where: what errors begin with.
        bind: calls the function with arrays, for results of these shapes and dtypes.
        rule: its text.
        dims: what it says. Dimensions of one name are spread alike, as the results' are; others are collected.
        args: the arrays.
        results: shapes and dtypes of the whole results.
    """
    from jax.experimental.custom_partitioning import custom_partitioning  # some milliseconds

    of_args, of_results = dims

    @custom_partitioning
    def call(*values: Any) -> Any:
        return tuple(bind(values, results))

    def partition(mesh: Any, _: Any, result_shapes: Any) -> Any:
        spread = _spread(mesh, of_results, result_shapes)
        given, taken = _shardings(mesh, of_results, spread), _shardings(mesh, of_args, spread)
        local = tuple(
            jax.core.ShapedArray(sharding.shard_shape(aval.shape), aval.dtype)
            for aval, sharding in zip(results, given, strict=True)
        )
        return mesh, lambda *values: tuple(bind(values, local)), given, taken

    call.def_partition(partition, sharding_rule=rule)
    whole = jax.custom_batching.custom_vmap(call)

    @whole.def_vmap
    def refuse(*_: Any) -> Any:
        raise NotImplementedError(
            f"{where}: a call with sharding_rule={rule!r} has no vmap: call it on the whole batch, with a rule that names "
            "the batch's dimension, or in jax.shard_map, or without a rule"
        )

    return list(whole(*args))
