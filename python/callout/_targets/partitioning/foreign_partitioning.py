# SPDX-License-Identifier: Apache-2.0
"""Foreign targets in a jit over several devices.

The call carries what the partitioner needs to know, which takes it out: a handler refuses attributes that it did not ask
for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

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
    """Returns what the target is called until the partitioner has seen the call."""
    name = f"callout.spread.{target}"
    if name not in _known and _jax_compat.has_partitioner():
        _known.add(name)
        _jax_compat.register_partitioner(name, _partitioner(target))
    return name


def attributes(target: str, num_devices: int, sharding: str | None, has_side_effect: bool) -> dict[str, Any]:
    """Returns what goes into the call; nothing where the compiler does not spread the program, or nothing was asked for."""
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
    """Tells XLA how shardings propagate through the call."""
    if sharding == "local" and results:
        rule = results_like_operands(operands, avals)
        results[0].owner.attributes["sdy.sharding_rule"] = ir.Attribute.parse(rule)


def _clean(config: Any) -> tuple[Any, dict[str, Any]]:
    """Returns the attributes without ours, and ours."""
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
