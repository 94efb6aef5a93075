# SPDX-License-Identifier: Apache-2.0
"""The primitives behind `error_if`, `warn_if`, `check` and `locate_nans` inspect values where they lie.

A batch of inspections is one inspection: its operands have the lanes in front, and its parameters tell which
have. It is carried out as a tap that copies nothing, and has no results.

A check reads a predicate. Where only some lanes live (see live_lanes.py), the predicate is false for the others. So nothing
of a check is a branch or a loop.

`locate_nans` reads the results of a line of the user's program, and the line's inputs. The operands are what live_lanes.py
says of the lanes, if it does, then results, inputs, and the steps of the loops around.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.extend.core
from jax.interpreters import ad, batching, mlir

from .. import _ext, _jax_compat
from .._targets.target import carried_target
from . import debug, effects, lowering
from .site import make_site
from .tap import no_transforms, tap_p

_MOST_EXTENTS = 16  # src/sinks/inspectors/check.cc, src/sinks/inspectors/located_nans_payload.cc
_LONGEST_LABEL = 80


@dataclasses.dataclass(frozen=True)
class Lanes:
    """The extents of the batch, which operands have in front. Bit i of a mask: it has the i-th, the outermost first."""

    masks: tuple[int, ...]
    extents: int = 0

    def and_one(self, batched: Sequence[bool]) -> Lanes:
        """Adds an outermost extent, that of the operands told."""
        masks = tuple(mask << 1 | is_batched for mask, is_batched in zip(self.masks, batched, strict=True))
        return Lanes(masks, self.extents + 1)


def escaped(text: str, separators: str) -> str:
    """Returns a field of a payload, in which separators stand as percent escapes."""
    return "".join(f"%{ord(c):02X}" if c in separators or c == "%" or ord(c) < 32 else c for c in text)


def make(name: str, as_taps: Callable[..., tuple[()]]) -> jax.extend.core.Primitive:
    """Returns a primitive that `as_taps`, of its operands and parameters, carries out; without a rule for `vmap`."""
    primitive = jax.extend.core.Primitive(name)
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
    _jax_compat.register_remat_rule(primitive, debug.partial_eval)
    lowering.register(primitive, lower)
    return primitive


def bind_batch(
    primitive: jax.extend.core.Primitive,
    where: str,
    operands: Sequence[Any],
    dims: Sequence[int | None],
    *,
    lanes: Lanes,
    **params: Any,
) -> tuple[Any, Any]:
    """Binds the inspection with an extent in front, for a rule of `vmap`. NotImplementedError, by `where`: too many."""
    if lanes.extents == _MOST_EXTENTS:
        raise NotImplementedError(f"{where}: inside more than {_MOST_EXTENTS} vmaps")
    front = [x if dim is None else jax.numpy.moveaxis(x, dim, 0) for x, dim in zip(operands, dims, strict=True)]
    primitive.bind(*front, lanes=lanes.and_one([dim is not None for dim in dims]), **params)
    return [], []


@dataclasses.dataclass(frozen=True)
class CheckText:
    """What a check says, and of which operands: the predicate, then values, then the step if `has_step`."""

    format: str
    source: str
    fails: bool
    elementwise: tuple[bool, ...]  # one a value
    has_step: bool


def _check_as_taps(*operands: Any, text: CheckText, lanes: Lanes) -> tuple[()]:
    masks = [str(lanes.masks[0])]
    values = lanes.masks[1 : len(lanes.masks) - text.has_step]
    masks += [f"{mask}{'e' if same else ''}" for mask, same in zip(values, text.elementwise, strict=True)]
    fields = (
        "1",
        "raise" if text.fails else "warn",
        escaped(text.source, ";"),
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


check_p = make("callout_check", _check_as_taps)


def bind_check(text: CheckText, operands: Sequence[Any]) -> None:
    """Binds a check of operands that are in no batch."""
    check_p.bind(*operands, text=text, lanes=Lanes((0,) * len(operands)))


def bind_live_check(live: Any, operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Binds a check that is one of nothing where `live`, a boolean, is false."""
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


def _located_nans_field(text: str) -> str:
    return escaped(text, ";,")


def _located_nans_as_taps(*operands: Any, text: LocatedNansText, lanes: Lanes) -> tuple[()]:
    fields = (
        "1",
        "raise" if text.stop else "warn",
        "ni" if text.infinities else "n",
        "backward" if text.backward else "forward",
        str(text.order),
        str(lanes.extents),
        ",".join(map(str, lanes.masks)),
        str(int(text.has_live)),
        ",".join(map(_located_nans_field, text.operations)),
        str(text.num_inputs),
        str(text.num_steps),
        *map(_located_nans_field, (text.line, text.expression, text.module)),
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


located_nans_p = make("callout_located_nans", _located_nans_as_taps)


def bind_located_nans(text: LocatedNansText, operands: Sequence[Any]) -> None:
    """Binds it for operands that are in no batch."""
    located_nans_p.bind(*operands, text=text, lanes=Lanes((0,) * len(operands)))


def bind_live_located_nans(live: Any, operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Binds it so that nothing is read where `live`, a boolean, is false."""
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
