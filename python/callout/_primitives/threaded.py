# SPDX-License-Identifier: Apache-2.0
"""The primitives inside `callout.threaded`: their first operand and result is a token, and they have no effect.

Without an effect, JAX dispatches the program on its fast path, and asynchronously.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.extend import core as jex_core
from jax.interpreters import ad, batching, mlir

from .._targets.target import Target, Transforms
from . import call_kinds, lowering
from .batching import thread_over_batch
from .call import Avals, call_now, lower_call
from .eager import note_threaded_program
from .site import Site
from .tap import batched_transforms, check_sent, emit_tap, tap_p, where_of
from .token import TOKEN, no_tangent, one_token
from .varying import result_types

threaded_tap_p = jex_core.Primitive("callout_threaded_tap")
threaded_call_p = jex_core.Primitive("callout_threaded_call")
threaded_call_p.multiple_results = True  # `where` identifies the original call: see call_kinds.py


@threaded_tap_p.def_abstract_eval
def _tap_abstract_eval(*_: Any, **__: Any) -> Any:
    return TOKEN


@threaded_tap_p.def_impl
def _tap_eager(token: Any, *args: Any, **params: Any) -> Any:
    tap_p.bind(*args, **params)
    return token


def _batch_tap(
    args: Sequence[Any], dims: Sequence[Any], *, transforms: Transforms, site: Site, **params: Any
) -> tuple[Any, Any]:
    token, rest = one_token(args[0], dims[0]), dims[1:]
    if any(dim is not None for dim in rest):
        transforms = batched_transforms(transforms, site, rest)
    return threaded_tap_p.bind(token, *args[1:], transforms=transforms, site=site, **params), None


batching.primitive_batchers[threaded_tap_p] = _batch_tap


def _jvp_tap(primals: Sequence[Any], _: Any, **params: Any) -> tuple[Any, Any]:
    token = threaded_tap_p.bind(*primals, **params)
    return token, no_tangent()


ad.primitive_jvps[threaded_tap_p] = _jvp_tap


def _transpose_tap(_: Any, *operands: Any, **__: Any) -> list[None]:
    """Drops a tap of a linear function: its values are unknown, and it has no result whose cotangent it could send."""
    return [None] * len(operands)


ad.primitive_transposes[threaded_tap_p] = _transpose_tap


def _lower_tap(
    ctx: mlir.LoweringRuleContext, *args: Any, target: Target, site: Site, transforms: Transforms
) -> Sequence[Any]:
    where = where_of(target, site)
    lowering.refuse_automatic_axes(ctx, where)
    note_threaded_program()
    if not site.has_rows:
        check_sent(ctx.avals_in[1:], target, site)
    return emit_tap(ctx, args, where, lowering.bound_name(ctx, target, where, transforms), site, threaded=True)


lowering.register(threaded_tap_p, _lower_tap)


@threaded_call_p.def_abstract_eval
def _call_abstract_eval(_: Any, *avals: Any, result_avals: Avals, where: str, **__: Any) -> Any:
    return (TOKEN, *result_types(avals, result_avals, of_host=call_kinds.of_where(where).of_host))


@threaded_call_p.def_impl
def _call_eager(
    token: Any, *args: Any, target: Target, result_avals: Avals, ordered: bool, **_: Any
) -> list[jax.Array]:
    return [token, *call_now(args, target, result_avals, ordered)]


def _batch_call(
    args: Sequence[Any], dims: Sequence[Any], *, ordered: bool, where: str, **params: Any
) -> tuple[Any, Any]:
    token, rest = one_token(args[0], dims[0]), dims[1:]

    def bind(token: Any, *values: Any) -> tuple[Any, list[Any]]:
        token, *outs = threaded_call_p.bind(token, *values, ordered=ordered, where=where, **params)
        return token, outs

    if all(dim is None for dim in rest):
        token, outs = bind(token, *args[1:])
        return [token, *outs], [None] * (1 + len(outs))
    call_kinds.of_where(where).check_batch(ordered)
    token, outs, out_dims = thread_over_batch(bind, token, args[1:], rest)
    return [token, *outs], [None, *out_dims]


batching.primitive_batchers[threaded_call_p] = _batch_call


def _jvp_call(primals: Sequence[Any], _: Any, *, where: str, **params: Any) -> tuple[Any, list[Any]]:
    call_kinds.of_where(where).check_jvp()
    outs = threaded_call_p.bind(*primals, where=where, **params)
    return outs, [no_tangent()]


ad.primitive_jvps[threaded_call_p] = _jvp_call


def _transpose_call(_: Any, *operands: Any, where: str, **__: Any) -> list[None]:
    call_kinds.of_where(where).check_transpose()
    return [None] * len(operands)


ad.primitive_transposes[threaded_call_p] = _transpose_call


def _lower_call(
    ctx: mlir.LoweringRuleContext,
    *args: Any,
    target: Target,
    sharding: Any,
    ordered: bool,
    partitioned: bool,
    where: str,
    **_: Any,
) -> list[Any]:
    lowering.refuse_automatic_axes(ctx, where)
    note_threaded_program()
    spread = "local" if partitioned else "gather"
    return lower_call(ctx, args, where, target, device=sharding, ordered=ordered, threaded=True, sharding=spread)


lowering.register(threaded_call_p, _lower_call)
