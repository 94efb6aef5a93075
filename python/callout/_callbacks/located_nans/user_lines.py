# SPDX-License-Identifier: Apache-2.0
"""Finds the lines of the user's code that equations come from.

JAX gives all equations that a derivative rule traces the line of the rule's call; `rule_lines_kept` keeps the lines
inside of the rule.
"""

from __future__ import annotations

import contextlib
import dataclasses
import linecache
import re
import site
import sysconfig
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from ... import _jax_compat
from ..._base import patches
from ..._base.errors import printable
from ..._primitives import jaxprs

Granularity = Literal["line", "operation", "function", "module"]

_HERE = Path(__file__).parent
_OURS = str(_HERE.parent.parent)
_LIBRARIES = tuple(
    {
        *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *site.getsitepackages(),
    }
)
_WRAPPED = re.compile(r"\w*\(([^()]*)\)")
_WRAPPERS = re.compile(r"[/\\](flax[/\\]nnx[/\\]transforms|equinox[/\\]_module)[/\\]")
"""Files of objects whose calls only wrap the calls of modules: `nnx.jit`, Equinox' bound methods."""
_FLAX = re.compile(r"[/\\]flax[/\\]")
_LONGEST_LINE = 200


@dataclasses.dataclass(frozen=True)
class Line:
    """Names one line of a file."""

    file: str = "<unknown>"
    number: int = 0
    function: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.number}"
        return printable(f"{place} in {self.function}" if self.function else place)

    def text(self) -> str:
        """Returns the text of the line."""
        return printable(linecache.getline(self.file, self.number).strip()[:_LONGEST_LINE])


def line_of(eqn: Any) -> Line:
    """Returns the innermost line outside of installed libraries, or the innermost line if there is no other."""
    first = None
    for frame in _jax_compat.frames_of(eqn):
        if frame.file_name.startswith(_OURS):
            if frame.file_name.startswith(str(_HERE)):
                break  # frames further out called the located function
            continue
        line = Line(frame.file_name, frame.start_line, frame.function_name)
        if not frame.file_name.startswith(_LIBRARIES):
            return line
        first = first or line
    return first or Line()


Place = tuple[str, int, int]  # file, line and column


@dataclasses.dataclass(frozen=True)
class ModuleCall:
    """A call of an object, such as a module of Flax NNX or Equinox: its class, and the place of the call."""

    name: str
    place: Place


def frames_around(eqn: Any) -> Iterator[Any]:
    """Yields the frames of the located function around an equation, without frames of Callout and of wrappers."""
    for frame in _jax_compat.frames_of(eqn):
        if frame.file_name.startswith(str(_HERE)):
            return  # frames further out called the located function
        if not frame.file_name.startswith(_OURS) and not _WRAPPERS.search(frame.file_name):
            yield frame


def module_calls(eqn: Any, root: Place) -> tuple[ModuleCall, ...]:
    """Returns the calls of objects around an equation, outermost first. `root`: the place that called the first."""
    found: list[ModuleCall] = []
    called = ""
    for frame in frames_around(eqn):
        if called:
            found.append(ModuleCall(called, _place(frame)))
        owner, _, function = frame.function_name.rpartition(".")
        name = owner.rpartition(".")[2]
        called = name if function == "__call__" and not name.startswith(("_", "<")) else ""
    if called:
        found.append(ModuleCall(called, root))
    return tuple(reversed(found))


def _place(frame: Any) -> Place:
    return frame.file_name, frame.start_line, frame.start_column


def is_the_users(traced: Any) -> bool:
    """Returns whether a jaxpr, or a derivative rule, comes from a function outside of installed libraries."""
    file = _jax_compat.source_file(traced)
    return bool(file) and not _jax_compat.is_of_jax(file) and not file.startswith((*_LIBRARIES, _OURS))


def _transforms_the_users(file: str, jaxpr: Any) -> bool:
    """Returns whether a function of Flax, which JAX counts as its own, runs the user's code, like `linen.remat`."""
    if not _FLAX.search(file):
        return False
    return any(not line_of(eqn).file.startswith((*_LIBRARIES, Line.file)) for eqn in jaxprs.opened(jaxpr).eqns)


