# SPDX-License-Identifier: Apache-2.0
"""Callbacks of single lanes, for callbacks that under `vmap` must run lane by lane, or only for some of the lanes.

Each primitive with side effects has a second primitive for its lanes. The second one takes a mask of live lanes (see
live_lanes.py) and the operands of all lanes, and is one equation for every transformation. It is lowered to a loop over
the lanes with a cond around the callback, so that the callback gets the operands of one lane, as without `vmap`. The
computation around the callback is batched.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend import core as jex_core
from jax.extend.mlir import ir
from jax.interpreters import ad, batching, mlir, xla

from .. import _jax_compat
from . import buffer, call, call_kinds, context, debug, ffi, tap, threaded
from .context import NamedDevice
from .token import TOKEN, no_tangent, one_token

Params = tuple[tuple[str, Any], ...]


class Lanes(NamedTuple):
    """The lanes of an equation's operands: extents, the outermost `vmap`'s first, and a mask of extents for each operand.

    Bit i of a mask tells whether the operand has the i-th extent among its leading axes. The outer loop is over the
    last extent, as in JAX's own loops. `mark`: the jaxpr of a device that the callback names (context.py), because JAX
    looks for it in parameters and in tuples, but no deeper.
    """

    has_mask: bool
    masks: tuple[int, ...]
    extents: tuple[Any, ...] = ()
    mark: Any = None

    def ranks(self) -> list[int]:
        """Returns for each operand the number of leading axes that are lanes."""
        return [mask.bit_count() for mask in self.masks]

    def inside(self) -> Lanes:
        """Returns the lanes inside the loop over the last extent."""
        rest = (1 << len(self.extents) - 1) - 1
        return Lanes(self.has_mask, tuple(mask & rest for mask in self.masks), self.extents[:-1])

    def and_these(self, size: Any, batched: Sequence[bool]) -> Lanes:
        """Adds an extent, which the operands in `batched` have."""
        masks = tuple(mask << 1 | is_batched for mask, is_batched in zip(self.masks, batched, strict=True))
        return Lanes(self.has_mask, masks, (size, *self.extents))


@dataclasses.dataclass(frozen=True)
class _Kind:
    """The properties of a callback's primitive."""

    primitive: Any
    is_identity: bool = False  # the results are the operands
    has_token: bool = False  # the first operand and the first result are a token of `callout.threaded`


_of: dict[Any, Any] = {}
_kinds: dict[Any, _Kind] = {}


def lanes_primitive(primitive: Any) -> Any:
    """Returns the primitive for a callback's lanes; None if there is none."""
    return _of.get(primitive)


def callback_of(primitive: Any) -> Any:
    """Returns the callback's primitive of a lanes primitive; None for other primitives."""
    kind = _kinds.get(primitive)
    return None if kind is None else kind.primitive


