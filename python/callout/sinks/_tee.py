# SPDX-License-Identifier: Apache-2.0
"""`callout.sinks.Tee`."""

from __future__ import annotations

from typing import Any

from .. import _ext
from .._targets.sink import Sink, callback_of, function_of


class Tee(Sink):
    """Sends one tap to several receivers: sinks, Python functions, names of registered callbacks, other tees.

    All native sinks get one and the same record, in their order, on the native delivery thread; one that fails keeps it from
    no other, and the next barrier raises the first error. Every function and every name is tapped for itself, after the
    sinks, so that Python never delays them; `with_device` and its like are for the functions.

    Args:
        *sinks: sinks, Python functions, names of registered callbacks, other tees.
        name: what errors and counters call it.

    Example:
        >>> counts, seen = callout.sinks.Statistics(), []
        >>> sink = callout.sinks.Tee(counts, seen.append)
        >>> y = jax.jit(lambda x: callout.tap(sink, x, name="x"))(jnp.float32(3)); callout.barrier_wait()
        >>> counts["x"].max, [float(value) for value in seen]
        (3.0, [3.0])
    """

    def __init__(self, *sinks: Any, name: str = "tee"):
        """Joins targets. `name`: what `callout.stats()` calls the sinks together; each counts under its own name, too.

        Raises:
            TypeError: something that is no target of taps.
        """
        self._callout_branches = _branches(sinks, name)
        if not self._callout_branches:
            raise TypeError("callout.sinks.Tee: expected one or more sinks, functions or names")

    def __repr__(self) -> str:
        return f"Tee({', '.join(map(repr, _flat((self,))))})"


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
