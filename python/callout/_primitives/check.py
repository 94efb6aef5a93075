# SPDX-License-Identifier: Apache-2.0
"""The primitive behind `error_if`, `warn_if` and `check`: a predicate that is looked at where it lies.

A batch of checks is one check: its operands have the lanes in front, and what it says of itself tells which. Where only some
lanes live (see live_lanes.py), the predicate is false for the others. So nothing of a check is a branch or a loop. It is
carried out as a tap that copies nothing.
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
from .tap import no_transforms, tap_p

check_p = jax.extend.core.Primitive("callout_check")
check_p.multiple_results = True

_MOST_EXTENTS = 16  # src/checks/check_payload.cc
_LONGEST_LABEL = 80


@dataclasses.dataclass(frozen=True)
class Text:
    """What a check says, and of which operands: the predicate, then values, then the step if `has_step`."""

    format: str
    source: str
    fails: bool
    elementwise: tuple[bool, ...]  # one a value
    has_step: bool


@dataclasses.dataclass(frozen=True)
class Lanes:
    """The extents of the batch, which operands have in front. Bit i of a mask: it has the i-th, the outermost first."""

    masks: tuple[int, ...]
    extents: int = 0

    def and_one(self, batched: Sequence[bool]) -> Lanes:
        """With an outermost extent more, that of the operands told."""
        masks = tuple(mask << 1 | is_batched for mask, is_batched in zip(self.masks, batched, strict=True))
        return Lanes(masks, self.extents + 1)


def bind(text: Text, operands: Sequence[Any]) -> None:
    """Binds a check of operands that are in no batch."""
    check_p.bind(*operands, text=text, lanes=Lanes((0,) * len(operands)))


def _as_taps(*operands: Any, text: Text, lanes: Lanes) -> tuple[()]:
    masks = [str(lanes.masks[0])]
    values = lanes.masks[1 : len(lanes.masks) - text.has_step]
    masks += [f"{mask}{'e' if same else ''}" for mask, same in zip(values, text.elementwise, strict=True)]
    fields = ("1", "raise" if text.fails else "warn", _escaped(text.source), str(lanes.extents), ",".join(masks))
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


def _escaped(text: str) -> str:
    return "".join(f"%{ord(c):02X}" if c in ";%" or ord(c) < 32 else c for c in text)


@check_p.def_impl
def _eager(*operands: Any, **params: Any) -> list[Any]:
    return list(_as_taps(*operands, **params))


@check_p.def_effectful_abstract_eval
def _abstract_eval(*_: Any, **__: Any) -> tuple[list[Any], set[Any]]:
    return [], effects.observing(False)


def _lower(ctx: mlir.LoweringRuleContext, *operands: Any, **params: Any) -> Sequence[Any]:
    def run(*values: Any) -> tuple[()]:
        return _as_taps(*values, **params)

    results: Sequence[Any] = mlir.lower_fun(run, multiple_results=True)(ctx, *operands)
    return results


lowering.register(check_p, _lower)


def bind_live(live: Any, operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Binds a check that is one of nothing where `live`, a boolean, is false."""
    predicate, *rest = operands
    return list(check_p.bind(predicate & live, *rest, **params))


def _batch(operands: Sequence[Any], dims: Sequence[int | None], *, text: Text, lanes: Lanes) -> tuple[Any, Any]:
    if text.has_step and dims[-1] is not None:
        raise ValueError(
            "callout.error_if: `step` differs from lane to lane of a vmap; pass it as a value, and name it in the text"
        )
    if lanes.extents == _MOST_EXTENTS:
        raise NotImplementedError(f"callout.error_if: inside more than {_MOST_EXTENTS} vmaps")
    front = [x if dim is None else jax.numpy.moveaxis(x, dim, 0) for x, dim in zip(operands, dims, strict=True)]
    check_p.bind(*front, text=text, lanes=lanes.and_one([dim is not None for dim in dims]))
    return [], []


batching.primitive_batchers[check_p] = _batch


def _jvp(primals: Sequence[Any], _: Any, **params: Any) -> tuple[Any, list[Any]]:
    return check_p.bind(*primals, **params), []


ad.primitive_jvps[check_p] = _jvp
ad.primitive_transposes[check_p] = lambda _, *operands, **__: [None] * len(operands)
_jax_compat.register_remat_rule(check_p, debug.partial_eval)