def bind_live(live: Any, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Binds a callback that runs where `live`, a boolean, is true. Elsewhere its results are zeros."""
    return _bind(_of[primitive], [live, *args], Lanes(True, (0,) * (1 + len(args))), params)


def bind_fewer(live: Any, primitive: Any, args: Sequence[Any], lanes: Lanes, params: Params) -> list[Any]:
    """Binds an equation of lanes that runs for its live lanes where `live` is true."""
    if lanes.has_mask:
        args = [jax.lax.bitwise_and(args[0], live), *args[1:]]
    else:
        args, lanes = [live, *args], Lanes(True, (0, *lanes.masks), lanes.extents)
    return _bind(primitive, args, lanes, dict(params))


def with_token(
    primitive: Any, token: Any, args: Sequence[Any], *, lanes: Lanes, params: Params, **more: Any
) -> list[Any]:
    """Binds the lanes of a threaded callback with the operands of an unthreaded one. `more`: additional parameters."""
    place = int(lanes.has_mask)
    masks = (*lanes.masks[:place], 0, *lanes.masks[place:])
    values = [*args[:place], token, *args[place:]]
    return _bind(_of[primitive], values, Lanes(lanes.has_mask, masks, lanes.extents), {**dict(params), **more})


def _bind(primitive: Any, args: Sequence[Any], lanes: Lanes, params: dict[str, Any]) -> list[Any]:
    marks = [each.mark for each in params.values() if isinstance(each, NamedDevice)]
    lanes = lanes._replace(mark=marks[0] if marks else None)
    outs: list[Any] = primitive.bind(*args, lanes=lanes, params=tuple(sorted(params.items())))
    return outs


def _typed(shape: Sequence[Any], like: Any) -> Any:
    """Returns the type of `like` with another shape."""
    return _jax_compat.array_type(tuple(shape), like.dtype, _jax_compat.varying_axes(like))


def _abstract_eval(kind: _Kind, *avals: Any, lanes: Lanes, params: Params) -> tuple[list[Any], Any]:
    values = [_typed(aval.shape[rank:], aval) for aval, rank in zip(avals, lanes.ranks(), strict=True)][
        lanes.has_mask :
    ]
    results, kept = kind.primitive.abstract_eval(*values, **dict(params))
    if kind.is_identity:
        return list(avals[lanes.has_mask :]), kept
    results = list(results) if kind.primitive.multiple_results else [results]
    tokens, results = (results[:1], results[1:]) if kind.has_token else ([], results)
    return [*tokens, *(_typed((*lanes.extents, *aval.shape), aval) for aval in results)], kept


def _refuse_batch(params: dict[str, Any]) -> None:
    if "where" in params:
        call_kinds.of_where(params["where"]).check_batch(params["ordered"])
    elif "result_avals" in params:
        call.check_io_batch(params.get("ordered", False))


def _batch(
    kind: _Kind, args: Sequence[Any], dims: Sequence[int | None], *, lanes: Lanes, params: Params
) -> tuple[list[Any], list[int | None]]:
    chosen = dict(params)
    _refuse_batch(chosen)
    size = next(arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if dim is not None)
    args, dims = list(args), list(dims)
    if kind.has_token:
        place = int(lanes.has_mask)
        args[place], dims[place] = one_token(args[place], dims[place]), None
    batched = [dim is not None for dim in dims]
    # If the mask has no batch, a tap gets the whole batch, behind its lanes. Otherwise the batch becomes lanes.
    is_whole = "site" in chosen and not batched[0]
    places = lanes.ranks() if is_whole else [0] * len(args)
    moved = [
        jax.numpy.moveaxis(arg, dim, place) if dim is not None else arg
        for arg, dim, place in zip(args, dims, places, strict=True)
    ]
    if is_whole:
        values = [0 if is_batched else None for is_batched in batched[1 + kind.has_token :]]
        chosen["transforms"] = tap.batched_transforms(chosen["transforms"], chosen["site"], values)
    else:
        lanes = lanes.and_these(size, batched)
    outs = _bind(_of[kind.primitive], moved, lanes, chosen)
    if kind.is_identity:  # the results keep the operands' dimensions
        same = [
            jax.numpy.moveaxis(out, place, dim) if dim is not None else out
            for out, dim, place in zip(outs, dims[1:], places[1:], strict=True)
        ]
        return same, dims[1:]
    return outs, [None if kind.has_token and i == 0 else 0 for i in range(len(outs))]


def _tap_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, lanes: Lanes, params: Params) -> Any:
    outs = _of[tap.tap_p].bind(*primals, lanes=lanes, params=params)
    return outs, list(tangents[1:])


def _tap_transpose(cotangents: Sequence[Any], live: Any, *primals: Any, lanes: Lanes, params: Params) -> Sequence[Any]:
    """Taps the cotangents of the live lanes, like the transpose rule of a tap."""
    if all(isinstance(cotangent, ad.Zero) for cotangent in cotangents):
        return [None, *cotangents]
    values = [_jax_compat.instantiate_cotangent(cotangent) for cotangent in cotangents]
    chosen = dict(params)
    if chosen["site"].has_step:
        values[-1] = primals[-1]  # the step is no linear operand
    chosen["transforms"] = tap.transposed_transforms(chosen["transforms"])
    outs = _bind(_of[tap.tap_p], [live, *values], lanes, chosen)
    if chosen["site"].has_step:
        outs[-1] = None
    return [None, *outs]


def _debug_jvp(primals: Sequence[Any], _: Any, **params: Any) -> tuple[Any, list[Any]]:
    return _of[debug.debug_p].bind(*primals, **params), []


def _debug_partial_eval(saveable: Any, unknown_in: Sequence[bool], instantiated_in: Sequence[bool], eqn: Any) -> Any:
    """Keeps the backward pass from calling saved callbacks again, like JAX's rule for elements of a batch."""
    known, staged, *rest = debug.partial_eval(saveable, unknown_in, instantiated_in, eqn)
    if known is not None and saveable(debug.debug_p, *[var.aval for var in eqn.invars], **dict(eqn.params["params"])):
        return known, None, [], [], []
    return known, staged, *rest


def _threaded_jvp(lanes_p: Any, primals: Sequence[Any], _: Any, *, lanes: Lanes, params: Params) -> Any:
    where = dict(params).get("where")
    if where is not None:
        call_kinds.of_where(where).check_jvp()
    return lanes_p.bind(*primals, lanes=lanes, params=params), [no_tangent()]


def _threaded_transpose(_: Any, *operands: Any, params: Params, **__: Any) -> list[None]:
    where = dict(params).get("where")
    if where is not None:
        call_kinds.of_where(where).check_transpose()
    return [None] * len(operands)


def _refuse_derivative(rules: dict[Any, Any], primitive: Any, *_: Any, params: Params, **__: Any) -> Any:
    return rules[primitive]((), (), **dict(params))


def _zeros(aval: Any) -> Any:
    return _jax_compat.varying(jax.numpy.zeros(aval.shape, aval.dtype), aval)


def _loop(kind: _Kind, params: dict[str, Any], lanes: Lanes, token: Any, args: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Calls the callback once for each lane, in order. Returns (last token, results); `args` and results have no token."""
    if not lanes.extents:
        return _lane(kind, params, lanes, token, args)
    last = len(lanes.extents) - 1
    mapped = [mask >> last & 1 for mask in lanes.masks]

    def step(token: Any, slices: list[Any]) -> tuple[Any, list[Any]]:
        rest = iter(slices)
        values = [next(rest) if is_mapped else arg for arg, is_mapped in zip(args, mapped, strict=True)]
        return _loop(kind, params, lanes.inside(), token, values)

    xs = [
        _jax_compat.gathered(jax.numpy.moveaxis(arg, rank - 1, 0), 0)
        for arg, rank, is_mapped in zip(args, lanes.ranks(), mapped, strict=True)
        if is_mapped
    ]
    token, outs = jax.lax.scan(step, token, xs)
    return token, [jax.numpy.moveaxis(out, 0, last) for out in outs]


def _lane(kind: _Kind, params: dict[str, Any], lanes: Lanes, token: Any, args: Sequence[Any]) -> tuple[Any, list[Any]]:
    values = list(args[lanes.has_mask :])

    def run(token: Any, values: list[Any]) -> tuple[Any, list[Any]]:
        outs = kind.primitive.bind(*([token] if kind.has_token else []), *values, **params)
        outs = list(outs) if kind.primitive.multiple_results else [outs]
        if kind.is_identity:
            outs = []
        return (outs[0], outs[1:]) if kind.has_token else (token, outs)

    if not lanes.has_mask:
        return run(token, values)
    tokens = [TOKEN] if kind.has_token else []
    results, _ = kind.primitive.abstract_eval(*tokens, *map(jax.typeof, values), **params)
    results = [] if kind.is_identity or not kind.primitive.multiple_results else list(results)[len(tokens) :]
    outs: tuple[Any, list[Any]] = jax.lax.cond(
        args[0], run, lambda token, _: (token, [_zeros(aval) for aval in results]), token, values
    )
    return outs


def over_lanes(eqn: Any, args: Sequence[Any]) -> list[Any]:
    """Binds the callback of an unthreaded lanes equation once for each live lane, in order. Returns all lanes' results."""
    return _loop(_kinds[eqn.primitive], dict(eqn.params["params"]), eqn.params["lanes"], None, args)[1]


_LOOPS = "callout.lanes"  # a module's attribute: the number of such loops


def _lower(kind: _Kind, ctx: mlir.LoweringRuleContext, *args: Any, lanes: Lanes, params: Params) -> Sequence[Any]:
    place = int(lanes.has_mask)

    def loop(*args: Any) -> list[Any]:
        masks, values = list(args[:place]), list(args[place:])
        if not kind.has_token:
            return _loop(kind, dict(params), lanes, None, [*masks, *values])[1]
        of_values = Lanes(lanes.has_mask, (*lanes.masks[:place], *lanes.masks[place + 1 :]), lanes.extents)
        token, outs = _loop(kind, dict(params), of_values, values[0], [*masks, *values[1:]])
        return [token, *outs]

    inner = ctx.replace(avals_out=[]) if kind.is_identity else ctx
    with _told_apart(ctx):
        results: Sequence[Any] = mlir.lower_fun(loop, multiple_results=True)(inner, *args)
    if inner is not ctx and inner.tokens_out is not None:
        ctx.set_tokens_out(inner.tokens_out)
    return args[place:] if kind.is_identity else results


@contextlib.contextmanager
def _told_apart(ctx: mlir.LoweringRuleContext) -> Iterator[None]:
    """Gives each loop in the program its own number, so that XLA:GPU does not merge two loops.

    XLA's pass `computation-deduplicator` compares texts that do not contain the branches of a conditional. So it merges
    two loops that differ only in the callback of their conditionals, with JAX's own callbacks, too.
    """
    if "cuda" not in context.platforms(ctx):
        yield
        return
    attributes = ctx.module_context.module.operation.attributes
    number = ir.IntegerAttr(attributes[_LOOPS]).value if _LOOPS in attributes else 0
    attributes[_LOOPS] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), number + 1)
    with set_xla_metadata(callout_lanes=str(number)):
        yield


