# SPDX-License-Identifier: Apache-2.0
"""The primitive behind `locate_nans`: results of a place in the user's program, and its inputs, looked at where they lie.

The operands are what live_lanes.py says of the lanes, if it does, then results, inputs, and the steps of the loops around. A
batch of places is one place, as with checks: see check.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.extend.core
from jax.interpreters import ad, batching, mlir

from .. import _ext, _jax_compat
from .._site import make_site
from .._targets import carried_target
from . import debug, effects, lowering
from .check import Lanes
from .tap import no_transforms, tap_p

origin_p = jax.extend.core.Primitive("callout_origin")
origin_p.multiple_results = True

_MOST_EXTENTS = 16  # src/checks/origin_payload.cc


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
    return "".join(f"%{ord(c):02X}" if c in ";,%" or ord(c) < 32 else c for c in text)


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


@origin_p.def_impl
def _eager(*operands: Any, **params: Any) -> list[Any]:
    return list(_as_taps(*operands, **params))


@origin_p.def_effectful_abstract_eval
def _abstract_eval(*_: Any, **__: Any) -> tuple[list[Any], set[Any]]:
    return [], effects.observing(False)


def _lower(ctx: mlir.LoweringRuleContext, *operands: Any, **params: Any) -> Sequence[Any]:
    def run(*values: Any) -> tuple[()]:
        return _as_taps(*values, **params)

    results: Sequence[Any] = mlir.lower_fun(run, multiple_results=True)(ctx, *operands)
    return results


lowering.register(origin_p, _lower)


def bind_live(live: Any, operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Binds a place that is not looked at where `live`, a boolean, is false."""
    place, lanes = params["place"], params["lanes"]
    if place.has_live:
        before, *rest = operands
        return list(origin_p.bind(before & live, *rest, place=place, lanes=lanes))
    place = dataclasses.replace(place, has_live=True)
    return list(origin_p.bind(live, *operands, place=place, lanes=Lanes((0, *lanes.masks), lanes.extents)))


def _batch(operands: Sequence[Any], dims: Sequence[int | None], *, place: Place, lanes: Lanes) -> tuple[Any, Any]:
    if lanes.extents == _MOST_EXTENTS:
        raise NotImplementedError(f"callout.locate_nans: inside more than {_MOST_EXTENTS} vmaps")
    front = [x if dim is None else jax.numpy.moveaxis(x, dim, 0) for x, dim in zip(operands, dims, strict=True)]
    origin_p.bind(*front, place=place, lanes=lanes.and_one([dim is not None for dim in dims]))
    return [], []


batching.primitive_batchers[origin_p] = _batch


def _jvp(primals: Sequence[Any], _: Any, **params: Any) -> tuple[Any, list[Any]]:
    return origin_p.bind(*primals, **params), []


ad.primitive_jvps[origin_p] = _jvp
ad.primitive_transposes[origin_p] = lambda _, *operands, **__: [None] * len(operands)
_jax_compat.register_remat_rule(origin_p, debug.partial_eval)
