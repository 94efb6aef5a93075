# SPDX-License-Identifier: Apache-2.0
"""`callout.error_if`, `callout.warn_if` and `callout.check` read a predicate inside of a program without copying it.

A failed check reports the lane and the index of the first wrong element. Fields in its text stand for values, and for
lane, index, step and device.
"""

from __future__ import annotations

import string
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

import jax
import numpy as np

from .. import _ext, _jax_compat
from .._base.arguments import as_leaves, is_array_like, is_high, is_ref, read, refuse_tracers
from .._base.config import config
from .._base.errors import printable
from .._primitives.inspections import CheckText, bind_check
from .._primitives.site import check_step, leaf_names

T = TypeVar("T")
OnError = Literal["default", "raise", "warn", "off", "nan"]

_ON_ERROR = ("default", "raise", "warn", "off", "nan")


def error_if(
    x: T, pred: Any, text: str, /, *values: Any, step: Any = None, on_error: OnError = "default", **named: Any
) -> T:
    """Returns `x`, and fails the program if any element of `pred` is true. It can replace `equinox.error_if`.

    The predicate is read in place while the program runs, without a branch, a copy or Python. The error is a
    `callout.CheckError`, at every call, and contains the text, lane, index, step, device and the line of this call.
    Under `vmap` one check reads the whole batch; in a cond or a while loop under `vmap`, lanes that do not take the
    branch or have left the loop do not count. `x` may be differentiated: its primal values are checked. The check runs
    even if the returned `x` is unused. In a jit over several devices each checks its own shard. On a GPU the error may
    arrive at the next tap, check or barrier.

    Args:
        x: a pytree.
        pred: booleans of any shape.
        text: the message, with fields as for `str.format`: `{value}`: `x`, or `values` that no field shows by number;
            `{0}`, `{name}`: one of the values; `{lane}` (-1 if the predicate is the same for all lanes), `{index}`,
            `{step}`, `{device}`, `{run}`, `{time}`: where the predicate is true. If a value has the predicate's shape,
            its element at this index is shown, otherwise all of the lane's elements.
        *values: arrays and numbers; other objects are formatted during tracing.
        step: an integer scalar, the step that is reported. By default the number of earlier runs of the check.
        on_error: "raise"; "warn": log a warning, at the 1st, 2nd, 4th, ... time; "off": do nothing; "nan": return NaN
            for `x` if any element of the predicate is true, and let the program go on; "default": the value of
            `callout.config.checks`.
        **named: as `values`, by name.

    Returns:
        `x` itself; NaN with `on_error="nan"` if any element of the predicate is true.

    Raises:
        TypeError: the predicate is not boolean, or a mutable array would become NaN.
        ValueError: a field that there is not, a value that the text does not use.
        CheckError: (from the running program) an element of `pred` is true.

    Example:
        >>> @jax.jit
        ... def root(x):
        ...     return jnp.sqrt(callout.error_if(x, x < 0, "{value} at {index} has no root"))
        >>> with callout.reraise():
        ...     root(jnp.array([1.0, -4.0])).block_until_ready()
        Traceback (most recent call last):
        callout.CheckError: -4.0 at (1,) has no root
    """
    mode = _mode("callout.error_if", on_error)
    if mode == "nan":
        if any(map(is_ref, jax.tree.leaves(x))):
            raise TypeError(
                'callout.error_if: on_error="nan" needs values, got a mutable array: pass what it holds, ref[...]'
            )
        if any(map(is_high, jax.tree.leaves(x))):
            raise TypeError(
                'callout.error_if: on_error="nan" needs arrays, got a value of a high-level type: pass the array that it '
                "stands for"
            )
        return _nan_if(x, _as_predicate("callout.error_if", pred), text)
    _check("callout.error_if", mode, pred, text, values, named, step, lambda: x)
    return x


def warn_if(x: T, pred: Any, text: str, /, *values: Any, step: Any = None, **named: Any) -> T:
    """Returns `x`, and logs a warning at the 1st, 2nd, 4th, 8th, ... time that `pred` is true; otherwise like `error_if`.

    Args:
        x: a pytree.
        pred: booleans of any shape.
        text: the message, as in `error_if`.
        *values: as in `error_if`.
        step: as in `error_if`.
        **named: as `values`, by name.

    Returns:
        `x` itself.

    Raises:
        TypeError: a predicate that is not boolean.
        ValueError: a field that there is not, a value that the text does not use.

    Example:
        >>> scaled = jax.jit(lambda x: callout.warn_if(x, jnp.any(x > 100), "large: {value}"))
        >>> float(scaled(jnp.float32(3)))
        3.0
    """
    mode = _mode("callout.warn_if", "default")
    _check("callout.warn_if", "off" if mode == "off" else "warn", pred, text, values, named, step, lambda: x)
    return x


