# SPDX-License-Identifier: Apache-2.0
"""Prints programs as Python source. JAX runs exactly this source."""

from __future__ import annotations

from pathlib import Path

import listening
import oracle
import prelude
from syntax import Program, Region, Stmt, sites

CAPTURING = {
    "jit": 0,
    "remat": 0,
    "located": 0,
    "vmap": 0,
    "cond": 1,
    "jvp": 1,
    "vjp": 1,
}  # arguments that are not parameters


def _shape(shape: tuple[int, ...]) -> str:
    return "(" + "".join(f"{n}, " for n in shape).rstrip() + ")"


def _keywords(options: dict[str, object]) -> str:
    return "".join(f", {name}={value!r}" for name, value in options.items())


DTYPES = {"f": "float32", "i": "int32"}
OPERATIONS = {
    "const": lambda by: f"jnp.full({_shape(by[1])}, {by[0]}, jnp.{DTYPES[by[2]]})",
    "add": lambda by, x, y: f"{x} + {y}",
    "sub": lambda by, x, y: f"{x} - {y}",
    "mul": lambda by, x, y: f"wrap({x}) * wrap({y})",
    "scale": lambda by, x: f"{x} * {by}",
    "shift": lambda by, x: f"{x} + {by}",
    "wrap": lambda by, x: f"wrap({x})",
    "held": lambda by, x: f"{x} + value({by}).get()",
    "asked": lambda by, x: f"jnp.where(flag({by > 0}).is_set(), {x} + {by}, {x})",
    "stop": lambda by, x: f"lax.stop_gradient({x})",
    "name": lambda by, x: f'checkpoint_name({x}, "{by}")',
    "reverse": lambda by, x: f"{x}[::-1]",
    "dot": lambda by, x: f"dot({x})",
    "pick": lambda by, x: f"{x}[{by}]",
    "sum": lambda by, x: f"{x}.sum({by})",
    "grow": lambda by, x: f"grow({x}, {by[0]}, {by[1]})",
    "pos": lambda by: f"pos % {by}",
    "shift_i": lambda by, x: f"{x} + {by}",
    "float": lambda by, x: f"{x}.astype(jnp.float32)",
}


def _call(stmt: Stmt, names: list[str], args: list[str], callbacks: str) -> str:
    """Returns the right side of a statement that is neither an operation nor a callback."""
    attrs, rest = stmt.attrs, ", ".join(args)
    has_bar = attrs.get("bar") is not None and callbacks in ("callout", "debug")
    bar = {"bar": attrs["bar"] if callbacks == "callout" else "debug"} if has_bar else {}
    more = _keywords({**attrs.get("options", {}), **bar})
    comma = "".join(", " + a for a in args)
    match stmt.kind:
        case "jit":
            return f"jax.jit({names[0]}{more})(pos{comma})"
        case "remat":
            policy = attrs.get("policy")
            chosen = f", policy=jax.checkpoint_policies.{policy}" if policy else ""
            return f"jax.checkpoint({names[0]}{chosen}{more})(pos{comma})"
        case "located":
            if callbacks != "callout":  # only Callout has the loop
                return f"{names[0]}(pos{comma})"
            return f"callout.locate_nans({names[0]}{more})(pos{comma})"
        case "cond":
            return f"cond_(pos, {args[0]}, [{', '.join(names)}]{''.join(', ' + a for a in args[1:])})"
        case "while":
            look = f", look={names[1]}" if len(names) > 1 else ""
            carried = "".join(", " + a for a in args[1:])
            return f"{attrs.get('form', 'while_')}(pos, {args[0]}, {names[0]}{carried}{look}{more})"
        case "ref":
            return f"ref_(pos, {attrs['n']}, {names[0]}, {args[0]})"
        case "scan":
            n = attrs["carried"]
            reverse = ", reverse=True" if attrs.get("reverse") else ""
            return (
                f"scan_(pos, {attrs['n']}, {names[0]}, [{', '.join(args[:n])}], [{', '.join(args[n:])}]{reverse}{more})"
            )
        case "map":
            return f"map_(pos, {attrs['n']}, {names[0]}{comma}{more})"
        case "vmap":
            kept = [axis for i, axis in enumerate(attrs["in_axes"]) if i not in attrs.get("captured", ())]
            axes = f"{kept}, {list(attrs['out_axes'])}"
            return f"vmap_(pos, {attrs['n']}, {names[0]}, {axes}{comma}{more})"
        case "shard_map":
            return f"shard_map_(pos, {attrs['n']}, {names[0]}, {list(attrs['split'])}, {len(stmt.outs)}{comma}{more})"
        case "jvp" | "vjp":
            return f"{attrs['form']}(pos, {names[0]}, {rest})"
        case "custom_jvp" | "custom_vjp":
            return f"{stmt.kind}_(pos, {', '.join(names)}, {rest})"
    raise ValueError(stmt.kind)


