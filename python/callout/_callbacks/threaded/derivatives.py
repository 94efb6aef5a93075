# SPDX-License-Identifier: Apache-2.0
"""How functions with derivative rules of their own, and rematerialised ones, pass a token on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.extend.core
import numpy as np

from ... import _jax_compat
from ..._primitives import jaxprs
from .evaluate import INNER, RULES, Threader, has_callbacks, obstacle

_primitives = jax.extend.core.primitives
Outs = tuple[Any, list[Any]]


def _depends(jaxpr: Any, num_given: int) -> bool:
    """Returns True where a callback needs more than the first `num_given` inputs: a tangent, which has no token."""
    tainted = set(jaxpr.invars[num_given:])
    for eqn in jaxpr.eqns:
        if any(_jax_compat.is_variable(atom) and atom in tainted for atom in eqn.invars):
            if has_callbacks(eqn):
                return True
            tainted.update(eqn.outvars)
    return False


def _custom_jvp(threader: Threader, eqn: Any, token: Any, args: Sequence[Any]) -> Outs:
    @jax.custom_jvp
    def call(token: Any, *values: Any) -> Outs:
        return threader.results(eqn.params["call_jaxpr"], token, values)

    @call.defjvp
    def _(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        token, *values = primals
        moving = [i for i, tangent in enumerate(tangents[1:]) if tangent.dtype != jax.dtypes.float0]

        def both(values: Sequence[Any], moves: Sequence[Any]) -> Any:
            changes = list(tangents[1:])
            for i, move in zip(moving, moves, strict=True):
                changes[i] = move
            return jax.jvp(lambda *xs: _jax_compat.bind_again(eqn, xs), tuple(values), tuple(changes))

        moves = [tangents[1 + i] for i in moving]
        token, (outs, changes) = _evaluate(both, token, values, moves)
        return (token, outs), (np.zeros((), jax.dtypes.float0), changes)

    token, outs = call(token, *args)
    return token, outs


def _custom_vjp(threader: Threader, eqn: Any, token: Any, args: Sequence[Any]) -> Outs:
    @jax.custom_vjp
    def call(token: Any, *values: Any) -> Outs:
        return threader.results(eqn.params["call_jaxpr"], token, values)

    def forward(token: Any, *values: Any) -> Any:
        # What the rule's second half returns of the first is a pytree: the residuals, and the function of the cotangents.
        token, (outs, backward) = _evaluate(
            lambda values, _: jax.vjp(lambda *xs: _jax_compat.bind_again(eqn, xs), *values), token, values, ()
        )
        return (token, outs), backward

    call.defvjp(forward, lambda backward, cotangents: (None, *backward(cotangents[1])))
    token, outs = call(token, *args)
    return token, outs


def _evaluate(function: Any, token: Any, given: Sequence[Any], moves: Sequence[Any]) -> tuple[Any, Any]:
    """Evaluates `function(given, moves)` with the token, or with callbacks as they are where they cannot pass it on."""
    jaxpr, shape = jax.make_jaxpr(function, return_shape=True)(list(given), list(moves))
    if obstacle(jaxpr) or _depends(jaxpr.jaxpr, len(given)):
        outs = jax.extend.core.jaxpr_as_fun(jaxpr)(*given, *moves)
    else:
        token, outs = Threader().results(jaxpr, token, [*given, *moves])
    return token, jax.tree.unflatten(jax.tree.structure(shape), outs)


def _remat(threader: Threader, eqn: Any, token: Any, args: Sequence[Any]) -> Outs:
    outs: Outs = jaxprs.rematerialized(eqn, threader.results, token, args)
    return outs


RULES.update(
    {
        _primitives.custom_jvp_call_p: _custom_jvp,
        _primitives.custom_vjp_call_p: _custom_vjp,
        _primitives.remat_p: _remat,
    }
)
INNER.update(
    {
        _primitives.custom_jvp_call_p: lambda params: [params["call_jaxpr"]],
        _primitives.custom_vjp_call_p: lambda params: [params["call_jaxpr"]],
        _primitives.remat_p: lambda params: [params["jaxpr"]],
    }
)
