# SPDX-License-Identifier: Apache-2.0
"""`callout.debug_callback` and `callout.debug_print` replace `jax.debug.callback` and `jax.debug.print`."""

from __future__ import annotations

import dataclasses
import functools
import string
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.tree_util import PyTreeDef, tree_flatten

from .._base import options
from .._base.arguments import is_array_like, shown_tracer, warn
from .._primitives import lanes as _lanes  # noqa: F401 - registers debug_p's batching rule
from .._primitives.debug import debug_p
from .._primitives.eager import perform
from .._targets.function_targets import call_target, function_name

_NOTHING: PyTreeDef = jax.tree.structure(())


def _with_static_arguments(callback: Callable[..., Any], tree: PyTreeDef, leaves: Sequence[Any]) -> Any:
    """Returns a function of the array leaves alone, which holds the strings and other objects, as no program can."""
    fn, chosen = options.split(callback)
    fixed = [None if is_array_like(leaf) else leaf for leaf in leaves]
    places = [i for i, leaf in enumerate(leaves) if is_array_like(leaf)]

    def call(*arrays: Any) -> None:
        merged = list(fixed)
        for place, array in zip(places, arrays, strict=True):
            merged[place] = array
        args, kwargs = jax.tree.unflatten(tree, merged)
        fn(*args, **kwargs)

    label = chosen.name or function_name(fn)
    return options.FunctionWithOptions(call, dataclasses.replace(chosen, name=label))


def _bind(callback: Any, args: Sequence[Any], kwargs: Mapping[str, Any], ordered: bool, partitioned: bool) -> None:
    leaves, tree = tree_flatten((tuple(args), dict(kwargs)))
    arrays = [leaf for leaf in leaves if is_array_like(leaf)]
    if len(arrays) < len(leaves):
        if isinstance(callback, str):
            other = next(leaf for leaf in leaves if not is_array_like(leaf))
            raise TypeError(
                f"callout.debug_callback: the callback registered as '{callback}' takes arrays; {other!r} has no place in "
                "the program"
            )
        callback = _with_static_arguments(callback, tree, leaves)
        tree = jax.tree.structure((tuple(arrays), {}))
    target = call_target(callback, tree, _NOTHING, ignore_result=True)
    params = {"target": target, "ordered": bool(ordered), "partitioned": bool(partitioned)}
    perform(debug_p, "callout.debug_callback", arrays, None, params)


