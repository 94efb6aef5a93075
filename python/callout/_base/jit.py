# SPDX-License-Identifier: Apache-2.0
"""`callout.jit`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Self, TypeVar, overload

import jax

from .errors import reraise

F = TypeVar("F", bound=Callable[..., Any])


class Jitted:
    """A jitted function whose calls raise what its callbacks raise. Everything else of `jax.jit`'s result is there too."""

    def __init__(self, fn: Callable[..., Any], jitted: Any):
        functools.update_wrapper(self, fn)
        self._jitted = jitted

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with reraise():
            out = self._jitted(*args, **kwargs)
            # An error of a program that still runs is raised where somebody waits: that is to be here.
            if not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(out)):
                jax.block_until_ready(out)
        return out

    def __getattr__(self, name: str) -> Any:
        if name == "_jitted":  # while it is made
            raise AttributeError(name)
        return getattr(self._jitted, name)

    def __copy__(self) -> Self:
        return self  # as functions do

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


@overload
def jit(fun: F, **kwargs: Any) -> F: ...
@overload
def jit(fun: None = None, **kwargs: Any) -> Callable[[F], F]: ...
def jit(fun: Any = None, **kwargs: Any) -> Any:
    """Does what `jax.jit` does, with calls that are inside `callout.reraise()`: what a callback raises comes out as it is.

    A call returns when its results are there, since that is when errors are known. To dispatch asynchronously, use `jax.jit`
    and put the wait inside `reraise()`. Takes `jax.jit`'s arguments, and works as a decorator with and without them.

    Args:
        fun: a function of arrays. If left out, a decorator is returned.
        **kwargs: `jax.jit`'s.

    Returns:
        The jitted function.

    Raises:
        BaseException: (from the jitted function) whatever a callback raised.

    Example:
        >>> def refuse(x):
        ...     raise KeyError("no such number")
        >>> @callout.jit
        ... def ask(x):
        ...     return callout.pure_callback(refuse, x, x)
        >>> ask(jnp.float32(1))
        Traceback (most recent call last):
        KeyError: 'no such number'
    """
    if fun is None:
        return functools.partial(jit, **kwargs)
    return Jitted(fun, jax.jit(fun, **kwargs))
