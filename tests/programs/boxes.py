# SPDX-License-Identifier: Apache-2.0
"""Computes derivatives without JAX: NumPy arrays in boxes, which carry tangents or remember their inputs.

A box belongs to one derivative by its level; an inner derivative has the higher level, and a box may hold a box of a
lower level. All numbers are small integers, so that every order of summation gives the same result.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Value = Any  # np.ndarray, Dual or Node
LIMIT = 2**22  # float32 holds integers up to 2**24


class TooLarge(Exception):  # noqa: N818 - no fault of the program
    """Raised for a value that float32 might not hold exactly, so that the results of the program prove nothing."""


class Dual:
    """A value and its tangent, for forward mode."""

    def __init__(self, value: Value, tangent: Value, level: int):
        self.value, self.tangent, self.level = value, tangent, level


class Node:
    """A value with the functions that pass its cotangent on to its inputs, for reverse mode."""

    _count = itertools.count()

    def __init__(self, value: Value, parents: list[tuple[Node, Callable[[Value], Value]]], level: int):
        self.value, self.parents, self.level = value, parents, level
        self.order = next(Node._count)


def level(x: Value) -> int:
    return x.level if isinstance(x, (Dual, Node)) else 0


def base(x: Value) -> np.ndarray:
    while isinstance(x, (Dual, Node)):
        x = x.value
    return x


def checked(x: Any) -> np.ndarray:
    x = np.asarray(x)
    if x.dtype == np.float32 and x.size and np.max(np.abs(x)) > LIMIT:
        raise TooLarge
    return x


def linear(x: Value, forward: Callable[[Any], Any], transposed: Callable[[Any], Any]) -> Value:
    """Applies a linear function of one value, given by its effect on arrays, and its transpose."""
    if isinstance(x, Dual):
        return Dual(linear(x.value, forward, transposed), linear(x.tangent, forward, transposed), x.level)
    if isinstance(x, Node):
        return Node(linear(x.value, forward, transposed), [(x, lambda g: linear(g, transposed, forward))], x.level)
    return checked(forward(x))


def _at(x: Value, top: int) -> tuple[Value, Value | None]:
    """Returns the value under the box of level `top`, and the box's tangent, or the box itself if it is a Node."""
    if level(x) < top:
        return x, None
    return (x.value, x.tangent) if isinstance(x, Dual) else (x.value, x)


def _combined(out: Value, parts: Sequence[tuple[Value, Callable[[Value], Value], Callable[[Value], Value]]], top: int):
    """Puts `out` into a box.

    Each part is a tangent or Node, its contribution to the tangent, and its share of a cotangent.
    """
    if isinstance(parts[0][0], Node) and parts[0][0].level == top:
        return Node(out, [(node, pull) for node, _, pull in parts], top)
    total = None
    for tangent, push, _ in parts:
        total = push(tangent) if total is None else add(total, push(tangent))
    return Dual(out, total, top)


def _same(x: Value) -> Value:
    return x


def add(x: Value, y: Value) -> Value:
    top = max(level(x), level(y))
    if not top:
        return checked(x + y)
    (xv, xt), (yv, yt) = _at(x, top), _at(y, top)
    return _combined(add(xv, yv), [(t, _same, _same) for t in (xt, yt) if t is not None], top)


def mul(x: Value, y: Value) -> Value:
    top = max(level(x), level(y))
    if not top:
        return checked(x * y)
    (xv, xt), (yv, yt) = _at(x, top), _at(y, top)
    parts = []
    if xt is not None:
        parts.append((xt, lambda g: mul(g, yv), lambda g: mul(g, yv)))
    if yt is not None:
        parts.append((yt, lambda g: mul(g, xv), lambda g: mul(g, xv)))
    return _combined(mul(xv, yv), parts, top)


def scale(x: Value, by: float) -> Value:
    return linear(x, lambda v: v * np.float32(by), lambda g: g * np.float32(by))


def take(x: Value, i: int, axis: int) -> Value:
    n = base(x).shape[axis]

    def place(g: np.ndarray) -> np.ndarray:
        zero = np.zeros_like(g)
        return np.stack([g if k == i else zero for k in range(n)], axis=axis)

    return linear(x, lambda v: np.take(v, i, axis=axis), place)


def stack(values: Sequence[Value], axis: int) -> Value:
    top = max(level(x) for x in values)
    if not top:
        return np.stack(values, axis=axis)
    pairs = [_at(x, top) for x in values]
    out = stack([v for v, _ in pairs], axis)
    marked = [(i, t) for i, (_, t) in enumerate(pairs) if t is not None]
    if isinstance(marked[0][1], Node) and marked[0][1].level == top:
        return Node(out, [(t, lambda g, i=i: take(g, i, axis)) for i, t in marked], top)
    zeros = [zeros_like(v) for v, _ in pairs]
    return Dual(out, stack([zeros[i] if t is None else t for i, (_, t) in enumerate(pairs)], axis), top)


def zeros_like(x: Value) -> np.ndarray:
    return np.zeros_like(base(x))


def split(x: Value, parts: int) -> list[Value]:
    """Splits a value along the first axis into equal pieces."""
    size = base(x).shape[0] // parts

    def piece(k: int) -> Value:
        def place(g: np.ndarray) -> np.ndarray:
            whole = np.zeros((size * parts, *g.shape[1:]), g.dtype)
            whole[k * size : (k + 1) * size] = g
            return whole

        return linear(x, lambda v: v[k * size : (k + 1) * size], place)

    return [piece(k) for k in range(parts)]


def concatenate(values: Sequence[Value]) -> Value:
    """Concatenates values of equal shape along the first axis."""
    shape = base(values[0]).shape
    return linear(
        stack(values, 0),
        lambda v: v.reshape(len(values) * shape[0], *shape[1:]),
        lambda g: g.reshape(len(values), *shape),
    )


def stop(x: Value) -> np.ndarray:
    return base(x)


def lifted(x: Value, like: Value) -> Value:
    """Returns `x` with a box of zero tangent for each level that `like` has and `x` lacks."""
    have = {box.level for box in _boxes(x)}
    for box in reversed(_boxes(like)):
        if box.level not in have:
            x = _insert(x, box)
    return x


def _boxes(x: Value) -> list[Any]:
    boxes = []
    while isinstance(x, (Dual, Node)):
        boxes.append(x)
        x = x.value
    return boxes


def _insert(x: Value, box: Any) -> Value:
    if level(x) > box.level:
        inner = _insert(x.value, box)
        return Dual(inner, x.tangent, x.level) if isinstance(x, Dual) else Node(inner, [(x, _same)], x.level)
    return Dual(x, zeros_like(x), box.level) if isinstance(box, Dual) else Node(x, [], box.level)


def cotangents(outs: Sequence[tuple[Value, Value]], inputs: Sequence[Node]) -> list[Value]:
    """Returns the cotangents of the inputs, from pairs of an output and its cotangent."""
    pending: dict[int, tuple[Node, Value]] = {}

    def give(node: Node, cotangent: Value) -> None:
        old = pending.get(node.order)
        pending[node.order] = (node, cotangent if old is None else add(old[1], cotangent))

    top = inputs[0].level
    for out, cotangent in outs:
        if isinstance(out, Node) and out.level == top:
            give(out, cotangent)
    wanted = {node.order for node in inputs}
    found: dict[int, Value] = {}
    while pending:
        order = max(pending)
        node, cotangent = pending.pop(order)
        if order in wanted:
            found[order] = cotangent
        for parent, pull in node.parents:
            give(parent, pull(cotangent))
    return [found.get(node.order, zeros_like(node)) for node in inputs]