def check(pred: Any, text: str, /, *values: Any, step: Any = None, on_error: OnError = "default", **named: Any) -> None:
    """Fails the program unless all elements of `pred` are true, like `checkify.check`; otherwise like `error_if`.

    Args:
        pred: booleans of any shape, all of which must be true.
        text: the message, as in `error_if`, but without an `x`.
        *values: values for the text's fields, as in `error_if`.
        step: as in `error_if`.
        on_error: as in `error_if`, but "nan" is not allowed, because no value could become NaN.
        **named: as `values`, by name.

    Raises:
        CheckError: (from the running program) an element of `pred` is false.
        TypeError: a predicate that is not boolean.
        ValueError: a field that there is not, a value that the text does not use, `on_error="nan"`.

    Example:
        >>> @jax.jit
        ... def root(x):
        ...     callout.check(x >= 0, "{x} has no root", x=x)
        ...     return jnp.sqrt(x)
        >>> with callout.reraise():
        ...     root(jnp.float32(-4)).block_until_ready()
        Traceback (most recent call last):
        callout.CheckError: -4.0 has no root
    """
    mode = _mode("callout.check", on_error)
    if mode == "nan":
        raise ValueError('callout.check: on_error="nan" needs a value to be NaN: use callout.error_if')
    if mode != "off":
        pred = ~_as_predicate("callout.check", pred)
    _check("callout.check", mode, pred, text, values, named, step, None)


def _mode(where: str, on_error: str) -> str:
    if on_error == "breakpoint":
        raise ValueError(
            f'{where}: on_error="breakpoint" is not supported; a callout.tap of the value can stop a debugger'
        )
    if on_error not in _ON_ERROR:
        raise ValueError(f"{where}: on_error must be one of {list(_ON_ERROR)}, got {on_error!r}")
    return str(config.checks) if on_error == "default" else on_error


def _as_predicate(where: str, pred: Any) -> Any:
    pred = read(pred)
    if isinstance(pred, (bool, np.bool_)):
        return np.asarray(pred)
    if getattr(pred, "dtype", None) != np.bool_ or not hasattr(pred, "shape"):
        dtype = getattr(pred, "dtype", None)
        raise TypeError(f"{where}: the predicate must be boolean, got {repr(pred) if dtype is None else dtype}")
    return pred


def _check(
    where: str,
    mode: str,
    pred: Any,
    text: str,
    values: Sequence[Any],
    named: Mapping[str, Any],
    step: Any,
    x: Callable[[], Any] | None,
) -> None:
    pred = _as_predicate(where, pred)
    fields = Fields(where, text, values, named, x)
    if mode == "off":
        return
    if isinstance(pred, np.ndarray) and not pred.any():
        return  # a constant predicate that never fails
    elementwise = tuple(np.shape(array) == pred.shape for array in fields.arrays)
    check = CheckText(fields.format, user_line(), mode == "raise", elementwise, step is not None)
    steps = [] if step is None else [check_step(step)]
    bind_check(check, [pred, *fields.arrays, *steps])


def _nan_if(x: T, pred: Any, text: str) -> T:
    if isinstance(pred, np.ndarray) and pred.any():
        warnings.warn(
            f"callout.error_if: the result is always NaN, since the predicate is constant: {text}", stacklevel=3
        )
    bad = jax.numpy.any(pred)

    def changed(leaf: Any) -> Any:
        if not jax.numpy.issubdtype(jax.numpy.result_type(leaf), np.inexact):
            return leaf
        return _jax_compat.unguarded(jax.numpy.where, bad, jax.numpy.nan, leaf)

    result: T = jax.tree.map(changed, x)
    return result


# The core fills these fields in at every failure; {time} takes strftime's specifications.
OF_THE_PLACE = ("lane", "index", "step", "device", "run", "time")

# The limits of src/sinks/inspectors/check.cc, less one array for the predicate.
_MOST_BYTES = 1 << 16
_MOST_ARRAYS = (1 << 10) - 1


