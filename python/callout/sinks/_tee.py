# SPDX-License-Identifier: Apache-2.0
"""`callout.sinks.Tee` sends a tap to several targets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax

from .. import _ext
from .._targets.sink import Sink, callback_of, function_of
from .._targets.sink_arguments import ArgumentSink


class Tee(Sink):
    """Sends one tap to several targets: sinks, Python functions, names of registered callbacks, other tees.

    All native sinks share one record, and write it in their order on the native delivery thread. If one fails, the
    others still write, and the next barrier raises the first error. Every function and every name has a tap of its own,
    after the sinks, so that Python never delays the sinks; `with_device` and similar arguments apply to the functions
    alone.

    Args:
        *sinks: sinks, Python functions, names of registered callbacks, other tees.
        name: the tee's name in errors and counters.

    Example:
        >>> counts, seen = callout.sinks.Statistics(), []
        >>> sink = callout.sinks.Tee(counts, seen.append)
        >>> y = jax.jit(lambda x: callout.tap(sink, x, name="x"))(jnp.float32(3)); callout.barrier_wait()
        >>> counts["x"].max, [float(value) for value in seen]
        (3.0, [3.0])
    """

    def __init__(self, *sinks: Any, name: str = "tee"):
        """Joins targets. `name`: the sinks' common name in `callout.stats()`, where each has a row under its own name, too.

        Raises:
            TypeError: an argument is no target of taps.
        """
        self._name = name
        self._callout_branches = _branches(sinks, name)
        if not self._callout_branches:
            raise TypeError("callout.sinks.Tee: expected one or more sinks, functions or names")

    def __repr__(self) -> str:
        return f"Tee({', '.join(map(repr, _flat((self,))))})"


def _flatten(tee: Tee) -> tuple[list[Any], tuple[str, tuple[Any, ...]]]:
    """Returns the sinks that are arguments of programs, and the form of the tee without them."""
    parts = _flat((tee,))
    return [part for part in parts if _is_argument(part)], (tee._name, tuple(map(_captured, parts)))


def _unflatten(form: tuple[str, tuple[Any, ...]], arguments: Iterable[Any]) -> Tee:
    rest = iter(arguments)
    name, captured = form
    parts = [next(rest) if part is _Argument else part for part in captured]
    tee = object.__new__(Tee)
    tee._name = name
    is_whole = all(part._callout_owned is not None for part in parts if _is_argument(part))
    tee._callout_branches = _branches(tuple(parts), name) if is_whole else parts
    return tee


class _Argument:
    """Marks the place of a sink that is an argument of the program."""


def _is_argument(part: Any) -> bool:
    return issubclass(type(part), ArgumentSink)


def _captured(part: Any) -> Any:
    return _Argument if _is_argument(part) else part


jax.tree_util.register_pytree_node(Tee, _flatten, _unflatten)


class _NativeTee(Sink):
    """Joins the native sinks of a tee into one."""

    def __init__(self, sinks: list[Any], name: str):
        self._sinks = sinks
        self._callout_callback = _ext.make_tee_sink(name, [sink._callout_callback for sink in sinks])

    def _callout_check(self, sent: Any) -> None:
        for sink in self._sinks:
            if sink._callout_check is not None:
                sink._callout_check(sent)


def _branches(sinks: tuple[Any, ...], name: str) -> list[Any]:
    native, others = [], []
    for sink in _flat(sinks):
        if callback_of(sink) is not None:
            native.append(sink)
        elif isinstance(sink, str) or callable(function_of(sink)):
            others.append(sink)
        else:
            raise TypeError(f"callout.sinks.Tee: expected a sink, a callable or the name of a callback, got {sink!r}")
    together = [_NativeTee(native, name)] if len(native) > 1 else native
    return [*together, *others]


def _flat(sinks: tuple[Any, ...]) -> list[Any]:
    flat = []
    for sink in sinks:
        if not issubclass(type(sink), Tee):
            flat.append(sink)
            continue
        for branch in sink._callout_branches:
            flat += branch._sinks if isinstance(branch, _NativeTee) else [branch]
    return flat
