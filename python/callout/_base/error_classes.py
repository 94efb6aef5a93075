# SPDX-License-Identifier: Apache-2.0
"""The classes of errors: Callout's own, and mixed classes, which derive from one of JAX or Callout and one of the user.

Errors can always be pickled: they keep those parts of the user's exceptions that can be pickled and unpickled.
"""

from __future__ import annotations

import copy
import functools
import pickle
import threading
from types import TracebackType
from typing import Any


class CallbackError(RuntimeError):
    """A callback failed without a Python exception. Also the base of Callout's other errors."""

    cause_is_the_users = False  # True for classes whose `__cause__` is a callback's exception

    def __reduce__(self) -> tuple[Any, ...]:
        return _reduced(self)

    def __copy__(self) -> Any:
        return _copied(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return _copied(self, memo)


class ResultError(CallbackError):
    """The result of a callback does not have the declared shape, dtype or structure."""


class UnboundNameError(CallbackError, LookupError):
    """A program calls a name that is not registered."""


class RegistrationError(CallbackError, ValueError):
    """A name or a native function could not be registered."""


class CheckError(CallbackError):
    """A check of `callout.error_if` or `callout.check` failed."""


class NonFiniteError(CallbackError, FloatingPointError):
    """`callout.watch(..., stop=True)` or `callout.locate_nans(..., stop=True)` found a NaN or an infinity."""


class NonFiniteWarning(RuntimeWarning):
    """`callout.locate_nans` found an operation that made a NaN or an infinity."""


class TapError(CallbackError):
    """Taps failed since the last barrier. `__cause__` is the last exception.

    Attributes:
        count: the number of failures.
        exceptions: the first few exceptions, as an exception group.
    """

    cause_is_the_users = True

    def __init__(self, message: str, count: int, exceptions: BaseExceptionGroup[BaseException]):
        super().__init__(message)
        self.count = count
        self.exceptions = exceptions


class BarrierTimeout(CallbackError, TimeoutError):  # noqa: N818
    """`barrier_wait(timeout=...)` ran out of time; the text names the outstanding programs and queues."""


class ForkError(CallbackError):
    """Callout was used in a forked child of a process that had used it."""


# The classes by the words of CALLOUT_STATUS_KINDS in include/callout/status.h. Kinds without a class of their own
# become a CallbackError, and so do user's exceptions that are no longer kept.
KINDS: dict[str, type[CallbackError | MemoryError]] = {
    "general": CallbackError,
    "callback": CallbackError,
    "exception": CallbackError,
    "result": ResultError,
    "check": CheckError,
    "non_finite": NonFiniteError,
    "unbound_name": UnboundNameError,
    "registration": RegistrationError,
    "memory": MemoryError,
    "fork": ForkError,
}

for _public in (CallbackError, *CallbackError.__subclasses__(), NonFiniteWarning):
    _public.__module__ = "callout"  # the public module


def text_of(exception: object) -> str:
    """Returns the exception's text, even if its `__str__` raises."""
    try:
        return str(exception)
    except Exception:  # noqa: BLE001 - a broken `__str__` must not hide the exception
        return "<exception str() failed>"


def describe(exception: BaseException) -> str:
    """Returns class and text of an exception."""
    return f"{type(exception).__name__}: {text_of(exception)}"


# Descriptors of BaseException, which read and set attributes even if a user's class overrides access to them.
_DICT: Any = vars(BaseException)["__dict__"]
_TRACEBACK: Any = vars(BaseException)["__traceback__"]
_CHAIN: tuple[Any, ...] = tuple(
    vars(BaseException)[name] for name in ("__context__", "__cause__", "__suppress_context__")
)  # in this order, because setting a cause suppresses the context


def attributes(error: BaseException) -> dict[str, Any]:
    """Returns the error's `__dict__`."""
    found: dict[str, Any] = _DICT.__get__(error)
    return found


def traceback_of(error: BaseException) -> TracebackType | None:
    """Returns the error's `__traceback__`."""
    found: TracebackType | None = _TRACEBACK.__get__(error)
    return found


def chain_of(error: BaseException) -> tuple[Any, ...]:
    """Returns the error's context, its cause, and whether the cause hides the context."""
    return tuple(slot.__get__(error) for slot in _CHAIN)


def cause_of(error: BaseException) -> BaseException | None:
    """Returns the error's `__cause__`."""
    cause: BaseException | None = chain_of(error)[1]
    return cause


def set_chain(error: BaseException, chain: tuple[Any, ...]) -> None:
    """Sets the context, the cause and the flag that `chain_of` returns."""
    for slot, value in zip(_CHAIN, chain, strict=True):
        slot.__set__(error, value)


# Mixed classes.

_PARTS = "_callout_parts"

# Attributes that a mixed class always takes from its base. JAX, like contextlib, sets tracebacks, causes and notes of
# errors, and an exception in a user's override would replace the error.
_BASES_OWN = (
    *("__str__", "__getattribute__", "__setattr__", "__delattr__", "with_traceback", "add_note"),
    *("__dict__", "__traceback__", "__context__", "__cause__", "__suppress_context__"),
)


def mix(error: BaseException, user: Any) -> None:
    """Makes `error` an instance of the user's class, too, if the layouts are compatible and the user's class allows it.

    The layouts of OSError, NameError and others are not compatible.
    """
    base: Any = type(error)
    try:
        mixed = _mixed_class(base, _without(base, user))
        if mixed is not None:
            BaseException.__setattr__(error, "__class__", mixed)
    except Exception:  # noqa: BLE001 - an error in deriving from the user's class must not replace `error`
        return


def _without(base: Any, user: Any) -> Any:
    """Returns the user's part of a class that already is a mix of `base` and the user's class.

    A callback raises an exception of such a class if it runs a program whose callback fails.
    """
    while (parts := _parts(user))[0] is base and parts[1] is not None:
        user = parts[1]
    return user


@functools.lru_cache(maxsize=256)
def _mixed_class(base: Any, user: Any) -> Any:
    """Returns a class that derives from both, or None."""
    if issubclass(base, user):  # no mixed class is needed
        return None
    if hasattr(user, "__notes__"):  # JAX adds a note to the error
        return None
    names = {
        **{name: _found_in(base, name) for name in _BASES_OWN},
        "__module__": user.__module__,
        "__qualname__": user.__qualname__,
        "__init__": user.__init__,
        "__reduce__": _reduced,
        "__reduce_ex__": _reduced,
        "__copy__": _copied,
        "__deepcopy__": _copied,
        _PARTS: (base, user),
    }
    try:
        return type(user.__name__, (user,) if issubclass(user, base) else (base, user), names)
    except Exception:  # noqa: BLE001 - None is cached like a class, so that the failure is not repeated
        return None


def _found_in(kind: type, name: str) -> Any:
    """Returns a class's attribute without calling descriptors."""
    return next(vars(each)[name] for each in kind.__mro__ if name in vars(each))


def _parts(kind: type) -> tuple[Any, Any]:
    """Returns the two parts of a mixed class, or the class itself and None."""
    parts: tuple[Any, Any] = vars(kind).get(_PARTS, (kind, None))
    return parts


def _made(base: Any, user: Any, args: tuple[Any, ...]) -> Any:
    """Returns an error of both classes. No `__init__` runs, because a user's `__init__` may have any parameters."""
    error = base.__new__(base, *args)
    if user is not None:
        mix(error, _class_of(user))
    return error


def _named(kind: Any) -> Any:
    """Returns the form of a class in pickles: the class if it has a name, or a tuple of its two parts. None for None."""
    parts = (kind, None) if kind is None else _parts(kind)
    return _nearest(kind) if parts[1] is None else tuple(map(_named, parts))


def _class_of(named: Any) -> Any:
    """Returns the class from the form of `_named`, or its first part if the two cannot be mixed here."""
    if not isinstance(named, tuple):
        return named
    base, user = map(_class_of, named)
    return _mixed_class(base, _without(base, user)) or base


def _copied(error: Any, memo: dict[int, Any] | None = None) -> Any:
    """Returns a copy with the same cause: a deep one if there is a `memo`."""

    def copy_of(value: Any) -> Any:
        try:
            return value if memo is None else copy.deepcopy(value, memo)
        except Exception:  # noqa: BLE001 - keep the value if the user's class cannot be copied
            return value

    made = _made(*_parts(type(error)), copy_of(error.args))
    if memo is not None:
        memo[id(error)] = made
    attributes(made).update((name, copy_of(value)) for name, value in attributes(error).items())
    set_chain(made, (None, *chain_of(error)[1:]))
    return made


# Pickling errors for another process. Each part of an error is pickled to bytes of its own, so that a process that
# cannot read a part still gets the error without it.

_FROM_ELSEWHERE = "_callout_is_from_elsewhere"
_under_way = threading.local()


def is_from_elsewhere(error: BaseException) -> bool:
    """Returns True for an unpickled error of another process: the tags in its text have no meaning here."""
    return _FROM_ELSEWHERE in attributes(error)


def _reduced(error: Any, _protocol: Any = None) -> tuple[Any, ...]:
    """Reduces the error to a call of `_made_again` with those parts that can be pickled."""
    base, user = map(_named, _parts(type(error)))
    state: dict[str, bytes] = {}
    cause = None
    errors: set[int] = _under_way.__dict__.setdefault("errors", set())
    if id(error) not in errors:  # an error that contains itself is packed once
        errors.add(id(error))
        try:
            cause = _packed_error(cause_of(error))
            for name, value in attributes(error).items():
                packed = _packed_error(value) if isinstance(value, BaseException) else _packed(value)
                if packed is not None:
                    state[name] = packed
        finally:
            errors.discard(id(error))
    args = error.args if _packed(error.args) is not None else (text_of(error),)
    return _made_again, (base, user, args, state, cause, chain_of(error)[2])


def _made_again(
    base: Any,
    user: Any,
    args: tuple[Any, ...],
    state: dict[str, bytes],
    cause: bytes | None,
    is_context_suppressed: bool,
) -> Any:
    """Rebuilds the error. Pickles contain this function's name."""
    error = _made(base, user, args)
    for name, packed in state.items():
        found, value = _unpacked(packed)
        if found:
            attributes(error)[name] = value
    if user is not None or isinstance(error, CallbackError):
        attributes(error)[_FROM_ELSEWHERE] = True
    set_chain(error, (None, None if cause is None else _unpacked(cause)[1], is_context_suppressed))
    return error


class _InParts:
    """Pickles an exception by `_reduced` or `_reduced_group`, instead of its own class's way."""

    def __init__(self, error: BaseException):
        self._error = error

    def __reduce__(self) -> tuple[Any, ...]:
        return (_reduced_group if isinstance(self._error, BaseExceptionGroup) else _reduced)(self._error)


def _reduced_group(group: Any) -> tuple[Any, ...]:
    return _group_again, (str(group.message), [_packed_error(error) for error in group.exceptions])


def _group_again(message: str, packed: list[bytes]) -> BaseException:
    """Rebuilds the group. Pickles contain this function's name."""
    unpacked = map(_unpacked, packed)
    lost = CallbackError("an exception whose class is not in this process")
    return BaseExceptionGroup(message, [error if is_here else lost for is_here, error in unpacked])


def _nearest(kind: Any) -> Any:
    """Returns the first of a class and its bases that another process finds by name. None for None."""
    return None if kind is None else next(each for each in kind.__mro__ if _packed(each) is not None)


def _packed(value: Any) -> bytes | None:
    """Returns the pickled value, or None if pickling or unpickling fails."""
    try:
        packed = pickle.dumps(value)
        pickle.loads(packed)
    except Exception:  # noqa: BLE001 - the user's classes may raise anything
        return None
    return packed


def _unpacked(packed: bytes) -> tuple[bool, Any]:
    """Returns whether the value can be unpickled in this process, and the value."""
    try:
        return True, pickle.loads(packed)
    except Exception:  # noqa: BLE001 - the user's classes may be missing or raise anything
        return False, None


def _packed_error(error: BaseException | None) -> bytes | None:
    """Returns a pickled exception: pickled by its own class, in parts, or at last as a CallbackError with its text."""
    if (packed := _packed(error)) is not None or error is None:
        return packed
    is_kept = isinstance(error, BaseExceptionGroup) or _nearest(type(error)) is type(error)
    if is_kept and (packed := _packed(_InParts(error))) is not None:
        return packed
    return _packed(CallbackError(describe(error)))
