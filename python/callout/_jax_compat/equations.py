# SPDX-License-Identifier: Apache-2.0
"""Reads equations of jaxprs, binds them again, and registers rules that JAX has no public API for.

`transpose` transposes jaxprs that are linear in their last operands, as JAX does after linearization.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
from jax.interpreters import ad, partial_eval

from .versions import MISSING

if TYPE_CHECKING:
    from jax.extend import core as jex_core


def high_primitive(eqn: Any) -> Any:
    """Returns the object of a `jax.experimental.hijax` primitive, such as a checkpoint in JAX 0.12; None for others."""
    return eqn.params["_prim"] if eqn.primitive.name == "call_hi_primitive" else None


def is_high_remat(primitive: Any) -> bool:
    """Returns whether a hijax primitive's object belongs to a `jax.checkpoint`."""
    return type(primitive).__name__ == "RematTraced"


def has_rule(primitive: Any, name: str) -> bool:
    """Returns whether a hijax primitive's object has a derivative rule: "jvp", "lin" or "vjp_fwd".

    The rule "jvp" of a `jax.custom_vjp` does not count, because it only leads to the backward pass.
    """
    kind: Any = type(primitive)
    if name == "jvp" and kind.__name__ in ("CustomVJPTraced", "OptRemat"):
        return False
    base = next(base for base in kind.__mro__[::-1] if hasattr(base, "expand"))
    return getattr(kind, name, None) is not getattr(base, name, None)


def register_remat_rule(primitive: jex_core.Primitive, rule: Any, kept: Callable[..., Any] | None) -> None:
    """Registers the rule that splits an equation of a rematerialised jaxpr into known and staged parts.

    `rule` gets a policy that returns True if the value is kept, on the device or elsewhere, and False otherwise; JAX's
    own policies may also return objects, which are all true. `kept` is for the checkpoint of `jax_remat3` (JAX 0.12),
    which otherwise repeats equations: `kept(is_saveable, operands)` returns the equation's results in the backward
    pass, made of the operands, or None if the equation is repeated.
    """
    if kept is not None:
        _register_remat3_rule(primitive, kept)
    try:
        from jax._src.interpreters import partial_eval as _partial_eval
    except ImportError:
        MISSING.append("jax._src.interpreters.partial_eval")
        return
    rules = getattr(_partial_eval, "partial_eval_jaxpr_custom_rules", None)
    if rules is None:
        MISSING.append("partial_eval_jaxpr_custom_rules")
    else:
        rules[primitive] = lambda policy, *rest: rule(functools.partial(keeps, policy), *rest)


def keeps(policy: Callable[..., Any], primitive: Any, *types: Any, **params: Any) -> bool:
    """Returns whether a policy of `jax.checkpoint` keeps the results of an equation, on the device or elsewhere."""
    return policy(primitive, *types, **params) not in (False, _recompute)


def _register_remat3_rule(primitive: jex_core.Primitive, kept: Callable[..., Any]) -> None:
    try:
        from jax._src.interpreters import remat
    except ImportError:
        return  # before JAX 0.12

    def split(trace: Any, *operands: Any, **params: Any) -> Any:
        types = map(jax.typeof, operands)
        is_saveable = trace.policy is not None and keeps(trace.policy, primitive, *types, **params)

        def again(_: Any, *operands: Any) -> Any:
            results = kept(is_saveable, operands)
            return primitive.bind(*operands, **params) if results is None else results

        return primitive.bind(*operands, **params), (), again

    remat.rules[primitive] = split


try:
    from jax._src.interpreters import partial_eval as _partial_eval

    _recompute: Any = getattr(_partial_eval, "Recompute", False)
except ImportError:
    _recompute = False


def count_lanes(value: Any) -> int:
    """Returns the number of lanes of a value under the current `vmap`s; 0 outside of any."""
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
    """Returns True for a variable of a jaxpr, False for a literal."""
    from jax.extend import core as jex_core

    return isinstance(atom, jex_core.Var)


def not_instantiated(eqn: Any, instantiated_in: Sequence[bool]) -> list[Any]:
    """Returns the operands that a rule of `jax.checkpoint` must request to have its equation in the backward pass."""
    ready = zip(eqn.invars, instantiated_in, strict=True)
    return [var for var, is_ready in ready if not is_ready and is_variable(var)]


def split_for_remat(
    eqn: Any, unknown_in: Sequence[bool], instantiated_in: Sequence[bool], is_saved: Callable[[], bool]
) -> tuple[Any, ...]:
    """Splits an equation of a rematerialised jaxpr like JAX: (known, staged, unknown, instantiated, requested operands).

    `is_saved` returns whether the known equation's results are kept for the backward pass; it is called if all operands
    are known.
    """
    count, missing = len(eqn.outvars), not_instantiated(eqn, instantiated_in)
    if any(unknown_in):
        return None, eqn, [True] * count, [True] * count, missing
    if is_saved():
        return eqn, None, [False] * count, [False] * count, []
    return eqn, eqn, [False] * count, [True] * count, missing


