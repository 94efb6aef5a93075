# SPDX-License-Identifier: Apache-2.0
"""The primitives behind `error_if`, `warn_if`, `check` and `locate_nans` inspect values in place.

A batch of inspections is one inspection: its operands have the lanes as leading axes, and its parameters tell which
operands have them. An inspection is lowered to a tap that copies nothing, and has no results.

A check reads a predicate. If only some lanes are live (see live_lanes.py), the predicate is false for the others. So a
check needs no branch and no loop.

`locate_nans` reads the results of a line of the user's program, and the line's inputs. The operands are the mask of
live lanes from live_lanes.py, if there is one, then results, inputs, and the steps of the enclosing loops.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend import core as jex_core
from jax.interpreters import ad, batching, mlir

from .. import _jax_compat
from .._targets.target import embedded_target
from .._targets.target_attributes import payload
from . import debug, effects, lowering
from .site import make_site
from .tap import no_transforms, tap_p

_MOST_EXTENTS = 16  # the limit of src/sinks/inspectors/inspection.h
_LONGEST_LABEL = 80


@dataclasses.dataclass(frozen=True)
class Lanes:
    """The extents of the batch, outermost first, and a mask for each operand: bit i tells whether it has the i-th extent."""

    masks: tuple[int, ...]
    extents: int = 0

    def and_one(self, batched: Sequence[bool]) -> Lanes:
        """Adds an outermost extent, which the operands in `batched` have."""
        masks = tuple(mask << 1 | is_batched for mask, is_batched in zip(self.masks, batched, strict=True))
        return Lanes(masks, self.extents + 1)


def make(name: str, as_taps: Callable[..., tuple[()]]) -> jex_core.Primitive:
    """Returns a primitive that is lowered to `as_taps(*operands, **params)`. It has no rule for `vmap` yet."""
    primitive = jex_core.Primitive(name)
    primitive.multiple_results = True

    def abstract_eval(*_: Any, **__: Any) -> tuple[list[Any], set[Any]]:
        return [], effects.observing(False)

    def eager(*operands: Any, **params: Any) -> list[Any]:
        return list(as_taps(*operands, **params))

    def jvp(primals: Sequence[Any], _: Any, **params: Any) -> tuple[Any, list[Any]]:
        return primitive.bind(*primals, **params), []

    def lower(ctx: mlir.LoweringRuleContext, *operands: Any, **params: Any) -> Sequence[Any]:
        def run(*values: Any) -> tuple[()]:
            return as_taps(*values, **params)

        results: Sequence[Any] = mlir.lower_fun(run, multiple_results=True)(ctx, *operands)
        return results

    primitive.def_effectful_abstract_eval(abstract_eval)
    primitive.def_impl(eager)
    ad.primitive_jvps[primitive] = jvp
    ad.primitive_transposes[primitive] = lambda _, *operands, **__: [None] * len(operands)
    _jax_compat.register_remat_rule(primitive, debug.partial_eval, debug.kept)
    lowering.register(primitive, lower)
    return primitive


def bind_batch(
    primitive: jex_core.Primitive,
    where: str,
    operands: Sequence[Any],
    dims: Sequence[int | None],
    *,
    lanes: Lanes,
    **params: Any,
) -> tuple[Any, Any]:
    """Binds the inspection with a further extent, for a `vmap` rule. Raises NotImplementedError, with `where`, beyond 16."""
    if lanes.extents == _MOST_EXTENTS:
        raise NotImplementedError(f"{where}: inside more than {_MOST_EXTENTS} vmaps")
    front = [x if dim is None else jax.numpy.moveaxis(x, dim, 0) for x, dim in zip(operands, dims, strict=True)]
    primitive.bind(*front, lanes=lanes.and_one([dim is not None for dim in dims]), **params)
    return [], []


@dataclasses.dataclass(frozen=True)
class CheckText:
    """The message of a check and the form of its operands: the predicate, then values, then the step if `has_step`."""

    format: str
    source: str
    fails: bool
    elementwise: tuple[bool, ...]  # one for each value
    has_step: bool


def _check_as_taps(*operands: Any, text: CheckText, lanes: Lanes) -> tuple[()]:
    ends = ("", *("e" if same else "" for same in text.elementwise))  # for all operands but the step
    masks = [f"{mask}{end}" for mask, end in zip(lanes.masks, ends, strict=False)]
    name = payload(
        "check:",
        action="raise" if text.fails else "warn",
        source=text.source,
        extents=lanes.extents,
        operands=masks,
        text=text.format,
    )
    site = make_site(
        names=("", *map(str, range(len(masks) - 1))),
        name=" ".join(text.format.split())[:_LONGEST_LABEL],
        on_full="drop_newest",  # the site only sends notices
        sharding="local",
        has_step=text.has_step,
        can_fail=text.fails,
    )
    tap_p.bind(*operands, target=embedded_target(name), site=site, transforms=no_transforms)
    return ()


check_p = make("callout_check", _check_as_taps)


def bind_check(text: CheckText, operands: Sequence[Any]) -> None:
    """Binds a check of operands without a batch."""
    check_p.bind(*operands, text=text, lanes=Lanes((0,) * len(operands)))


def bind_live_check(live: Any, operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Binds a check whose predicate is false where `live`, a boolean, is false."""
    predicate, *rest = operands
    return list(check_p.bind(predicate & live, *rest, **params))