class Fields:
    """Resolves the fields of a text: in `format`, indices of `arrays` replace the fields."""

    def __init__(self, where: str, text: str, values: Sequence[Any], named: Mapping[str, Any], x: Any):
        if not isinstance(text, str):
            raise TypeError(f"{where}: the text must be a str, got {text!r}")
        self._where, self._text, self._values, self._named, self._x = where, text, values, named, x
        refuse_tracers(where, "the text", text, 'write fields, "x is {x}", and pass the values, x=x')
        self.arrays: list[Any] = []
        self._numbers: dict[Any, list[int]] = {}
        self._used: set[Any] = set()
        try:
            pieces = list(string.Formatter().parse(text))
        except ValueError as error:
            raise ValueError(f"{where}: the text {text!r}: {error}") from None
        self._is_numbered = any(field is not None and (field == "" or field.isdigit()) for _, field, _, _ in pieces)
        self.format = printable("".join(self._written(pieces)))
        unused = [i for i in range(len(values)) if i not in self._used] + [n for n in named if n not in self._used]
        if unused:
            raise ValueError(f"{where}: the text {text!r} does not use the values {unused}")
        self._check()

    def _written(self, pieces: Sequence[tuple[str, str | None, str | None, str | None]]) -> Iterator[str]:
        automatic = 0
        for literal, field, spec, conversion in pieces:
            yield literal.replace("{", "{{").replace("}", "}}")
            if field is None:
                continue
            if field == "":
                field, automatic = str(automatic), automatic + 1
            rest = (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
            yield self._field(field, rest, spec or "")

    def _field(self, field: str, rest: str, spec: str) -> str:
        if field.isdigit() and int(field) < len(self._values):
            self._used.add(int(field))
            return self._shown(int(field), self._values[int(field)], rest, spec)
        if field in self._named:
            self._used.add(field)
            return self._shown(field, self._named[field], rest, spec)
        if field == "value":
            return self._checked_value(rest, spec)
        if field in OF_THE_PLACE:
            return "{" + field + rest + "}"
        known = [*range(len(self._values)), *self._named, "value", *OF_THE_PLACE]
        raise ValueError(f"{self._where}: the text {self._text!r} has a field {field!r}; there are {known}")

    def _checked_value(self, rest: str, spec: str) -> str:
        """Writes {value}: the values without a name if no field shows them by number, else `x`; never a named value."""
        if self._values and not self._is_numbered:
            self._used |= set(range(len(self._values)))
            if len(self._values) == 1:
                return self._shown(0, self._values[0], rest, spec)
            return " ".join(f"{i}={self._shown(i, value, rest, spec)}" for i, value in enumerate(self._values))
        if self._x is not None:
            return self._shown("value", self._x(), rest, spec)
        raise ValueError(
            f"{self._where}: the text {self._text!r} has a field 'value', which shows the values without a name, and there "
            "are none that no other field shows"
        )

    def _shown(self, key: Any, value: Any, rest: str, spec: str) -> str:
        leaves = jax.tree.leaves(value)
        if len(leaves) == 1 and not is_array_like(leaves[0]):  # the object cannot enter a program, and is formatted now
            try:
                shown = format(leaves[0], spec)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{self._where}: the text {self._text!r}, value {key!r}: {error}") from None
            return shown.replace("{", "{{").replace("}", "}}")
        if key not in self._numbers:
            first = len(self.arrays)
            self.arrays += [_whole_bytes(leaf) for leaf in as_leaves(self._where, leaves, jax.tree.structure(value))]
            self._numbers[key] = list(range(first, len(self.arrays)))
        fields = [f"{{{number}{rest}}}" for number in self._numbers[key]]
        if len(fields) == 1:
            return fields[0]
        names = leaf_names(value)
        return " ".join(
            f"{name.replace('{', '{{').replace('}', '}}')}={field}" for name, field in zip(names, fields, strict=True)
        )

    def _check(self) -> None:
        """Raises ValueError for fields that the core cannot write."""
        size = len(self.format.encode())
        if size > _MOST_BYTES:
            raise ValueError(f"{self._where}: the text must have at most {_MOST_BYTES} bytes, got {size}")
        if len(self.arrays) > _MOST_ARRAYS:
            raise ValueError(f"{self._where}: the text shows at most {_MOST_ARRAYS} arrays, got {len(self.arrays)}")
        names = [*map(str, range(len(self.arrays))), "lane", "index"]
        dtypes = [str(jax.numpy.result_type(array)) for array in self.arrays]
        try:
            _ext.check_print_format(self.format, names, [*dtypes, "int64", "int64"])
        except ValueError as error:
            raise ValueError(f"{self._where}: the text {self._text!r}: {error}") from None


def _whole_bytes(value: Any) -> Any:
    """Widens elements of less than a byte to one byte, or to four."""
    dtype = jax.numpy.result_type(value)
    if dtype.name not in _ext.SUB_BYTE_BITS:
        return value
    kinds = (
        (jax.numpy.signedinteger, np.int8),
        (jax.numpy.unsignedinteger, np.uint8),
        (jax.numpy.floating, np.float32),
    )
    whole = next(whole for kind, whole in kinds if jax.numpy.issubdtype(dtype, kind))
    return jax.numpy.asarray(value).astype(whole)


def user_line() -> str:
    """Returns the user's line that calls Callout: "file.py:12 in f"."""
    frame: Any = sys._getframe(1)
    ours = __name__.partition(".")[0]
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == ours:
        frame = frame.f_back
    if frame is None:
        return ""
    return printable(f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}")
