# SPDX-License-Identifier: Apache-2.0
"""An exported program carries a progress bar as text. A process that loads the program may draw the bar.

The text is "progress_bar:" and percent-encoded JSON: the bar's settings, how its messages are read, and which parts
messages have.

The author of the program is not trusted: the text can only draw a bar. Bars of honest programs stay far below each
limit here.
"""

from __future__ import annotations

import json
import math
import pickle
import re
import string
import urllib.parse
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax
import numpy as np

from .. import _ext
from .._targets.target import Target, Transforms
from ._bars import Loop
from ._settings import make_settings

_SETTINGS = ("where", "print_rate", "tqdm_type", "devices", "only_process", "tqdm")
_LOOP = ("names", "total", "scale", "rest", "parts", "is_mapped")


class LoopTarget(Target):
    """The target of a tap that sends a loop's messages to its bars."""

    __slots__ = ("_parts", "loop")

    def __init__(self, loop: Loop, value: Any):
        desc = loop.settings.tqdm.get("desc")
        label = f"callout.progress.{desc}" if desc else "callout.progress"
        tree = jax.tree.structure(value)
        super().__init__(object(), label, True, lambda _: _callback(label, loop, tree), (str(tree), *loop.digest()))
        self.loop = loop
        self._parts = [value[1] is not None, value[2] is not None]

    def __reduce__(self) -> NoReturn:
        raise pickle.PicklingError(
            f"callout: the progress bar '{self.label}' is drawn by this process, and so is that of a compiled program. Pass "
            "the program on by callout.export: it then carries its bar"
        )

    def exported_name(self, where: str, transforms: Transforms = ()) -> str:
        """Returns the name for an exported program. Raises ValueError if text cannot express a setting."""
        del transforms
        given = {name: getattr(self.loop.settings, name) for name in _SETTINGS}
        read = {name: getattr(self.loop, name) for name in _LOOP}
        try:
            text = json.dumps([1, given, {**read, "total_told": self.loop.settings.total}, self._parts])
        except TypeError as error:
            raise ValueError(
                f"{where}: an exported program carries its bar as text, and one of {dict(self.loop.settings.tqdm)} "
                f"cannot be written: {error}"
            ) from None
        payload = urllib.parse.quote(text, safe="")
        check_bar(*_parsed(payload))  # raises here what a loader would reject
        return "progress_bar:" + payload


def carried_bar(payload: str) -> _ext.Callback:
    """Makes the callback of an embedded bar. The core calls this with the text behind "progress_bar:"."""
    given, read, parts = _parsed(payload)
    check_bar(given, read, parts)
    settings = make_settings(given.pop("where"), read.pop("total_told"), **given)
    value = (0, 0 if parts[0] else None, 0 if parts[1] else None, (0,) * len(read["names"]))
    loop = Loop(settings, read.pop("names"), **read)

    def take(message: Any) -> None:
        check_message(*message)
        loop(message)

    return _callback("callout.progress", take, jax.tree.structure(value))


def _parsed(payload: str) -> Any:
    """Returns the items behind the format's number. Raises ValueError for text in another format."""
    if len(payload) > MOST_PAYLOAD:
        raise ValueError(
            f"callout.progress: a program carries a progress bar of {len(payload)} characters; expected at most "
            f"{MOST_PAYLOAD}"
        )
    try:
        version, *rest = json.loads(urllib.parse.unquote(payload))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"callout.progress: cannot read the progress bar that a program carries: {error}") from None
    if version != 1 or len(rest) != 3:
        raise ValueError(f"callout.progress: a program carries a progress bar of format {version!r:.40}; known: 1")
    return rest


def _callback(label: str, function: Callable[[Any], None], tree: Any) -> _ext.Callback:
    return _ext.make_python_callback(
        label=label,
        function=function,
        unflatten_value=tree.unflatten,
        numpy_only=True,
    )


MOST_PAYLOAD = 1 << 16  # characters
_MOST_BARS = 1024  # bars of a PBar; also the lowest line that a bar is drawn on
_MOST_COLUMNS = 10_000
_MOST_NAMES = 64
_MOST_STEPS = 2**63 - 1
_LONGEST = 256  # characters in a text
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
# Widths and precisions have at most three digits. Times have the codes of strftime without widths.
_BAR_SPEC = re.compile(r"-?\d{0,3}[aubAUB]?")
_TIME_SPEC = re.compile(r"(%[a-zA-Z%]|[ :.,/\-])*")
_SPEC = re.compile(r"([^{}]?[<>=^])?[-+ ]?z?#?\d{0,3}[,_]?(\.\d{1,3})?[a-zA-Z%]?")
_STYLE = re.compile(r"\x1b\[[0-9;]{0,32}m")  # allows colours and other styles, but no moves of the cursor


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
_CHECKS_OF_SETTINGS: dict[str, Callable[[str, Any], None]] = {
    "where": _text,
    "print_rate": _or_none(_within(1, _MOST_STEPS)),
    "tqdm_type": _text,
    "devices": _text,
    "only_process": _or_none(_within(0, 2**31)),
}
_CHECKS_OF_LOOP: dict[str, Callable[[str, Any], None]] = {
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


def check_bar(given: Any, loop: Any, parts: Any) -> None:
    """Raises ValueError for settings that no honest program gives its bar."""
    _check_all("settings", given, _CHECKS_OF_SETTINGS, also="tqdm")
    _check_all("look", given["tqdm"], _TQDM)
    _check_all("loop", loop, _CHECKS_OF_LOOP, also="names")
    names = loop["names"]
    if not isinstance(names, list) or len(names) > _MOST_NAMES:
        raise _refuse("fields", f"at most {_MOST_NAMES} names", names)
    for name in names:
        _text("field", name)
    if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(part, bool) for part in parts):
        raise _refuse("message", "two times true or false", parts)


def check_message(head: np.ndarray, ids: Any, lanes: Any, fields: Sequence[np.ndarray]) -> None:
    """Raises ValueError if the operands are no message of a loop."""
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
