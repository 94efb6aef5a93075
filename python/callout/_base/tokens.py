# SPDX-License-Identifier: Apache-2.0
"""Finds JAX's runtime tokens of all threads for the barrier, and drops failed tokens of Callout's ordered effects.

JAX keeps, in each thread, the newest token of each device and of each ordered effect in two dicts of a thread-local
`RuntimeTokenSet`. Nothing public lists the dicts of other threads, so four methods of that class are hooked: one remembers
the dicts when a thread first dispatches a program with effects, three forget failed tokens of `own_ordered_effects`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from .. import _ext, _jax_compat
from .patches import Place

OWN = "programs that this thread has dispatched"
MAX_ENDED_THREADS = 16

Wait = tuple[Callable[[], str], Callable[[], None]]  # (name for the thread that waits, wait)


class _Life:
    """An object that dies with the thread that made it."""


class _Dispatched:
    """Holds JAX's dicts of the tokens of one thread: the thread changes the dicts, and `clear` replaces them."""

    __slots__ = ("current", "ident", "life", "outputs")

    def __init__(self, life: _Life):
        self.ident = threading.get_ident()
        self.life = weakref.ref(life)
        self.current: dict[Any, Any] = {}
        self.outputs: dict[Any, Any] = {}

    def name(self) -> str:
        if self is getattr(_local, "record", None):
            return OWN
        if self.life() is None:
            return "programs that a thread which has ended has dispatched"
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        return f"programs that thread {names.get(self.ident, self.ident)!r} has dispatched"

    def wait(self) -> None:
        ended = self.life() is None
        for token in (*self.current.values(), *self.outputs.values()):
            has_failed(token)
        if ended:
            _threads.pop(id(self), None)


_threads: dict[int, _Dispatched] = {}
_local = threading.local()
_sweeping = threading.Lock()


def has_failed(token: Any) -> bool:
    """Waits for a program's end, and returns whether it failed. Using its results, or JAX's barrier, raises the error."""
    result: Any = token.result if isinstance(token, _ext.ProgramEnd) else None
    if result is not None and not result.is_deleted():
        try:
            result.block_until_ready()
        except Exception:  # noqa: BLE001
            if not result.is_deleted():
                return True  # without the ProgramEnd's own method, which raises once, in JAX's barrier
    try:
        token.block_until_ready()
    except Exception:  # noqa: BLE001
        return True
    return False


def _remember(token_set: Any) -> None:
    record = getattr(_local, "record", None)
    if record is None:
        _local.life = _Life()
        record = _local.record = _Dispatched(_local.life)
        _threads[id(record)] = record
        _sweep_ended_threads()
    record.current, record.outputs = token_set.current_tokens, token_set.output_runtime_tokens
    _local.outputs = record.outputs


def _sweep_ended_threads() -> None:
    """Drops the records of ended threads whose programs have ended, so that short-lived threads do not fill the memory.

    A token cannot be polled, so one other thread waits for the tokens, if no barrier has run for a while.
    """
    ended = [record for record in list(_threads.values()) if record.life() is None]
    if len(ended) <= MAX_ENDED_THREADS or not _sweeping.acquire(blocking=False):
        return

    def sweep() -> None:
        try:
            for record in ended:
                record.wait()
        finally:
            _sweeping.release()

    _ext.call_with_timeout(sweep, 0.0)


def pending() -> list[Wait]:
    """Returns the waits, with names, for all programs with effects that any thread has dispatched."""
    if _jax_compat.runtime_token_set() is None:
        return [(lambda: OWN, _jax_compat.wait_for_all_effects)]
    return [(record.name, record.wait) for record in _dispatched()]


def wait_for_pending() -> None:
    """Waits for all programs of `pending`."""
    if _jax_compat.runtime_token_set() is None:
        _jax_compat.wait_for_all_effects()
        return
    for record in _dispatched():
        record.wait()


def _dispatched() -> list[_Dispatched]:
    _remember(_jax_compat.runtime_token_set())  # includes programs from before the hooks
    return list(_threads.values())


def _forget_failed(token_set: Any, effect: Any) -> None:
    """If the last program with `effect` failed, drops its token and the tokens of its devices."""
    token = token_set.current_tokens.get(effect)
    if not hasattr(token, "block_until_ready") or not has_failed(token):
        return
    del token_set.current_tokens[effect]
    for device, output in _marks().pop(effect, ()):
        if token_set.output_runtime_tokens.get(device) is output:
            del token_set.output_runtime_tokens[device]


def _marks() -> dict[Any, list[tuple[Any, Any]]]:
    """Returns, for each ordered effect of Callout, the devices and tokens of this thread's last program with the effect."""
    marks: dict[Any, list[tuple[Any, Any]]] | None = getattr(_local, "marks", None)
    if marks is None:
        marks = _local.marks = {}
    return marks


def remember(outputs: dict[Any, Any]) -> None:
    """Registers this thread, whose dict of device tokens is no longer empty."""
    if getattr(_local, "outputs", None) is not outputs:
        _remember(_jax_compat.runtime_token_set())


def _after_set_output(_: Any, token_set: Any, *__: Any) -> None:
    remember(token_set.output_runtime_tokens)


def _after_set_result(_: Any, token_set: Any, eff: Any, token: Any) -> None:
    if eff in _jax_compat.own_ordered_effects:
        outputs = token_set.output_runtime_tokens
        _marks()[eff] = [(device, outputs.get(device)) for device in _jax_compat.token_devices(token)]


def _before_get_input(_original: Any, token_set: Any, eff: Any, *_: Any) -> Any:
    if eff in _jax_compat.own_ordered_effects:
        _forget_failed(token_set, eff)  # waits for the effect's last program, like JAX's own method
    return NotImplemented


def _when_wait_failed(error: BaseException, token_set: Any) -> None:
    if isinstance(error, Exception):
        for effect in list(_jax_compat.own_ordered_effects):
            _forget_failed(token_set, effect)


def hooked() -> list[Place]:
    """Returns the methods that are hooked."""
    token_set = _jax_compat.runtime_token_set()
    if token_set is None:
        return []
    cls = type(token_set)
    return [
        Place(cls, "set_output_runtime_token", after=_after_set_output),
        Place(cls, "set_token_result", after=_after_set_result),
        Place(cls, "get_token_input", before=_before_get_input),
        Place(cls, "block_until_ready", failed=_when_wait_failed),
    ]
