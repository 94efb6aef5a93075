# SPDX-License-Identifier: Apache-2.0
"""The one walk through a traced function, and what those who walk share of the rules of JAX's own primitives.

Who evaluates a traced function in another way says what becomes of each equation; what control flow and nested functions
are made of again is here, with the function that evaluates what is inside.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.extend.core

from .. import _jax_compat

# (equation, operands) -> results
Each = Callable[[Any, list[Any]], Sequence[Any]]
Read = Callable[[Any], Any]


def opened(jaxpr: Any) -> Any:
    """Returns a jaxpr without its constants, closed or not."""
    return getattr(jaxpr, "jaxpr", jaxpr)


def consts_of(jaxpr: Any) -> Sequence[Any]:
    """Returns the constants of a jaxpr, if it is closed."""
    return getattr(jaxpr, "consts", ())


def _value(value: Any) -> Any:
    return value


def follow(equations: Iterable[Any], values: dict[Any, Any], each: Each, literal: Read = _value) -> Read:
    """Adds the results of equations to `values`, the values of variables. Returns what reads an operand.

    `literal`: what stands for a value that is written into the program.
    """

    def read(atom: Any) -> Any:
        return values[atom] if _jax_compat.is_variable(atom) else literal(atom.val)

    for eqn in equations:
        values.update(zip(eqn.outvars, each(eqn, [read(atom) for atom in eqn.invars]), strict=True))
    return read


def walk(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], each: Each, literal: Read = _value) -> list[Any]:
    """Returns a jaxpr's results, where `each` has those of an equation; `consts` are those of an open one."""
    jaxpr = opened(jaxpr)
    values = dict(zip(jaxpr.constvars, consts, strict=True))
    values.update(zip(jaxpr.invars, args, strict=True))
    return [*map(follow(jaxpr.eqns, values, each, literal), jaxpr.outvars)]


def evaluate(jaxpr: Any, args: Sequence[Any], each: Each) -> list[Any]:
    """Returns the results of a jaxpr, closed or without constants, with `each` called where its equation was traced."""
    return walk(jaxpr, consts_of(jaxpr), args, in_context(each))


def in_context(each: Each) -> Each:
    """Returns `each`, called with the settings and for the lines of its equation."""

    def call(eqn: Any, operands: list[Any]) -> Sequence[Any]:
        with _jax_compat.context_of(eqn):
            return each(eqn, operands)

    return call


def dependences(jaxpr: Any) -> list[frozenset[int]]:
    """Returns for each result the numbers of the arguments that it depends on, or may."""
    jaxpr = opened(jaxpr)
    nothing: frozenset[int] = frozenset()

    def through(jaxpr: Any, args: Sequence[frozenset[int]]) -> list[frozenset[int]]:
        return walk(jaxpr, [nothing] * len(jaxpr.constvars), args, each, lambda _: nothing)

    def each(eqn: Any, operands: list[frozenset[int]]) -> Sequence[frozenset[int]]:
        if eqn.primitive is jax.extend.core.primitives.jit_p:
            return through(opened(eqn.params["jaxpr"]), operands)
        return [nothing.union(*operands)] * len(eqn.outvars)

    return through(jaxpr, [frozenset((i,)) for i in range(len(jaxpr.invars))])


def inner_jaxprs(eqn: Any) -> Iterator[Any]:
    """Yields the jaxprs in an equation's parameters."""
    for value in eqn.params.values():
        for each in value if isinstance(value, (tuple, list)) else (value,):
            if hasattr(each, "eqns") or hasattr(each, "jaxpr"):
                yield each


class Search:
    """Tells whether there is such an equation in a jaxpr, at any depth. Remembered for as long as the jaxpr lives."""

    def __init__(self, is_such: Callable[[Any], bool]):
        self._is_such = is_such
        self._found: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()

    def in_jaxpr(self, jaxpr: Any) -> bool:
        """Tells whether there is one in a jaxpr."""
        jaxpr = opened(jaxpr)
        found = self._found.get(jaxpr)
        if found is None:
            found = self._found[jaxpr] = any(map(self.in_equation, jaxpr.eqns))
        return found

    def in_equation(self, eqn: Any) -> bool:
        """Tells whether an equation is one, or has one inside."""
        return self._is_such(eqn) or self.inside(eqn)

    def inside(self, eqn: Any) -> bool:
        """Tells whether an equation has one inside."""
        return any(map(self.in_jaxpr, inner_jaxprs(eqn)))


