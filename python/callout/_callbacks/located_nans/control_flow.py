# SPDX-License-Identifier: Apache-2.0
"""How control flow is evaluated: its bodies are, and loops count their steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp

from ... import _jax_compat
from ..._primitives import jaxprs
from .evaluate import RULES, Evaluation
from .nan_sources import is_batched_while
from .user_lines import Surroundings

_primitives = jax.extend.core.primitives
Outs = Sequence[Any]


def _scan(evaluation: Evaluation, eqn: Any, around: Surroundings, args: Sequence[Any]) -> Outs:
    params = eqn.params
    inside, length = around.inside(eqn, params["jaxpr"]), params["length"]

    def step(count: Any, values: list[Any]) -> tuple[Any, list[Any]]:
        number = length - 1 - count if params["reverse"] else count
        outs = evaluation.in_loop(number).jaxpr(params["jaxpr"], inside, values)
        return count + 1, outs

    outs: Outs = jaxprs.scan(eqn, args, jnp.int32(0), step)[1]
    return outs


def _while(evaluation: Evaluation, eqn: Any, around: Surroundings, args: Sequence[Any]) -> Outs:
    params = eqn.params
    num_cond, num_body = params["cond_nconsts"], params["body_nconsts"]
    cond_consts, body_consts = args[:num_cond], args[num_cond : num_cond + num_body]
    init = list(args[num_cond + num_body :])
    if is_batched_while(eqn):
        return _jax_compat.bind_again(eqn, args)

    def condition(carry: tuple[Any, list[Any]]) -> Any:
        inside = around.inside(eqn, params["cond_jaxpr"])
        (going,) = evaluation.in_loop(carry[0]).jaxpr(params["cond_jaxpr"], inside, [*cond_consts, *carry[1]])
        return going

    def body(carry: tuple[Any, list[Any]]) -> tuple[Any, list[Any]]:
        inside = around.inside(eqn, params["body_jaxpr"])
        outs = evaluation.in_loop(carry[0]).jaxpr(params["body_jaxpr"], inside, [*body_consts, *carry[1]])
        return carry[0] + 1, outs

    return list(jax.lax.while_loop(condition, body, (jnp.int32(0), init))[1])


def _cond(evaluation: Evaluation, eqn: Any, around: Surroundings, args: Sequence[Any]) -> Outs:
    def branch(jaxpr: Any) -> Callable[..., list[Any]]:
        return lambda *values: evaluation.jaxpr(jaxpr, around.inside(eqn, jaxpr), values)

    outs: Outs = jaxprs.choose(eqn, args[0], branch, (), args[1:])
    return outs


def _shard_map(evaluation: Evaluation, eqn: Any, around: Surroundings, args: Sequence[Any]) -> Outs:
    inside = around.inside(eqn, eqn.params["jaxpr"])
    return jaxprs.spread(
        eqn,
        lambda jaxpr, steps, values: evaluation.with_steps(steps).jaxpr(jaxpr, inside, values),
        evaluation.steps,
        args,
    )


RULES.update(
    {
        _primitives.scan_p: _scan,
        _primitives.while_p: _while,
        _primitives.cond_p: _cond,
        **({_jax_compat.shard_map_p: _shard_map} if _jax_compat.shard_map_p is not None else {}),
    }
)
