# SPDX-License-Identifier: Apache-2.0
"""`callout.register` binds names that programs carry to other processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .. import _ext, _jax_compat
from .._base import errors, lifetime, options, patches
from .buffer_functions import buffer_function_of
from .function_targets import flatten_result, flattener, with_jax_arrays
from .sink import branches_of, callback_of, function_of
from .target import numpy_only_names


def register(name: str, fn: Callable[..., Any] | str | Any, *, replace: bool = False) -> None:
    """Binds `name` to a callback. Programs carry the name; a process that loads one, in Python or C++, binds the name.

    Args:
        name: one line, not empty, and not beginning with "py:", "native:" or "id_print:".
        fn: a Python function, which gets the flat leaves of a call's arguments (for a tap: the array, or a tuple of
            arrays); a result of `callout.buffer_callback`, whose function then gets the flat leaves as `Buffer`s; a
            sink; `"path/lib.so:symbol"`, a native callback (callout/call.h, or a plain `int32_t f(void** ptrs, const
            int64_t* dims)`), which runs without Python; or a PyCapsule named "callout_function" over a
            `callout_function` record.
        replace: allow a name that is already bound. Programs that were compiled before call `fn` from now on.

    Raises:
        RegistrationError: the name is bad or taken, the library or symbol is missing, or has another ABI version.

    Example:
        >>> callout.register("double", lambda x: 2 * x)
        >>> float(jax.jit(lambda x: callout.pure_callback("double", x, x))(jnp.float32(3)))
        6.0
        >>> callout.unregister("double")
    """
    lifetime.check_usable()
    if not isinstance(name, str):
        raise errors.RegistrationError(f"callout.register: the name must be a string, got {name!r}")
    patches.ensure("errors", "tapped_values")  # programs that call the name may come from other processes
    _ext.register_callback(name, _callback_of(name, fn), replace)
    numpy_only_names.discard(name)
    of_buffers = buffer_function_of(fn)
    fn = fn if of_buffers is None else of_buffers.callback
    if isinstance(fn, options.FunctionWithOptions) and fn.options.numpy_only:
        numpy_only_names.add(name)


def _callback_of(name: str, fn: Any) -> _ext.Callback:
    fn = function_of(fn)
    branches = branches_of(fn)
    if branches is not None:
        if len(branches) > 1:
            raise errors.RegistrationError(
                f"cannot register {fn!r} as '{name}': a name stands for one callback, and this tee has Python functions or "
                "names among its receivers"
            )
        return _callback_of(name, branches[0])
    handle = callback_of(fn)
    if handle is not None:
        return handle
    if isinstance(fn, str):
        return _ext.load_native(name, fn)
    if type(fn).__name__ == "PyCapsule":
        return _ext.native_from_capsule(name, fn)
    if (of_buffers := buffer_function_of(fn)) is not None:
        return of_buffers.under(name)
    if callable(fn):
        return registered_function(name, fn)
    raise errors.RegistrationError(
        f"cannot register {fn!r} as '{name}': expected a callable, a sink, \"lib.so:symbol\" or a PyCapsule"
    )


def unregister(name: str) -> None:
    """Releases a registered name. Compiled programs keep their callback until the name is registered again.

    Args:
        name: a name that was passed to `register`.

    Raises:
        RegistrationError: the name is not registered.

    Example:
        >>> callout.register("none", lambda: None)
        >>> callout.unregister("none")
        >>> callout.unregister("none")
        Traceback (most recent call last):
        callout.RegistrationError: ...
    """
    _ext.unregister(name)
    numpy_only_names.discard(name)


def registered_function(name: str, fn: Callable[..., Any], results: Any = None) -> _ext.Callback:
    """Makes the callback of a Python function under a name. The function gets flat leaves, in contrast to traced functions.

    `results`: the declared results, or None.
    """
    plain, chosen = options.split(fn)
    label = chosen.name or name
    x64 = _jax_compat.x64_enabled()

    def value_of(leaves: tuple[np.ndarray, ...]) -> Any:
        return leaves[0] if len(leaves) == 1 else leaves

    def flatten(result: Any) -> list[Any]:
        return flatten_result(result, _ext.is_iterator_or_none)[0]

    return _ext.make_python_callback(
        label=label,
        function=with_jax_arrays(plain, x64) if chosen.args == "jax" else plain,
        unflatten_value=value_of,
        flatten=flatten if results is None else _declared_flattener(results, label),
        single_result=results is None,
        zero_copy=chosen.zero_copy,
        numpy_only=chosen.numpy_only,
        canonicalize=not x64,
    )


def _declared_flattener(results: Any, label: str) -> Callable[[Any], Sequence[Any]]:
    """Returns a function that flattens a result, and checks its structure and shapes."""
    specs, tree = jax.tree.flatten(results)
    flatten_as_declared = flattener(tree, label)

    def flatten(result: Any) -> Sequence[Any]:
        leaves = flatten_as_declared(result)
        for i, (leaf, spec) in enumerate(zip(leaves, specs, strict=True)):
            if np.shape(leaf) != spec.shape:
                raise errors.ResultError(
                    f"callback '{label}': its result {i} does not fit: expected shape {spec.shape}, got {np.shape(leaf)}"
                )
        return leaves

    return flatten
