# SPDX-License-Identifier: Apache-2.0
"""`callout.jit` raises the exceptions of callbacks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Self, TypeVar, overload

import jax

from .errors import reraise

F = TypeVar("F", bound=Callable[..., Any])


class Jitted:
    """A jitted function whose calls raise its callbacks' exceptions. It has all other attributes of `jax.jit`'s result."""

    def __init__(self, fn: Callable[..., Any], jitted: Any):
        functools.update_wrapper(self, fn)
        self._jitted = jitted

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with reraise():
            out = self._jitted(*args, **kwargs)
            # A running program raises its error where somebody waits for it: wait here, inside of `reraise`.
            if not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(out)):
                jax.block_until_ready(out)
        return out

    def __getattr__(self, name: str) -> Any:
        if name == "_jitted":  # while the object is constructed
            raise AttributeError(name)
        return getattr(self._jitted, name)

    def __copy__(self) -> Self:
        return self  # like a function

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


@overload
def jit(fun: F, **kwargs: Any) -> F: ...
@overload
def jit(fun: None = None, **kwargs: Any) -> Callable[[F], F]: ...
def jit(fun: Any = None, **kwargs: Any) -> Any:
    """Jits a function like `jax.jit`; its calls run inside `callout.reraise()`, and raise a callback's own exception.

    A call returns when its results are ready, because only then errors are known. To dispatch asynchronously, use
    `jax.jit` and put the wait inside `reraise()`. `callout.jit` takes `jax.jit`'s arguments, and is a decorator with
    and without them.

    Args:
        fun: a function of arrays. Without it, `jit` returns a decorator.
        **kwargs: passed on to `jax.jit`.

    Returns:
        The jitted function.

    Raises:
        BaseException: (from the jitted function) the exception that a callback raised.

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
