# SPDX-License-Identifier: Apache-2.0
"""Partitions calls of foreign targets in a jit over several devices, by XLA's partitioner or by the user's rule.

A call carries attributes for the partitioner, which removes them, because a handler rejects unknown attributes. A rule
defines how the shards of results follow from the shards of arguments; each device then calls with its shards.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.mlir import ir

from ... import _jax_compat
from ..._base.loggers import logger
from . import partitioned_calls, partitioner, stablehlo
from .sharding_rule import results_like_operands
from .shards import Call, call_of, known, replicated

SHARDINGS = ("gather", "local", "error", None)
DEFAULT = "gather by default"
_PREFIX = "callout_partition_"
_known: set[str] = set()
_warned: set[str] = set()


def name_for(target: str) -> str:
    """Returns the target's temporary name, until the partitioner has replaced the call."""
    name = f"callout.spread.{target}"
    if name not in _known and _jax_compat.has_partitioner():
        _known.add(name)
        _jax_compat.register_partitioner(name, _partitioner(target))
    return name


def attributes(target: str, num_devices: int, sharding: str | None, has_side_effect: bool) -> dict[str, Any]:
    """Returns the partitioner's attributes for a call; none if the compiler does not partition it or no mode is set."""
    if num_devices < 2 or sharding is None:
        return {}
    where = f"callout.ffi.ffi_call '{target}'"
    if sharding == "error":
        raise NotImplementedError(
            f"{where}: it is in a jit over {num_devices} devices, and sharding='error'. Call it in jax.shard_map, or say "
            "sharding='gather' (whole arrays) or 'local' (each device's shards)"
        )
    if not _jax_compat.has_partitioner():
        raise NotImplementedError(f"{where}: this jaxlib lacks an entry point for that; call it in jax.shard_map")
    return {f"{_PREFIX}sharding": sharding, f"{_PREFIX}once": np.int64(has_side_effect)}


def set_rule(results: Sequence[Any], operands: Sequence[Any], avals: Sequence[Any], sharding: str | None) -> None:
    """Sets the rule by which XLA propagates shardings through the call."""
    if sharding == "local" and results:
        rule = results_like_operands(operands, avals)
        results[0].owner.attributes["sdy.sharding_rule"] = ir.Attribute.parse(rule)


def _clean(config: Any) -> tuple[Any, dict[str, Any]]:
    """Returns the attributes of the handler, and those of the partitioner."""
    ours = {
        name.removeprefix(_PREFIX): value
        for name, value in partitioned_calls.entries(config).items()
        if name.startswith(_PREFIX)
    }
    return partitioned_calls.without(config, lambda name: name.startswith(_PREFIX)), ours


def _partitioner(target: str) -> Any:
    def partition(
        arg_shapes: Sequence[Any], arg_shardings: Sequence[Any], result_shape: Any, result_sharding: Any, config: bytes
    ) -> tuple[bytes, Sequence[Any], Any]:
        with stablehlo.writing():
            text, ours = _clean(stablehlo.dictionary(config))
            call = call_of(target, text, {}, arg_shapes, arg_shardings, result_shape, result_sharding)
            if call.is_manual():
                return partitioned_calls.as_it_is(call), list(map(known, arg_shardings)), result_sharding
            if ours["sharding"] == DEFAULT:
                _warn(call)
            return partitioner.answer(_spread(call, ours), result_shape, result_sharding)

    return partition


def _spread(call: Call, ours: dict[str, Any]) -> partitioned_calls.Partitioned:
    if ours["sharding"] == "local":
        return partitioned_calls.on_shards(call)
    if ours["once"]:
        return partitioned_calls.on_one(call, deferred=False)
    shardings, spread = ([replicated()] * len(shapes) for shapes in (call.arg_shapes, call.result_shapes))
    whole = dataclasses.replace(call, arg_shardings=shardings, result_shardings=spread)
    return partitioned_calls.as_it_is(whole), shardings, spread


def _warn(call: Any) -> None:
    if call.target in _warned or not any(s is not None and s.is_tiled() for s in call.arg_shardings):
        return
    _warned.add(call.target)
    logger.warning(
        "ffi_call '%s' collects its sharded arguments on every device of a jit; sharding=\"local\" calls it on each "
        'device\'s own shards, sharding="error" refuses, and sharding="gather" says that this is meant',
        call.target,
    )


# Names of the dimensions of each array.
Dims = list[list[str]]


def _dims(side: str) -> Dims:
    return [part.split() for part in side.split(",")] if side.strip() else []


def parse_rule(where: str, rule: str, args: Sequence[Any], results: Sequence[Any]) -> tuple[Dims, Dims]:
    """Parses a rule. Raises ValueError if it does not fit the arrays."""
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


def _spread_dims(mesh: Any, dims: Dims, arrays: Sequence[Any]) -> dict[str, Any]:
    """Returns the mesh axes of each dimension that is sharded evenly."""
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
    """Calls `bind(args, results)` on each device, with its shards.

    Args:
        where: the begin of errors.
        bind: calls the function with arrays, for results of these shapes and dtypes.
        rule: the text of the rule.
        dims: the parsed rule. Dimensions of one name are sharded like those of the results; others are gathered.
        args: the whole arrays.
        results: shapes and dtypes of the whole results.
    """
    from jax.experimental.custom_partitioning import custom_partitioning  # the import takes some milliseconds

    of_args, of_results = dims

    @custom_partitioning
    def call(*values: Any) -> Any:
        return tuple(bind(values, results))

    def partition(mesh: Any, _: Any, result_shapes: Any) -> Any:
        spread = _spread_dims(mesh, of_results, result_shapes)
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
