# SPDX-License-Identifier: Apache-2.0
"""Computes a program's results and callbacks without JAX: loops over lanes and iterations, statement by statement."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import boxes
import numpy as np
import prelude
from boxes import Dual, Node, Value
from syntax import Program, Region, Stmt


@dataclasses.dataclass(frozen=True)
class Event:
    """A callback of one lane: its site, position in the program's loops, value, lanes and shards."""

    site: int
    pos: int
    value: tuple[Any, ...]
    lanes: tuple[int, ...] = ()


class Oracle:
    """Interprets regions."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.bars: list[tuple[int, int]] = []  # (bar, steps)
        self._muted = 0
        self._lanes: tuple[int, ...] = ()
        self._levels = itertools.count(1)

    def call(self, region: Region, pos: int, args: Sequence[Value]) -> list[Value]:
        scope = {param.name: arg for param, arg in zip(region.params, args, strict=True)}
        for stmt in region.body:
            values = [scope[arg.name] for arg in stmt.args]
            outs = getattr(self, "_" + stmt.kind)(stmt, pos, values)
            for var, out in zip(stmt.outs, outs, strict=True):
                assert boxes.base(out).shape == var.type.shape, (stmt.kind, var, boxes.base(out).shape)
                scope[var.name] = out
        return [scope[var.name] for var in region.results]

    def _quietly(self, region: Region, pos: int, args: Sequence[Value]) -> list[Value]:
        self._muted += 1
        try:
            return self.call(region, pos, args)
        finally:
            self._muted -= 1

    # Arithmetic

    def _op(self, stmt: Stmt, pos: int, values: list[Value]) -> list[Value]:
        return [OPERATIONS[stmt.attrs["op"]](stmt.attrs.get("by"), pos, *values)]

    # Callbacks

    def _site(self, stmt: Stmt, pos: int, values: list[Value]) -> list[Value]:
        attrs = stmt.attrs
        (x,) = values
        wrapped = wrap(x, attrs["modulus"])
        if not self._muted:
            self.events.append(Event(attrs["site"], pos, tuple(np.ravel(boxes.base(wrapped)).tolist()), self._lanes))
        if attrs["what"] in prelude.WITH_RESULT:
            return [prelude.answer(boxes.base(wrapped), attrs["modulus"])]
        if attrs["what"] in prelude.IDENTITIES and attrs["dtype"] == "float32":
            return [wrapped]
        return [x]

    # Control flow

    def _jit(self, stmt: Stmt, pos: int, values: list[Value]) -> list[Value]:
        return self.call(stmt.regions[0], pos, values)

    _remat = _located = _jit

    def _cond(self, stmt: Stmt, pos: int, values: list[Value]) -> list[Value]:
        index, args = int(values[0]) % len(stmt.regions), values[1:]
        outs = self.call(stmt.regions[index], pos, args)
        if any(map(boxes.level, args)):
            for other in stmt.regions:
                outs = [
                    boxes.lifted(out, like) for out, like in zip(outs, self._quietly(other, pos, args), strict=True)
                ]
        return outs

    def _while(self, stmt: Stmt, pos: int, values: list[Value]) -> list[Value]:
        body, count = stmt.regions[0], int(values[0]) % 4
        self._bar(stmt, count)
        look = stmt.regions[1] if len(stmt.regions) > 1 else None
        return self._loop(body, pos, values[1:], [()] * count, look=look)[0]

    def _ref(self, stmt: Stmt, pos: int, values: list[Value]) -> list[Value]:
        return self._loop(stmt.regions[0], pos, values, [()] * stmt.attrs["n"])[0]

    def _scan(self, stmt: Stmt, pos: int, values: list[Value]) -> list[Value]:
        (body,), attrs = stmt.regions, stmt.attrs
        carried = attrs["carried"]
        self._bar(stmt, attrs["n"])
        rows = [tuple(boxes.take(xs, i, 0) for xs in values[carried:]) for i in range(attrs["n"])]
        carry, ys = self._loop(body, pos, values[:carried], rows, attrs.get("reverse", False))
        return [*carry, *(boxes.stack(column, 0) for column in zip(*ys, strict=True))]

    def _loop(
        self,
        body: Region,
        pos: int,
        carry: list[Value],
        rows: list[tuple[Value, ...]],
        backwards: bool = False,
        look: Region | None = None,
    ) -> tuple[list[Value], list[list[Value]]]:
        carry, n = list(carry), len(carry)
        sample = rows[0] if rows else ()
        everything = [*carry, *sample]
        while any(map(boxes.level, everything)) and len(everything) == len(body.params):
            # JAX differentiates a carry in all iterations if one iteration differentiates it.
            outs = self._quietly(body, pos * 8, [*carry, *sample])[:n]
            grown = [boxes.lifted(value, out) for value, out in zip(carry, outs, strict=True)]
            if [boxes._boxes(x) for x in grown] == [boxes._boxes(x) for x in carry]:
                break
            carry = grown
        ys: dict[int, list[Value]] = {}
        for i in reversed(range(len(rows))) if backwards else range(len(rows)):
            if look is not None:
                self.call(look, pos * 8 + i, carry)
            outs = self.call(body, pos * 8 + i, [*carry, *rows[i]])
            carry, ys[i] = outs[:n], outs[n:]
        if look is not None:
            self.call(look, pos * 8 + len(rows), carry)
        return carry, [ys[i] for i in range(len(rows))]

    def _bar(self, stmt: Stmt, steps: int) -> None:
        if stmt.attrs.get("bar") is not None and steps and not self._muted:
            self.bars.append((stmt.attrs["bar"], steps))

    # Lanes and devices

    def _vmap(self, stmt: Stmt, pos: int, values: list[Value]) -> list[Value]:
        attrs, outer = stmt.attrs, self._lanes
        lanes = []
        for i in range(attrs["n"]):
            args = [
                x if axis is None else boxes.take(x, i, axis) for x, axis in zip(values, attrs["in_axes"], strict=True)
            ]
            self._lanes = (*outer, i)
            lanes.append(self.call(stmt.regions[0], pos * 8 + i, args))
        self._lanes = outer
        return [
            boxes.stack(column, axis) for column, axis in zip(zip(*lanes, strict=True), attrs["out_axes"], strict=True)
        ]

    def _map(self, stmt: Stmt, pos: int, values: list[Value]) -> list[Value]:
        rows, outer = [], self._lanes
        self._bar(stmt, stmt.attrs["n"])
        for i in range(stmt.attrs["n"]):
            if stmt.attrs["options"]:  # with a batch size, some iterations are lanes
                self._lanes = (*outer, i)
            rows.append(self.call(stmt.regions[0], pos * 8 + i, [boxes.take(x, i, 0) for x in values]))
        self._lanes = outer
        return [boxes.stack(column, 0) for column in zip(*rows, strict=True)]

    def _shard_map(self, stmt: Stmt, pos: int, values: list[Value]) -> list[Value]:
        n, split = stmt.attrs["n"], stmt.attrs["split"]
        pieces = [boxes.split(x, n) if yes else [x] * n for x, yes in zip(values, split, strict=True)]
        shards, outer = [], self._lanes
        for i in range(n):
            self._lanes = (*outer, i)
            shards.append(self.call(stmt.regions[0], pos * 8 + i, [p[i] for p in pieces]))
        self._lanes = outer
        return [boxes.concatenate(column) for column in zip(*shards, strict=True)]

    # Derivatives

    def _jvp(self, stmt: Stmt, pos: int, values: list[Value]) -> list[Value]:
        x, tangent, *rest = values
        top = next(self._levels)
        (out,) = self.call(stmt.regions[0], pos, [Dual(x, tangent, top), *rest])
        return [out.value, out.tangent] if boxes.level(out) == top else [out, boxes.zeros_like(out)]

    def _vjp(self, stmt: Stmt, pos: int, values: list[Value]) -> list[Value]:
        x, cotangent, *rest = values
        top = next(self._levels)
        node = Node(x, [], top)
        (out,) = self.call(stmt.regions[0], pos, [node, *rest])
        (found,) = boxes.cotangents([(out, cotangent)], [node])
        return [out.value if boxes.level(out) == top else out, found]

    def _custom_jvp(self, stmt: Stmt, pos: int, values: list[Value]) -> list[Value]:
        (x,), (function, slope) = values, stmt.regions
        if not boxes.level(x):
            return self.call(function, pos, [x])
        (y,) = self.call(function, pos, [x.value])
        (k,) = self.call(slope, pos, [x.value])
        if isinstance(x, Dual):
            return [Dual(y, boxes.mul(k, x.tangent), x.level)]
        return [Node(y, [(x, lambda g: boxes.mul(k, g))], x.level)]

    def _custom_vjp(self, stmt: Stmt, pos: int, values: list[Value]) -> list[Value]:
        (x,), (function, forward, backward) = values, stmt.regions
        if not boxes.level(x):
            return self.call(function, pos, [x])
        (y,) = self.call(forward, pos, [x.value])
        return [Node(y, [(x, lambda g: self.call(backward, pos, [x.value, g])[0])], x.level)]


def wrap(x: Value, modulus: int) -> Value:
    """Returns x modulo a power of two, with the derivative 1."""
    return boxes.add(x, -np.float32(modulus) * np.floor(boxes.base(x) / np.float32(modulus)))


def _matrix(n: int) -> np.ndarray:
    return ((np.arange(n)[:, None] * 2 + np.arange(n)) % 3 - 1).astype(np.float32)


def _grow(x: Value, n: int, axis: int) -> Value:
    def forward(v: np.ndarray) -> np.ndarray:
        return np.stack([v] * n, axis)

    steps = forward(np.zeros_like(boxes.base(x)))
    shape = [1] * steps.ndim
    shape[axis] = n
    steps = steps + np.arange(n, dtype=np.float32).reshape(shape)
    return boxes.add(boxes.linear(x, forward, lambda g: g.sum(axis)), steps)


def _broadcast(x: Value, n: int, axis: int) -> Value:
    return boxes.linear(x, lambda v: np.stack([v] * n, axis), lambda g: g.sum(axis))


def _sum(x: Value, axis: int) -> Value:
    n = boxes.base(x).shape[axis]
    return boxes.linear(x, lambda v: v.sum(axis), lambda g: np.stack([g] * n, axis))


OPERATIONS: dict[str, Any] = {
    "const": lambda by, pos: np.full(by[1], by[0], np.float32 if by[2] == "f" else np.int32),
    "add": lambda by, pos, x, y: boxes.add(x, y),
    "sub": lambda by, pos, x, y: boxes.add(x, boxes.scale(y, -1)),
    "mul": lambda by, pos, x, y: boxes.mul(wrap(x, 8), wrap(y, 8)),
    "scale": lambda by, pos, x: boxes.scale(x, by),
    "shift": lambda by, pos, x: boxes.add(x, np.full_like(boxes.base(x), by)),
    "wrap": lambda by, pos, x: wrap(x, 8),
    "held": lambda by, pos, x: boxes.add(x, np.full_like(boxes.base(x), by)),
    "asked": lambda by, pos, x: boxes.add(x, np.full_like(boxes.base(x), max(by, 0))),
    "stop": lambda by, pos, x: boxes.stop(x),
    "name": lambda by, pos, x: x,
    "reverse": lambda by, pos, x: boxes.linear(x, lambda v: v[::-1], lambda g: g[::-1]),
    "dot": lambda by, pos, x: boxes.linear(x, lambda v: _matrix(len(v)) @ v, lambda g: _matrix(len(g)).T @ g),
    "pick": lambda by, pos, x: boxes.take(x, by, 0),
    "sum": lambda by, pos, x: _sum(x, by),
    "grow": lambda by, pos, x: _grow(x, *by),
    "pos": lambda by, pos: np.int32(pos % by),
    "shift_i": lambda by, pos, x: np.asarray(x + np.int32(by)),
    "float": lambda by, pos, x: np.float32(x),
}


@dataclasses.dataclass(frozen=True)
class Run:
    """The outcome of one run of a program."""

    results: list[np.ndarray]
    events: list[Event]
    bars: list[tuple[int, int]]


def expected(program: Program) -> Run:
    oracle = Oracle()
    outs = oracle.call(program.main, 0, [np.asarray(x) for x in program.inputs])
    return Run([boxes.base(out) for out in outs], oracle.events, oracle.bars)
