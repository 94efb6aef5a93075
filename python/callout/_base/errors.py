# SPDX-License-Identifier: Apache-2.0
"""Carries exceptions through compiled programs, and raises them again.

1. XLA errors carry only text. So the exception object is kept here under a number, and a tag at the end of the text
   carries the number.
2. When XLA raises an error with a tag, the object becomes the `__cause__` of the JaxRuntimeError and, where class
   layouts allow, its class. `reraise()`, `callout.jit` and `last_error()` give the object itself.
3. The tag of an error of the core carries its kind, which has a class in KINDS. The rest of the text has no influence.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import itertools
import re
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
from .error_classes import (
    KINDS,
    attributes,
    cause_of,
    chain_of,
    is_from_elsewhere,
    mix,
    set_chain,
    text_of,
    traceback_of,
)
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
from .error_classes import describe as describe
from .loggers import logger

# Few exceptions are kept, because they pin their frames, and frames pin arrays. Each thread has a share of its own: a
# thread that waits for its program may not run for a while, and other threads that fail often must not evict its
# exception.
_MOST_OF_A_THREAD = 64
_MOST = 1024


class KeptExceptions:
    """Holds the last exceptions of each thread, by number. Thread-safe.

    The class has no lock, because signal handlers and destructors may raise at any place, and a handler may wait for
    other threads.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._kept: dict[int, BaseException] = {}
        self._of_threads: dict[int, deque[int]] = {}  # oldest first; other threads may have evicted some

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, exception: BaseException) -> int:
        """Keeps an exception that this thread raised, and returns its number."""
        number = next(self._numbers)
        self._kept[number] = exception
        # A new thread may reuse the identifier of an ended thread, and then inherits its numbers.
        own = self._of_threads.setdefault(threading.get_ident(), deque())
        own.append(number)
        if len(own) > _MOST_OF_A_THREAD:
            self._kept.pop(own.popleft(), None)
        while len(self._kept) > _MOST:  # concurrent threads may choose the same victim
            self._kept.pop(min(list(self._kept), default=0), None)
        return number

    def find(self, number: int) -> BaseException | None:
        """Returns the exception with this number, if it is still kept."""
        return self._kept.get(number)

    def replace(self, number: int, substitute: BaseException) -> BaseException | None:
        """Replaces the exception with this number and returns the old one; None if it is no longer kept."""
        was = self._kept.get(number)
        if was is not None:
            self._kept[number] = substitute
        return was

    def clear(self) -> None:
        """Drops all exceptions."""
        self._kept.clear()


class _Last:
    """Holds the last exception, which another may replace. Without a lock: see KeptExceptions."""

    def __init__(self, exception: BaseException | None = None):
        self.exception = exception


_kept = KeptExceptions()
_last = _Last()


def take(exception: BaseException) -> tuple[int, str]:
    """Keeps an exception and returns its number and its text. The core calls this. Requires GIL."""
    return _keep(exception), printable(_text_of(exception))


def keep(exception: BaseException) -> str:
    """Keeps an exception and returns its text with a tag, which replaces the exception in errors of XLA."""
    return _tagged(*take(exception))


def _text_of(exception: BaseException) -> str:
    what = describe(exception)
    if issubclass(type(exception), AttributeError) and (note := explain_numpy(exception)):
        what += f" ({note})"  # in the first line, which people read
    try:
        text = "".join(traceback.format_exception(exception)).rstrip()
    except Exception:  # noqa: BLE001 - the class breaks traceback's formatting; keep the short text
        frames = "".join(traceback.format_tb(traceback_of(exception)))
        text = f"Traceback (most recent call last):\n{frames}{what}"
    return f"{what}\n{text}"


def explain_numpy(error: BaseException) -> str:
    """Adds a note, and returns it, if a callback used an attribute of `jax.Array` on a NumPy array; else returns ""."""
    array, name = (member.__get__(error) for member in (_OBJECT, _NAME))
    if not issubclass(type(array), (np.ndarray, np.generic)) or not isinstance(name, str) or name.startswith("__"):
        return ""
    if not hasattr(jax.Array, name) or hasattr(type(array), name):
        return ""
    note = (
        f'callbacks get NumPy arrays, which have no .{name}: callout.options(fn, args="jax") has the callback get '
        'jax.Arrays, callout.config.args = "jax" has all of them'
    )
    with contextlib.suppress(Exception):  # a user's class may reject notes
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
    return note


