# SPDX-License-Identifier: Apache-2.0
"""These functions read equations of jaxprs, bind them again, and register rules for which JAX has no public place.

`transpose` takes jaxprs that are linear in their last operands, and does what JAX does with what it has linearized.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
from jax.interpreters import ad, partial_eval

from .versions import MISSING

if TYPE_CHECKING:
    import jax.extend.core


def register_remat_rule(primitive: jax.extend.core.Primitive, rule: Any) -> None:
    """Registers what happens to an equation when a rematerialised jaxpr is split into known and staged parts.

    The policy that `rule` gets answers with True where the value is kept, here or elsewhere, and else with False: those of
    JAX may also answer with objects, which are all true.
    """
    try:
        from jax._src.interpreters import partial_eval as _partial_eval
    except ImportError:
        MISSING.append("jax._src.interpreters.partial_eval")
        return
    rules = getattr(_partial_eval, "partial_eval_jaxpr_custom_rules", None)
    if rules is None:
        MISSING.append("partial_eval_jaxpr_custom_rules")
    else:
        recompute = getattr(_partial_eval, "Recompute", False)

        def with_plain_policy(policy: Any, *rest: Any) -> Any:
            return rule(lambda *args, **params: policy(*args, **params) not in (False, recompute), *rest)

        rules[primitive] = with_plain_policy


def count_lanes(value: Any) -> int:
    """Returns how many lanes of `vmap`s that are being traced a value has; 0 outside of any."""
    tracer = _batch_tracer
    if tracer is None or not isinstance(value, tracer):
        return 0
    size = value.val.shape[value.batch_dim] if value.batch_dim is not None else 1
    return int(size) * max(1, count_lanes(value.val))


try:
    from jax._src.interpreters import batching as _batching

    _batch_tracer: Any = _batching.BatchTracer
except (ImportError, AttributeError):
    _batch_tracer = None
    MISSING.append("jax._src.interpreters.batching.BatchTracer")


def is_variable(atom: Any) -> bool:
    """Returns True for a variable of a jaxpr, false for a literal."""
    import jax.extend.core

    return isinstance(atom, jax.extend.core.Var)


def not_instantiated(eqn: Any, instantiated_in: Sequence[bool]) -> list[Any]:
    """Returns the operands that a rule of `jax.checkpoint` must ask for, to have its equation in the backward pass."""
    ready = zip(eqn.invars, instantiated_in, strict=True)
    return [var for var, is_ready in ready if not is_ready and is_variable(var)]


def split_for_remat(
    eqn: Any, unknown_in: Sequence[bool], instantiated_in: Sequence[bool], is_saved: Callable[[], bool]
) -> tuple[Any, ...]:
    """Splits an equation of a rematerialised jaxpr as JAX does: (known, staged, unknown, instantiated, asked for).

    `is_saved` tells whether the known equation's results stay for the backward pass; it is asked if all operands are known.
    """
    count, missing = len(eqn.outvars), not_instantiated(eqn, instantiated_in)
    if any(unknown_in):
        return None, eqn, [True] * count, [True] * count, missing
    if is_saved():
        return eqn, None, [False] * count, [False] * count, []
    return eqn, eqn, [False] * count, [True] * count, missing


def is_used(var: Any) -> bool:
    """Returns False for the variable of a result that nobody uses."""
    return type(var).__name__ != "DropVar"


def bind_again(eqn: Any, args: Sequence[Any]) -> list[Any]:
    """Returns the results of an equation for other operands."""
    out = eqn.primitive.bind(*args, **eqn.primitive.get_bind_params(eqn.params))
    return list(out) if eqn.primitive.multiple_results else [out]


def scan_counts(params: dict[str, Any]) -> tuple[int, int]:
    """Returns how many constants and how many carried values a scan has."""
    if "num_carry" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()  # JAX 0.12
    return len(list(consts)), len(list(carry))


def custom_transpose_rule() -> tuple[Any, Any] | None:
    """Returns the mapping and the key of the rule that calls `jax.custom_vjp`'s second function; None if it is elsewhere."""
    key = getattr(_ad, "custom_lin_p", None)
    for rules in (getattr(_ad, "primitive_transposes", {}), getattr(_ad, "fancy_transposes", {})):
        if key is not None and key in rules:
            return rules, key
    MISSING.append("jax._src.interpreters.ad.custom_lin_p")
    return None


try:
    from jax._src.interpreters import ad as _ad
except ImportError:
    _ad = None  # type: ignore[assignment]


def register_dce_rule(primitive: jax.extend.core.Primitive, rule: Any) -> None:
    """Registers what is left of an equation where not all results are used: `rule(used, eqn)` -> (operands used, eqn)."""
    rules = getattr(partial_eval, "dce_rules", None)
    if rules is None:
        MISSING.append("jax.interpreters.partial_eval.dce_rules")
    else:  # from JAX 0.12 on a rule is also told which mutable arrays are read later
        rules[primitive] = lambda used, *others: rule(used, others[-1])


def instantiate_cotangent(cotangent: Any) -> Any:
    """Returns a symbolic zero as an array of zeros."""
    return ad.instantiate_zeros(cotangent) if isinstance(cotangent, ad.Zero) else cotangent


def abstract_token() -> Any:
    """Returns the type of a token, which must be JAX's one object of it."""
    try:
        return jax.ffi.abstract_token  # type: ignore[attr-defined]
    except AttributeError:
        from jax._src.core import abstract_token as token  # JAX 0.10

        return token


try:
    from jax._src.interpreters import ad as _ad

    _backward_pass: Any = getattr(_ad, "backward_pass", None)
except ImportError:
    _backward_pass = None
if _backward_pass is None:
    MISSING.append("jax._src.interpreters.ad.backward_pass")


def transpose(jaxpr: Any, residuals: Sequence[Any], operands: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
    """Returns the cotangents of the operands.

    `jax.linear_transpose` would have the effects of what is rematerialised once more: it takes the jaxpr apart again, into
    what depends on the residuals alone and the rest.

    Args:
        jaxpr: closed, of the residuals and the operands; linear in the operands.
        residuals: their values.
        operands: their types.
        cotangents: of the results; None of those that nothing depends on.
    """
    if _backward_pass is None:
        return _transpose_again(jaxpr, residuals, operands, cotangents)
    values = [*residuals, *map(ad.UndefinedPrimal, operands)]
    given = [
        ad.Zero(result) if each is None else each for each, result in zip(cotangents, jaxpr.out_avals, strict=True)
    ]
    outs = _backward_pass(jaxpr.jaxpr, True, jaxpr.consts, values, given)
    return [ad.instantiate_zeros(out) for out in outs[len(residuals) :]]


def _transpose_again(jaxpr: Any, residuals: Any, operands: Any, cotangents: Any) -> list[Any]:
    import jax.extend.core  # not when the package is imported

    wanted = [i for i, each in enumerate(cotangents) if each is not None]

    def of_wanted(*operands: Any) -> list[Any]:
        outs = jax.extend.core.jaxpr_as_fun(jaxpr)(*residuals, *operands)
        return [outs[i] for i in wanted]

    examples = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in operands]
    return list(jax.linear_transpose(of_wanted, *examples)([cotangents[i] for i in wanted]))
