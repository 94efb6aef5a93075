# SPDX-License-Identifier: Apache-2.0
"""What stands in the place of a function of JAX's. It has a frame in tracebacks, which JAX is told to hide."""

from __future__ import annotations

import copy
import pkgutil
import types
from collections.abc import Callable
from typing import Any, Self


class Hook:
    """A function in the place of `original`. An inactive one only calls that.

    before(original, *args): its answer is the result, unless that is NotImplemented. after(result, *args).
    failed(exception, *args): the exception stays unless it raises another.
    place: "module:name" of where the hook is, by which it is pickled; "" pickles the original.
    """

    def __init__(
        self,
        original: Callable[..., Any],
        *,
        before: Any = None,
        after: Any = None,
        failed: Any = None,
        place: str = "",
    ) -> None:
        if not callable(original):
            raise TypeError(f"callout: a hook stands for a function, got {original!r}")
        self._original = original
        self._before = before
        self._after = after
        self._failed = failed
        self._place = place
        self.active = True

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call self as a function."""
        original = self._original
        if not self.active:
            return original(*args, **kwargs)
        before, after, failed = self._before, self._after, self._failed
        if before is not None:
            answer = before(original, *args, **kwargs)
            if answer is not NotImplemented:
                return answer
        result = original(*args, **kwargs) if failed is None else _call_or_tell(original, failed, args, kwargs)
        if after is not None:
            after(result, *args, **kwargs)
        return result

    def __get__(self, instance: Any, owner: Any = None, /) -> Any:
        """Makes a hook in a class a method, as the function is that it stands for."""
        return self if instance is None else types.MethodType(self, instance)

    @property
    def __wrapped__(self) -> Any:
        """What `inspect` looks at."""
        return self._original

    @property
    def callout_original(self) -> Any:
        """What it stands for."""
        return self._original

    def __reduce__(self) -> tuple[Any, ...]:
        """The process that reads the pickle takes what is in the place there: JAX's function, or a hook of its own."""
        return (pkgutil.resolve_name, (self._place,)) if self._place else (copy.copy, (self._original,))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __getattr__(self, name: str, /) -> Any:
        """Those of the original."""
        if name == "_original":  # while it is made
            raise AttributeError(name)
        return getattr(self._original, name)


def _call_or_tell(original: Callable[..., Any], failed: Any, args: Any, kwargs: Any) -> Any:
    try:
        return original(*args, **kwargs)
    except BaseException as error:
        failed(error, *args, **kwargs)
        raise
