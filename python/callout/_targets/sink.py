# SPDX-License-Identifier: Apache-2.0
"""Sinks are known by their class, and are asked for their callbacks, and whether they take what a tap sends.

An attribute alone says nothing: a mock, or whatever else makes up its attributes when it is asked for them, has all of those
of a sink, and is a function.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Self, SupportsIndex

import jax
import numpy as np

from .. import _ext


class Sink:
    """A target of taps that is neither a function nor a name. A class of sinks sets one of the first three."""

    _callout_callback: _ext.Callback | None = None
    """The core's sink."""
    _callout_function: Any = None
    """The function that it stands for."""
    _callout_branches: list[Any] | None = None
    """The targets that it sends to."""
    _callout_check: Any = None
    """Looks at what it will get, of `SentLeaves`, before the program runs; None if it takes everything."""

    def __copy__(self) -> Self:
        """Returns a sink that is the same for the core."""
        made = object.__new__(type(self))
        vars(made).update(vars(self))
        return made

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Raises TypeError for what has a sink of the core's."""
        if self._callout_callback is None:
            return super().__reduce_ex__(protocol)
        kind = type(self).__name__.removeprefix("_Native")
        raise TypeError(
            f"callout: the sink '{self._callout_callback.label}' ({kind}) belongs to this process, and can be neither "
            "pickled nor deep-copied. Make a sink in each process, or bind one to a name there by "
            "callout.register(name, sink), and pass the name to callout.tap; copy.copy returns the same sink"
        )


def is_sink(target: Any) -> bool:
    """Returns True for a sink, whatever the target says of itself."""
    return issubclass(type(target), Sink)


def callback_of(target: Any) -> _ext.Callback | None:
    """Returns the core's sink of a sink. None for everything that the core has none of."""
    return target._callout_callback if is_sink(target) else None


def function_of(target: Any) -> Any:
    """Returns the function that a sink stands for. Everything else stands for itself."""
    if is_sink(target) and target._callout_function is not None:
        return target._callout_function
    return target


def branches_of(target: Any) -> list[Any] | None:
    """Returns the targets that a sink sends to. None for everything that is one target."""
    return target._callout_branches if is_sink(target) else None


@dataclasses.dataclass(frozen=True)
class SentLeaves:
    """What a tap sends, for a sink that does not take everything."""

    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[int, ...] | None, ...]
    """None where that is not known: of shards, of symbolic dimensions."""
    label: str
    is_exact: bool
    """Whether this is what arrives. Else `vmap` may put axes in front of the shapes, but takes none away."""


def check_leaves(
    target: Any, names: Sequence[str], values: Sequence[Any], *, label: str, is_whole: bool, is_exact: bool
) -> None:
    """Has a sink that cannot take every value look at what it will get, before the program runs.

    `is_whole`: what arrives has these shapes; it may be shards of them.
    """
    check = target._callout_check if is_sink(target) else None
    if check is not None:
        shapes = tuple(_shape(value) if is_whole else None for value, _ in zip(values, names, strict=False))
        dtypes = tuple(map(_dtype_name, values[: len(names)]))
        label = label or target._callout_callback.label
        check(SentLeaves(tuple(names), dtypes, shapes, label, is_exact))


def _shape(value: Any) -> tuple[int, ...] | None:
    shape = value.shape if hasattr(value, "shape") else np.shape(value)
    if jax.dtypes.issubdtype(getattr(value, "dtype", None), jax.dtypes.prng_key):
        return None  # its data arrive
    return shape if all(isinstance(extent, int) for extent in shape) else None


def _dtype_name(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    return str((jax.numpy.result_type(value) if dtype is None else dtype).name)
