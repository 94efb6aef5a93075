# SPDX-License-Identifier: Apache-2.0
"""Describes XLA's custom calls in a program over several devices, and computes shardings of operands and results."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ... import _jax_compat
from .. import target_attributes


@dataclasses.dataclass
class Call:
    """A custom call with global shapes, and the shardings that XLA has chosen."""

    target: str
    config: Any  # the attributes, as an MLIR dictionary
    entries: Mapping[str, str | int]
    arg_shapes: Sequence[Any]
    arg_shardings: Sequence[Any]
    result_shapes: Sequence[Any]
    result_shardings: Sequence[Any]
    returned: Sequence[int] = ()  # operands that are results, too, behind those in `result_shapes`

    def and_returned(self, results: Sequence[Any], of_operands: Sequence[Any]) -> list[Any]:
        """Returns the items of `results`, followed by those of the returned operands; tokens come first in both."""
        return [*results, *(of_operands[len(self.result_shapes) + place] for place in self.returned)]

    def attribute(self, name: str) -> str | int | None:
        """Returns an attribute, or its default; None if the target does not have it."""
        return target_attributes.read(self.target, self.entries, name)

    def is_manual(self) -> bool:
        """Returns whether the call is inside shard_map, where an exported program may be called.

        A token's sharding is ignored, because it stays manual behind a manual region.
        """
        skipped = 1 if self.attribute("threaded") else 0  # a token that is an array
        values = [
            *list(zip(self.arg_shapes, self.arg_shardings, strict=True))[skipped:],
            *list(zip(self.result_shapes, self.result_shardings, strict=True))[skipped:],
        ]
        return any(_is_manual(sharding) for shape, sharding in values if shape.is_array())


def call_of(
    target: str,
    config: Any,
    of_ours: Mapping[str, str | int],
    arg_shapes: Sequence[Any],
    arg_shardings: Sequence[Any],
    result_shape: Any,
    sharding: Any,
) -> Call:
    """Makes the description of a call. `of_ours`: the attributes that the partitioner may read."""
    results = list(result_shape.tuple_shapes()) if result_shape.is_tuple() else [result_shape]
    elements = list(sharding.tuple_elements() or []) if result_shape.is_tuple() else [sharding]
    if len(elements) != len(results):
        elements = [sharding] * len(results)
    return Call(target, config, of_ours, arg_shapes, arg_shardings, results, elements)


def replicated() -> Any:
    """Returns the sharding that gives every device the whole value."""
    return _jax_compat.replicated_sharding()


def _is_manual(sharding: Any) -> bool:
    return sharding is not None and (sharding.is_manual() or bool(sharding.subgroup_types()))


def known(sharding: Any) -> Any:
    """Returns the sharding, or replication if there is none."""
    return replicated() if sharding is None else sharding


def tile(shape: Any, sharding: Any) -> Any:
    """Returns the shape of one device's shard."""
    return sharding.tile(shape) if shape.is_array() and sharding is not None else shape


def even(shape: Any, sharding: Any) -> Any:
    """Returns the sharding, or replication if it is uneven, because shards with padding are no part of the value."""
    if sharding is None or not shape.is_array() or not sharding.is_tiled():
        return replicated()
    tiles = sharding.tile_assignment_dimensions()
    divides = all(extent % count == 0 for extent, count in zip(shape.dimensions(), tiles, strict=False))
    return sharding if divides else replicated()


def offsets(shapes: Sequence[Any], shardings: Sequence[Any]) -> np.ndarray:
    """Returns the offsets of each device's shards: [device, dimension of an operand]."""
    num_devices = max([1, *(sharding.num_devices() for sharding in shardings if sharding.is_tiled())])
    columns = [np.zeros((num_devices, 0), np.int64)]
    for shape, sharding in zip(shapes, shardings, strict=True):
        if not shape.is_array():
            continue
        begin = np.zeros((num_devices, len(shape.dimensions())), np.int64)
        if sharding.is_tiled():
            tiles = np.asarray(sharding.tile_assignment_devices()).reshape(sharding.tile_assignment_dimensions())
            extents = sharding.tile(shape).dimensions()
            for index, device in np.ndenumerate(tiles):
                begin[device] = np.asarray(index[: len(extents)]) * extents
        columns.append(begin)
    return np.concatenate(columns, axis=1)


def alike(shapes: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
    """Returns shardings in which all operands of one shape have the sharding of the first of them that is sharded."""
    chosen: dict[tuple[int, ...], Any] = {}
    for shape, sharding in zip(shapes, shardings, strict=True):
        if shape.is_array() and sharding.is_tiled():
            chosen.setdefault(tuple(shape.dimensions()), sharding)
    return [
        chosen.get(tuple(shape.dimensions()), sharding) if shape.is_array() else sharding
        for shape, sharding in zip(shapes, shardings, strict=True)
    ]


def like_operands(call: Call, shardings: Sequence[Any]) -> list[Any]:
    """Returns shardings of results: each has the sharding of an operand of its shape, or else is replicated."""
    by_shape = {
        tuple(shape.dimensions()): sharding
        for shape, sharding in reversed(list(zip(call.arg_shapes, shardings, strict=True)))
        if shape.is_array()
    }
    spread = any(sharding.is_tiled() for sharding in shardings)
    found = []
    for i, shape in enumerate(call.result_shapes):
        sharding = by_shape.get(tuple(shape.dimensions())) if shape.is_array() else None
        if sharding is None and shape.is_array() and spread:
            raise NotImplementedError(
                f"'{call.attribute('callback') or call.target}', sharding=\"local\": result {i} has the shape of no "
                "argument, so how it is spread over the devices cannot be told; use jax.shard_map"
            )
        found.append(known(sharding))
    return found
