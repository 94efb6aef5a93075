# SPDX-License-Identifier: Apache-2.0
"""The primitive behind `locate_nans`: results of a line of the user's program, and its inputs, read where they lie.

The operands are what live_lanes.py says of the lanes, if it does, then results, inputs, and the steps of the loops around. A
batch is bound as one: see inspections.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from jax.interpreters import batching

from .. import _ext
from .._targets.target import carried_target
from . import inspections
from .inspections import Lanes
from .site import make_site
from .tap import no_transforms, tap_p


@dataclasses.dataclass(frozen=True)
class LocatedNansText:
    """What is said of the results of a line, or of an operation, a function or a module."""

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


def bind(text: LocatedNansText, operands: Sequence[Any]) -> None:
    """Binds it for operands that are in no batch."""
    located_nans_p.bind(*operands, text=text, lanes=Lanes((0,) * len(operands)))


def _escaped(text: str) -> str:
    return inspections.escaped(text, ";,")


def _as_taps(*operands: Any, text: LocatedNansText, lanes: Lanes) -> tuple[()]:
    fields = (
        "1",
        "raise" if text.stop else "warn",
        "ni" if text.infinities else "n",
        "backward" if text.backward else "forward",
        str(text.order),
        str(lanes.extents),
        ",".join(map(str, lanes.masks)),
        str(int(text.has_live)),
        ",".join(map(_escaped, text.operations)),
        str(text.num_inputs),
        str(text.num_steps),
        *map(_escaped, (text.line, text.expression, text.module)),
    )
    site = make_site(
        names=tuple(map(str, range(len(operands)))),
        name="locate_nans",
        on_full="drop_newest",  # nothing is sent
        sharding="local",
        can_fail=text.stop,
    )
    target = carried_target(_ext.located_nans_prefix + ";".join(fields))
    tap_p.bind(*operands, target=target, site=site, transforms=no_transforms)
    return ()


located_nans_p = inspections.make("callout_located_nans", _as_taps)


def bind_live(live: Any, operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Binds it so that nothing is read where `live`, a boolean, is false."""
    text, lanes = params["text"], params["lanes"]
    if text.has_live:
        before, *rest = operands
        return list(located_nans_p.bind(before & live, *rest, text=text, lanes=lanes))
    text = dataclasses.replace(text, has_live=True)
    return list(located_nans_p.bind(live, *operands, text=text, lanes=Lanes((0, *lanes.masks), lanes.extents)))


def _batch(
    operands: Sequence[Any], dims: Sequence[int | None], *, text: LocatedNansText, lanes: Lanes
) -> tuple[Any, Any]:
    return inspections.bind_batch(located_nans_p, "callout.locate_nans", operands, dims, lanes=lanes, text=text)


batching.primitive_batchers[located_nans_p] = _batch