class Printer:
    """Writes one program: for Callout, with JAX's own callbacks instead, with only its debug callbacks, or without any."""

    def __init__(self, callbacks: str = "callout"):
        self._written = {"callout": _callout_site, "jax": _jax_site, "debug": _debug_site, "none": _no_site}[callbacks]
        self._callbacks = callbacks
        self._lines: list[str] = []
        self._functions = 0

    def program(self, program: Program) -> str:
        self._lines = []
        checks = [stmt.attrs["site"] for stmt in sites(program) if stmt.attrs["what"] == "check" and _is_strict(stmt)]
        events = oracle.expected(program).events if checks else []
        for site in checks:
            self._line(0, f"allowed[{site}] = {sorted({event.pos for event in events if event.site == site})}")
        for stmt in sites(program):
            self._site(stmt)
        self._region("program", program.main, 0)
        inputs = ", ".join(_literal(x) for x in program.inputs)
        fails = [f"failing[{program.fails[0]}] = {program.fails[1]}"] if program.fails else []
        self._lines += [
            "",
            "",
            f"inputs = [{inputs}]",
            *fails,
            f"results = run(program, inputs, {program.mode!r}, {program.runs}{', wide=True' * program.wide})",
        ]
        return "\n".join(self._lines) + "\n"

    def _line(self, depth: int, text: str) -> None:
        self._lines.append("    " * depth + text)

    def _region(self, name: str, region: Region, depth: int, captured: dict[int, str] | None = None) -> None:
        """Writes a function; `captured` are parameters that become variables of the enclosing function."""
        captured = captured or {}
        if not depth:
            self._lines += ["", ""]
        params = [param.name for i, param in enumerate(region.params) if i not in captured]
        self._line(depth, f"def {name}({', '.join(['pos', *params])}):")
        for i, outside in captured.items():
            self._line(depth + 1, f"{region.params[i].name} = {outside}")
        for stmt in region.body:
            self._stmt(stmt, depth + 1)
        results = "".join(f"{var.name}, " for var in region.results).rstrip()
        self._line(depth + 1, f"return ({results})")

    def _stmt(self, stmt: Stmt, depth: int) -> None:
        names, args = [], [arg.name for arg in stmt.args]
        captured = {i: i - CAPTURING[stmt.kind] for i in stmt.attrs.get("captured", ())}
        for region in stmt.regions:
            self._functions += 1
            names.append(f"f{self._functions}")
            self._region(names[-1], region, depth, {param: args[i] for i, param in captured.items()})
        args = [arg for i, arg in enumerate(args) if i not in captured]
        if stmt.kind == "op":
            self._line(depth, f"{stmt.outs[0].name} = {OPERATIONS[stmt.attrs['op']](stmt.attrs.get('by'), *args)}")
        elif stmt.kind == "site":
            self._line(depth, f"{stmt.outs[0].name} = site{stmt.attrs['site']}(pos, {args[0]})")
        else:
            self._line(depth, f"{', '.join(v.name for v in stmt.outs)}, = {_call(stmt, names, args, self._callbacks)}")

    def _site(self, stmt: Stmt) -> None:
        attrs = stmt.attrs
        site, dtype, modulus, rank = attrs["site"], attrs["dtype"], attrs["modulus"], len(stmt.args[0].type.shape)
        make, call, result = self._written(attrs, rank)
        self._lines += ["", "", f"fn{site} = {make}", "", "", f"def site{site}(pos, x):"]
        self._line(
            1,
            "y = "
            + ("lax.stop_gradient(wrap(x%s))" if attrs.get("stop") else "wrap(x%s)")
            % (f", {modulus}" if modulus != 8 else ""),
        )
        self._line(1, f'e = to(y, "{dtype}")' if dtype != "float32" else "e = y")
        self._line(1, call)
        self._line(1, "return " + result)


def _is_strict(stmt: Stmt) -> bool:
    """Returns true for a check that must not run where the oracle does not evaluate it."""
    return stmt.attrs.get("check", "error") not in ("off", "warn", "warn_if")


def _literal(x: object) -> str:
    return f"np.int32({int(x)})" if getattr(x, "ndim", 0) == 0 and x.dtype == "int32" else f"np.float32({x.tolist()})"


