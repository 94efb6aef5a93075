# SPDX-License-Identifier: Apache-2.0
"""Errors, and the user's own exceptions on their way through a compiled program.

XLA carries only text. So the exception object stays here under a number, the text carries the number, and whoever catches
what XLA raises gets the object back: as `__cause__` (and, where class layouts allow, as the class) of JaxRuntimeError, and
as itself through `reraise()`, `callout.jit` and `last_error()`.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import itertools
import os
import re
import secrets
import sys
import threading
import traceback
from collections import deque
from types import TracebackType
from typing import Any, Literal, Self

import jax
import numpy as np

from .. import _ext, _jax_compat
from . import patches
from .error_classes import BarrierTimeout as BarrierTimeout
from .error_classes import CallbackError as CallbackError
from .error_classes import CheckError as CheckError
from .error_classes import ForkError as ForkError
from .error_classes import NonFiniteError as NonFiniteError
from .error_classes import NonFiniteWarning as NonFiniteWarning
from .error_classes import RegistrationError as RegistrationError
from .error_classes import ResultError as ResultError
from .error_classes import TapError as TapError
from .error_classes import UnboundNameError as UnboundNameError
from .error_classes import attributes, cause_of, chain_of, is_from_elsewhere, mix, set_chain, text_of, traceback_of
from .error_classes import describe as describe
from .loggers import logger

# Exceptions pin their frames, and these their arrays: few are kept. A thread that waits for its program may not run for a
# while, so others that fail again and again meanwhile do not take its place.
_MOST_OF_A_THREAD = 64
_MOST = 1024


class KeptExceptions:
    """Holds the last exceptions of each thread, by number. Thread-safe.

    Without a lock: signal handlers and destructors fail, too, and come anywhere, and a handler may wait for other threads.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._kept: dict[int, BaseException] = {}
        self._of_threads: dict[int, deque[int]] = {}  # oldest first; others may have made room of some

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, exception: BaseException) -> int:
        """Keeps an exception that this thread raised, and returns its number."""
        number = next(self._numbers)
        self._kept[number] = exception
        # A new thread may be called as one that ended, and has its numbers then.
        own = self._of_threads.setdefault(threading.get_ident(), deque())
        own.append(number)
        if len(own) > _MOST_OF_A_THREAD:
            self._kept.pop(own.popleft(), None)
        while len(self._kept) > _MOST:  # threads that come at once may make room of the same one
            self._kept.pop(min(list(self._kept), default=0), None)
        return number

    def find(self, number: int) -> BaseException | None:
        """Returns the exception with this number, if it is still kept."""
        return self._kept.get(number)

    def replace(self, number: int, substitute: BaseException) -> BaseException | None:
        """Puts another exception in its place and returns what was there; None if it is not kept any more."""
        was = self._kept.get(number)
        if was is not None:
            self._kept[number] = substitute
        return was

    def clear(self) -> None:
        """Forgets all of them."""
        self._kept.clear()


FORK_TEXT = (
    "ForkError: this process was forked from one that had used callout or JAX's devices, and its threads stayed there. "
    "Start workers with the 'spawn' or 'forkserver' method instead"
)

_process: str
_number: re.Pattern[str]


def _name_process() -> None:
    """Errors come from other processes too, with numbers of theirs."""
    global _process, _number
    _process = secrets.token_hex(3)
    _number = re.compile(rf"\[callout error (\d+) of {_process}\]")


_name_process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_name_process)


class _Last:
    """Holds the last one, which another may take the place of. Without a lock: see KeptExceptions."""

    def __init__(self, exception: BaseException | None = None):
        self.exception = exception


_kept = KeptExceptions()
_last = _Last()


def keep(exception: BaseException) -> str:
    """Keeps an exception and returns the text that stands for it. Called by the core with the GIL held."""
    return _under_number(exception, _text_of(exception))


def _text_of(exception: BaseException) -> str:
    what = describe(exception)
    if issubclass(type(exception), AttributeError) and (note := explain_numpy(exception)):
        what += f" ({note})"  # in the line that people see first
    try:
        text = "".join(traceback.format_exception(exception)).rstrip()
    except Exception:  # noqa: BLE001 - its class does not let itself be looked at: Python's own text would be the same
        frames = "".join(traceback.format_tb(traceback_of(exception)))
        text = f"Traceback (most recent call last):\n{frames}{what}"
    return f"{what}\n{text}"


def explain_numpy(error: BaseException) -> str:
    """Notes, and returns, how a callback gets `jax.Array`s, if it asked a NumPy array for what only these have; else ""."""
    array, name = (member.__get__(error) for member in (_OBJECT, _NAME))
    if not issubclass(type(array), (np.ndarray, np.generic)) or not isinstance(name, str) or name.startswith("__"):
        return ""
    if not hasattr(jax.Array, name) or hasattr(type(array), name):
        return ""
    note = (
        f'callbacks get NumPy arrays, which have no .{name}: callout.options(fn, args="jax") has the callback get '
        'jax.Arrays, callout.config.args = "jax" has all of them'
    )
    with contextlib.suppress(Exception):  # whatever a class of the user's makes of that
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
    return note


