# SPDX-License-Identifier: Apache-2.0
"""The target and the tap function of `id_print`, which print a value. Exported programs carry prints as text.

C++ formats the value (numpy_text.h), or NumPy if C++ does not support it. A carried print is "id_print:" and a payload,
which docs/abi.md describes.
"""

from __future__ import annotations

import functools
import math
import urllib.parse
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from .. import _ext
from .._base import lifetime
from .._base.native_platforms import PLATFORMS
from .._measuring import host_callback_additions as additions
from .target import Target, Transforms, interned

PREFIX = "id_print:"
_FORMAT = 1
_KINDS = "tlb()"  # indexed by the kinds of the core's numpy_text.h
_LITERAL = "()[]{}<>=:'/*+!?@#$&|^`"  # besides letters, digits and "_.-~"

# The print options that change an array's text, with their defaults, except the threshold.
DEFAULT_OPTIONS: dict[str, Any] = {
    "precision": 8,
    "suppress": False,
    "linewidth": 75,
    "nanstr": "nan",
    "infstr": "inf",
    "sign": "-",
    "floatmode": "maxprec",
    "formatter": None,
    "legacy": False,
    "edgeitems": 3,
}


def emit(path: str, head: str, text: str, stream: Any) -> None:
    """Writes `head`, if it is not empty, and `text` to `stream`, or prints them. Counts the print. Thread-safe."""
    with additions.lock:
        additions.count(path)
        for line in (head, text) if head else (text,):
            if stream is None:
                print(line)  # noqa: T201 - the purpose of a print
            else:
                stream.write(line + "\n")


def head_parts(kwargs: Mapping[str, Any], transforms: Transforms, with_device: bool) -> tuple[str, str | None]:
    """Returns the line above the value: the whole line and None, or its parts before and after the device."""
    pairs: dict[str, Any] = dict(kwargs)
    if transforms:
        pairs["transforms"] = [(name, params) if params else name for name, params in transforms]
    if not with_device:
        return " ".join(f"{key}: {pairs[key]}" for key in sorted(pairs)), None
    before = " ".join([*(f"{key}: {pairs[key]}" for key in sorted(pairs) if key < "device"), "device: "])
    return before, "".join(f" {key}: {pairs[key]}" for key in sorted(pairs) if key > "device")


def encode(
    head: tuple[str, str | None], pieces: Sequence[tuple[int, str, int]], threshold: int, exponents_from: float
) -> str:
    """Returns the name of a carried print. Raises UnicodeEncodeError for text that cannot be encoded."""
    before, after = head
    line = [_text(before)] if before else []
    if after is not None:
        line += ["d", *([_text(after)] if after else [])]
    layout = []
    for kind, text, number in pieces:
        code = _KINDS[kind]
        layout.append(_text(text) if code == "t" else code if code in "()" else f"{code}{number}")
    return f"{PREFIX}{_FORMAT};{threshold};{int(exponents_from)};{','.join(line)};{','.join(layout)}"


def _text(text: str) -> str:
    return "t" + urllib.parse.quote(text, safe=_LITERAL)


class CarriedPrint:
    """Prints like the `Printer` whose name a program carries."""

    def __init__(self, payload: str):
        self._before, self._after, pieces, self.num_leaves, self._threshold, self._exponents_from = (
            _ext.parse_value_print(payload)
        )
        self._layout = _ext.ValueLayout(pieces)

    @property
    def with_device(self) -> bool:
        return self._after is not None

    def __call__(self, leaves: tuple[np.ndarray, ...], _: Transforms, *, device: Any = None) -> None:
        if len(leaves) != self.num_leaves:
            raise ValueError(f"callout: an id_print of {self.num_leaves} arrays got {len(leaves)}")
        head = self._before if self._after is None else f"{self._before}{device}{self._after}"
        text = self._layout.text(leaves, self._threshold, self._exponents_from)
        path = "native" if text is not None else "numpy"
        emit(path, head, text if text is not None else self._numpy_text(leaves), None)

    def _numpy_text(self, leaves: Sequence[np.ndarray]) -> str:
        with np.printoptions(**DEFAULT_OPTIONS):
            return self._layout.join([np.array2string(leaf, threshold=self._threshold) for leaf in leaves])


# Kinds of pieces, with the numbers of the core's numpy_text.h.
_TEXT, _LEAF, _BREAK, _OPEN, _CLOSE = range(5)
_INDENT = 2
_MAX_THRESHOLD = 2**63 - 1


def _float32_exponents_from() -> float:
    """Returns the value from which on this NumPy writes float32 with exponents (1e8 before NumPy 2.3)."""
    with np.printoptions(**DEFAULT_OPTIONS):
        return 1e6 if "e" in np.array2string(np.array([5e6], np.float32)) else 1e8


