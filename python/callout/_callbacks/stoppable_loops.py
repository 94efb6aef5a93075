# SPDX-License-Identifier: Apache-2.0
"""`callout.scan` and `callout.fori_loop` end early when a flag is set, and return the current carry.

Without differentiation the loop is a while loop that ends early. A differentiated loop is a scan, because JAX cannot
run a while loop backwards: steps after the stop are identities, and whole chunks of them are skipped. The steps of both
read the flag at the same places.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from .stop_flag import StopFlag

Carry = TypeVar("Carry")

_CHUNK = 64  # the number of steps that are skipped together

# (index, constants, carry, x) -> (carry, y)
_Step = Callable[[Any, Any, Any, Any], tuple[Any, Any]]


def scan(
    f: Callable[[Carry, Any], tuple[Carry, Any]],
    init: Carry,
    xs: Any = None,
    length: int | None = None,
    *,
    stop: StopFlag,
) -> tuple[Carry, Any, jax.Array]:
    """Scans like `jax.lax.scan`, until a flag is set: the loop then ends with the current carry.

    Each step reads the flag before it begins. A loop that ends early can be differentiated: skipped steps have no part
    in the derivative.

    Args:
        f: gets the carry and a slice of `xs`, and returns the next carry and a slice of `ys`.
        init: the first carry.
        xs: a pytree of arrays, which are sliced along their first axis.
        length: the largest number of steps; needed without `xs`.
        stop: the flag.

    Returns:
        The last carry; the stacked `ys`, with zeros in the rows of skipped steps; and the number of steps that ran.

    Raises:
        TypeError: `stop` is no `callout.StopFlag`, or `f` returns no pair.
        ValueError: the number of steps is missing, negative or contradictory.

    Example:
        >>> @jax.jit
        ... def train(stop, w):
        ...     return callout.scan(lambda w, x: (w * x, w), w, jnp.full(4, 2.0), stop=stop)
        >>> stop = callout.StopFlag()
        >>> [np.asarray(out).tolist() for out in train(stop, 1.0)]
        [16.0, [1.0, 2.0, 4.0, 8.0], 4]
        >>> stop.set()
        >>> [np.asarray(out).tolist() for out in train(stop, 1.0)]
        [1.0, [0.0, 0.0, 0.0, 0.0], 0]
    """
    _check_flag("scan", stop)
    return _loop(lambda _, carry, x: _pair(f(carry, x)), init, xs, _length(xs, length), stop)


def fori_loop(
    lower: Any, upper: Any, body: Callable[[Any, Carry], Carry], init: Carry, *, stop: StopFlag
) -> tuple[Carry, jax.Array]:
    """Loops like `jax.lax.fori_loop`, until a flag is set: the loop then ends with the current carry.

    Each step reads the flag before it begins. The loop can be differentiated if its bounds are Python numbers.

    Args:
        lower: the first index.
        upper: the index before which the loop ends.
        body: gets the index and the carry, and returns the next carry.
        init: the first carry.
        stop: the flag.

    Returns:
        The last carry, and the number of steps that ran.

    Raises:
        TypeError: `stop` is no `callout.StopFlag`, or a bound is no integer.

    Example:
        >>> stop = callout.StopFlag()
        >>> w, steps = callout.fori_loop(0, 1000, lambda i, w: w + 2, 0, stop=stop)
        >>> int(w), int(steps)
        (2000, 1000)
        >>> stop.set()
        >>> w, steps = callout.fori_loop(0, 1000, lambda i, w: w + 2, 0, stop=stop)
        >>> int(w), int(steps)
        (0, 0)
    """
    _check_flag("fori_loop", stop)
    if isinstance(lower, (int, np.integer)) and isinstance(upper, (int, np.integer)):
        length = max(0, int(upper) - int(lower))
        carry, _, steps = _loop(lambda i, carry, _: (body(lower + i, carry), None), init, None, length, stop)
        return carry, steps
    lower, upper = jnp.asarray(lower), jnp.asarray(upper)
    for bound in (lower, upper):
        if not jnp.issubdtype(bound.dtype, jnp.integer):
            raise TypeError(f"callout.fori_loop: lower and upper must be integers, got {bound.dtype}")
    last, carry = jax.lax.while_loop(
        lambda state: (state[0] < upper) & ~stop.is_set(),
        lambda state: (state[0] + 1, body(state[0], state[1])),
        (lower, init),
    )
    return carry, last - lower


def _check_flag(where: str, stop: Any) -> None:
    if not isinstance(stop, StopFlag):
        raise TypeError(f"callout.{where}: stop must be a callout.StopFlag, got {stop!r}")


def _length(xs: Any, length: int | None) -> int:
    shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(xs)]
    if () in shapes:
        raise ValueError("callout.scan: xs must be arrays with an axis to go along, got a scalar")
    lengths = {shape[0] for shape in shapes} | (set() if length is None else {int(length)})
    if len(lengths) != 1:
        got = f"lengths {sorted(lengths)}" if lengths else "nothing says how many steps there are: pass xs or length"
        raise ValueError(f"callout.scan: xs and length must agree on one number of steps, got {got}")
    (steps,) = lengths
    if steps < 0:
        raise ValueError(f"callout.scan: length must be 0 or more, got {steps}")
    return int(steps)


def _pair(result: Any) -> tuple[Any, Any]:
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        got = jax.tree.structure(result)
        raise TypeError(f"callout.scan: f must return a pair, the next carry and a slice of ys, got {got}")
    carry, y = result
    return carry, y


def _first_step() -> jax.Array:
    """Returns 0 with JAX's type of loop steps: an int64 with `jax_enable_x64`."""
    return jnp.asarray(0, jax.dtypes.canonicalize_dtype(np.int64))


