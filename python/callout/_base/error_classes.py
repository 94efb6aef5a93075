# SPDX-License-Identifier: Apache-2.0
"""The classes of Callout's own errors."""

from __future__ import annotations


class CallbackError(RuntimeError):
    """A callback failed, and there is no Python exception that says more."""

    cause_is_the_users = False  # True of classes whose `__cause__` is what a callback raised


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
