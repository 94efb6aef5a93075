# SPDX-License-Identifier: Apache-2.0
"""Draws programs at random, and excludes programs that the manual says are rejected."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Sequence

import choosing
import jax
import numpy as np
import prelude
from choosing import Scope
from syntax import INTEGER, SCALAR, VECTOR, Program, Region, Stmt, Type, Var

POLICIES = (
    None,
    "nothing_saveable",
    "everything_saveable",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
    'save_only_these_names("kept")',
    'save_any_names_but_these("kept")',
    'save_anything_except_these_names("kept")',
    "save_from_both_policies(jax.checkpoint_policies.dots_saveable, "
    'jax.checkpoint_policies.save_only_these_names("kept"))',
    'save_and_offload_only_these_names(names_which_can_be_saved=["other"], names_which_can_be_offloaded=["kept"], '
    'offload_src="device", offload_dst="pinned_host")',
    'offload_dot_with_no_batch_dims("device", "pinned_host")',
)
DEVICES = tuple(n for n in (0, 0, 2, 4) if not prelude.ON_CUDA or n <= len(jax.devices()))


class Drawer:
    """Draws one program."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self._names = itertools.count()
        self._sites = itertools.count()
        self._uneven: set[str] = set()  # integers that differ between lanes
        self.devices = self.random.choice(DEVICES)  # of all meshes in the program; 0: no meshes

    def program(self) -> Program:
        mode = self.random.choices(("jit", "donate", "aot", "threaded", "eager", "sharded"), (8, 2, 1, 2, 1, 1))[0]
        if mode == "sharded" and max(DEVICES) < 2:
            mode = "jit"
        if mode == "sharded":
            self.devices = self.devices or max(DEVICES)
            mode += str(self.devices)
        params = [self._var(INTEGER), self._var(SCALAR), self._var(VECTOR)]
        wide = self.random.random() < 0.2
        scope = Scope(devices=self.devices, spread=self.devices if mode.startswith("sharded") else 0, wide=wide)
        main = self._region(
            scope, params, [self.random.choice((SCALAR, VECTOR)) for _ in range(self.random.randint(1, 2))]
        )
        inputs = (
            np.int32(self.random.randrange(6)),
            np.float32(self.random.randrange(-4, 5)),
            np.array([self.random.randrange(-4, 5) for _ in range(4)], np.float32),
        )
        return Program(main, inputs, mode, self.random.choice((1, 2, 2, 3)), wide=wide)

    def _var(self, type_: Type) -> Var:
        kind = "n" if type_.kind == "i" else "x"
        return Var(f"{kind}{next(self._names)}", type_)

    def _region(self, scope: Scope, params: list[Var], results: list[Type]) -> Region:
        body = Body(self, scope, params)
        for _ in range(self.random.randint(1, 4 if scope.depth < 2 else 2)):
            body.statement()
        outs = tuple(body.some(type_) for type_ in results)
        return Region(tuple(params), tuple(body.stmts), outs)


