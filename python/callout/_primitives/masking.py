# SPDX-License-Identifier: Apache-2.0
"""Evaluates a traced function so that its callbacks run only where a boolean is true: the rest of it stays as it is.

Under `vmap` the boolean has a value for each lane. It goes to every callback as an operand, through control flow, nested
functions, derivative rules and rematerialised parts; nothing but callbacks looks at it.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.extend.core

from .. import _jax_compat
from . import buffer, call, check, debug, ffi, lanes, located_nans, tap, threaded
from .host_call import host_call_p, refuse_host_call

_primitives = jax.extend.core.primitives
Outs = Sequence[Any]


def _is_of_one_lane(params: dict[str, Any]) -> bool:
    return not params["site"].whole_batch


def _acts(params: dict[str, Any]) -> bool:
    return bool(params["has_side_effect"])


def _always(_: dict[str, Any]) -> bool:
    return True


# The callbacks that see a mask, and in which cases.
_CALLBACKS: dict[Any, Callable[[dict[str, Any]], bool]] = {
    tap.tap_p: _is_of_one_lane,
    debug.debug_p: _always,
    call.io_p: _always,
    buffer.buffer_p: _acts,
    ffi.ffi_p: _acts,
    threaded.threaded_tap_p: _is_of_one_lane,
    threaded.threaded_call_p: _always,
    check.check_p: _always,
    located_nans.located_nans_p: _always,
}

# Those whose results are their operands, or a token.
_WITHOUT_RESULTS = {each for one in (tap.tap_p, threaded.threaded_tap_p) for each in (one, lanes.lanes_primitive(one))}


def _is_callback(eqn: Any) -> bool:
    sees = _CALLBACKS.get(eqn.primitive)
    return sees(eqn.params) if sees is not None else lanes.callback_of(eqn.primitive) is not None


def _inner(eqn: Any) -> Iterator[Any]:
    """The jaxprs in an equation's parameters."""
    for value in eqn.params.values():
        for each in value if isinstance(value, (tuple, list)) else (value,):
            if hasattr(each, "eqns") or hasattr(each, "jaxpr"):
                yield getattr(each, "jaxpr", each)


def _answers(eqn: Any) -> bool:
    return _is_callback(eqn) and len(eqn.outvars) > 0 and eqn.primitive not in _WITHOUT_RESULTS


def _is_loop(eqn: Any) -> bool:
    return eqn.primitive is _primitives.while_p


class _Search:
    """Tells whether there is such an equation in a jaxpr, at any depth. Remembered for as long as the jaxpr lives."""

    def __init__(self, is_such: Callable[[Any], bool]):
        self._is_such = is_such
        self._found: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()

    def in_jaxpr(self, jaxpr: Any) -> bool:
        jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
        found = self._found.get(jaxpr)
        if found is None:
            found = self._found[jaxpr] = any(map(self.in_equation, jaxpr.eqns))
        return found

    def in_equation(self, eqn: Any) -> bool:
        return self._is_such(eqn) or any(map(self.in_jaxpr, _inner(eqn)))


_callbacks, _with_results, _loops = _Search(_is_callback), _Search(_answers), _Search(_is_loop)


def has_callbacks(jaxpr: Any) -> bool:
    """True where there is a callback that a mask makes a difference to."""
    return _callbacks.in_jaxpr(jaxpr)


def masked(jaxpr: Any, live: Any, args: Sequence[Any]) -> list[Any]:
    """The results of a jaxpr, closed or open, whose callbacks run where `live` is true."""
    return Masker(_with_results.in_jaxpr(jaxpr)).jaxpr(jaxpr, live, args)