def _loop(step: Callable[..., Any], init: Any, xs: Any, length: int, stop: StopFlag) -> tuple[Any, Any, Any]:
    xs = jax.tree.map(jnp.asarray, xs)
    x, index = _slice_of(xs), _first_step()
    init = _promoted(jax.eval_shape(step, index, init, x)[0], init)
    zeros = functools.partial(jax.tree.map, lambda leaf: jnp.zeros(leaf.shape, leaf.dtype))
    if length == 0:  # xs has no slice to trace a step with
        rows = jax.tree.map(
            lambda leaf: jnp.zeros((0, *leaf.shape), leaf.dtype), jax.eval_shape(step, index, init, x)[1]
        )
        return jax.tree.map(jnp.asarray, init), rows, index
    # A step may capture values that JAX differentiates, which `_run` must get as arguments.
    converted, constants = jax.closure_convert(step, index, init, zeros(x))
    return _run(lambda i, constants, carry, x: converted(i, carry, x, *constants), length, stop, constants, init, xs)


def _slice_of(xs: Any) -> Any:
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), xs)


def _promoted(like: Any, init: Any) -> Any:
    """Returns the first carry with the types of the next one, if JAX converts a Python number to such a type."""

    def promote(first: Any, following: Any) -> Any:
        return jnp.asarray(first, following.dtype) if jax.typeof(first).weak_type else first

    structures: list[Any] = [jax.tree.structure(init), jax.tree.structure(like)]
    return jax.tree.map(promote, init, like) if structures[0] == structures[1] else init


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _run(step: _Step, length: int, stop: StopFlag, constants: Any, init: Any, xs: Any) -> tuple[Any, Any, Any]:
    y = jax.eval_shape(step, _first_step(), constants, init, _slice_of(xs))[1]
    rows = jax.tree.map(lambda leaf: jnp.zeros((length, *leaf.shape), leaf.dtype), y)

    def go_on(state: Any) -> Any:
        return (state[0] < length) & ~stop.is_set()

    def body(state: Any) -> Any:
        i, carry, ys = state
        x = jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, i, keepdims=False), xs)
        carry, y = step(i, constants, carry, x)
        ys = jax.tree.map(lambda rows, row: jax.lax.dynamic_update_index_in_dim(rows, row, i, 0), ys, y)
        return i + 1, carry, ys

    steps, carry, ys = jax.lax.while_loop(go_on, body, (_first_step(), init, rows))
    return carry, ys, steps


@_run.defjvp
def _run_jvp(step: _Step, length: int, primals: Any, tangents: Any) -> Any:
    return jax.jvp(functools.partial(_run_as_scan, step, length), primals, tangents)


def _run_as_scan(step: _Step, length: int, stop: StopFlag, constants: Any, init: Any, xs: Any) -> tuple[Any, Any, Any]:
    def one(state: Any, x: Any) -> Any:
        is_over, steps, carry = state
        is_over = is_over | stop.is_set()
        y = jax.eval_shape(step, steps, constants, carry, x)[1]

        def stay(carry: Any, _: Any) -> Any:
            return carry, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), y)

        carry, y = jax.lax.cond(is_over, stay, lambda carry, x: step(steps, constants, carry, x), carry, x)
        return (is_over, jnp.where(is_over, steps, steps + 1), carry), y

    def chunk(state: Any, xs: Any, length: int) -> Any:
        make = functools.partial(jax.lax.scan, one, length=length)
        ys = jax.eval_shape(make, state, xs)[1]

        def skip(state: Any, _: Any) -> Any:
            return state, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), ys)

        return jax.lax.cond(state[0], skip, make, state, xs)

    state = (jnp.asarray(False), _first_step(), init)
    chunks, rest = divmod(length, _CHUNK)
    whole = jax.tree.map(lambda leaf: leaf[: chunks * _CHUNK].reshape(chunks, _CHUNK, *leaf.shape[1:]), xs)
    state, ys = jax.lax.scan(functools.partial(chunk, length=_CHUNK), state, whole, length=chunks)
    (_, steps, carry), tail = chunk(state, jax.tree.map(lambda leaf: leaf[chunks * _CHUNK :], xs), rest)
    rows = jax.tree.map(lambda most, last: jnp.concatenate([most.reshape(-1, *last.shape[1:]), last]), ys, tail)
    return carry, rows, steps