class Body:
    """Draws the statements of one region."""

    def __init__(self, drawer: Drawer, scope: Scope, params: list[Var]):
        self._drawer, self._scope, self._random = drawer, scope, drawer.random
        self._known = list(params)
        self.stmts: list[Stmt] = []

    # Variables

    def some(self, type_: Type) -> Var:
        """Returns a variable of the type: mostly a late one, or a new one."""
        found = [var for var in self._known if var.type == type_]
        if found:
            return found[-1] if self._random.random() < 0.6 else self._random.choice(found)
        if type_ == INTEGER:
            return self._op("pos", INTEGER, by=self._random.randint(2, 5))
        if type_ == SCALAR:
            vectors = [var for var in self._known if var.type == VECTOR]
            if vectors:
                return self._op("sum", SCALAR, self._random.choice(vectors), by=0)
            return self._op("float", SCALAR, self._op("pos", INTEGER, by=8))
        if len(type_.shape) == 1:
            return self._op("grow", type_, self.some(SCALAR), by=(type_.shape[0], 0))
        raise ValueError(type_)

    def _op(self, op: str, type_: Type, *args: Var, by: object = None) -> Var:
        out = self._drawer._var(type_)
        if type_ == INTEGER and (
            (op == "pos" and self._scope.lanes) or any(arg.name in self._drawer._uneven for arg in args)
        ):
            self._drawer._uneven.add(out.name)
        self.stmts.append(Stmt("op", (out,), args, (), {"op": op, "by": by}))
        self._known.append(out)
        return out

    def _add(self, kind: str, types: list[Type], args: list[Var], regions: list[Region], **attrs: object) -> list[Var]:
        outs = [self._drawer._var(type_) for type_ in types]
        self.stmts.append(Stmt(kind, tuple(outs), tuple(args), tuple(regions), attrs))
        self._known += outs
        return outs

    def _params(self, args: list[Var]) -> list[Var]:
        """Returns parameters for these arguments."""
        params = [self._drawer._var(arg.type) for arg in args]
        self._drawer._uneven |= {
            p.name for p, arg in zip(params, args, strict=True) if arg.name in self._drawer._uneven
        }
        return params

    def _type(self) -> Type:
        return self._random.choice((SCALAR, VECTOR))

    def _arguments(self, integers: bool = True) -> list[Var]:
        args = [self.some(self._type()) for _ in range(self._random.randint(1, 2))]
        return [*args, self.some(INTEGER)] if integers and self._random.random() < 0.3 else args

    # Statements

    def statement(self) -> None:
        scope, choice = self._scope, self._random.random()
        if choice < 0.25:
            self._arithmetic()
        elif choice < 0.55 or scope.depth >= 4 or scope.loops >= 5:
            self._callback()
        else:
            kinds = ["jit", "cond", "scan", "remat", "custom_jvp", "map", "vmap", "vmap", "located"]
            if not scope.reverse:
                kinds += ["while", "while"]
            if not scope.derivative and not scope.located:
                kinds.append("ref")
            if scope.depth < 3:
                kinds += ["vjp", "vjp", "jvp"]
            if not scope.forward:
                kinds.append("custom_vjp")
            if self._drawer.devices and not scope.shards and not scope.lanes and scope.depth < 2:
                kinds.append("shard_map")
            getattr(self, "_" + self._random.choice(kinds))()

    def _arithmetic(self) -> None:
        type_ = self._type()
        op = self._random.choice(
            (
                *("add", "sub", "mul", "scale", "shift", "held", "asked", "wrap", "stop", "reverse", "dot", "pick"),
                *("shift_i", "name"),
            )
        )
        if op in ("reverse", "dot", "pick"):
            vector = self.some(VECTOR)
            if op == "pick":
                self._op(op, SCALAR, vector, by=self._random.randrange(vector.type.shape[0]))
            else:
                self._op(op, VECTOR, vector)
        elif op == "shift_i":
            self._op(op, INTEGER, self.some(INTEGER), by=self._random.randint(1, 3))
        elif op in ("add", "sub", "mul"):
            self._op(op, type_, self.some(type_), self._random.choice([v for v in self._known if v.type == type_]))
        else:
            names = {"name": self._random.choice(("kept", "other"))}
            shifts = dict.fromkeys(("shift", "held", "asked"), self._random.randint(-3, 3))
            by = {"scale": self._random.choice((-1, 2, -2)), **shifts, **names}.get(op)
            self._op(op, type_, self.some(type_), by=by)

    def _callback(self) -> None:
        attrs = choosing.site(self._random, self._scope, next(self._drawer._sites))
        x = self.some(self._type())
        self._add("site", [x.type], [x], [], **attrs)

    def _bar(self) -> dict[str, object]:
        return choosing.bar(self._random, self._drawer._sites)

    def _captured(self, args: list[Var], among: Sequence[int]) -> dict[str, object]:
        """Returns arguments that are captured variables instead of parameters."""
        if self._random.random() < 0.6:
            return {}
        return {"captured": tuple(i for i in among if self._random.random() < 0.7)}

    def _ref(self) -> None:
        x = self.some(self._type())
        region = self._drawer._region(self._scope.inside(loops=self._scope.loops + 1), self._params([x]), [x.type])
        self._add("ref", [x.type], [x], [region], n=self._random.randint(1, 3))

    def _jit(self) -> None:
        args = self._arguments()
        types = [self._type()]
        region = self._drawer._region(self._scope.inside(), self._params(args), types)
        options = self._random.choice(({}, {}, {"inline": True}, {"donate_argnums": (1,)}))
        captured = self._captured(args, range(len(args))) if "donate_argnums" not in options else {}
        self._add("jit", types, args, [region], options=options, **captured)

    def _remat(self) -> None:
        args = self._arguments(integers=False)
        types = [self._type()]
        region = self._drawer._region(self._scope.inside(remat=True), self._params(args), types)
        options = self._random.choice(({}, {}, {"prevent_cse": False}))
        more = self._captured(args, range(len(args)))
        self._add("remat", types, args, [region], policy=self._random.choice(POLICIES), options=options, **more)

    def _located(self) -> None:
        args = self._arguments()
        types = [self._type()]
        region = self._drawer._region(self._scope.inside(located=True), self._params(args), types)
        options = {"stop": True}
        if self._random.random() < 0.3:
            options["infinities"] = False
        if self._random.random() < 0.5:
            options["granularity"] = self._random.choice(("line", "operation", "function", "module"))
        self._add("located", types, args, [region], options=options, **self._captured(args, range(len(args))))

    def _cond(self) -> None:
        index, args = self.some(INTEGER), self._arguments()
        types = [self._type() for _ in range(self._random.randint(1, 2))]
        uneven = self._scope.uneven or index.name in self._drawer._uneven
        branches = [
            self._drawer._region(self._scope.inside(uneven=uneven), self._params(args), types)
            for _ in range(self._random.choice((2, 2, 3)))
        ]
        self._add("cond", types, [index, *args], branches, **self._captured(args, range(1, len(args) + 1)))

    def _while(self) -> None:
        count, args = self.some(INTEGER), self._arguments(integers=False)
        uneven = self._scope.uneven or count.name in self._drawer._uneven
        scope = self._scope.inside(uneven=uneven, loops=self._scope.loops + 1)
        types = [arg.type for arg in args]
        regions = [self._drawer._region(scope, self._params(args), types)]
        form = self._random.choice(("while_", "fori_"))
        if form == "while_" and not scope.uneven and self._random.random() < 0.4:
            regions.append(self._drawer._region(scope, self._params(args), []))
        self._add("while", types, [count, *args], regions, form=form, **self._bar())

    def _rows(self, n: int) -> Var:
        inner = self._type()
        return self._op("grow", Type("f", (n, *inner.shape)), self.some(inner), by=(n, 0))

    def _fold(self, outs: list[Var], axes: list[int]) -> None:
        for out, axis in zip(outs, axes, strict=True):
            shape = list(out.type.shape)
            del shape[axis]
            self._op("sum", Type("f", tuple(shape)), out, by=axis)

    def _scan(self) -> None:
        n = self._random.randint(1, 3)
        carry = self._arguments(integers=False)
        rows = [self._rows(n) for _ in range(self._random.randint(0, 1))]
        ys = [self._type() for _ in range(self._random.randint(0, 1))]
        params = self._params(carry) + [self._drawer._var(Type("f", row.type.shape[1:])) for row in rows]
        scope = self._scope.inside(loops=self._scope.loops + 1)
        region = self._drawer._region(scope, params, [*(c.type for c in carry), *ys])
        outs = self._add(
            "scan",
            [*(c.type for c in carry), *(Type("f", (n, *y.shape)) for y in ys)],
            [*carry, *rows],
            [region],
            n=n,
            carried=len(carry),
            **self._bar(),
            reverse=self._random.random() < 0.3,
            options=self._random.choice(({}, {}, {"unroll": 2})),
        )
        self._fold(outs[len(carry) :], [0] * len(ys))

    def _map(self) -> None:
        n = self._random.randint(1, 3)
        rows = [self._rows(n)]
        params = [self._drawer._var(Type("f", row.type.shape[1:])) for row in rows]
        batch_size = self._random.choice((None, None, 2))
        scope = self._scope.inside(loops=self._scope.loops + 1)
        if batch_size:
            scope = dataclasses.replace(scope, lanes=scope.lanes + 1)
        type_ = self._type()
        region = self._drawer._region(scope, params, [type_])
        options = {"batch_size": batch_size} if batch_size else {}
        out_type = Type("f", (n, *type_.shape))
        self._fold(self._add("map", [out_type], rows, [region], n=n, options=options, **self._bar()), [0])

    def _vmap(self) -> None:
        n = self._random.randint(1, 3)
        args, in_axes, params = [], [], []
        for _ in range(self._random.randint(1, 2)):
            inner = self.some(self._type())
            axis = self._random.choice((None, *range(-len(inner.type.shape) - 1, len(inner.type.shape) + 1)))
            params.append(self._drawer._var(inner.type))
            in_axes.append(axis)
            if axis is not None:
                shape = list(inner.type.shape)
                place = axis if axis >= 0 else axis + len(shape) + 1
                shape.insert(place, n)
                inner = self._op("grow", Type("f", tuple(shape)), inner, by=(n, place))
            args.append(inner)
        scope = self._scope.inside(lanes=self._scope.lanes + 1, loops=self._scope.loops + 1)
        types = [self._type() for _ in range(self._random.randint(1, 2))]
        region = self._drawer._region(scope, params, types)
        out_axes = [self._random.randrange(-len(t.shape) - 1, len(t.shape) + 1) for t in types]
        places = [axis if axis >= 0 else axis + len(t.shape) + 1 for t, axis in zip(types, out_axes, strict=True)]
        shapes = [Type("f", (*t.shape[:place], n, *t.shape[place:])) for t, place in zip(types, places, strict=True)]
        options = self._random.choice(({}, {}, {"axis_name": "lane"}, {"spmd_axis_name": "d"}))
        whole = [i for i, axis in enumerate(in_axes) if axis is None]
        attrs = {
            "n": n,
            **self._captured(args, whole),
            "in_axes": tuple(in_axes),
            "out_axes": tuple(out_axes),
            "options": options,
        }
        self._fold(self._add("vmap", shapes, args, [region], **attrs), places)

    def _shard_map(self) -> None:
        n = self._drawer.devices
        args = [self.some(VECTOR), self.some(self._type())]
        split = (True, False)
        params = [self._drawer._var(Type("f", (4 // n,))), *self._params(args[1:])]
        scope = self._scope.inside(shards=True, loops=self._scope.loops + 1)
        region = self._drawer._region(scope, params, [Type("f", (4 // n,))])
        options = {"check_vma": False}
        if self._random.random() < 0.5:
            options = self._random.choice(({}, {"varying": True}, {"varying": True}))
        if self._random.random() < 0.3:
            options["axis_type"] = "Explicit"
        if self._random.random() < 0.3:
            options["rows"] = 2  # another mesh of the same devices
        self._add("shard_map", [VECTOR], args, [region], n=n, split=split, options=options)

    def _jvp(self) -> None:
        x, rest = self.some(self._type()), self._arguments()
        type_ = self._type()
        form = self._random.choice(("jvp_", "linearize_"))
        changes = {"forward": True, "reverse": self._scope.reverse or form == "linearize_"}
        region = self._drawer._region(self._scope.inside(**changes), self._params([x, *rest]), [type_])
        args = [x, self.some(x.type), *rest]
        self._add("jvp", [type_, type_], args, [region], form=form, **self._captured(args, range(2, len(args))))

    def _vjp(self) -> None:
        x, rest = self.some(self._type()), self._arguments()
        type_ = self._type()
        region = self._drawer._region(self._scope.inside(reverse=True), self._params([x, *rest]), [type_])
        cotangent = self.some(type_)
        form = self._random.choice(("vjp_", "grad_"))
        args = [x, cotangent, *rest]
        self._add("vjp", [type_, x.type], args, [region], form=form, **self._captured(args, range(2, len(args))))

    def _custom_jvp(self) -> None:
        x = self.some(self._type())
        scope = self._scope.inside(rule=True)
        regions = [self._drawer._region(scope, self._params([x]), [x.type]) for _ in range(2)]
        self._add("custom_jvp", [x.type], [x], regions)

    def _custom_vjp(self) -> None:
        x = self.some(self._type())
        scope = self._scope.inside(rule=True)
        regions = [self._drawer._region(scope, self._params([x] * n), [x.type]) for n in (1, 1, 2)]
        self._add("custom_vjp", [x.type], [x], regions)
