# SPDX-License-Identifier: Apache-2.0
"""Represents programs as data, which other modules generate at random, interpret, print and shrink."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Type:
    """float32 ("f") or int32 ("i") of a shape."""

    kind: str
    shape: tuple[int, ...] = ()


SCALAR = Type("f")
VECTOR = Type("f", (4,))
INTEGER = Type("i")


@dataclasses.dataclass(frozen=True)
class Var:
    """A name that one statement or parameter of the whole program binds."""

    name: str
    type: Type


@dataclasses.dataclass(frozen=True)
class Region:
    """A function without free variables. Its first parameter, `pos`, is not among `params`: every region has it."""

    params: tuple[Var, ...]
    body: tuple[Stmt, ...]
    results: tuple[Var, ...]


@dataclasses.dataclass(frozen=True)
class Stmt:
    """`outs = kind(args)`, with the functions that the statement calls and its fixed attributes."""

    kind: str
    outs: tuple[Var, ...]
    args: tuple[Var, ...]
    regions: tuple[Region, ...] = ()
    attrs: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Program:
    """The outermost function, its arguments, and how it runs: see `run` in prelude.py."""

    main: Region
    inputs: tuple[Any, ...]
    mode: str = "jit"
    runs: int = 2
    fails: tuple[int, int] | None = None  # the site and position at which a callback raises
    wide: bool = False  # with JAX's types of 64 bits


def statements(region: Region) -> Iterator[Stmt]:
    """Yields all statements of a region, outer ones first."""
    for stmt in region.body:
        yield stmt
        for inner in stmt.regions:
            yield from statements(inner)


def sites(program: Program) -> list[Stmt]:
    return [stmt for stmt in statements(program.main) if stmt.kind == "site"]


def within(region: Region, kinds: set[str]) -> Iterator[tuple[Stmt, tuple[str, ...]]]:
    """Yields the statements, each with the statements of the given kinds around it, the outermost first."""

    def walk(region: Region, path: tuple[str, ...]) -> Iterator[tuple[Stmt, tuple[str, ...]]]:
        for stmt in region.body:
            yield stmt, path
            below = (*path, stmt.kind) if stmt.kind in kinds else path
            for inner in stmt.regions:
                yield from walk(inner, below)

    return walk(region, ())


def rewritten(region: Region, change: Callable[[Region], Region]) -> Region:
    """Returns the region with `change` applied to all inner regions and then to itself."""
    body = tuple(
        dataclasses.replace(stmt, regions=tuple(rewritten(inner, change) for inner in stmt.regions))
        for stmt in region.body
    )
    return change(dataclasses.replace(region, body=body))
