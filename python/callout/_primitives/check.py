# SPDX-License-Identifier: Apache-2.0
"""The primitive behind `error_if`, `warn_if` and `check`: a predicate that is read where it lies.

A batch of checks is one check (see inspections.py). Where only some lanes live (see live_lanes.py), the predicate is
false for the others. So nothing of a check is a branch or a loop.
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

_LONGEST_LABEL = 80


@dataclasses.dataclass(frozen=True)
class Text:
    """What a check says, and of which operands: the predicate, then values, then the step if `has_step`."""

    format: str
    source: str
    fails: bool
    elementwise: tuple[bool, ...]  # one a value
    has_step: bool


def bind(text: Text, operands: Sequence[Any]) -> None:
    """Binds a check of operands that are in no batch."""
    check_p.bind(*operands, text=text, lanes=Lanes((0,) * len(operands)))


def _as_taps(*operands: Any, text: Text, lanes: Lanes) -> tuple[()]:
    masks = [str(lanes.masks[0])]
    values = lanes.masks[1 : len(lanes.masks) - text.has_step]
    masks += [f"{mask}{'e' if same else ''}" for mask, same in zip(values, text.elementwise, strict=True)]
    fields = (
        "1",
        "raise" if text.fails else "warn",
        inspections.escaped(text.source, ";"),
        str(lanes.extents),
        ",".join(masks),
    )
    target = carried_target(_ext.check_prefix + ";".join((*fields, text.format)))
    site = make_site(
        names=("", *map(str, range(len(masks) - 1))),
        name=" ".join(text.format.split())[:_LONGEST_LABEL],
        on_full="drop_newest",  # what is sent is a notice
        sharding="local",
        has_step=text.has_step,
        can_fail=text.fails,
    )
    tap_p.bind(*operands, target=target, site=site, transforms=no_transforms)
    return ()


check_p = inspections.make("callout_check", _as_taps)


def bind_live(live: Any, operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Binds a check that is one of nothing where `live`, a boolean, is false."""
    predicate, *rest = operands
    return list(check_p.bind(predicate & live, *rest, **params))


def _batch(operands: Sequence[Any], dims: Sequence[int | None], *, text: Text, lanes: Lanes) -> tuple[Any, Any]:
    if text.has_step and dims[-1] is not None:
        raise ValueError(
            "callout.error_if: `step` differs from lane to lane of a vmap; pass it as a value, and name it in the text"
        )
    return inspections.bind_batch(check_p, "callout.error_if", operands, dims, lanes=lanes, text=text)


batching.primitive_batchers[check_p] = _batch