def _add(kind: _Kind) -> Any:
    lanes_p = jex_core.Primitive(f"{kind.primitive.name}_lanes")
    lanes_p.multiple_results = True
    _of[kind.primitive], _kinds[lanes_p] = lanes_p, kind
    lanes_p.def_impl(functools.partial(xla.apply_primitive, lanes_p))
    lanes_p.def_effectful_abstract_eval(functools.partial(_abstract_eval, kind))
    mlir.register_lowering(lanes_p, functools.partial(_lower, kind))
    batching.primitive_batchers[lanes_p] = functools.partial(_batch, kind)
    return lanes_p


_tap_lanes_p = _add(_Kind(tap.tap_p, is_identity=True))
ad.primitive_jvps[_tap_lanes_p] = _tap_jvp
ad.primitive_transposes[_tap_lanes_p] = _tap_transpose
_jax_compat.register_remat_rule(
    _tap_lanes_p, tap.partial_eval, lambda is_saveable, operands: tap.kept(is_saveable, operands[1:])
)

_debug_lanes_p = _add(_Kind(debug.debug_p))
ad.primitive_jvps[_debug_lanes_p] = _debug_jvp
ad.primitive_transposes[_debug_lanes_p] = lambda _, *args, **__: [None] * len(args)
_jax_compat.register_remat_rule(_debug_lanes_p, _debug_partial_eval, debug.kept)

