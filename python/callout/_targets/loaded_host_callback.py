# SPDX-License-Identifier: Apache-2.0
"""`callout.host.LoadedHostCallback`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from .. import _ext
from .._base import errors, lifetime
from .register import registered_function
from .sink import is_sink


class LoadedHostCallback:
    """A Python function under a name, for a host of the same process that is written in C++ or C.

    The host gets it as a `callout_closure` (callout/abi.h) in a capsule: a function, its context, and how that ends. It
    needs to know nothing of Python, and may call it from any thread; the call takes the GIL, so a thread that waits for
    the host must not hold it. An exception fails the call with its class, text and traceback. Once the interpreter is
    going away calls fail with UNAVAILABLE.

    The function lives as long as this object or any of its closures.

    Example:
        >>> like = jax.ShapeDtypeStruct((3,), jnp.float32)
        >>> double = callout.host.LoadedHostCallback("double", lambda x: 2 * x, results=like)
        >>> double.name, type(double.capsule()).__name__
        ('double', 'PyCapsule')
    """

    __slots__ = ("__weakref__", "_callback", "_name")

    def __init__(self, name: str, fn: Callable[..., Any], *, results: Any = None):
        """Makes the callback.

        Args:
            name: by which programs ask for it.
            fn: gets the flat leaves of a call's arguments, as NumPy arrays; `callout.options` holds. Taps come as calls
                whose result nobody wants.
            results: what `fn` returns, as a tree of `jax.ShapeDtypeStruct`s: its structure and shapes are then checked
                here, and not only against the program.

        Raises:
            RegistrationError: no name, no function, or results that are no shapes.
        """
        lifetime.check_usable()
        if not isinstance(name, str) or not name:
            raise errors.RegistrationError(f"LoadedHostCallback: the name must be a string and not empty, got {name!r}")
        if not callable(fn) or is_sink(fn):
            raise errors.RegistrationError(
                f"LoadedHostCallback '{name}': expected a Python function, got {fn!r}; the host makes sinks itself"
            )
        if not all(hasattr(leaf, "shape") and hasattr(leaf, "dtype") for leaf in jax.tree.leaves(results)):
            raise errors.RegistrationError(
                f"LoadedHostCallback '{name}': results must be a tree of jax.ShapeDtypeStruct, got {results!r}"
            )
        self._name = name
        self._callback = registered_function(name, fn, results)

    @property
    def name(self) -> str:
        """The name is what programs ask for."""
        return self._name

    def capsule(self) -> Any:
        """Returns a PyCapsule named "callout_closure" over a `callout_closure` of its own.

        The capsule owns the closure until the host takes it (`callout_closure_take`); then the host does, and its
        `destroy` may be called on any thread, with the GIL or without.
        """
        return _ext.closure_capsule(self._callback)

    def __repr__(self) -> str:
        return f"LoadedHostCallback({self._name!r})"
