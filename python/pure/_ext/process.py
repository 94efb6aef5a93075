# SPDX-License-Identifier: Apache-2.0
"""Process-wide state: errors and log, forks and threads, and hooks in functions of JAX's.

All locks are reentrant, because a signal handler or a destructor may tap or call while its thread holds one. A forked
child takes no lock, because it raises ForkError before.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import logging
import os
import pkgutil
import secrets
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

REASON = "this is the pure-Python wheel of callout (py3-none-any), which has no C++ core"


def refuse(what: str) -> NoReturn:
    """Raises NotImplementedError for `what`, which only the C++ core has."""
    raise NotImplementedError(
        f"callout: {what} needs the C++ core: {REASON}. A wheel with the core, for CPython on Linux x86-64, has it; "
        "docs/fallback.md lists what works here"
    )


class Failure(Exception):  # noqa: N818 - this package never raises it to users
    """A failure that is no exception of the user's. `kind`: a key of callout._base.error_classes.KINDS."""

    def __init__(self, text: str, kind: str = "general"):
        super().__init__(text)
        self.kind = kind


def as_error(text: object, kind: str) -> BaseException:
    """Returns Callout's error for a failure of this kind."""
    from callout._base import errors

    return errors.recall(kind, 0, str(text))


def described(error: BaseException, label: str, ordinal: int) -> tuple[str, BaseException]:
    """Returns the text of a failure and its exception. A user's exception becomes the last error."""
    from callout._base import errors

    own = issubclass(type(error), Failure)  # `isinstance` would use the error's own `__class__`
    where = f" on device {ordinal}" if ordinal >= 0 else ""
    text = f"callout: callback '{label}' failed{where}: {error if own else errors.take(error)[1]}"
    return text, as_error(text, getattr(error, "kind", "general")) if own else error


FORK_TEXT = (
    "ForkError: this process was forked from one that had used Callout or JAX's devices, and its threads stayed there. "
    "Start workers with the 'spawn' or 'forkserver' method instead"
)
_token = [secrets.token_hex(3)]


def error_token() -> str:
    """Returns this process's word in tags of errors, which distinguishes them from tags of other processes."""
    return _token[0]


def escaped(text: str) -> str:
    r"""Returns the text with lone surrogates, which UTF-8 cannot encode, escaped as "\udcff"."""
    return text.encode("utf-8", "backslashreplace").decode()


def log(level: int, text: str, source: int = 0) -> None:
    """Logs by the logger with this number. The text goes to stderr if a user's handler raises."""
    from callout._base import loggers

    try:
        loggers.emit(level, text, source)
    except Exception:  # noqa: BLE001 - handlers and filters may raise anything
        with contextlib.suppress(Exception):
            print(f"callout: {logging.getLevelName(level)}: {text.removeprefix('callout: ')}", file=sys.stderr)  # noqa: T201


SLICE_S = 0.1  # waits are sliced, so that Ctrl-C interrupts them on every system
_is_used = _is_child = False


def note_process_is_used() -> None:
    """Notes that the process has threads, which a forked child lacks."""
    global _is_used
    _is_used = True


def is_forked_child() -> bool:
    """Returns whether this process was forked from one that had used callout."""
    return _is_child


def check_usable() -> None:
    """Raises ForkError in a forked child of a process that had used callout, because the child has no threads."""
    from callout._base import lifetime

    lifetime.check_usable()


def _after_fork_in_child() -> None:
    global _is_child
    _is_child = _is_used
    _token[0] = secrets.token_hex(3)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)

_here = threading.local()


@contextlib.contextmanager
def inside(what: str) -> Iterator[None]:
    """Marks this thread as inside of `what` during the block."""
    before = getattr(_here, what, False)
    setattr(_here, what, True)
    try:
        yield
    finally:
        setattr(_here, what, before)


def inside_call() -> bool:
    """Returns whether this thread is inside a callback for which a program or an eager caller waits."""
    return getattr(_here, "call", False)


def on_delivery_thread() -> bool:
    return getattr(_here, "delivery", False)


def keep_denormals() -> None:
    """Makes this thread compute with denormals. XLA's threads flush them to zero, and new threads inherit the setting."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL("libm.so.6").fesetenv(ctypes.c_void_p(-1))  # FE_DFL_ENV


def call_with_timeout(function: Callable[[], Any], seconds: float) -> bool:
    """Calls function() on another thread, and returns whether it was back within `seconds`.

    Python starts no threads at exit, so the function is then called here, without a time limit.
    """
    thread = threading.Thread(target=function, name="callout-wait", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        function()
    end = time.monotonic() + seconds
    while thread.is_alive() and time.monotonic() < end:
        thread.join(min(SLICE_S, end - time.monotonic()))
    return not thread.is_alive()


class Hook:
    """A function in the place of `original`. An inactive one only calls the original.

    before(original, *args) returns the result, or NotImplemented to call the original. after(result, *args) runs behind
    the original. failed(exception, *args) runs if the original raises, and may raise another exception.
    place: "module:name", by which the hook is pickled; "" pickles the original.
    """

    def __init__(self, original: Any, *, before: Any = None, after: Any = None, failed: Any = None, place: str = ""):
        if not callable(original):
            raise TypeError(f"callout: a hook stands for a function, got {original!r}")
        self.callout_original = self.__wrapped__ = original
        self._before, self._after, self._failed, self._place = before, after, failed, place
        self.active = True

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        original = self.callout_original
        if not self.active:
            return original(*args, **kwargs)
        if self._before is not None:
            answer = self._before(original, *args, **kwargs)
            if answer is not NotImplemented:
                return answer
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            if self._failed is not None:
                self._failed(error, *args, **kwargs)
            raise
        if self._after is not None:
            self._after(result, *args, **kwargs)
        return result

    def __get__(self, instance: Any, owner: Any = None, /) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the place. The reading process gets its own function there: JAX's, or a hook."""
        return (pkgutil.resolve_name, (self._place,)) if self._place else (copy.copy, (self.callout_original,))

    def __getattr__(self, name: str, /) -> Any:
        if name == "callout_original":  # while the object is constructed
            raise AttributeError(name)
        return getattr(self.callout_original, name)
