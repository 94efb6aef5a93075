# SPDX-License-Identifier: Apache-2.0
"""The base class of sinks, and functions that read a sink's callback and let sinks check a tap's value.

A sink is recognized by its class, not by its attributes: a mock, or another object that invents attributes, has all
attributes of a sink, but is a function.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Self, SupportsIndex

import jax
import numpy as np

from .. import _ext


class Sink:
    """A target of taps that is neither a function nor a name. A subclass sets one of the first three attributes."""

    _callout_callback: _ext.Callback | None = None
    """The core's sink."""
    _callout_function: Any = None
    """The function that the sink calls."""
    _callout_branches: list[Any] | None = None
    """The targets that the sink sends to."""
    _callout_check: Any = None
    """Checks `SentLeaves` before the program runs; None if the sink takes every value."""

    def __copy__(self) -> Self:
        """Returns a Python object with the core's sink of this one."""
        made = object.__new__(type(self))
        vars(made).update(vars(self))
        return made

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Pickles the sink. Raises TypeError for a sink of the core's."""
        if self._callout_callback is None:
            return super().__reduce_ex__(protocol)
        kind = type(self).__name__.removeprefix("_Native")
        raise TypeError(
            f"callout: the sink '{self._callout_callback.label}' ({kind}) belongs to this process, and can be neither "
            "pickled nor deep-copied. Make a sink in each process, or bind one to a name there by "
            "callout.register(name, sink), and pass the name to callout.tap; copy.copy returns the same sink"
        )


def is_sink(target: Any) -> bool:
    """Returns True for a sink, by the target's real class."""
    return issubclass(type(target), Sink)


def callback_of(target: Any) -> _ext.Callback | None:
    """Returns the core's sink of a target, or None if it has none."""
    return target._callout_callback if is_sink(target) else None


def function_of(target: Any) -> Any:
    """Returns the function that a sink calls, or the target itself for other targets."""
    if is_sink(target) and target._callout_function is not None:
        return target._callout_function
    return target


def branches_of(target: Any) -> list[Any] | None:
    """Returns the targets that a sink sends to. None for a single target."""
    return target._callout_branches if is_sink(target) else None


@dataclasses.dataclass(frozen=True)
class SentLeaves:
    """Describes a tap's value, for a sink that does not take every value."""

    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[int, ...] | None, ...]
    """The shapes; None for unknown ones, as of shards and symbolic dimensions."""
    label: str
    is_exact: bool
    """True if the sink gets these shapes. Otherwise `vmap` may add leading axes, but removes none."""


def check_leaves(
    sink: Sink, names: Sequence[str], values: Sequence[Any], *, label: str, is_whole: bool, is_exact: bool
) -> None:
    """Lets a sink that cannot take every value check the value before the program runs.

    `is_whole`: the sink gets whole values; otherwise it may get shards.
    """
    check = sink._callout_check
    if check is not None:
        shapes = tuple(_shape(value) if is_whole else None for value, _ in zip(values, names, strict=False))
        dtypes = tuple(map(_dtype_name, values[: len(names)]))
        callback = sink._callout_callback
        check(SentLeaves(tuple(names), dtypes, shapes, label or (callback.label if callback else ""), is_exact))


def _shape(value: Any) -> tuple[int, ...] | None:
    shape = value.shape if hasattr(value, "shape") else np.shape(value)
    if jax.dtypes.issubdtype(getattr(value, "dtype", None), jax.dtypes.prng_key):
        return None  # the sink gets the key's integers
    return shape if all(isinstance(extent, int) for extent in shape) else None


def _dtype_name(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    return str((jax.numpy.result_type(value) if dtype is None else dtype).name)
