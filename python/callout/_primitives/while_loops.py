# SPDX-License-Identifier: Apache-2.0
"""`vmap` of a while loop whose condition has an ordered effect of ours.

JAX's lowering of a batched while loop picks, lane by lane, which of the body's results to keep; where the condition has an
ordered effect it leaves that out, and lanes that have finished go on changing (jax/_src/lax/control_flow/loops.py,
`_while_lowering`; JAX 0.10 to 0.12). So before such a loop is batched, its condition moves into the body and its predicate
into the carry: the loop that JAX batches then has a condition without effects. It runs once an iteration, as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.extend.core
from jax.interpreters import batching

from .._patches import Place
from .effects import OrderedEffect

_while_p = jax.extend.core.primitives.while_p


def _carries_predicate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The loop, with its predicate in the carry."""
    num_cond, num_body = params["cond_nconsts"], params["body_nconsts"]
    cond_consts, body_consts = args[:num_cond], args[num_cond : num_cond + num_body]
    init = args[num_cond + num_body :]
    condition = jax.extend.core.jaxpr_as_fun(params["cond_jaxpr"])
    body = jax.extend.core.jaxpr_as_fun(params["body_jaxpr"])

    def step(carry: tuple[Any, list[Any]]) -> tuple[Any, list[Any]]:
        # Lanes that have finished stay as they are, also for what the condition taps.
        new = body(*body_consts, *carry[1])
        values = [jax.numpy.where(carry[0], one, old) for one, old in zip(new, carry[1], strict=True)]
        return condition(*cond_consts, *values)[0], values

    first = condition(*cond_consts, *init)[0]
    return jax.lax.while_loop(lambda carry: carry[0], step, (first, list(init)))[1]


def _batch(_original: Any, axis_data: Any, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    ordered = any(isinstance(effect, OrderedEffect) for effect in params["cond_jaxpr"].effects)
    if not ordered or all(dim is None for dim in dims):
        return NotImplemented
    batched: Any = jax.vmap(
        lambda *values: _carries_predicate(values, params),
        in_axes=tuple(dims),
        axis_name=axis_data.name,
        axis_size=axis_data.size,
        spmd_axis_name=axis_data.spmd_name,
    )
    return batched(*args), [0] * (len(args) - params["cond_nconsts"] - params["body_nconsts"])


def hooked() -> list[Place]:
    """JAX's rule. Loops without an ordered effect of ours in their condition get that one."""
    return [Place(batching.fancy_primitive_batchers, _while_p, before=_batch)]
