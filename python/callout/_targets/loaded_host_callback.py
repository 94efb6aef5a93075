# SPDX-License-Identifier: Apache-2.0
"""`callout.host.LoadedHostCallback` passes a Python function to a C++ host in the same process."""

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

    The host gets the function as a `callout_closure` (callout/abi.h) in a capsule: a C function, its context, and a
    destructor. The host needs no Python API, and may call the closure from any thread. The call takes the GIL, so a
    thread that waits for the host must not hold the GIL. An exception fails the call with its class, text and
    traceback. During the interpreter's finalization calls fail with UNAVAILABLE.

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
            name: the name by which programs call the function.
            fn: gets the flat leaves of a call's arguments, as NumPy arrays; `callout.options` apply. Taps come as calls
                whose result is ignored.
            results: the results of `fn`, as a tree of `jax.ShapeDtypeStruct`s: their structure and shapes are then
                checked here, and not only against the program.

        Raises:
            RegistrationError: `name` is empty, `fn` is no function, or `results` are no shapes.
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
        """The name by which programs call the function."""
        return self._name

    def capsule(self) -> Any:
        """Returns a PyCapsule named "callout_closure" over a new `callout_closure`.

        The capsule owns the closure until the host takes it (`callout_closure_take`). From then on the host owns it,
        and may call `destroy` on any thread, with or without the GIL.
        """
        return _ext.closure_capsule(self._callback)

    def __repr__(self) -> str:
        return f"LoadedHostCallback({self._name!r})"
