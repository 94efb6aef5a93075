# SPDX-License-Identifier: Apache-2.0
"""The primitive behind `host_callback.call`: an ordered call that transformations refuse, but for remat and control flow."""

from __future__ import annotations

import functools
from typing import Any, NoReturn

import jax
import jax.extend.core
from jax.interpreters import ad, batching, mlir

from .._base import errors
from .._primitives import call_kinds, effects, lowering
from .._primitives.call import Avals, call_now, lower_call
from .._primitives.eager import placement
from .._primitives.varying import result_types
from .._targets.target import Target

host_call_p = jax.extend.core.Primitive("callout_host_call")
host_call_p.multiple_results = True

_WHERE = "callout.host_callback.call"


@host_call_p.def_effectful_abstract_eval
def _abstract_eval(*avals: Any, result_avals: Avals, **_: Any) -> tuple[Avals, set[Any]]:
    return result_types(avals, result_avals, of_host=True), effects.observing(ordered=True)


@host_call_p.def_impl
def _eager(*args: Any, target: Target, result_avals: Avals) -> list[jax.Array]:
    placement(args, target.device_index, target.label)  # what is wrong with the index is no failure of the callback
    try:
        return call_now(args, target, result_avals, ordered=True)
    except errors.CallbackError:
        raise
    except Exception as exception:
        # As from a compiled program: a RuntimeError, which is of the exception's class too.
        error = errors.CallbackError(f"{_WHERE}: callback '{target.label}' failed: {errors.describe(exception)}")
        errors.adopt(error, exception)
        raise error from exception


def _lower(ctx: mlir.LoweringRuleContext, *args: Any, target: Target, result_avals: Avals) -> list[Any]:
    del result_avals
    lowering.refuse_automatic_axes(ctx, _WHERE)
    return lower_call(ctx, args, _WHERE, target, ordered=True)


lowering.register(host_call_p, _lower)


def _refuse(what: str, *_: Any, **__: Any) -> NoReturn:
    raise NotImplementedError(f"{what} implemented only for id_tap, not for call.")


_refuse_batch = functools.partial(_refuse, "batching rules are")
_refuse_jvp = functools.partial(_refuse, "JVP rule is")
_refuse_transpose = functools.partial(_refuse, "differentiation rules are")

batching.primitive_batchers[host_call_p] = _refuse_batch
ad.primitive_jvps[host_call_p] = _refuse_jvp
ad.primitive_transposes[host_call_p] = _refuse_transpose
call_kinds.add(
    host_call_p,
    call_kinds.CallKind(
        _WHERE,
        threaded={"partitioned": False, "sharding": None, "ordered": True},
        of_host=True,
        has_lanes=False,
        check_batch=_refuse_batch,
        check_jvp=_refuse_jvp,
        check_transpose=_refuse_transpose,
    ),
)
