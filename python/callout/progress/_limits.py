# SPDX-License-Identifier: Apache-2.0
"""What a program may say of the bar that it carries. Who wrote the program is not known: it draws a bar, and no more.

Bars that honest programs have stay far below each number here.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

MOST_PAYLOAD = 1 << 16  # characters
_MOST_BARS = 1024  # of a PBar, and the lowest line that one is drawn on
_MOST_COLUMNS = 10_000
_MOST_NAMES = 64
_MOST_STEPS = 2**63 - 1
_LONGEST = 256  # characters of a text
_LONGEST_FORMAT = 1024

_FIELDS = frozenset(
    [
        "l_bar",
        "bar",
        "r_bar",
        "n",
        "n_fmt",
        "total",
        "total_fmt",
        "percentage",
        "elapsed",
        "elapsed_s",
        "ncols",
        "nrows",
        "desc",
        "unit",
        "rate",
        "rate_fmt",
        "rate_noinv",
        "rate_noinv_fmt",
        "rate_inv",
        "rate_inv_fmt",
        "postfix",
        "unit_divisor",
        "remaining",
        "remaining_s",
        "eta",
        "colour",
        "prefix",
    ]
)
# Widths and digits have three places. Times have the codes of strftime, which widths could be in as well.
_BAR_SPEC = re.compile(r"-?\d{0,3}[aubAUB]?")
_TIME_SPEC = re.compile(r"(%[a-zA-Z%]|[ :.,/\-])*")
_SPEC = re.compile(r"([^{}]?[<>=^])?[-+ ]?z?#?\d{0,3}[,_]?(\.\d{1,3})?[a-zA-Z%]?")
_STYLE = re.compile(r"\x1b\[[0-9;]{0,32}m")  # colours and the like, not what moves the cursor


def _refuse(what: str, expected: str, got: Any) -> ValueError:
    shown = repr(got)
    return ValueError(
        f"callout.progress: a program carries a bar whose {what} is refused: expected {expected}, got "
        f"{shown if len(shown) <= 80 else shown[:80] + '...'}"
    )


def _whole(what: str, value: Any, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise _refuse(what, f"an integer from {least} to {most}", value)


def _number(what: str, value: Any, least: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise _refuse(what, f"a number from {least:g} to {most:g}", value)


def _flag(what: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise _refuse(what, "true or false", value)


def _text(what: str, value: Any, longest: int = _LONGEST) -> None:
    if not isinstance(value, str) or len(value) > longest:
        raise _refuse(what, f"a text of at most {longest} characters", value)
    if any((ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 for c in _STYLE.sub("", value)):
        raise _refuse(what, "a text without control characters", value)


def _format(what: str, value: Any) -> None:
    _text(what, value, _LONGEST_FORMAT)
    try:
        parts = list(string.Formatter().parse(value))
    except ValueError as error:
        raise _refuse(what, f"a format string ({error})", value) from None
    for _, field, spec, conversion in parts:
        if field is None:
            continue
        if field not in _FIELDS:
            raise _refuse(what, "fields that tqdm documents, without attributes and indices", value)
        allowed = {"bar": _BAR_SPEC, "eta": _TIME_SPEC}.get(field, _SPEC)
        if conversion not in (None, "s") or (field == "bar" and conversion) or not allowed.fullmatch(spec or ""):
            raise _refuse(what, f"'{{{field}}}' with a width of at most 999 and nothing else in it", value)


def _charset(what: str, value: Any) -> None:
    if not isinstance(value, bool):
        _text(what, value)
        if len(value) == 1:
            raise _refuse(what, "true, false, or at least two characters", value)


def _scale(what: str, value: Any) -> None:
    if not isinstance(value, bool):
        _number(what, value, -1e18, 1e18)


def _postfix(what: str, value: Any) -> None:
    if isinstance(value, str):
        _text(what, value)
        return
    if not isinstance(value, dict) or len(value) > _MOST_NAMES:
        raise _refuse(what, f"a text, or at most {_MOST_NAMES} names and values", value)
    for key, each in value.items():
        _text(what, key)
        if isinstance(each, str):
            _text(what, each)
        elif each is not None:
            _scale(what, each if not isinstance(each, float) or math.isfinite(each) else 0)


def _seconds(what: str, value: Any) -> None:
    _number(what, value, -math.inf, math.inf)


def _or_none(check: Callable[[str, Any], None]) -> Callable[[str, Any], None]:
    return lambda what, value: None if value is None else check(what, value)


def _within(least: int, most: int) -> Callable[[str, Any], None]:
    return lambda what, value: _whole(what, value, least, most)


_TQDM: dict[str, Callable[[str, Any], None]] = {
    "ascii": _or_none(_charset),
    "bar_format": _or_none(_format),
    "colour": _or_none(_text),
    "delay": _seconds,
    "desc": _or_none(_text),
    "disable": _or_none(_flag),
    "display": _flag,
    "dynamic_ncols": _flag,
    "initial": lambda what, value: _number(what, value, -1e18, 1e18),
    "leave": _or_none(_flag),
    "maxinterval": _seconds,
    "mininterval": _seconds,
    "miniters": _or_none(_seconds),
    "ncols": _or_none(_within(0, _MOST_COLUMNS)),
    "nrows": _or_none(_within(0, _MOST_COLUMNS)),
    "position": _or_none(_within(0, _MOST_BARS)),
    "postfix": _or_none(_postfix),
    "smoothing": lambda what, value: _number(what, value, 0, 1),
    "unit": _text,
    "unit_divisor": lambda what, value: _number(what, value, 1e-3, 1e18),
    "unit_scale": _scale,
    "write_bytes": _or_none(_flag),
}
_SETTINGS: dict[str, Callable[[str, Any], None]] = {
    "where": _text,
    "print_rate": _or_none(_within(1, _MOST_STEPS)),
    "tqdm_type": _text,
    "devices": _text,
    "only_process": _or_none(_within(0, 2**31)),
}
_LOOP: dict[str, Callable[[str, Any], None]] = {
    "total": _or_none(_within(0, _MOST_STEPS)),
    "total_told": _or_none(_within(0, _MOST_STEPS)),
    "scale": _within(1, _MOST_STEPS),
    "rest": _within(0, _MOST_STEPS),
    "parts": _within(1, 2**20),
    "is_mapped": _flag,
}


def _check_all(what: str, given: Any, checks: dict[str, Callable[[str, Any], None]], *, also: str = "") -> None:
    if not isinstance(given, dict) or (also and not set(given) == {*checks, also}):
        raise _refuse(what, f"the members {sorted({*checks, also} - {''})}", given)
    for name, value in given.items():
        if name != also:
            if name not in checks:
                raise _refuse(what, f"some of {sorted(checks)}", name)
            checks[name](name, value)


def check_bar(told: Any, loop: Any, parts: Any) -> None:
    """Raises ValueError for what no honest program says of its bar."""
    _check_all("settings", told, _SETTINGS, also="tqdm")
    _check_all("look", told["tqdm"], _TQDM)
    _check_all("loop", loop, _LOOP, also="names")
    names = loop["names"]
    if not isinstance(names, list) or len(names) > _MOST_NAMES:
        raise _refuse("fields", f"at most {_MOST_NAMES} names", names)
    for name in names:
        _text("field", name)
    if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(part, bool) for part in parts):
        raise _refuse("message", "two times true or false", parts)


def check_message(head: np.ndarray, ids: Any, lanes: Any, fields: Sequence[np.ndarray]) -> None:
    """Raises ValueError for operands that are no message of a loop."""
    if head.dtype != np.uint32 or head.shape != (10,):
        raise _refuse("head", "u32[10]", f"{head.dtype.name}{list(head.shape)}")
    for what, array in (("ids", ids), ("lanes", lanes)):
        if array is not None and (array.dtype.kind not in "iufb" or not 1 <= array.size <= _MOST_BARS):
            raise _refuse(what, f"1 to {_MOST_BARS} numbers", f"{array.dtype.name}{list(array.shape)}")
    if ids is not None and not np.max(np.abs(ids.astype(np.float64))) <= _MOST_BARS:
        raise _refuse("ids", f"{-_MOST_BARS} to {_MOST_BARS}", ids.reshape(-1).tolist())
    if ids is not None and lanes is not None and 1 < lanes.size < ids.size:
        raise _refuse("lanes", f"one, or {ids.size}", lanes.reshape(-1).tolist())
    for field in fields:
        if field.size == 0:
            raise _refuse("field", "at least one number", f"{field.dtype.name}{list(field.shape)}")