def _keep(exception: BaseException) -> int:
    global _last
    patches.ensure("errors")  # before JAX makes its error of the text
    number = _kept.add(exception)
    _last = _Last(exception)
    return number


def printable(text: str) -> str:
    """Returns the text with only characters that a C string in UTF-8 can carry."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


# Descriptors of Python's classes, which read attributes even if a user's class overrides access to them.
_OBJECT: Any = vars(AttributeError)["obj"]
_NAME: Any = vars(AttributeError)["name"]
_MEMBERS: Any = vars(BaseExceptionGroup)["exceptions"]


# The tags of texts. src/core/encoding/error_tag.h writes and reads them, too. A tag names its process, because errors
# may come from other processes.


def _tagged(number: int, text: str) -> str:
    return f"{text}\n[callout error {number} of {_ext.error_token()}]"


@functools.lru_cache(maxsize=1)
def _tags(token: str) -> re.Pattern[str]:
    return re.compile(rf"\n?\[callout error (\w+) of {token}\]")


def _meaning(text: str) -> str:
    """Returns the number or the kind of the last tag, which the core wrote behind all other text; "" without a tag."""
    words: list[str] = _tags(_ext.error_token()).findall(text)
    return words[-1] if words else ""


def _without_tags(text: str) -> str:
    return _tags(_ext.error_token()).sub("", text)


def take_without_variables(exception: BaseException) -> tuple[int, str]:
    """Keeps an exception like `take`, and clears the variables of its frames, which refer to memory of XLA's."""
    text = _text_of(exception)  # before clearing: Python suggests names from the variables
    seen = {id(sys.exception())}  # the exception that the caller was handling
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
    return _keep(exception), printable(text)


def keep_without_variables(exception: BaseException) -> str:
    """Keeps an exception like `keep`, and clears the variables of its frames, which refer to memory of XLA's."""
    return _tagged(*take_without_variables(exception))


def keep_text(number: int, text: str) -> None:
    """Replaces the exception with the number by a `CallbackError` with the text. The core calls this."""
    substitute = CallbackError(text)
    dropped = _kept.replace(number, substitute)
    last = _last
    if dropped is not None and last.exception is dropped:
        last.exception = substitute


def number_in(text: str) -> int:
    """Returns the number in the text's tag; 0 without one."""
    meaning = _meaning(text)
    return int(meaning) if meaning.isdecimal() else 0


def original(error: object) -> BaseException | None:
    """Returns the exception whose number is in the text of `error`, if it is still kept."""
    return _kept.find(number_in(text_of(error)))


def log_failed_call(number: int, text: str) -> None:
    """Logs that a call failed, with Python's exception if there is one. The core calls this if the log level allows."""
    exception = _kept.find(number)
    message = text if exception is None else text.partition("\n")[0]  # log handlers add the traceback
    logger.debug("%s", message.removeprefix("callout: "), exc_info=exception)


def recall(kind: str, number: int, text: str) -> BaseException:
    """Returns the exception for a failed Status. The core calls this."""
    kept = _kept.find(number)
    return KINDS.get(kind, CallbackError)(text) if kept is None else kept


_OURS = re.compile(r"callout: .*", re.DOTALL)


def stands_for(error: object) -> BaseException | None:
    """Returns the exception behind an error of JAX's: the user's, or Callout's if the core failed; None for other errors."""
    if (exception := original(error)) is not None:
        return exception
    text = text_of(error)
    ours = _OURS.search(text)  # matches texts of other processes, too, whose tags have no meaning here
    return None if ours is None else KINDS.get(_meaning(text), CallbackError)(_without_tags(ours[0]))


