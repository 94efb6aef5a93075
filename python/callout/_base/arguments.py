# SPDX-License-Identifier: Apache-2.0
"""Checks and converts the operands of Callout's primitives."""

from __future__ import annotations

import functools
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from .. import _jax_compat

_PACKAGE = __name__.partition(".")[0]
_MOST_SHOWN = 200  # characters of a value in an error
_NOT_OF_JAX = "OSUMm"  # kinds of NumPy dtypes that JAX does not have


def _as_array(where: str, value: Any, place: Callable[[], tuple[str, str]]) -> jax.Array:
    if not isinstance(value, jax.core.Tracer):  # a token, or of a high-level type
        try:
            return _jax_compat.unguarded(jax.numpy.asarray, value)
        except TypeError:
            pass  # raise after the `except`, so that JAX's long error is not part of this one's traceback
    raise _refusal(where, value, *place())


def _refusal(where: str, value: Any, what: str, path: str) -> TypeError:
    """Returns the error for a value that cannot be an operand. `what` and `path`: see `_place_of`."""
    got, hint = f"{_shortened(repr(value))} of type {type(value).__name__}", ""
    if isinstance(value, jax.core.Tracer):
        got = f"a value of JAX's type {type(jax.typeof(value)).__name__}"
        hint = ", which stands for no array; pass the arrays that it is made of"
    elif callable(value):
        hint = "; leave functions out, as equinox.filter(value, equinox.is_array) does, and flax.nnx.state(value)"
    at = f" at {path}" if path else ""
    return TypeError(f"{where}: {what} must be a pytree of arrays and numbers, got {got}{at}{hint}")


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _place_of(tree: PyTreeDef | None, index: int, is_call: bool) -> tuple[str, str]:
    """Returns the argument of a leaf, "argument 1", and the leaf's path in the argument, "['a'][0]"."""
    if tree is None:
        return f"argument {index}" if is_call else "a value", ""
    paths, _ = jax.tree_util.tree_flatten_with_path(jax.tree.unflatten(tree, [0] * tree.num_leaves))
    path = paths[index][0]
    if not is_call:
        return "a value", jax.tree_util.keystr(path)
    _, argument, *rest = path
    name = argument.key if isinstance(argument, jax.tree_util.DictKey) else argument.idx
    return f"argument {name!r}", jax.tree_util.keystr(tuple(rest))


def check_operand(where: str, value: Any, tree: PyTreeDef, index: int) -> Any:
    """Returns a leaf of a call's (args, kwargs) unchanged. Raises TypeError if it cannot be in a program; tokens can."""
    try:
        jax.typeof(value)
    except TypeError:
        raise _refusal(where, value, *_place_of(tree, index, True)) from None
    return value


def check_index(what: str, value: Any, least: int = 0) -> int:
    """Returns the value as an int. Raises ValueError, with the name `what`, if it is no integer or below `least`."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or not least <= value < 2**63:
        raise ValueError(f"{what} must be an integer of at least {least}, got {value!r}")
    return int(value)


def is_array_like(value: Any) -> bool:
    """Returns True for values that can enter a program: arrays, tracers and numbers."""
    if isinstance(value, (bool, int, float, complex, jax.core.Tracer)):
        return True
    dtype = getattr(value, "dtype", None)
    if dtype is None or not hasattr(value, "shape"):
        return False
    if is_key(value):
        return True
    is_of_records = issubclass(getattr(dtype, "type", object), np.void) and dtype != jax.dtypes.float0
    return getattr(dtype, "kind", "V") not in _NOT_OF_JAX and not is_of_records


def _is_no_array(dtype: Any) -> bool:
    """Returns True for no dtype, and for NumPy dtypes that JAX does not have: texts, objects, times."""
    return dtype is None or getattr(dtype, "kind", "V") in _NOT_OF_JAX


_TRACER = re.compile(r"\b\w*Tracer[(<]|\bTraced<")


def shown_tracer(where: str, what: str, text: str, remedy: str) -> str:
    """Returns an error message for a text that shows a tracer; "" if it shows none.

    An f-string shows a tracer if it is formatted while JAX traces.
    """
    found = _TRACER.search(text)
    if found is None:
        return ""
    shown = text[found.start() :][:_MOST_SHOWN]
    return (
        f"{where}: {what} {text!r} shows no value but a tracer, {shown!r}: an f-string is formatted while JAX traces the "
        f"program; {remedy}"
    )


def warn(text: str) -> None:
    """Warns at the user's line that called the package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


def refuse_tracers(where: str, what: str, text: str, remedy: str) -> None:
    """Raises ValueError if the text shows a tracer."""
    if wrong := shown_tracer(where, what, text, remedy):
        raise ValueError(wrong)


def is_ref(value: Any) -> bool:
    """Returns True for a mutable array (`jax.new_ref`), in a program or outside."""
    kind = type(value)
    return kind is jax.Ref or (issubclass(kind, jax.core.Tracer) and isinstance(value, jax.Ref))


def is_key(value: Any) -> bool:
    """Returns True for arrays of PRNG keys."""
    dtype = getattr(value, "dtype", None)
    return dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)


def is_high(value: Any) -> bool:
    """Returns True for a value of a high-level type that stands for an array, such as `nnx.Variable(hijax=True)`."""
    # For objects that are no tracers, look at the class, because an instance may invent any attribute.
    holder = value if isinstance(value, jax.core.Tracer) else type(value)
    return getattr(holder, "__jax_array__", None) is not None


def goes_on(value: Any) -> bool:
    """Returns True for a value that stays in the program while its array is sent, such as a mutable array."""
    return is_key(value) or is_ref(value) or is_high(value)


def passed_on(given: Any, bound: Any) -> Any:
    """Returns the result of a tap or watch of a leaf: the bound value inside a program, and `given` outside.

    Outside of programs JAX passes a primitive objects of private classes for numbers and NumPy arrays, which users must
    not see.
    """
    return bound if isinstance(bound, jax.core.Tracer) and not goes_on(given) else given


def read(value: Any) -> Any:
    """Returns the current array of a mutable array or of a value of a high-level type; other values unchanged."""
    if is_ref(value):
        return value[...]
    return value.__jax_array__() if is_high(value) else value


def as_leaves(where: str, values: Sequence[Any], tree: PyTreeDef | None = None, *, is_call: bool = False) -> list[Any]:
    """Returns arrays and numbers unchanged, PRNG keys as their integers, and mutable arrays as their current arrays.

    Values of high-level types become the arrays that they stand for. Raises TypeError for other values. `tree` is the
    tree of the leaves, for errors; with `is_call`, the tree is (args, kwargs)'s.
    """
    leaves = []
    for index, value in enumerate(map(read, values)):
        if is_key(value):
            value = jax.random.key_data(value)
        elif _is_no_array(getattr(value, "dtype", None)) and not isinstance(value, (bool, int, float, complex)):
            value = _as_array(where, value, functools.partial(_place_of, tree, index, is_call))
        leaves.append(value)
    return leaves