@dataclasses.dataclass(frozen=True)
class Scope:
    """A function that JAX traces without its callers' frames: the calls around it, and the place of its call."""

    calls: tuple[ModuleCall, ...]
    root: Place


_WHOLE = Scope((), ("", 0, 0))


@dataclasses.dataclass(frozen=True)
class Surroundings:
    """Collects from the nested functions around an equation: scopes, module calls, and the line for JAX's own functions."""

    scopes: str = ""
    line: Line | None = None
    backward: bool = False
    scope: Scope = _WHOLE
    outer: tuple[Any, Scope] | None = None  # the enclosing equation, and the scope where its frames begin

    def inside(self, eqn: Any, jaxpr: Any) -> Surroundings:
        """Returns the surroundings of the equations of `jaxpr`, a parameter of `eqn`."""
        line, file = self.line, _jax_compat.source_file(jaxpr)
        if line is None and file and _jax_compat.is_of_jax(file) and not _transforms_the_users(file, jaxpr):
            line = line_of(eqn)  # the function has no frame of the user's
        root = next(map(_place, frames_around(eqn)), self.scope.root)
        scope, outer = Scope(self.calls_of(eqn), root), (eqn, self._scope_of(eqn))
        return Surroundings(self.scopes_of(eqn), line, self.is_backward(eqn), scope, outer)

    def scopes_of(self, eqn: Any) -> str:
        """Returns the named scopes around an equation."""
        stack = str(eqn.source_info.name_stack)
        return f"{self.scopes}/{stack}" if self.scopes and stack else self.scopes or stack

    def calls_of(self, eqn: Any) -> tuple[ModuleCall, ...]:
        """Returns the calls of modules around an equation."""
        if self.line is not None:
            return self.scope.calls
        scope = self._scope_of(eqn)
        return *scope.calls, *module_calls(eqn, scope.root)

    def _scope_of(self, eqn: Any) -> Scope:
        """Returns where an equation's frames begin. Equations of derivatives have the frames of the enclosing equation."""
        if self.outer is not None:
            around, scope = self.outer
            if eqn.source_info.traceback is around.source_info.traceback is not None:
                return scope
        return self.scope

    def module_of(self, eqn: Any) -> str:
        """Returns the module of an equation, by its named scopes, or by the called classes if these are more specific."""
        scopes, calls = module_name(self.scopes_of(eqn)), [call.name for call in self.calls_of(eqn)]
        if len(calls) <= len(scopes.split("/")) - (not scopes):
            return scopes
        classes = printable("/".join(calls))
        return f"{scopes} ({classes})" if scopes else classes

    def is_backward(self, eqn: Any) -> bool:
        """Returns whether the equation belongs to a backward pass."""
        return self.backward or "transpose(" in str(eqn.source_info.name_stack)

    def line_of(self, eqn: Any) -> Line:
        """Returns the user's line of the equation."""
        return self.line or line_of(eqn)


def module_name(scopes: str) -> str:
    """Drops the parts that JAX adds: "transpose(jvp(Net))/rematted_computation/Dense_0" becomes "Net/Dense_0"."""
    while (bare := _WRAPPED.sub(r"\1", scopes)) != scopes:
        scopes = bare
    return printable("/".join(part for part in scopes.split("/") if part and part != "rematted_computation"))


class _ThisThread(threading.local):
    tracing = 0


_this_thread = _ThisThread()


@contextlib.contextmanager
def rule_lines_kept() -> Iterator[None]:
    """Keeps the lines of rules while this thread traces for `locate_nans`."""
    _this_thread.tracing += 1
    try:
        yield
    finally:
        _this_thread.tracing -= 1


def _call_rule(original: Any, *args: Any, **params: Any) -> Any:
    if not _this_thread.tracing or not is_the_users(params.get("bwd")):
        return NotImplemented
    with _jax_compat.own_lines():
        return original(*args, **params)


def hooked() -> Sequence[patches.Place]:
    """Returns the places that are patched: see `_base.patches`."""
    found = _jax_compat.custom_transpose_rule()
    return [] if found is None else [patches.Place(*found, before=_call_rule)]