def last_error() -> BaseException | None:
    """Returns the exception that a callback raised last, in any thread, or None.

    The object has its original traceback, and stays available until another callback raises.

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
    """Drops all kept exceptions."""
    global _last
    _kept.clear()
    _last = _Last()


def raise_unchained(exception: BaseException) -> None:
    """Raises a user's exception with its own cause and context; no exception of Callout's becomes its context."""
    chain = chain_of(exception)
    try:
        raise exception
    finally:
        set_chain(exception, chain)


class reraise(contextlib.ContextDecorator):  # noqa: N801 - reads as a verb: `with callout.reraise():`
    """Raises a callback's own exception where JAX would raise JaxRuntimeError. A context manager and decorator.

    Without `reraise`, a failing callback raises JAX's JaxRuntimeError, which usually is an instance of the original's
    class, too. `reraise` covers errors that are raised inside of the block: in dispatch, and in waiting for a result
    (`block_until_ready`, `np.asarray`, `barrier_wait`). Blocks may be nested. Thread-safe.

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
    """Translates an error of a jitted function's C++ path to the error that its first call would have raised.

    The core calls this. None keeps the error, which is not Callout's. Errors of Python code are recognized by their
    traceback.
    """
    if type(error) is not ValueError or error.__traceback__ is not None or not patches.is_installed("errors"):
        return None
    if not _is_status(error) or stands_for(error) is None:
        return None
    translated: BaseException = jax.errors.JaxRuntimeError(str(error))
    return translated


def find_original(error: BaseException) -> BaseException | None:
    """Returns the user's exception behind an error that JAX or a barrier raised in this process."""
    if is_from_elsewhere(error):
        return None
    kind = type(error)  # `isinstance` would use the error's own `__class__`
    if issubclass(kind, CallbackError) and kind.cause_is_the_users:
        return cause_of(error)
    if not issubclass(kind, jax.errors.JaxRuntimeError) and not (kind is ValueError and _is_of_cpp(error)):
        return None
    exception = stands_for(error)
    return None if _is_wrapped_around_another(error, exception) else exception


# The code of a status, with which error texts of JAX's C++ begin.
_STATUS = re.compile(r"[A-Z]+(_[A-Z]+)*: ")
_RAISE = dis.opmap["RAISE_VARARGS"]


def _is_status(error: BaseException) -> bool:
    return _STATUS.match(text_of(error)) is not None


def _is_of_cpp(error: BaseException) -> bool:
    """Returns True for a ValueError that JAX's C++ raised, and False for one that a `raise` in Python raised."""
    if not _is_status(error):
        return False
    trace = traceback_of(error)
    if trace is None:
        return cause_of(error) is None
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] != _RAISE


def _is_wrapped_around_another(error: BaseException, exception: BaseException | None) -> bool:
    """Returns True for an error that other code raised from an error of JAX's, to add information."""
    cause = cause_of(error)
    if cause is None or cause is exception or cause is error:
        return False
    is_of_jax = issubclass(type(cause), jax.errors.JaxRuntimeError) or (type(cause) is ValueError and _is_of_cpp(cause))
    return is_of_jax and stands_for(cause) is not None


# The patch that makes JaxRuntimeError carry the original exception.


def adopt(error: BaseException, exception: BaseException) -> None:
    """Makes `exception` the cause of `error`, and `error` an instance of its class, too, if possible."""
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
    """Returns whether later calls of a jitted function can raise what the first one raises. False without the C++ core."""
    return _ext.translate_errors_of(jax.jit(_jit_places))


def _jit_places() -> list[patches.Place]:
    """Returns the places where jitted functions are made, and patches existing ones. See python/src/jit_errors.cc."""
    maker = _jax_compat.jitted_function_maker()
    if maker is None:
        return []
    kind = type(jax.jit(_jit_places))
    _ext.translate_errors_of_all(kind)
    places = [patches.Place(*maker, after=_ext.translate_errors_of)]
    if hasattr(kind, "__setstate__"):  # unpickling restores a function by this
        places.append(patches.Place(kind, "__setstate__", after=_after_unpickling))
    return places


def _after_unpickling(_: None, jitted: Any, _state: Any) -> None:
    _ext.translate_errors_of(jitted)


def hooked() -> list[patches.Place]:
    """Returns the places that make JAX's errors and jitted functions."""
    return [*_jit_places(), patches.Place(jax.errors.JaxRuntimeError, "__init__", after=_after_init)]