@dataclasses.dataclass(frozen=True)
class Masker:
    """One evaluation.

    `ends_loops`: while loops do not run where `live` is false. With callbacks that have results, they might not end there:
    they would go by zeros.
    """

    ends_loops: bool

    def jaxpr(self, jaxpr: Any, live: Any, args: Sequence[Any]) -> list[Any]:
        """A jaxpr's results."""
        consts, jaxpr = getattr(jaxpr, "consts", ()), getattr(jaxpr, "jaxpr", jaxpr)
        values: dict[Any, Any] = {}

        def read(atom: Any) -> Any:
            return values[atom] if _jax_compat.is_variable(atom) else atom.val

        values.update(zip(jaxpr.constvars, consts, strict=True))
        values.update(zip(jaxpr.invars, args, strict=True))
        for eqn in jaxpr.eqns:
            operands = [read(atom) for atom in eqn.invars]
            with _jax_compat.context_of(eqn):
                values.update(zip(eqn.outvars, self._results(eqn, live, operands), strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def concerns(self, jaxpr: Any) -> bool:
        """Tells whether anything in a jaxpr looks at `live`."""
        return _callbacks.in_jaxpr(jaxpr) or (self.ends_loops and _loops.in_jaxpr(jaxpr))

    def _results(self, eqn: Any, live: Any, args: Sequence[Any]) -> Outs:
        if eqn.primitive is host_call_p:
            refuse_host_call("batching rules are")
        if eqn.primitive is check.check_p:
            return check.bind_live(live, args, eqn.params)
        if eqn.primitive is located_nans.located_nans_p:
            return located_nans.bind_live(live, args, eqn.params)
        if _is_callback(eqn):
            if eqn.primitive in _CALLBACKS:
                return lanes.bind_live(live, eqn.primitive, args, eqn.params)
            return lanes.bind_fewer(live, eqn.primitive, args, eqn.params["lanes"], eqn.params["params"])
        has_callbacks = _callbacks.in_equation(eqn)
        rule = _RULES.get(eqn.primitive)
        if has_callbacks and rule is None:
            raise NotImplementedError(
                f"vmap of a cond or a while loop with a callback of Callout inside {eqn.primitive.name}: the callback must "
                f"run for some of the lanes only, and {eqn.primitive.name} cannot tell it which"
            )
        if rule is None or not (has_callbacks or (self.ends_loops and _loops.in_equation(eqn))):
            return _jax_compat.bind_again(eqn, args)
        return rule(self, eqn, live, args)


def _scan(masker: Masker, eqn: Any, live: Any, args: Sequence[Any]) -> Outs:
    params = eqn.params
    num_consts, num_carry = _jax_compat.scan_counts(params)
    consts, init, xs = args[:num_consts], args[num_consts : num_consts + num_carry], args[num_consts + num_carry :]

    def step(carry: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
        outs = masker.jaxpr(params["jaxpr"], live, [*consts, *carry, *x])
        return outs[:num_carry], outs[num_carry:]

    settings = {name: params[name] for name in ("length", "reverse", "unroll")}
    carry, ys = jax.lax.scan(step, list(init), list(xs), **settings)
    return [*carry, *ys]


def _while(masker: Masker, eqn: Any, live: Any, args: Sequence[Any]) -> Outs:
    """Bound as it is: what a `vmap` has already made of it has a predicate for each of its lanes."""
    params = dict(eqn.params)
    num_cond, num_body = params["cond_nconsts"], params["body_nconsts"]
    init = args[num_cond + num_body :]

    def condition(live: Any, *values: Any) -> list[Any]:
        (going,) = masker.jaxpr(eqn.params["cond_jaxpr"], live, values)
        return [going & live if masker.ends_loops else going]

    def body(live: Any, *values: Any) -> list[Any]:
        return masker.jaxpr(eqn.params["body_jaxpr"], live, values)

    consts = {"cond": list(args[:num_cond]), "body": list(args[num_cond : num_cond + num_body])}
    for name, function in (("cond", condition), ("body", body)):
        if masker.concerns(params[f"{name}_jaxpr"]) or (masker.ends_loops and name == "cond"):
            consts[name].insert(0, live)
            params[f"{name}_jaxpr"] = jax.make_jaxpr(function)(*consts[name], *init)
            params[f"{name}_nconsts"] += 1
    return list(eqn.primitive.bind(*consts["cond"], *consts["body"], *init, **params))


def _cond(masker: Masker, eqn: Any, live: Any, args: Sequence[Any]) -> Outs:
    index, *operands = args
    branches = [
        lambda live, *values, jaxpr=jaxpr: masker.jaxpr(jaxpr, live, values) for jaxpr in eqn.params["branches"]
    ]
    platforms = eqn.params.get("branches_platforms")
    if platforms is not None:
        named = zip(platforms, branches, strict=True)
        chosen = {name: branch for names, branch in named for name in names or ("default",)}
        return jax.lax.platform_dependent(live, *operands, **chosen)  # type: ignore[no-any-return]
    return jax.lax.switch(index, branches, live, *operands)  # type: ignore[no-any-return]


def constrained(values: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
    """Values with the shardings that a nested `jit` was told, where it was."""
    return [
        jax.lax.with_sharding_constraint(value, sharding) if isinstance(sharding, jax.sharding.Sharding) else value
        for value, sharding in zip(values, shardings, strict=True)
    ]


def _jit(masker: Masker, eqn: Any, live: Any, args: Sequence[Any]) -> Outs:
    params = eqn.params

    def function(live: Any, *values: Any) -> Outs:
        return masker.jaxpr(params["jaxpr"], live, values)

    function.__name__ = function.__qualname__ = params["name"]
    options = dict(params["compiler_options_kvs"]) or None
    jitted = jax.jit(function, keep_unused=params["keep_unused"], inline=params["inline"], compiler_options=options)
    return constrained(jitted(live, *constrained(args, params["in_shardings"])), params["out_shardings"])


def _closed_call(masker: Masker, eqn: Any, live: Any, args: Sequence[Any]) -> Outs:
    return masker.jaxpr(eqn.params["call_jaxpr"], live, args)


def _remat(masker: Masker, eqn: Any, live: Any, args: Sequence[Any]) -> Outs:
    params = eqn.params

    def function(live: Any, *values: Any) -> Outs:
        return masker.jaxpr(params["jaxpr"], live, values)

    if params["differentiated"]:  # the backward pass: what is computed again must not be merged with the first time
        kept = jax.lax.optimization_barrier(list(args)) if params["prevent_cse"] else args
        return function(live, *kept)
    again = jax.checkpoint(function, prevent_cse=params["prevent_cse"], policy=params["policy"])
    return again(live, *args)  # type: ignore[no-any-return]


def _evaluate(masker: Masker, function: Any, live: Any, *args: Any) -> Any:
    """`function(*args)`, whose callbacks run where `live` is true."""
    jaxpr, shape = jax.make_jaxpr(function, return_shape=True)(*args)
    outs = masker.jaxpr(jaxpr, live, jax.tree.leaves(args))
    return jax.tree.unflatten(jax.tree.structure(shape), outs)


def _custom_jvp(masker: Masker, eqn: Any, live: Any, args: Sequence[Any]) -> Outs:
    @jax.custom_jvp
    def function(live: Any, *values: Any) -> Outs:
        return masker.jaxpr(eqn.params["call_jaxpr"], live, values)

    @function.defjvp
    def _(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        live, *values = primals
        changes = list(tangents[1:])
        moving = [i for i, tangent in enumerate(changes) if tangent.dtype != jax.dtypes.float0]

        def both(values: Sequence[Any], moves: Sequence[Any]) -> Any:
            for i, move in zip(moving, moves, strict=True):
                changes[i] = move
            return jax.jvp(lambda *xs: _jax_compat.bind_again(eqn, xs), tuple(values), tuple(changes))

        return _evaluate(masker, both, live, values, [changes[i] for i in moving])

    return function(live, *args)


def _custom_vjp(masker: Masker, eqn: Any, live: Any, args: Sequence[Any]) -> Outs:
    @jax.custom_vjp
    def function(live: Any, *values: Any) -> Outs:
        return masker.jaxpr(eqn.params["call_jaxpr"], live, values)

    def forward(live: Any, *values: Any) -> Any:
        # The second result is a pytree: the residuals, and the function of the cotangents.
        outs, backward = _evaluate(
            masker, lambda values: jax.vjp(lambda *xs: _jax_compat.bind_again(eqn, xs), *values), live, values
        )
        return outs, (live, backward)

    def back(kept: Any, cotangents: Any) -> Any:
        live, backward = kept
        residuals, tree = jax.tree.flatten(backward)
        return None, *_evaluate(
            masker, lambda kept, ct: jax.tree.unflatten(tree, kept)(ct), live, residuals, cotangents
        )

    function.defvjp(forward, back)
    return function(live, *args)


def _shard_map(masker: Masker, eqn: Any, live: Any, args: Sequence[Any]) -> Outs:
    params = eqn.params
    function: Any = jax.shard_map(
        lambda live, *values: tuple(masker.jaxpr(params["jaxpr"], live, values)),
        mesh=params["mesh"],
        in_specs=(jax.sharding.PartitionSpec(), *params["in_specs"]),
        out_specs=tuple(params["out_specs"]),
        check_vma=params["check_vma"],
        axis_names=params["newly_manual_axes"],
    )
    return tuple(function(live, *args))


_RULES: dict[Any, Callable[[Masker, Any, Any, Sequence[Any]], Outs]] = {
    _primitives.scan_p: _scan,
    _primitives.while_p: _while,
    _primitives.cond_p: _cond,
    _primitives.jit_p: _jit,
    _primitives.closed_call_p: _closed_call,
    _primitives.remat_p: _remat,
    _primitives.custom_jvp_call_p: _custom_jvp,
    _primitives.custom_vjp_call_p: _custom_vjp,
    **({_jax_compat.shard_map_p: _shard_map} if _jax_compat.shard_map_p is not None else {}),
}
