# SPDX-License-Identifier: Apache-2.0
"""What XLA says of a custom call in a program over several devices, and which shardings its operands and results get."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ... import _jax_compat
from .. import target_attributes


@dataclasses.dataclass
class Call:
    """A custom call as XLA shows it: global shapes, and the shardings that it has settled on."""

    target: str
    config: Any  # its attributes, a dictionary of MLIR's
    entries: Mapping[str, str | int]
    arg_shapes: Sequence[Any]
    arg_shardings: Sequence[Any]
    result_shapes: Sequence[Any]
    result_shardings: Sequence[Any]
    returned: Sequence[int] = ()  # operands that are results, too, behind those in `result_shapes`

    def and_returned(self, results: Sequence[Any], of_operands: Sequence[Any]) -> list[Any]:
        """Returns what belongs to the results, and then to those operands; tokens come first among both."""
        return [*results, *(of_operands[len(self.result_shapes) + place] for place in self.returned)]

    def said(self, name: str) -> str | int | None:
        """Returns an attribute, or its default; None where the target does not have it."""
        return target_attributes.read(self.target, self.entries, name)

    def is_manual(self) -> bool:
        """Tells whether the call is inside shard_map, where an exported program may be called.

        A token does not tell: after a manual region it is still called manual.
        """
        skipped = 1 if self.said("threaded") else 0  # a token that is an array
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
    """Makes the call that XLA asks about. `of_ours`: what the partitioner may read of its attributes."""
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
    """Returns the sharding, or replication where there is none."""
    return replicated() if sharding is None else sharding


def tile(shape: Any, sharding: Any) -> Any:
    """Returns the shape of what one device has."""
    return sharding.tile(shape) if shape.is_array() and sharding is not None else shape


def even(shape: Any, sharding: Any) -> Any:
    """Returns the sharding, or replication where it does not divide the value: a shard with padding is nobody's value."""
    if sharding is None or not shape.is_array() or not sharding.is_tiled():
        return replicated()
    tiles = sharding.tile_assignment_dimensions()
    divides = all(extent % count == 0 for extent, count in zip(shape.dimensions(), tiles, strict=False))
    return sharding if divides else replicated()


def offsets(shapes: Sequence[Any], shardings: Sequence[Any]) -> np.ndarray:
    """Tells where each device's shards begin: [device, dimension of an operand]."""
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
    """Spreads operands of one shape alike: as the first of them that is spread."""
    chosen: dict[tuple[int, ...], Any] = {}
    for shape, sharding in zip(shapes, shardings, strict=True):
        if shape.is_array() and sharding.is_tiled():
            chosen.setdefault(tuple(shape.dimensions()), sharding)
    return [
        chosen.get(tuple(shape.dimensions()), sharding) if shape.is_array() else sharding
        for shape, sharding in zip(shapes, shardings, strict=True)
    ]


def like_operands(call: Call, shardings: Sequence[Any]) -> list[Any]:
    """Gives each result the sharding of an operand of the same shape, or a replicated one if no operand is spread."""
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
                f"'{call.said('callback') or call.target}', sharding=\"local\": result {i} has the shape of no argument, so "
                "how it is spread over the devices cannot be told; use jax.shard_map"
            )
        found.append(known(sharding))
    return found