for _primitive in (threaded.threaded_tap_p, threaded.threaded_call_p):
    _lanes_p = _add(_Kind(_primitive, has_token=True))
    ad.primitive_jvps[_lanes_p] = functools.partial(_threaded_jvp, _lanes_p)
    ad.primitive_transposes[_lanes_p] = _threaded_transpose

for _primitive in (call.io_p, buffer.buffer_p, ffi.ffi_p):
    _lanes_p = _add(_Kind(_primitive))
    ad.primitive_jvps[_lanes_p] = functools.partial(_refuse_derivative, ad.primitive_jvps, _primitive)
    ad.primitive_transposes[_lanes_p] = functools.partial(_refuse_derivative, ad.primitive_transposes, _primitive)


def _batch_debug(args: Sequence[Any], dims: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    """Binds one equation for all lanes, so that rules for equations, such as those of remat, see one debug callback."""
    size = next(arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if dim is not None)
    batched = [dim is not None for dim in dims]
    front = [arg if dim is None else jax.numpy.moveaxis(arg, dim, 0) for arg, dim in zip(args, dims, strict=True)]
    lanes = Lanes(False, (0,) * len(args)).and_these(size, batched)
    return _bind(_debug_lanes_p, front, lanes, params), []


batching.primitive_batchers[debug.debug_p] = _batch_debug
