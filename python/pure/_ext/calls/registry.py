# SPDX-License-Identifier: Apache-2.0
"""Names under which programs find callbacks."""

from __future__ import annotations

import dataclasses
import difflib
import weakref

from ..failures import ALREADY_EXISTS, INVALID_ARGUMENT, NOT_FOUND, Failure, as_error
from ..process.forks import fork_lock
from ..text.utf8 import escaped
from . import program_kinds
from .callback import Callback

_BOUND, _NATIVE, _PRINT = "py:", "native:", "id_print:"
_MOST_NAME_BYTES = 1 << 20
_MOST_SHOWN = 256
_LIKE = 0.66  # how much of a name another has that it may have been meant to be


@dataclasses.dataclass
class _Entry:
    callback: weakref.ref[Callback] | None = None
    held: Callback | None = None
    bindings: int = 0

    def is_free(self) -> bool:
        return self.held is None and (self.callback is None or self.callback() is None)


_entries: dict[str, _Entry] = {}
_lock = fork_lock()
_sweep_at = 64


def _shown(name: str) -> str:
    return name[:_MOST_SHOWN] + ("..." if len(name) > _MOST_SHOWN else "")


def register_callback(name: str, callback: Callback, replace: bool) -> None:
    """Binds a name for everybody."""
    name = escaped(name)
    if "\n" in name or "\0" in name or len(name.encode()) > _MOST_NAME_BYTES:
        raise as_error(
            INVALID_ARGUMENT,
            f"cannot register a callback as '{_shown(name)}': a name must be one line, of at most {_MOST_NAME_BYTES} bytes",
        )
    if not name or name.startswith((_BOUND, _NATIVE, _PRINT)):
        raise as_error(
            INVALID_ARGUMENT,
            f"cannot register a callback as '{name}': a name must not be empty and must not begin with 'py:', 'native:' or "
            "'id_print:'",
        )
    replaced: Callback | None = None  # destroyed after the lock is released
    with _lock:
        entry = _entries.setdefault(name, _Entry())
        is_taken = entry.held is not None and not replace
        if not is_taken:
            replaced = entry.held
            entry.callback, entry.held = weakref.ref(callback), callback
    del replaced
    if is_taken:
        text = f"a callback is already registered as '{name}'; pass replace=True to bind it anew"
        raise as_error(ALREADY_EXISTS, text)


def unregister(name: str) -> None:
    """Forgets a registered name."""
    name = escaped(name)
    removed: _Entry | None = None
    with _lock:
        entry = _entries.get(name)
        if entry is not None and entry.held is not None:
            removed = _entries.pop(name)
    if removed is None:
        raise as_error(NOT_FOUND, f"no callback is registered as '{name}'")


def find(name: str) -> Callback:
    """What a program calls by this name: what is bound to it, or what the name says itself."""
    try:
        return _find(escaped(name))
    except Failure as failure:
        raise as_error(failure.code, failure.text) from None


def _find(name: str) -> Callback:
    size = len(name.encode())
    if size > _MOST_NAME_BYTES:
        raise Failure(
            INVALID_ARGUMENT,
            f"callout: the program asks for a callback with a name of {size} bytes, '{_shown(name)}'; expected at most "
            f"{_MOST_NAME_BYTES}",
        )
    entry = _entries.get(name)
    callback = None if entry is None or entry.callback is None else entry.callback()
    callback = callback or program_kinds.make_for_program(name)
    if callback is None:
        raise Failure(NOT_FOUND, _unbound(name))
    return callback


def _unbound(name: str) -> str:
    text = f"callout: no callback is bound to the name '{_shown(name)}'; "
    if name.startswith(_NATIVE):
        text += (
            "it is native code: build the same from the same source in this process before (callout.cpp, callout.numba), or "
            "let the program carry it (embed=True); "
        )
    if name.startswith(_BOUND):
        text += (
            "it is a Python function of the process that traced the program: give it a name (callout.register) before the "
            "program is exported; "
        )
    names = registered_names()
    text += "registered names:" + ("".join(f" '{known}'" for known in names) or " (none)")
    nearest = difflib.get_close_matches(_shown(name), names, n=1, cutoff=_LIKE)
    return text + (f"; did you mean '{nearest[0]}'?" if nearest else "")


def registered_names() -> list[str]:
    """The registered names, sorted."""
    return sorted(name for name, entry in _entries.copy().items() if entry.held is not None)


class Binding:
    """A name under which a callback is found while both live."""

    def __init__(self, base: str, callback: Callback):
        self._callback = weakref.ref(callback)
        stem = escaped(base)
        self._name = _bind(stem if stem.startswith(_NATIVE) else _BOUND + stem, callback)

    def __del__(self) -> None:
        entry = _entries.get(getattr(self, "_name", ""))
        if entry is not None and entry.bindings > 0 and entry.callback == self._callback:
            entry.bindings -= 1  # the entry stays while its callback lives

    @property
    def name(self) -> str:
        """The name."""
        return self._name


def _bind(stem: str, callback: Callback) -> str:
    global _sweep_at
    with _lock:
        if len(_entries) >= _sweep_at:
            for name in [name for name, entry in _entries.copy().items() if entry.is_free()]:
                _entries.pop(name, None)
            _sweep_at = 2 * len(_entries) + 64
        name, number = stem, 0
        while True:
            entry = _entries.setdefault(name, _Entry())
            bound = None if entry.callback is None else entry.callback()
            if entry.bindings > 0 and bound is callback:
                entry.bindings += 1
                return name
            if entry.bindings == 0 or bound is None:
                entry.callback, entry.bindings = weakref.ref(callback), 1
                return name
            number += 1
            name = f"{stem}#{number}"
