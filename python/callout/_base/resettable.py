# SPDX-License-Identifier: Apache-2.0
"""Types for functions that have a function `reset` as an attribute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Resettable(Protocol[P, R_co, Q]):
    """The type of a function with an attribute `reset`, which resets the function's counts or notes."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    def reset(self, *args: Q.args, **kwargs: Q.kwargs) -> None: ...


def with_reset(reset: Callable[Q, None]) -> Callable[[Callable[P, R]], Resettable[P, R, Q]]:
    """Returns a decorator that gives a function this `reset`."""

    def give(function: Any) -> Any:
        function.reset = reset
        return function

    return give
