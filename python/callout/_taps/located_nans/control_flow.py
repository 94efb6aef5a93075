# SPDX-License-Identifier: Apache-2.0
"""How control flow is evaluated: its bodies are, and loops count their steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp

from ... import _jax_compat
from .evaluate import RULES, Evaluation
from .user_lines import Surroundings

_primitives = jax.extend.core.primitives
Outs = Sequence[Any]


def _scan(evaluation: Evaluation, eqn: Any, around: Surroundings, args: Sequence[Any]) -> Outs:
    params = eqn.params
    num_consts, num_carry = _jax_compat.scan_counts(params)
    consts, init, xs = args[:num_consts], args[num_consts : num_consts + num_carry], args[num_consts + num_carry :]
    inside, length = around.inside(eqn, params["jaxpr"]), params["length"]

    def body(carry: tuple[Any, list[Any]], x: list[Any]) -> tuple[tuple[Any, list[Any]], list[Any]]:
        count, values = carry
        step = length - 1 - count if params["reverse"] else count
        outs = evaluation.in_loop(step).jaxpr(params["jaxpr"], inside, [*consts, *values, *x])
        return (count + 1, outs[:num_carry]), outs[num_carry:]

    settings = {name: params[name] for name in ("length", "reverse", "unroll")}
    (_, carry), ys = jax.lax.scan(body, (jnp.int32(0), list(init)), list(xs), **settings)
    return [*carry, *ys]


def _while(evaluation: Evaluation, eqn: Any, around: Surroundings, args: Sequence[Any]) -> Outs:
    params = eqn.params
    num_cond, num_body = params["cond_nconsts"], params["body_nconsts"]
    cond_consts, body_consts = args[:num_cond], args[num_cond : num_cond + num_body]
    init = list(args[num_cond + num_body :])
    if params["cond_jaxpr"].out_avals[0].shape:
        return _jax_compat.bind_again(eqn, args)  # a `vmap` has made it one of many lanes, of which some have finished

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
    index, *operands = args

    def branch(jaxpr: Any) -> Callable[..., list[Any]]:
        return lambda *values: evaluation.jaxpr(jaxpr, around.inside(eqn, jaxpr), values)

    branches = [branch(jaxpr) for jaxpr in eqn.params["branches"]]
    platforms = eqn.params.get("branches_platforms")
    if platforms is not None:
        named = zip(platforms, branches, strict=True)
        chosen = {name: branch for names, branch in named for name in names or ("default",)}
        return jax.lax.platform_dependent(*operands, **chosen)  # type: ignore[no-any-return]
    return jax.lax.switch(index, branches, *operands)  # type: ignore[no-any-return]


def _shard_map(evaluation: Evaluation, eqn: Any, around: Surroundings, args: Sequence[Any]) -> Outs:
    params, count = eqn.params, len(evaluation.steps)
    inside = around.inside(eqn, params["jaxpr"])
    function: Any = jax.shard_map(
        lambda *values: tuple(evaluation.with_steps(values[:count]).jaxpr(params["jaxpr"], inside, values[count:])),
        mesh=params["mesh"],
        in_specs=((jax.sharding.PartitionSpec(),) * count + tuple(params["in_specs"])),
        out_specs=tuple(params["out_specs"]),
        check_vma=params["check_vma"],
        axis_names=params["newly_manual_axes"],
    )
    return tuple(function(*evaluation.steps, *args))


RULES.update(
    {
        _primitives.scan_p: _scan,
        _primitives.while_p: _while,
        _primitives.cond_p: _cond,
        **({_jax_compat.shard_map_p: _shard_map} if _jax_compat.shard_map_p is not None else {}),
    }
)