def _under_number(exception: BaseException, text: str) -> str:
    global _last
    patches.ensure("errors")  # JAX's error is made of the text, after this
    number = _kept.add(exception)
    _last = _Last(exception)
    return printable(f"{text}\n[callout error {number} of {_process}]")


def printable(text: str) -> str:
    """Returns the text as UTF-8 without zeros: what a C string can carry."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


# As they are, whatever a class of the user's says when one of these is read or set.
_OBJECT: Any = vars(AttributeError)["obj"]
_NAME: Any = vars(AttributeError)["name"]
_MEMBERS: Any = vars(BaseExceptionGroup)["exceptions"]


def keep_without_variables(exception: BaseException) -> str:
    """Does what `keep` does, for a function whose variables refer to memory that is not its own any more."""
    text = _text_of(exception)  # suggests names by looking at the variables
    seen = {id(sys.exception())}  # what the caller was handling when it called
    links: list[BaseException | None] = [exception]
    while links:
        link = links.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        traceback.clear_frames(traceback_of(link))
        if issubclass(type(link), AttributeError):
            _OBJECT.__set__(link, None)
        links += chain_of(link)[:2]
        if issubclass(type(link), BaseExceptionGroup):
            links += _MEMBERS.__get__(link)
    return _under_number(exception, text)


def keep_text(text: str) -> None:
    """Puts a `CallbackError` with the text in the place of the exception that it stands for. Called by the core."""
    substitute = CallbackError(text)
    dropped = _kept.replace(_number_in(text), substitute)
    last = _last
    if dropped is not None and last.exception is dropped:
        last.exception = substitute


def _number_in(text: str) -> int:
    """Returns the last, which is the innermost error's; 0 if there is none."""
    return int([0, *_number.findall(text)][-1])


def original(error: object) -> BaseException | None:
    """Returns the exception that the text of `error` stands for, if it is still kept."""
    return _kept.find(_number_in(text_of(error)))


def log_failed_call(text: str) -> None:
    """Logs that a call failed, with the exception if Python raised one. Called by the core, if anybody wants to know."""
    exception = original(text)
    message = text if exception is None else text.partition("\n")[0]  # a traceback follows, which handlers write
    logger.debug("%s", message.removeprefix("callout: "), exc_info=exception)


_NOT_FOUND, _ALREADY_EXISTS, _PERMISSION_DENIED, _INVALID_ARGUMENT = 5, 6, 7, 3
_NO_MEMORY = re.compile(r"(^|: )out of memory\b")
_OURS = re.compile(r"callout: .*", re.DOTALL)


def recall(code_and_text: tuple[int, str]) -> BaseException:
    """Returns the exception for a failed Status. Called by the core."""
    code, text = code_and_text
    if (exception := original(text)) is not None:
        return exception
    if "ForkError:" in text:
        return ForkError(text)
    if "does not fit:" in text:
        return ResultError(text)
    if "check failed: " in text:
        return CheckError(text)
    if "locate_nans: " in text or ("watch '" in text and " infinite elements in step " in text):
        return NonFiniteError(text)
    if _NO_MEMORY.search(text):
        return MemoryError(text)
    if "no callback is bound" in text:
        return UnboundNameError(text)
    if code in (_NOT_FOUND, _ALREADY_EXISTS, _PERMISSION_DENIED, _INVALID_ARGUMENT):
        return RegistrationError(text)
    return CallbackError(text)


def stands_for(error: object) -> BaseException | None:
    """Returns the exception behind an error of JAX's: the user's, or ours if the core refused; None if it is neither."""
    if (exception := original(error)) is not None:
        return exception
    ours = _OURS.search(text_of(error))
    return None if ours is None else recall((0, ours[0]))


def last_error() -> BaseException | None:
    """Returns the exception that a callback raised last, in any thread, or None.

    The object itself, with its own traceback. It stays available until another callback raises.

    Returns:
        The exception, or None if no callback has raised.

    Example:
        >>> def refuse(x):
        ...     raise KeyError("no such number")
        >>> ask = jax.jit(lambda x: callout.pure_callback(refuse, x, x))
        >>> try:
        ...     ask(jnp.float32(1)).block_until_ready()
        ... except Exception:
        ...     print(repr(callout.last_error()))
        KeyError('no such number')
    """
    return _last.exception


def clear() -> None:
    """Forgets all kept exceptions."""
    global _last
    _kept.clear()
    _last = _Last()


def raise_unchained(exception: BaseException) -> None:
    """Raises an exception of the user's as it was: what led to it is in its own chain, not in ours."""
    chain = chain_of(exception)
    try:
        raise exception
    finally:
        set_chain(exception, chain)