# What the rules of control flow and nested functions share. `function` evaluates what is inside, with what was given
# first, for which the function that was traced has no argument.


def scan(eqn: Any, args: Sequence[Any], first: Any, step: Callable[[Any, list[Any]], tuple[Any, list[Any]]]) -> Any:
    """Returns (the last `first`, results) of a scan that carries `first`; its body is `step(first, operands)`."""
    params = eqn.params
    num_consts, num_carry = _jax_compat.scan_counts(params)
    consts, init, xs = args[:num_consts], args[num_consts : num_consts + num_carry], args[num_consts + num_carry :]

    def body(carry: tuple[Any, list[Any]], x: list[Any]) -> tuple[tuple[Any, list[Any]], list[Any]]:
        after, outs = step(carry[0], [*consts, *carry[1], *x])
        return (after, outs[:num_carry]), outs[num_carry:]

    settings = {name: params[name] for name in ("length", "reverse", "unroll")}
    (last, carry), ys = jax.lax.scan(body, (first, list(init)), list(xs), **settings)
    return last, [*carry, *ys]


def choose(
    eqn: Any, index: Any, function: Callable[[Any], Callable[..., Any]], first: Sequence[Any], operands: Sequence[Any]
) -> Any:
    """Returns the branch that a cond takes, of the `function`s of its jaxprs."""
    branches = list(map(function, eqn.params["branches"]))
    platforms = eqn.params.get("branches_platforms")
    if platforms is not None:
        named = zip(platforms, branches, strict=True)
        chosen = {name: branch for names, branch in named for name in names or ("default",)}
        return jax.lax.platform_dependent(*first, *operands, **chosen)
    return jax.lax.switch(index, branches, *first, *operands)


def constrained(values: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
    """Returns the values with the shardings that a nested `jit` was told, where it was."""
    return [
        jax.lax.with_sharding_constraint(value, sharding) if isinstance(sharding, jax.sharding.Sharding) else value
        for value, sharding in zip(values, shardings, strict=True)
    ]


def jitted(eqn: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `function(first, *operands)`, jitted as an equation's function was."""
    params = eqn.params

    def named(first: Any, *values: Any) -> Any:
        return function(params["jaxpr"], first, values)

    named.__name__ = named.__qualname__ = params["name"]
    options = dict(params["compiler_options_kvs"]) or None
    return jax.jit(named, keep_unused=params["keep_unused"], inline=params["inline"], compiler_options=options)


def behind_barrier(eqn: Any, operands: Sequence[Any]) -> list[Any]:
    """Returns the operands of an equation; those of a backward pass must not be merged with those of the first time."""
    prevented = eqn.params.get("differentiated") and eqn.params.get("prevent_cse")
    chosen = prevented if isinstance(prevented, tuple) else (bool(prevented),) * len(operands)
    if not any(chosen):
        return list(operands)
    kept = iter(jax.lax.optimization_barrier([one for one, prevent in zip(operands, chosen, strict=True) if prevent]))
    return [next(kept) if prevent else one for one, prevent in zip(operands, chosen, strict=True)]


def rematerialized(eqn: Any, function: Callable[..., Any], first: Any, operands: Sequence[Any]) -> Any:
    """Evaluates `function(jaxpr, first, operands)`, computed again as a `jax.checkpoint` is."""
    params = eqn.params
    if params["differentiated"]:
        return function(params["jaxpr"], first, behind_barrier(eqn, operands))

    def again(first: Any, *values: Any) -> Any:
        return function(params["jaxpr"], first, values)

    prevented = params["prevent_cse"]  # one for all operands, or for each
    prevent_cse = prevented if isinstance(prevented, bool) else (False, *prevented)
    return jax.checkpoint(again, prevent_cse=prevent_cse, policy=params["policy"])(first, *operands)


def spread(eqn: Any, function: Callable[..., Any], first: Sequence[Any], operands: Sequence[Any]) -> Sequence[Any]:
    """Evaluates `function(jaxpr, first, operands)` on each device of a `jax.shard_map`; all have the whole of `first`."""
    params, count = eqn.params, len(first)
    on_each: Any = jax.shard_map(
        lambda *values: tuple(function(params["jaxpr"], values[:count], values[count:])),
        mesh=params["mesh"],
        in_specs=((jax.sharding.PartitionSpec(),) * count + tuple(params["in_specs"])),
        out_specs=tuple(params["out_specs"]),
        check_vma=params["check_vma"],
        axis_names=params["newly_manual_axes"],
    )
    return tuple(on_each(*first, *operands))