_EXPONENTS_FROM = _float32_exponents_from()


class _Leaf:
    """Replaces an array in a tree."""

    def __init__(self, index: int):
        self.index = index


class _Pieces:
    """The layout of a value of `_Leaf`s or arrays, and its leaves."""

    def __init__(self, value: Any):
        self.pieces: list[tuple[int, str, int]] = []
        self.leaves: list[
            tuple[int, Any]
        ] = []  # (index of the leaf, a _Leaf, an array, or a user's node that contains some)
        self._add(value, 0)
        self.all_arrays = all(isinstance(leaf, _Leaf) for _, leaf in self.leaves)

    def _text(self, text: str) -> None:
        self.pieces.append((_TEXT, text, 0))

    def _add(self, value: Any, indent: int) -> None:
        if isinstance(value, tuple):
            self._group("( ", [("", item) for item in value], " )", indent)
        elif isinstance(value, list):
            self._group("[ ", [("", item) for item in value], " ]", indent)
        elif isinstance(value, dict):
            self._group("{ ", [(f"{key}=", value[key]) for key in sorted(value)], " }", indent)
        elif inner := jax.tree.leaves(value):
            number = inner[0].index if isinstance(inner[0], _Leaf) else len(self.leaves)
            self.pieces.append((_LEAF, "", number))
            self.leaves.append((number, value))
        else:
            self._text(str(value))

    def _group(self, begin: str, items: Sequence[tuple[str, Any]], end: str, indent: int) -> None:
        self.pieces.append((_OPEN, "", 0))
        self._text(begin)
        for i, (label, item) in enumerate(items):
            if i > 0:
                self.pieces.append((_BREAK, "", indent + _INDENT))
            if label:
                self._text(label)
            self._add(item, indent + _INDENT)
        self._text(end)
        self.pieces.append((_CLOSE, "", 0))

    def join(self, text_of: Callable[[Any], str]) -> str:
        """Returns the text of the whole value. `text_of` returns the text of a leaf."""
        texts = [""] * (1 + max((number for number, _ in self.leaves), default=-1))
        for number, leaf in self.leaves:
            texts[number] = text_of(leaf)
        return _ext.ValueLayout(self.pieces).join(texts)


class Printer:
    """Prints a tree's leaves below a line about them. Thread-safe: prints do not mix."""

    def __init__(
        self,
        tree: PyTreeDef,
        kwargs: Mapping[str, Any],
        stream: Any,
        threshold: float | None,
        print_options: Mapping[str, Any],
    ):
        self._tree = tree
        self._kwargs = dict(kwargs)
        self._stream = stream
        self._threshold: Any = print_options["threshold"] if threshold is None else threshold
        self._print_options = dict(print_options)
        self._pieces: _Pieces | None = None
        self._layout = self._native_layout() if _is_default(print_options) else None

    def _native_layout(self) -> _ext.ValueLayout | None:
        """Returns the layout for the core, or None if the value must be rebuilt to be printed."""
        leaves = [_Leaf(i) for i in range(self._tree.num_leaves)]
        try:
            pieces = _Pieces(jax.tree.unflatten(self._tree, leaves))
        except Exception:  # noqa: BLE001 - a user's node may check its children
            return None
        if not pieces.all_arrays:
            return None
        self._pieces = pieces
        return _ext.ValueLayout(pieces.pieces)

    def __call__(self, leaves: tuple[np.ndarray, ...], transforms: Transforms, *, device: Any = None) -> None:
        before, after = head_parts(self._kwargs, transforms, device is not None)
        head = before if after is None else f"{before}{device}{after}"
        text = None
        if self._layout is not None:
            text = self._layout.text(leaves, int(min(self._threshold, _MAX_THRESHOLD)), _EXPONENTS_FROM)
        path = "numpy" if text is None else "native"
        emit(path, head, self._slow_text(leaves) if text is None else text, self._stream)

    def _slow_text(self, leaves: Sequence[np.ndarray]) -> str:
        def text_of(leaf: Any) -> str:
            return np.array2string(leaf, threshold=self._threshold) if isinstance(leaf, np.ndarray) else str(leaf)

        with np.printoptions(**self._print_options):
            return _Pieces(jax.tree.unflatten(self._tree, leaves)).join(text_of)

    def has_fixed_text(self) -> bool:
        """Returns True if the text of the keywords cannot change."""
        return all(type(value) in _FIXED for value in self._kwargs.values())

    def refusal(self) -> str | None:
        """Returns the reason why a program cannot carry this print as text; None if it can."""
        if self._stream is not None:
            return "it has an output_stream"
        if not _is_default(self._print_options):
            return "it was traced with print options of NumPy that are not the default ones"
        if self._pieces is None:
            return "a class of its value writes its own text"
        if not isinstance(self._threshold, (int, float, np.number)) or math.isnan(self._threshold):
            return f"its threshold {self._threshold!r} is not a number"
        traced = [key for key, value in self._kwargs.items() if isinstance(value, jax.core.Tracer)]
        if traced:
            return f"its keyword {traced[0]!r} is a traced value, which only `arg` may have"
        return None

    def carried_name(self, transforms: Transforms, with_device: bool) -> str:
        """Returns the name of a carried print, for which `refusal` is None. It contains the keywords' current text."""
        assert self._pieces is not None
        threshold = max(-1, math.floor(min(self._threshold, _MAX_THRESHOLD)))
        head = head_parts(self._kwargs, transforms, with_device)
        return encode(head, self._pieces.pieces, threshold, _EXPONENTS_FROM)