class reraise(contextlib.ContextDecorator):  # noqa: N801 - reads as a verb: `with callout.reraise():`
    """Context manager and decorator: an error of a callback leaves it as the exception that the callback raised.

    Without it a failing callback arrives as JAX's JaxRuntimeError, mostly of the original's class too. Covers errors that
    are raised inside: dispatch, and waiting for a result (`block_until_ready`, `np.asarray`, `barrier_wait`) if that happens
    inside too. May be nested and used from several threads.

    Raises:
        BaseException: whatever the callback raised.

    Example:
        >>> def refuse(x):
        ...     raise KeyError("no such number")
        >>> ask = jax.jit(lambda x: callout.pure_callback(refuse, x, x))
        >>> with callout.reraise():
        ...     ask(jnp.float32(1)).block_until_ready()
        Traceback (most recent call last):
        KeyError: 'no such number'
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        if error is not None and (exception := find_original(error)) is not None and exception is not error:
            raise_unchained(exception)
        return False


def of_fast_path(error: ValueError) -> BaseException | None:
    """Returns what stands for an error of a jitted function's C++ path: what its first call would have raised.

    Called by the core. None: the error is none of ours, and stays. Those of Python have a traceback.
    """
    if type(error) is not ValueError or error.__traceback__ is not None or not patches.is_installed("errors"):
        return None
    if not _is_status(error) or stands_for(error) is None:
        return None
    translated: BaseException = jax.errors.JaxRuntimeError(str(error))
    return translated


def find_original(error: BaseException) -> BaseException | None:
    """Returns the user's exception behind one that JAX or a barrier raised in this process."""
    if is_from_elsewhere(error):
        return None
    kind = type(error)  # `isinstance` asks the error itself, too
    if issubclass(kind, CallbackError) and kind.cause_is_the_users:
        return cause_of(error)
    if not issubclass(kind, jax.errors.JaxRuntimeError) and not (kind is ValueError and _is_of_cpp(error)):
        return None
    exception = stands_for(error)
    return None if _is_wrapped_around_another(error, exception) else exception


# The codes of statuses, with which texts of JAX's C++ begin.
_STATUS = re.compile(r"[A-Z]+(_[A-Z]+)*: ")
_RAISE = dis.opmap["RAISE_VARARGS"]


def _is_status(error: BaseException) -> bool:
    return _STATUS.match(text_of(error)) is not None


def _is_of_cpp(error: BaseException) -> bool:
    """Returns True for a ValueError that JAX's C++ raised, and False for one of a `raise` in Python, whatever it says."""
    if not _is_status(error):
        return False
    trace = traceback_of(error)
    if trace is None:
        return cause_of(error) is None
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] != _RAISE


def _is_wrapped_around_another(error: BaseException, exception: BaseException | None) -> bool:
    """Returns True for an error that somebody raised from one that JAX had raised, to say more."""
    cause = cause_of(error)
    if cause is None or cause is exception or cause is error:
        return False
    is_of_jax = issubclass(type(cause), jax.errors.JaxRuntimeError) or (type(cause) is ValueError and _is_of_cpp(cause))
    return is_of_jax and stands_for(cause) is not None


# What makes JaxRuntimeError carry the original exception.


def adopt(error: BaseException, exception: BaseException) -> None:
    """Chains `exception` to `error` and, where its class allows, makes `error` an instance of that too."""
    set_chain(error, (chain_of(error)[0], exception, True))
    was = type(error)
    mix(error, type(exception))
    if type(error) is not was:
        for name, value in attributes(exception).items():
            attributes(error).setdefault(name, value)


def _after_init(_: None, error: BaseException, *args: Any) -> None:
    if args and (exception := stands_for(args[0])) is not None:
        adopt(error, exception)


@functools.cache
def fast_path_is_translated() -> bool:
    """Returns whether a jitted function's later calls can raise what its first one does; not with a core in Python."""
    return _ext.translate_errors_of(jax.jit(_jit_places))


def _jit_places() -> list[patches.Place]:
    """Names the places where jitted functions are made, and sees to those that there are. See python/src/jit_errors.cc."""
    maker = _jax_compat.jitted_function_maker()
    if maker is None:
        return []
    kind = type(jax.jit(_jit_places))
    _ext.translate_errors_of_all(kind)
    places = [patches.Place(*maker, after=_ext.translate_errors_of)]
    if hasattr(kind, "__setstate__"):  # by which a pickle becomes a function again
        places.append(patches.Place(kind, "__setstate__", after=_after_unpickling))
    return places


def _after_unpickling(_: None, jitted: Any, _state: Any) -> None:
    _ext.translate_errors_of(jitted)


def hooked() -> list[patches.Place]:
    """Returns what JAX raises, when it is made, and what its C++ raises."""
    return [*_jit_places(), patches.Place(jax.errors.JaxRuntimeError, "__init__", after=_after_init)]