def _batch_check(
    operands: Sequence[Any], dims: Sequence[int | None], *, text: CheckText, lanes: Lanes
) -> tuple[Any, Any]:
    if text.has_step and dims[-1] is not None:
        raise ValueError(
            "callout.error_if: `step` differs from lane to lane of a vmap; pass it as a value, and name it in the text"
        )
    return bind_batch(check_p, "callout.error_if", operands, dims, lanes=lanes, text=text)


batching.primitive_batchers[check_p] = _batch_check


@dataclasses.dataclass(frozen=True)
class LocatedNansText:
    """The texts for a report on the results of a line, an operation, a function or a module."""

    line: str  # "file.py:12 in f"
    expression: str
    module: str
    operations: tuple[str, ...]  # one for each result
    num_inputs: int
    num_steps: int
    order: int
    backward: bool
    infinities: bool
    stop: bool
    has_live: bool = False


def _located_nans_as_taps(*operands: Any, text: LocatedNansText, lanes: Lanes) -> tuple[()]:
    name = payload(
        "nans:",
        action="raise" if text.stop else "warn",
        kinds="ni" if text.infinities else "n",
        direction="backward" if text.backward else "forward",
        order=text.order,
        extents=lanes.extents,
        masks=lanes.masks,
        live=int(text.has_live),
        operations=text.operations,
        inputs=text.num_inputs,
        steps=text.num_steps,
        place=text.line,
        code=text.expression,
        scopes=text.module,
    )
    site = make_site(
        names=tuple(map(str, range(len(operands)))),
        name="locate_nans",
        on_full="drop_newest",  # the site sends nothing
        sharding="local",
        can_fail=text.stop,
    )
    tap_p.bind(*operands, target=embedded_target(name), site=site, transforms=no_transforms)
    return ()


located_nans_p = make("callout_located_nans", _located_nans_as_taps)


def bind_located_nans(text: LocatedNansText, operands: Sequence[Any]) -> None:
    """Binds an inspection of operands without a batch."""
    located_nans_p.bind(*operands, text=text, lanes=Lanes((0,) * len(operands)))


def bind_live_located_nans(live: Any, operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Binds an inspection that reads nothing where `live`, a boolean, is false."""
    text, lanes = params["text"], params["lanes"]
    if text.has_live:
        before, *rest = operands
        return list(located_nans_p.bind(before & live, *rest, text=text, lanes=lanes))
    text = dataclasses.replace(text, has_live=True)
    return list(located_nans_p.bind(live, *operands, text=text, lanes=Lanes((0, *lanes.masks), lanes.extents)))


def _batch_located_nans(
    operands: Sequence[Any], dims: Sequence[int | None], *, text: LocatedNansText, lanes: Lanes
) -> tuple[Any, Any]:
    return bind_batch(located_nans_p, "callout.locate_nans", operands, dims, lanes=lanes, text=text)


batching.primitive_batchers[located_nans_p] = _batch_located_nans
