# SPDX-License-Identifier: Apache-2.0
"""The primitive behind `locate_nans`: results of a place in the user's program, and its inputs, looked at where they lie.

The operands are what live_lanes.py says of the lanes, if it does, then results, inputs, and the steps of the loops around. A
batch of places is one place: see looks.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from jax.interpreters import batching

from .. import _ext
from .._targets.target import carried_target
from . import looks
from .looks import Lanes
from .site import make_site
from .tap import no_transforms, tap_p


@dataclasses.dataclass(frozen=True)
class Place:
    """What is said of a place."""

    line: str  # "file.py:12 in f"
    expression: str
    module: str
    operations: tuple[str, ...]  # one a result
    num_inputs: int
    num_steps: int
    order: int
    backward: bool
    infinities: bool
    stop: bool
    has_live: bool = False


def bind(place: Place, operands: Sequence[Any]) -> None:
    """Binds a place whose operands are in no batch."""
    origin_p.bind(*operands, place=place, lanes=Lanes((0,) * len(operands)))


def _escaped(text: str) -> str:
    return looks.escaped(text, ";,")


def _as_taps(*operands: Any, place: Place, lanes: Lanes) -> tuple[()]:
    fields = (
        "1",
        "raise" if place.stop else "warn",
        "ni" if place.infinities else "n",
        "backward" if place.backward else "forward",
        str(place.order),
        str(lanes.extents),
        ",".join(map(str, lanes.masks)),
        str(int(place.has_live)),
        ",".join(map(_escaped, place.operations)),
        str(place.num_inputs),
        str(place.num_steps),
        *map(_escaped, (place.line, place.expression, place.module)),
    )
    site = make_site(
        names=tuple(map(str, range(len(operands)))),
        name="locate_nans",
        on_full="drop_newest",  # nothing is sent
        sharding="local",
        can_fail=place.stop,
    )
    target = carried_target(_ext.nans_prefix + ";".join(fields))
    tap_p.bind(*operands, target=target, site=site, transforms=no_transforms)
    return ()


origin_p = looks.make("callout_origin", _as_taps)


def bind_live(live: Any, operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Binds a place that is not looked at where `live`, a boolean, is false."""
    place, lanes = params["place"], params["lanes"]
    if place.has_live:
        before, *rest = operands
        return list(origin_p.bind(before & live, *rest, place=place, lanes=lanes))
    place = dataclasses.replace(place, has_live=True)
    return list(origin_p.bind(live, *operands, place=place, lanes=Lanes((0, *lanes.masks), lanes.extents)))


def _batch(operands: Sequence[Any], dims: Sequence[int | None], *, place: Place, lanes: Lanes) -> tuple[Any, Any]:
    return looks.bind_batch(origin_p, "callout.locate_nans", operands, dims, lanes=lanes, place=place)


batching.primitive_batchers[origin_p] = _batch
