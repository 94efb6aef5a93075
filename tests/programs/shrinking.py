# SPDX-License-Identifier: Apache-2.0
"""Makes a failing program shorter, as long as it fails in the same way."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator

from syntax import Program, Region, Stmt, Var

INLINED = {
    "jit",
    "remat",
    "located",
    "cond",
    "custom_jvp",
    "custom_vjp",
}  # whose regions take the last arguments and return the results
FREE = {
    "jit": 0,
    "remat": 0,
    "located": 0,
    "cond": 1,
    "vjp": 2,
    "jvp": 2,
}  # number of arguments that cannot be left out, for kinds with optional ones
SIMPLE = {
    "options": {},
    "settings": {},
    "reverse": False,
    "policy": None,
    "stop": False,
    "on": None,
    "check": "error",
    "result": None,
    "keyed": False,
    "step": False,
    "captured": (),
    "bar": None,
    "form": None,
    "dtype": "float32",
    "modulus": 8,
}
FORMS = {"while": "while_", "jvp": "jvp_", "vjp": "vjp_"}


def substituted(region: Region, names: dict[str, Var]) -> Region:
    def of(variables: tuple[Var, ...]) -> tuple[Var, ...]:
        return tuple(names.get(var.name, var) for var in variables)

    body = tuple(dataclasses.replace(stmt, args=of(stmt.args)) for stmt in region.body)
    return dataclasses.replace(region, body=body, results=of(region.results))


def _zero(out: Var) -> Stmt:
    return Stmt("op", (out,), (), (), {"op": "const", "by": (0, out.type.shape, out.type.kind)})


def _is_zero(stmt: Stmt) -> bool:
    return stmt.kind == "op" and stmt.attrs["op"] == "const"


def tidied(region: Region) -> Region:
    """Removes operations whose results are not used."""
    used = {var.name for var in region.results}
    kept: list[Stmt] = []
    for stmt in reversed(region.body):
        if stmt.kind != "op" or used & {out.name for out in stmt.outs}:
            used |= {arg.name for arg in stmt.args}
            kept.append(dataclasses.replace(stmt, regions=tuple(map(tidied, stmt.regions))))
    return dataclasses.replace(region, body=tuple(reversed(kept)))


def _without_argument(stmt: Stmt, i: int) -> Stmt | None:
    """Returns the statement without an argument that its regions do not use."""
    if stmt.attrs.get("captured"):
        return None
    first = FREE[stmt.kind]
    offset = {"cond": 1, "vjp": 1, "jvp": 1}.get(stmt.kind, 0)
    if i < first:
        return None
    regions = []
    for region in stmt.regions:
        param = region.params[i - offset]
        used = {arg.name for inner in region.body for arg in inner.args} | {var.name for var in region.results}
        if param.name in used:
            return None
        regions.append(dataclasses.replace(region, params=tuple(p for p in region.params if p is not param)))
    args = tuple(arg for k, arg in enumerate(stmt.args) if k != i)
    return dataclasses.replace(stmt, args=args, regions=tuple(regions))


def _simpler_statements(stmt: Stmt) -> Iterator[Stmt]:
    for name, value in SIMPLE.items():
        value = FORMS.get(stmt.kind) if name == "form" else value
        if stmt.attrs.get(name, value) != value:
            attrs = {**stmt.attrs, name: value}
            if name == "dtype":
                attrs["modulus"] = 8
            if name == "settings" and "vmap_method" in stmt.attrs["settings"]:
                attrs[name] = {"vmap_method": stmt.attrs["settings"]["vmap_method"]}
            if attrs != stmt.attrs:
                yield dataclasses.replace(stmt, attrs=attrs)
    for i in range(len(stmt.args)) if stmt.kind in FREE else ():
        changed = _without_argument(stmt, i)
        if changed is not None:
            yield changed
    for k, region in enumerate(stmt.regions):
        for smaller in smaller_regions(region):
            regions = (*stmt.regions[:k], smaller, *stmt.regions[k + 1 :])
            yield dataclasses.replace(stmt, regions=regions)
    if stmt.kind == "cond" and len(stmt.regions) > 2:
        yield dataclasses.replace(stmt, regions=stmt.regions[:2])


def smaller_regions(region: Region) -> Iterator[Region]:
    body = region.body
    for k in reversed(range(len(body))):  # late statements first, since fewer depend on them
        before, stmt, after = body[:k], body[k], body[k + 1 :]
        if not _is_zero(stmt):
            yield dataclasses.replace(region, body=(*before, *map(_zero, stmt.outs), *after))
        for same in [arg for arg in stmt.args if len(stmt.outs) == 1 and arg.type == stmt.outs[0].type]:
            rest = substituted(dataclasses.replace(region, body=after), {stmt.outs[0].name: same})
            yield dataclasses.replace(region, body=(*before, *rest.body), results=rest.results)
        if stmt.kind in INLINED:
            for inner in stmt.regions:
                if len(inner.params) > len(stmt.args):
                    continue
                args = stmt.args[len(stmt.args) - len(inner.params) :]
                once = substituted(inner, {p.name: arg for p, arg in zip(inner.params, args, strict=True)})
                names = {out.name: result for out, result in zip(stmt.outs, once.results, strict=True)}
                rest = substituted(dataclasses.replace(region, body=after), names)
                yield dataclasses.replace(region, body=(*before, *once.body, *rest.body), results=rest.results)
    for k, stmt in enumerate(body):
        for simpler in _simpler_statements(stmt):
            yield dataclasses.replace(region, body=(*body[:k], simpler, *body[k + 1 :]))


def smaller(program: Program) -> Iterator[Program]:
    if program.runs > 1:
        yield dataclasses.replace(program, runs=1)
    if program.mode != "jit":
        yield dataclasses.replace(program, mode="jit")
    if program.wide:
        yield dataclasses.replace(program, wide=False)
    if program.fails:
        yield dataclasses.replace(program, fails=None)
    main = program.main
    for k in range(len(main.results)) if len(main.results) > 1 else ():
        yield dataclasses.replace(program, main=dataclasses.replace(main, results=(main.results[k],)))
    for param in main.params:
        results = tuple(param if var.type == param.type else var for var in main.results)
        if results != main.results and not set(main.results) <= set(main.params):
            yield dataclasses.replace(program, main=dataclasses.replace(main, results=results))
    for region in smaller_regions(main):
        yield dataclasses.replace(program, main=region)


def size(program: Program) -> int:
    return len(repr(program))


def shrunk(program: Program, fails: Callable[[Program], bool], seconds: float = 60) -> Program:
    """Returns the shortest program, among those tried in `seconds` seconds, for which `fails` returns True."""
    end = time.monotonic() + seconds
    again = True
    while again:
        again = False
        for candidate in smaller(program):
            if time.monotonic() > end:
                return program
            candidate = dataclasses.replace(candidate, main=tidied(candidate.main))
            if size(candidate) < size(program) and fails(candidate):
                program, again = candidate, True
                break
    return program