def is_used(var: Any) -> bool:
    """Returns False for the variable of an unused result."""
    return type(var).__name__ != "DropVar"


def bind_again(eqn: Any, args: Sequence[Any]) -> list[Any]:
    """Binds an equation again with other operands, and returns the results."""
    out = eqn.primitive.bind(*args, **eqn.primitive.get_bind_params(eqn.params))
    return list(out) if eqn.primitive.multiple_results else [out]


def scan_counts(params: dict[str, Any]) -> tuple[int, int]:
    """Returns the numbers of constants and of carried values of a scan."""
    if "num_carry" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()  # JAX 0.12
    return len(list(consts)), len(list(carry))


def custom_transpose_rule() -> tuple[Any, Any] | None:
    """Returns the mapping and the key of the rule that calls a `jax.custom_vjp`'s backward function; None if not found."""
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


def register_dce_rule(primitive: jex_core.Primitive, rule: Any) -> None:
    """Registers a rule that drops unused results of an equation: `rule(used, eqn)` -> (operands used, eqn)."""
    rules = getattr(partial_eval, "dce_rules", None)
    if rules is None:
        MISSING.append("jax.interpreters.partial_eval.dce_rules")
    else:  # since JAX 0.12 a rule also gets the mutable arrays that are read later
        rules[primitive] = lambda used, *others: rule(used, others[-1])


def instantiate_cotangent(cotangent: Any) -> Any:
    """Converts a symbolic zero to an array of zeros."""
    return ad.instantiate_zeros(cotangent) if isinstance(cotangent, ad.Zero) else cotangent


def abstract_token() -> Any:
    """Returns the type of a token, which must be JAX's own object."""
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
_has_logs = _backward_pass is not None and "return_logs" in inspect.signature(_backward_pass).parameters


def register_transpose(primitive: jex_core.Primitive, rule: Callable[..., tuple[list[Any], Any]]) -> None:
    """Registers a primitive's transpose rule, which returns (cotangents, logs): see `jax.vjp(...)[1].with_logs`.

    JAX before 0.12 has no logs.
    """
    rules = getattr(_ad, "fancy_transposes", None)
    if rules is None or not _has_logs:
        ad.primitive_transposes[primitive] = lambda *args, **params: rule(*args, **params)[0]
        return

    def accumulate(cotangents: Any, *args: Any, **params: Any) -> Any:
        is_open = [isinstance(arg, _ad.GradAccum) for arg in args]
        given = [ad.UndefinedPrimal(arg.aval) if is_one else arg for arg, is_one in zip(args, is_open, strict=True)]
        outs, logs = rule(cotangents, *given, **params)
        for arg, out, is_one in zip(args, outs, is_open, strict=True):
            if is_one and out is not None:
                arg.accum(out)
        return logs or None

    rules[primitive] = accumulate


def transpose(
    jaxpr: Any, residuals: Sequence[Any], operands: Sequence[Any], cotangents: Sequence[Any]
) -> tuple[list[Any], Any]:
    """Returns the cotangents of the operands, and the logs of rules in the backward pass.

    `jax.linear_transpose` would repeat the effects of rematerialised equations, because it splits the jaxpr again into
    the equations that depend on the residuals alone and the others.

    Args:
        jaxpr: a closed jaxpr of the residuals and the operands, linear in the operands.
        residuals: the values of the residuals.
        operands: the types of the operands.
        cotangents: the cotangents of the results; None for results that nothing depends on.
    """
    if _backward_pass is None:
        return _transpose_again(jaxpr, residuals, operands, cotangents), {}
    values = [*residuals, *map(ad.UndefinedPrimal, operands)]
    given = [
        ad.Zero(result) if each is None else each for each, result in zip(cotangents, jaxpr.out_avals, strict=True)
    ]
    logged = {"return_logs": True} if _has_logs else {}
    outs = _backward_pass(jaxpr.jaxpr, True, jaxpr.consts, values, given, **logged)
    outs, logs = outs if _has_logs else (outs, {})
    return [ad.instantiate_zeros(out) for out in outs[len(residuals) :]], logs


def _transpose_again(jaxpr: Any, residuals: Any, operands: Any, cotangents: Any) -> list[Any]:
    from jax.extend import core as jex_core  # slow, so not at the import of the package

    wanted = [i for i, each in enumerate(cotangents) if each is not None]

    def of_wanted(*operands: Any) -> list[Any]:
        outs = jex_core.jaxpr_as_fun(jaxpr)(*residuals, *operands)
        return [outs[i] for i in wanted]

    examples = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in operands]
    return list(jax.linear_transpose(of_wanted, *examples)([cotangents[i] for i in wanted]))