def debug_callback(
    callback: Callable[..., Any] | str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Any:
    """Calls `callback` for its side effect, such as printing; a replacement of `jax.debug.callback`.

    The call does not change the program's results. It works under `grad` (primal values), `vmap` (one call for each
    lane), remat (a further call if values are computed again) and control flow. Arguments, thread and errors are as in
    `pure_callback`; the callback's result is ignored.

    Args:
        callback: a Python function (plain, or from `callout.options`), or the name of a registered callback. Without
            it, `debug_callback` returns a function of callback, args and kwargs, so that kwargs may have the settings'
            names.
        *args: pytrees of arrays; leaves that are not arrays or numbers are passed as they are.
        ordered: call in program order, together with other ordered callbacks and taps, over successive programs, too.
        partitioned: in a jit over several devices, call on each device with its shard instead of once with whole
            arrays.
        **kwargs: as `args`, passed by keyword. Not for registered names.

    Returns:
        None; without `callback`, a function that takes callback, args and kwargs.

    Raises:
        TypeError: `callback` is neither callable nor a name, or there are arguments without it.
        UnboundNameError: the name is not registered.

    Example:
        >>> @jax.jit
        ... def double(x):
        ...     callout.debug_callback(lambda value: print("x is", value), x)
        ...     return 2 * x
        >>> y = double(jnp.float32(3)).block_until_ready(); jax.effects_barrier()
        x is 3.0
    """
    if callback is None:
        if args or kwargs:
            raise TypeError(f"callout.debug_callback: arguments without a callback: {args=} {kwargs=}")
        return functools.partial(_call_later, ordered, partitioned)
    if not callable(callback) and not isinstance(callback, str):
        raise TypeError(f"callout.debug_callback: the first argument must be callable, got {callback!r}")
    _bind(callback, args, kwargs, ordered, partitioned)
    return None


def _call_later(ordered: bool, partitioned: bool, callback: Any, /, *args: Any, **kwargs: Any) -> None:
    # Here, `ordered` and `partitioned` in kwargs belong to the callback.
    if not callable(callback) and not isinstance(callback, str):
        raise TypeError(f"callout.debug_callback: the first argument must be callable, got {callback!r}")
    _bind(callback, args, kwargs, ordered, partitioned)


class _FormatChecker(string.Formatter):
    """Checks a format without formatting: arguments that the format does not use are an error."""

    def format_field(self, value: Any, format_spec: str) -> str:  # noqa: ARG002
        return ""

    def check_unused_args(self, used_args: Any, args: Any, kwargs: Any) -> None:
        unused = [arg for i, arg in enumerate(args) if i not in used_args]
        if unused:
            raise ValueError(f"callout.debug_print: unused positional arguments: {unused}")
        names = [name for name in kwargs if name not in used_args]
        if names:
            raise ValueError(
                f"callout.debug_print: unused keyword arguments: {names}. An f-string is formatted while the program is "
                "traced: pass a plain string with placeholders instead"
            )


def _has_placeholders(fmt: str) -> bool:
    return any(field is not None for _, field, _, _ in string.Formatter().parse(fmt))


@functools.lru_cache(maxsize=1024)
def _printer(fmt: str, print_options: tuple[tuple[str, Any], ...]) -> options.FunctionWithOptions:
    """Returns the function that prints: one for each format, so that equal prints make equal programs."""
    placeholders = _has_placeholders(fmt)

    def write(*args: Any, **kwargs: Any) -> None:
        with np.printoptions(**dict(print_options)):
            text = fmt.format(*args, **kwargs) if placeholders else " ".join([fmt, *map(str, args)])
        sys.stdout.write(text + "\n")

    shown = fmt if len(fmt) <= 40 else fmt[:37] + "..."
    # The call of a cheap program returns after its prints, like in JAX.
    chosen = options.Options(numpy_only=True, name=f"debug_print({shown!r})", may_run_in_caller=True)
    return options.FunctionWithOptions(write, chosen)


def debug_print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Any:
    """Prints values while the program runs; a replacement of `jax.debug.print`.

    Args:
        fmt: a format string with placeholders, as for `str.format`. Without it, `debug_print` returns a function of
            fmt, args and kwargs, so that kwargs may have the settings' names.
        *args: pytrees of arrays and other objects to be formatted. The format gets NumPy arrays.
        ordered: print in program order, as in `debug_callback`.
        partitioned: in a jit over several devices, print each device's shard instead of whole arrays once.
        skip_format_check: do not compare the placeholders with the arguments now.
        **kwargs: as `args`, by name.

    Returns:
        None; without `fmt`, a function that takes fmt, args and kwargs.

    Raises:
        ValueError: the format does not use an argument.
        IndexError, KeyError: a placeholder has no argument.

    Example:
        >>> @jax.jit
        ... def double(x):
        ...     callout.debug_print("x is {x}", x=x)
        ...     return 2 * x
        >>> y = double(jnp.float32(3)).block_until_ready(); jax.effects_barrier()
        x is 3.0
    """
    later = functools.partial(_print, ordered, partitioned, skip_format_check)
    if fmt is not None:
        return later(fmt, *args, **kwargs)
    if args or kwargs:
        raise TypeError(f"callout.debug_print: arguments without a format string: {args=} {kwargs=}")
    return later


def _print(ordered: bool, partitioned: bool, skip_check: bool, fmt: str, /, *args: Any, **kwargs: Any) -> None:
    if not isinstance(fmt, str):
        raise TypeError(f"callout.debug_print: the format must be a string, got {fmt!r}")
    if not skip_check:
        _FormatChecker().format(fmt, *args, **kwargs)
        remedy = 'write placeholders, "x is {x}", and pass the values, x=x'
        if wrong := shown_tracer("callout.debug_print", "the format", fmt, remedy):
            warn(wrong)
    print_options = np.get_printoptions()
    try:
        printer = _printer(fmt, tuple(sorted(print_options.items())))
    except TypeError:  # a `formatter` dict cannot be hashed
        printer = _printer.__wrapped__(fmt, tuple(print_options.items()))
    _bind(printer, args, kwargs, ordered, partitioned)
