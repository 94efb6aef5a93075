# SPDX-License-Identifier: Apache-2.0
"""A linear function with its own transpose, like `jax.custom_derivatives.linear_call`, but with effects and `vmap`.

`saved` is the identity on a value that `jax.checkpoint` keeps for the backward pass if an equation there needs the
value. `jax.checkpoint` does not repeat a function with effects. In the backward pass the function's results then only
exist if an equation requests them, and the rule of JAX's own debug callbacks does not. Results that pass through
`saved` exist.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend import core as jex_core
from jax.interpreters import ad, batching, mlir

from .. import _jax_compat
from . import effects, jaxprs

linear_p = jex_core.Primitive("callout_linear")
linear_p.multiple_results = True

Values = Sequence[Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Linear:
    """A linear function. `forward` and `backward` take lists; the residuals are its other, nonlinear inputs.

    A cotangent of None is zero, both as an argument and as a result, so that user's rules are not called for zeros.
    """

    forward: Callable[[Values, Values], list[Any]]  # (residuals, operands)
    # (residuals, types of the operands, cotangents) -> (cotangents of the operands, logs of rules in the backward pass:
    # a dict of pytrees)
    backward: Callable[[Values, Values, Values], tuple[list[Any], Any]]
    results: tuple[Any, ...]  # types of the results
    ordered: set[Any]  # the ordered effects of the function
    # Keeps some results and all effects: (used results) -> (used operands, the narrowed function, or None if it is
    # empty).
    narrow: Callable[[Sequence[bool]], tuple[list[bool], Linear | None]]


def bind(linear: Linear, residuals: Values, operands: Values) -> list[Any]:
    """Binds the linear function, and returns its results."""
    return list(linear_p.bind(*residuals, *operands, linear=linear, num_residuals=len(residuals)))


@linear_p.def_effectful_abstract_eval
def _abstract_eval(*_: Any, linear: Linear, **__: Any) -> tuple[list[Any], set[Any]]:
    return list(linear.results), effects.observing(False) | linear.ordered


def _evaluate(*args: Any, linear: Linear, num_residuals: int) -> list[Any]:
    return linear.forward(args[:num_residuals], args[num_residuals:])


linear_p.def_impl(_evaluate)


def _batch(args: Values, dims: Sequence[int | None], *, linear: Linear, num_residuals: int) -> tuple[Any, Any]:
    size = next(arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if dim is not None)
    front = [arg if dim is None else jax.numpy.moveaxis(arg, dim, 0) for arg, dim in zip(args, dims, strict=True)]
    in_front = [None if dim is None else 0 for dim in dims[:num_residuals]]
    operands = [
        jax.numpy.broadcast_to(arg, (size, *jax.numpy.shape(arg))) if dim is None else arg
        for arg, dim in zip(front[num_residuals:], dims[num_residuals:], strict=True)
    ]

    outs = bind(_of_lanes(linear, size, in_front), front[:num_residuals], operands)
    return outs, [0] * len(outs)


def _of_lanes(linear: Linear, size: int, in_front: Sequence[int | None]) -> Linear:
    """Returns the batched function. All operands, and the residuals in `in_front`, have the lanes as first axis."""

    def forward(residuals: Values, operands: Values) -> list[Any]:
        return jax.vmap(linear.forward, in_axes=(in_front, 0), axis_size=size)(list(residuals), list(operands))

    def backward(residuals: Values, types: Values, cotangents: Values) -> tuple[list[Any], Any]:
        single = [_jax_compat.array_type(each.shape[1:], each.dtype, _jax_compat.varying_axes(each)) for each in types]
        return jax.vmap(
            lambda residuals, cotangents: linear.backward(residuals, single, cotangents),
            in_axes=(in_front, 0),
            axis_size=size,
        )(list(residuals), list(cotangents))

    def narrow(used: Sequence[bool]) -> tuple[list[bool], Linear | None]:
        taken, narrowed = linear.narrow(used)
        return taken, narrowed and _of_lanes(narrowed, size, in_front)

    results = tuple(
        _jax_compat.array_type((size, *each.shape), each.dtype, _jax_compat.varying_axes(each))
        for each in linear.results
    )
    return Linear(forward, backward, results, linear.ordered, narrow)


batching.primitive_batchers[linear_p] = _batch


def _jvp(primals: Values, tangents: Values, **params: Any) -> tuple[Any, Any]:
    moving = [i for i, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero)]

    def of_moving(*moved: Any) -> list[Any]:
        return _evaluate(*jaxprs.with_these(primals, moving, moved), **params)

    return jax.jvp(of_moving, [primals[i] for i in moving], [tangents[i] for i in moving])


ad.primitive_jvps[linear_p] = _jvp


def _transpose(cotangents: Values, *args: Any, linear: Linear, num_residuals: int) -> tuple[list[Any], Any]:
    residuals, operands = args[:num_residuals], args[num_residuals:]
    given = [None if isinstance(cotangent, ad.Zero) else cotangent for cotangent in cotangents]
    types = [operand.aval if ad.is_undefined_primal(operand) else jax.typeof(operand) for operand in operands]
    outs, logs = linear.backward(residuals, types, given)
    return [None] * num_residuals + [
        out if ad.is_undefined_primal(operand) else None for out, operand in zip(outs, operands, strict=True)
    ], logs


_jax_compat.register_transpose(linear_p, _transpose)

mlir.register_lowering(linear_p, mlir.lower_fun(_evaluate, multiple_results=True))


def _drop(used: Sequence[bool], eqn: Any) -> tuple[list[bool], Any]:
    """Drops unused results and their operands in spite of the effect, so that JAX can drop the operands' equations."""
    if all(used):
        return [True] * len(eqn.invars), eqn
    taken, linear = eqn.params["linear"].narrow(used)
    num_residuals = eqn.params["num_residuals"]
    taken = [linear is not None] * num_residuals + taken
    if linear is None:
        return taken, None
    return taken, eqn.replace(
        invars=list(itertools.compress(eqn.invars, taken)),
        outvars=list(itertools.compress(eqn.outvars, used)),
        params={"linear": linear, "num_residuals": num_residuals},
    )


_jax_compat.register_dce_rule(linear_p, _drop)

saved_p = jex_core.Primitive("callout_saved")


def saved(value: Any) -> Any:
    """Returns `value`, which `jax.checkpoint` then keeps if the backward pass needs it."""
    return saved_p.bind(value)


def _same(value: Any) -> Any:
    return value


saved_p.def_abstract_eval(_same)
saved_p.def_impl(_same)

batching.primitive_batchers[saved_p] = lambda args, dims: (saved_p.bind(*args), dims[0])

ad.primitive_jvps[saved_p] = lambda primals, tangents: (saved_p.bind(*primals), tangents[0])
ad.primitive_transposes[saved_p] = lambda cotangent, _: [cotangent]


def _split_saved(_: Any, unknown_in: Sequence[bool], instantiated_in: Sequence[bool], eqn: Any) -> Any:
    if unknown_in[0]:
        return None, eqn, [True], [True], [] if instantiated_in[0] else list(eqn.invars)
    return eqn, None, [False], [True], [var for var in eqn.outvars if _jax_compat.is_used(var)]


_jax_compat.register_remat_rule(saved_p, _split_saved, None)

mlir.register_lowering(saved_p, lambda _ctx, value: [value])
