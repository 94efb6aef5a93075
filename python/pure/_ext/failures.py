# SPDX-License-Identifier: Apache-2.0
"""Failures that are no exception of the user's: a code and a text, as the C++ core's Status."""

from __future__ import annotations

from typing import Any, NoReturn, cast

INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED = 3, 5, 6, 7
RESOURCE_EXHAUSTED, FAILED_PRECONDITION, INTERNAL = 8, 9, 13

FORKED = (
    "ForkError: this process was forked from one that used Callout, and its delivery threads stayed there. Start workers "
    "with the 'spawn' method instead"
)


class Failure(Exception):  # noqa: N818 - it never leaves this package
    """Turned into one of callout's errors where it leaves this package."""

    def __init__(self, code: int, text: str):
        super().__init__(text)
        self.code = code
        self.text = text


def fail(code: int, text: str) -> NoReturn:
    """Raises a Failure."""
    raise Failure(code, text)


def as_error(code: int, text: str) -> BaseException:
    """The error of callout's that stands for it."""
    from callout._base import errors

    return errors.recall((code, text))


def text_of(error: BaseException) -> str:
    """What a failure says; of an exception of the user's, the text under which it is kept."""
    if issubclass(type(error), Failure):  # `isinstance` asks the error itself, too
        return cast("Failure", error).text
    from callout._base import errors

    return errors.keep(error)


def code_of(error: BaseException) -> int:
    """The code that the core's Status has for an error."""
    if issubclass(type(error), Failure):
        return cast("Failure", error).code
    return RESOURCE_EXHAUSTED if issubclass(type(error), MemoryError) else INTERNAL


def describe(callback: Any, ordinal: int, text: str) -> str:
    """What failed, and where."""
    where = f" on device {ordinal}" if ordinal >= 0 else ""
    return f"callout: callback '{callback.label}' failed{where}: {text}"