def _callout_site(attrs, rank: int) -> tuple[str, str, str]:
    """Returns a callback's function, its call, and the result of the site."""
    site, modulus, what = attrs["site"], attrs["modulus"], attrs["what"]
    keyed = attrs.get("keyed", False)
    options = ", keyed=True" * keyed + _keywords(attrs.get("options", {}))
    settings = _keywords(attrs.get("settings", {})) + ", step=pos" * attrs.get("step", False)
    on = f", sharding=on({attrs['on']})" if attrs.get("on") is not None else ""
    sent = "key_of(e)" if keyed else "e"
    shape = "jax.ShapeDtypeStruct(e.shape, e.dtype)"
    kept = "r" if attrs["dtype"] == "float32" else "x"
    match what:
        case "pure" | "io":
            return (
                f"heard({site}, {rank}, {modulus}{options})",
                f"r = callout.{what}_callback(fn{site}, {shape}, pos, {sent}{settings}{on})",
                "back(r, x)",
            )
        case "buffer":
            call = f"r = buffer_callback(fn{site}, {shape}{settings})(pos, e)"
            aliased = ", aliased=True" if "input_output_aliases" in attrs["settings"] else ""
            return f"buffered({site}, {rank}, {modulus}{aliased}{options})", call, "back(r, x)"
        case "hcb_call":
            return (
                f"hcb_called({site}, {rank}, {modulus})",
                f"r = hcb.call(fn{site}, (pos, e), result_shape={shape}{settings})",
                "back(r, x)",
            )
        case "debug":
            return f"told({site}, {rank}{options})", f"callout.debug_callback(fn{site}, pos, {sent}{settings})", "x"
        case "tap":
            call, kept = _tap(attrs, sent, ", with_transforms=True" + settings)
            return f"tapped({site}, {rank}{options})", call, kept
        case "ref_tap":
            call = f"callout.tap(fn{site}, (pos, jax.new_ref(e)), with_transforms=True{settings})"
            return f"tapped({site}, {rank})", call, "y" if attrs["dtype"] == "float32" else "x"
        case "named_tap":
            return f"named({site}, {rank})", *_tap(attrs, sent, settings)
        case "sink":
            return f"lines({site})", *_tap(attrs, sent, settings)
        case "hcb_tap":
            return f"hcb_tapped({site}, {rank})", f"_, r = hcb.id_tap(fn{site}, (pos, e){settings})", kept
        case "hcb_print":
            return "None", f"_, r = hcb.id_print((pos, e), site={site}{settings})", kept
        case "print":
            call = f'callout.debug_print("@{site} {{}} {{}}", pos, e{settings})'
            return "None", call, "x"
        case "cpp" | "numba" | "ffi":
            made = {"cpp": "compiled", "numba": "kernel", "ffi": "foreign"}[what]
            made = "foreign_of_keys" if what == "ffi" and attrs["dtype"] == "uint32" else made
            return f"{made}({attrs['method']!r}{on})", f"r = fn{site}(e)", "back(r, x)"
        case "check":
            return "None", f"r = checked({site}, pos, e, {attrs.get('check', 'error')!r})", kept
        case "watch":
            return "None", f'r = callout.watch(e, "site{site}"{settings})', kept
    raise ValueError(what)


def _tap(attrs, sent: str, settings: str) -> tuple[str, str]:
    """Returns the call of a tap, and the result of the site."""
    of_float = attrs["dtype"] == "float32"
    call = f"callout.tap(fn{attrs['site']}, (pos, {sent}){settings}"
    match attrs.get("result"):
        case "used":
            return f"r = {call}, result=e)", "r" if of_float else "x"
        case "ignored":
            return f"{call}, result=None)", "y" if of_float else "x"
    return f"_, r = {call})", "r" if of_float else "x"


def _jax_site(attrs, rank: int) -> tuple[str, str, str]:
    """Returns a JAX callback's function, its call, and the result of the site."""
    site, modulus, what = attrs["site"], attrs["modulus"], attrs["what"]
    settings = {name: value for name, value in attrs.get("settings", {}).items() if name in ("vmap_method", "ordered")}
    shape = "jax.ShapeDtypeStruct(e.shape, e.dtype)"
    if what in prelude.NATIVE:
        settings["vmap_method"] = "expand_dims"
    if what in prelude.WITH_RESULT:
        observed = what in ("io", "hcb_call") or "has_side_effect" in settings
        function = "jax.experimental.io_callback" if observed else "jax.pure_callback"
        call = f"r = {function}(fn{site}, {shape}, pos, e{_keywords(settings)})"
        return f"heard({site}, {rank}, {modulus})", call, "back(r, x)"
    settings.pop("vmap_method", None)
    kept = "y" if what in prelude.IDENTITIES and attrs["dtype"] == "float32" else "x"
    return f"told({site}, {rank})", f"jax.debug.callback(fn{site}, pos, e{_keywords(settings)})", kept


def _debug_site(attrs, rank: int) -> tuple[str, str, str]:
    return f"told({attrs['site']}, {rank})", f"jax.debug.callback(fn{attrs['site']}, pos, e)", "x"


def _no_site(attrs, rank: int) -> tuple[str, str, str]:
    return "None", "r = e", "back(r, x)"


def source(program: Program, callbacks: str = "callout") -> str:
    return Printer(callbacks).program(program)


def standalone(program: Program) -> str:
    """Returns source that runs by itself."""
    text = Path(listening.__file__).read_text() + Path(prelude.__file__).read_text()
    text = text.replace("from listening import *\n", "")
    return f"{text}\n\n# The program\n{source(program)}\nprint(*results, sep='\\n')\nprint(*events, sep='\\n')\n"