_FIXED = (str, int, float, bool, type(None))


def _is_default(print_options: Mapping[str, Any]) -> bool:
    return all(print_options[name] == value for name, value in DEFAULT_OPTIONS.items())


_printers: weakref.WeakValueDictionary[Hashable, Printer] = weakref.WeakValueDictionary()


def printer(tree: PyTreeDef, kwargs: Mapping[str, Any], stream: Any, threshold: float | None) -> Printer:
    """Returns the printer of this print; one for equal prints, so that they are equal programs.

    NumPy's print options are read now, because they belong to the thread that traces, not to the one that prints.
    """
    options: dict[str, Any] = dict(np.get_printoptions())
    options.pop("override_repr", None)
    key: Hashable = (tree, str(tree), _key_of(kwargs), id(stream), threshold, _key_of(options))
    found = _printers.get(key)
    if found is None:
        found = _printers[key] = Printer(tree, kwargs, stream, threshold, options)
    return found


def _key_of(mapping: Mapping[str, Any]) -> Hashable:
    """Returns a key that is equal for equal texts, or, if values cannot be compared, for identical objects."""
    return tuple(
        (name, type(value), repr(value))
        if isinstance(value, (str, int, float, bool, type(None)))
        else (name, id(value))
        for name, value in sorted(mapping.items())
    )


class PrintTarget(Target):
    """Prints a tapped value. Its name in a program contains the whole print if text can express it."""

    __slots__ = ("_names", "_with_device", "_write")

    def __init__(self, key: Hashable, write: Printer, num_leaves: int, with_device: bool):
        make = functools.partial(_print_callback, write, with_device)
        super().__init__(key, _PRINT, False, make, ("print", num_leaves, with_device))
        self._write = write
        self._with_device = with_device
        self._names: dict[str, str] = {}

    def bind(self, transforms: Transforms = ()) -> str:
        """Returns the name for the program."""
        if not PLATFORMS or self._write.refusal() is not None or not self._write.has_fixed_text():
            return super().bind(transforms)  # without a native path programs run in this process alone
        key = repr(transforms)
        if key not in self._names:
            try:
                self._names[key] = self._write.carried_name(transforms, self._with_device)
            except UnicodeEncodeError:
                self._names[key] = super().bind(transforms)
        return self._names[key]

    def is_held_by_programs(self, name: str) -> bool:
        """Returns False for a carried print's name, from which a loading process makes the print."""
        return not name.startswith(PREFIX)

    def exported_name(self, where: str, transforms: Transforms = ()) -> str:
        """Returns the name for an exported program. Raises ValueError if text cannot express the print."""
        del where
        refusal = self._write.refusal()
        if refusal is None:
            try:
                return self._write.carried_name(transforms, self._with_device)
            except UnicodeEncodeError:
                refusal = "its keywords have text that is not Unicode"
        raise ValueError(
            f"callout.host_callback.id_print: an exported program carries a print as text, and this one is more: {refusal}"
        )


_PRINT = "id_print"  # the label of carried prints


def _print_callback(write: Printer | CarriedPrint, with_device: bool, transforms: Transforms) -> _ext.Callback:
    return _ext.make_python_callback(
        label=_PRINT,
        function=write,
        unflatten_value=tuple,
        device_lookup=lifetime.device_of if with_device else None,
        transforms=transforms,
        transforms_by_position=True,
        log_source=additions.LOG_SOURCE,
    )


def print_target(write: Printer, num_leaves: int, with_device: bool) -> Target:
    """Makes the target of a printer, which takes the leaves in a tuple."""
    return interned(
        "print", write, (num_leaves, with_device), lambda key: PrintTarget(key, write, num_leaves, with_device)
    )


def carried_print(payload: str) -> _ext.Callback:
    """Makes the callback of a carried print. The core calls this with the text behind "id_print:"."""
    write = CarriedPrint(payload)
    return _print_callback(write, write.with_device, ())
