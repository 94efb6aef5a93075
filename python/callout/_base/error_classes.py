# SPDX-License-Identifier: Apache-2.0
"""The classes of errors: Callout's own, and those that are JAX's or Callout's and the user's too.

Their objects get to other processes whatever the user's exceptions are: with what of these can be pickled and made again.
"""

from __future__ import annotations

import copy
import functools
import pickle
import threading
from types import TracebackType
from typing import Any


class CallbackError(RuntimeError):
    """A callback failed, and there is no Python exception that says more."""

    cause_is_the_users = False  # True of classes whose `__cause__` is what a callback raised

    def __reduce__(self) -> tuple[Any, ...]:
        return _reduced(self)

    def __copy__(self) -> Any:
        return _copied(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return _copied(self, memo)


class ResultError(CallbackError):
    """A callback returned something of another shape, dtype or structure than was declared."""


class UnboundNameError(CallbackError, LookupError):
    """A program asks for a callback under a name that nobody registered."""


class RegistrationError(CallbackError, ValueError):
    """A name or a native function could not be registered."""


class CheckError(CallbackError):
    """`callout.error_if` or `callout.check` found what must not be."""


class NonFiniteError(CallbackError, FloatingPointError):
    """`callout.watch(..., stop=True)` or `callout.locate_nans(..., stop=True)` found a NaN or an infinity."""


class NonFiniteWarning(RuntimeWarning):
    """`callout.locate_nans` found where a NaN or an infinity began."""


class TapError(CallbackError):
    """Taps failed since the last barrier. `__cause__` is the last exception.

    Attributes:
        count: how many failed.
        exceptions: the first few of them, as an exception group.
    """

    cause_is_the_users = True

    def __init__(self, message: str, count: int, exceptions: BaseExceptionGroup[BaseException]):
        super().__init__(message)
        self.count = count
        self.exceptions = exceptions


class BarrierTimeout(CallbackError, TimeoutError):  # noqa: N818
    """`barrier_wait(timeout=...)` ran out of time; the text names what is outstanding."""


class ForkError(CallbackError):
    """Callout was used in a forked child of a process that had used it."""


for _public in (CallbackError, *CallbackError.__subclasses__(), NonFiniteWarning):
    _public.__module__ = "callout"  # where users find them


def text_of(exception: object) -> str:
    """Returns its text, whatever it does when it is asked for it."""
    try:
        return str(exception)
    except Exception:  # noqa: BLE001 - its own fault, which must not hide it
        return "<exception str() failed>"


def describe(exception: BaseException) -> str:
    """Returns class and text."""
    return f"{type(exception).__name__}: {text_of(exception)}"


# What every exception has, whatever its class does when one of these is read or set.
_DICT: Any = vars(BaseException)["__dict__"]
_TRACEBACK: Any = vars(BaseException)["__traceback__"]
_CHAIN: tuple[Any, ...] = tuple(
    vars(BaseException)[name] for name in ("__context__", "__cause__", "__suppress_context__")
)  # in this order, since a cause suppresses the context


def attributes(error: BaseException) -> dict[str, Any]:
    """Returns its `__dict__`."""
    found: dict[str, Any] = _DICT.__get__(error)
    return found


def traceback_of(error: BaseException) -> TracebackType | None:
    """Returns its `__traceback__`."""
    found: TracebackType | None = _TRACEBACK.__get__(error)
    return found


def chain_of(error: BaseException) -> tuple[Any, ...]:
    """Returns its context, its cause, and whether the cause hides the context."""
    return tuple(slot.__get__(error) for slot in _CHAIN)


def cause_of(error: BaseException) -> BaseException | None:
    """Returns its `__cause__`."""
    cause: BaseException | None = chain_of(error)[1]
    return cause


def set_chain(error: BaseException, chain: tuple[Any, ...]) -> None:
    """Sets what `chain_of` returns."""
    for slot, value in zip(_CHAIN, chain, strict=True):
        slot.__set__(error, value)


# Classes that are two.

_PARTS = "_callout_parts"

# What is the base's whatever the user's class has in its place: JAX, like contextlib, gives errors tracebacks, causes and
# notes, and what raised there would take the error's place.
_BASES_OWN = (
    *("__str__", "__getattribute__", "__setattr__", "__delattr__", "with_traceback", "add_note"),
    *("__dict__", "__traceback__", "__context__", "__cause__", "__suppress_context__"),
)


def mix(error: BaseException, user: Any) -> None:
    """Makes `error` an instance of a class of the user's too, where the two layouts go together and that class lets it.

    They do not for OSError, NameError, ...
    """
    base: Any = type(error)
    try:
        mixed = _mixed_class(base, _without(base, user))
        if mixed is not None:
            BaseException.__setattr__(error, "__class__", mixed)
    except Exception:  # noqa: BLE001 - what the class does to those that derive from it must not take an error's place
        return


def _without(base: Any, user: Any) -> Any:
    """Returns the user's part of a class that is `base` and the user's already.

    A callback raises an exception of such a class where it ran a program whose callback failed.
    """
    while (parts := _parts(user))[0] is base and parts[1] is not None:
        user = parts[1]
    return user


@functools.lru_cache(maxsize=256)
def _mixed_class(base: Any, user: Any) -> Any:
    """Returns a class that is both, or None."""
    if issubclass(base, user):  # the base is both
        return None
    if hasattr(user, "__notes__"):  # JAX adds one
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
    except Exception:  # noqa: BLE001 - remembered like every answer, so that the class is asked once
        return None


def _found_in(kind: type, name: str) -> Any:
    """Returns what a class has under a name, as it is there."""
    return next(vars(each)[name] for each in kind.__mro__ if name in vars(each))


def _parts(kind: type) -> tuple[Any, Any]:
    """Returns the two classes that it is; the class itself and None if it is one."""
    parts: tuple[Any, Any] = vars(kind).get(_PARTS, (kind, None))
    return parts


def _made(base: Any, user: Any, args: tuple[Any, ...]) -> Any:
    """Returns an error of both classes. No `__init__` runs: those of users take what they like."""
    error = base.__new__(base, *args)
    if user is not None:
        mix(error, _class_of(user))
    return error


def _named(kind: Any) -> Any:
    """Returns a class as pickles have it: a class that has a name, or a tuple of the two that it is. None of None."""
    parts = (kind, None) if kind is None else _parts(kind)
    return _nearest(kind) if parts[1] is None else tuple(map(_named, parts))


def _class_of(named: Any) -> Any:
    """Returns the class that `_named` was asked about, or the first part of it if the two do not go together."""
    if not isinstance(named, tuple):
        return named
    base, user = map(_class_of, named)
    return _mixed_class(base, _without(base, user)) or base


def _copied(error: Any, memo: dict[int, Any] | None = None) -> Any:
    """Returns a copy, a deep one if there is a `memo`; it has the same cause."""

    def copy_of(value: Any) -> Any:
        try:
            return value if memo is None else copy.deepcopy(value, memo)
        except Exception:  # noqa: BLE001 - the user's class cannot be copied, which is no reason to lose the error
            return value

    made = _made(*_parts(type(error)), copy_of(error.args))
    if memo is not None:
        memo[id(error)] = made
    attributes(made).update((name, copy_of(value)) for name, value in attributes(error).items())
    set_chain(made, (None, *chain_of(error)[1:]))
    return made


# Errors on their way to another process. What they hold travels as bytes of its own: where the other process cannot read
# some of these, it has an error that lacks them, and not none.

_FROM_ELSEWHERE = "_callout_is_from_elsewhere"
_under_way = threading.local()


def is_from_elsewhere(error: BaseException) -> bool:
    """Returns True for an error that was pickled: its text and its cause mean nothing to this process."""
    return _FROM_ELSEWHERE in attributes(error)


def _reduced(error: Any, _protocol: Any = None) -> tuple[Any, ...]:
    """Returns what makes the error in another process, of what can be pickled."""
    base, user = map(_named, _parts(type(error)))
    state: dict[str, bytes] = {}
    cause = None
    errors: set[int] = _under_way.__dict__.setdefault("errors", set())
    if id(error) not in errors:  # else it holds itself
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
    """Returns the error. Pickles name this function."""
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
    """Pickles an exception as `_reduced` or `_reduced_group` says, whatever its own class says."""

    def __init__(self, error: BaseException):
        self._error = error

    def __reduce__(self) -> tuple[Any, ...]:
        return (_reduced_group if isinstance(self._error, BaseExceptionGroup) else _reduced)(self._error)


def _reduced_group(group: Any) -> tuple[Any, ...]:
    return _group_again, (str(group.message), [_packed_error(error) for error in group.exceptions])


def _group_again(message: str, packed: list[bytes]) -> BaseException:
    """Returns the group. Pickles name this function."""
    unpacked = map(_unpacked, packed)
    lost = CallbackError("an exception whose class is not in this process")
    return BaseExceptionGroup(message, [error if is_here else lost for is_here, error in unpacked])


def _nearest(kind: Any) -> Any:
    """Returns the first of a class and its bases that another process finds by its name. None of None."""
    return None if kind is None else next(each for each in kind.__mro__ if _packed(each) is not None)


def _packed(value: Any) -> bytes | None:
    """Returns the value pickled, or None if that or the way back fails."""
    try:
        packed = pickle.dumps(value)
        pickle.loads(packed)
    except Exception:  # noqa: BLE001 - of the user's classes, which may do anything
        return None
    return packed


def _unpacked(packed: bytes) -> tuple[bool, Any]:
    """Returns whether the value can be had in this process, and the value."""
    try:
        return True, pickle.loads(packed)
    except Exception:  # noqa: BLE001 - of the user's classes, which may not even be here
        return False, None


def _packed_error(error: BaseException | None) -> bytes | None:
    """Returns an exception pickled: as its class has it, or in parts, or else its text as that of a CallbackError."""
    if (packed := _packed(error)) is not None or error is None:
        return packed
    is_kept = isinstance(error, BaseExceptionGroup) or _nearest(type(error)) is type(error)
    if is_kept and (packed := _packed(_InParts(error))) is not None:
        return packed
    return _packed(CallbackError(describe(error)))
