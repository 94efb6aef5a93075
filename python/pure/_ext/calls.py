# SPDX-License-Identifier: Apache-2.0
"""Callbacks of programs: the registry of names, calls of Python functions, and checks of results."""

from __future__ import annotations

import collections
import contextlib
import difflib
import itertools
import threading
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from . import handles, process
from .process import Failure, as_error, escaped, refuse
from .records import Record, kind_of, shape_text, short_name
from .tables import CALLBACK_METRICS

Specs = Sequence[tuple[Sequence[int], Any]]
_COUNTED = [key for key, *_ in CALLBACK_METRICS]


_numbers: dict[tuple[str, int, str], float] = collections.defaultdict(int)  # each thread has its own: no waits
_labels: dict[str, None] = {}
labels_with_errors: dict[str, bool] = {}  # labels whose first error was logged
live_callbacks: weakref.WeakSet[Callback] = weakref.WeakSet()
_ids = itertools.count(1)


def count(callback: Callback, **amounts: float) -> None:
    """Adds `amounts` to the counters of the callback's label."""
    for name, amount in amounts.items():
        _numbers[callback.label, threading.get_ident(), name] += amount


def callback_statistics() -> dict[str, dict[str, float]]:
    sums: dict[str, dict[str, float]] = {label: dict.fromkeys(_COUNTED, 0) for label in sorted(_labels.copy())}
    for (label, _, name), number in list(_numbers.items()):
        sums[label][name] += number
    return sums


def reset_counters() -> None:
    _numbers.clear()
    labels_with_errors.clear()


class Callback:
    """A callback, kept alive by this object."""

    is_native = False  # True for sinks
    takes_buffers = False
    barrier_raises = False  # True if the next barrier raises the errors of calls
    log_source = 0
    refusal = "a sink takes taps; it cannot be called for a result"

    def __init__(self, label: str):
        process.note_process_is_used()
        self.label = escaped(label)
        self.id = next(_ids)  # no other callback ever has this number
        _labels.setdefault(self.label)
        live_callbacks.add(self)

    def call(self, arrays: Sequence[np.ndarray], specs: Specs, ordinal: int) -> list[np.ndarray]:
        """Calls the callback, and returns results of these shapes and dtypes."""
        raise Failure(self.refusal)

    def deliver(self, record: Any) -> None:
        """Delivers a tap's record, on the delivery thread."""

    def receiver(self, record: Any) -> tuple[Callback, Any]:
        """Returns the callback that takes the record, and the part of the record for it."""
        return self, record


_BOUND, _NATIVE, _PRINT = "py:", "native:", "id_print:"

# Functions that make a callback from an embedded name, "kind:payload", by kind. Modules above add theirs.
makers: dict[str, Callable[[str, str], Callback]] = {}
_REFUSED = {"nans": "callout.locate_nans", "progress_bar": "a progress bar", "progress_clock": "a progress bar"}
_REFUSED |= {"id_print": "an id_print that a program carries as text"}
_registered: dict[str, Callback] = {}
_bound: weakref.WeakValueDictionary[str, Callback] = weakref.WeakValueDictionary()


def register_callback(name: str, callback: Callback, replace: bool) -> None:
    """Binds a name for the whole process."""
    name = escaped(name)
    if not name or "\n" in name or "\0" in name or name.startswith((_BOUND, _NATIVE, _PRINT)):
        rule = "be one line, must not be empty and must not begin with 'py:', 'native:' or 'id_print:'"
        raise as_error(f"cannot register a callback as '{name}': a name must {rule}", "registration")
    if replace:
        _registered[name] = callback
    elif _registered.setdefault(name, callback) is not callback:
        raise as_error(
            f"a callback is already registered as '{name}'; pass replace=True to bind it anew", "registration"
        )


def unregister(name: str) -> None:
    if _registered.pop(escaped(name), None) is None:
        raise as_error(f"no callback is registered as '{escaped(name)}'", "registration")


def registered_names() -> list[str]:
    return sorted(_registered.copy())


def find(name: str) -> Callback:
    """Returns the callback of a name: a bound one, or one that the name embeds."""
    name = escaped(name)
    found = _registered.get(name) or _bound.get(name)
    if found is not None:
        return found
    kind, colon, payload = name.partition(":")
    if colon and kind in _REFUSED:
        refuse(_REFUSED[kind])
    try:
        if colon and kind in makers:
            return makers[kind](kind, payload)
    except Failure as failure:
        raise as_error(failure, "registration") from None
    text = f"callout: no callback is bound to the name '{name[:256]}'; "
    if name.startswith(_BOUND):
        text += "it is a Python function of the process that traced the program: give it a name (callout.register) "
        text += "before the program is exported; "
    names = registered_names()
    text += "registered names:" + ("".join(f" '{known}'" for known in names) or " (none)")
    nearest = difflib.get_close_matches(name[:256], names, n=1, cutoff=0.66)
    raise as_error(text + (f"; did you mean '{nearest[0]}'?" if nearest else ""), "unbound_name")


class Binding:
    """A name that is bound to a callback while this object lives."""

    def __init__(self, base: str, callback: Callback):
        stem = escaped(base) if base.startswith(_NATIVE) else _BOUND + escaped(base)
        self.name = stem if _bound.setdefault(stem, callback) is callback else f"{stem}#{callback.id}"
        _bound[self.name] = callback


_OPTIONS = dict.fromkeys(["unflatten", "unflatten_value", "flatten", "device_lookup", "index_lookup"], None) | {
    **dict.fromkeys(["transforms", "explain"]),
    **dict.fromkeys(["zero_copy", "numpy_only"], False),  # without effect, because JAX's callbacks pass copies
    **dict.fromkeys(["canonicalize", "transforms_by_position", "barrier_raises"], False),
    "single_result": True,
    "log_source": 0,
}


class PythonCallback(Callback):
    """A Python function with its calling options."""

    def __init__(self, label: str, function: Any, **options: Any):
        if unknown := sorted(options.keys() - _OPTIONS.keys()):
            refuse(f"'{label}': the option {unknown[0]!r}")
        super().__init__(label)
        self._function = function
        self._how: Any = types.SimpleNamespace(**_OPTIONS | options)
        self.log_source, self.barrier_raises = self._how.log_source, self._how.barrier_raises

    def call(self, arrays: Sequence[np.ndarray], specs: Specs, ordinal: int) -> list[np.ndarray]:
        how = self._how
        args: Any = tuple(np.array(array, order="C") for array in arrays)
        keywords: dict[str, Any] = {}
        if how.unflatten is not None:
            args, keywords = how.unflatten(args)
            if how.device_lookup is not None:
                keywords["device"] = how.device_lookup(ordinal)
        value = self._function(*args, **keywords)
        del args, keywords
        return [] if not specs and value is None and how.explain is None else self._stored(value, specs)

    def _stored(self, value: Any, specs: Specs) -> list[np.ndarray]:
        how = self._how
        is_single = len(specs) == 1 and how.single_result
        leaves, which = value, " {}"
        if how.flatten is None or (is_single and isinstance(value, (np.ndarray, np.generic))):
            if how.single_result and len(specs) > 1:
                raise Failure(
                    f"its result does not fit: it returns one array, and the program declares {len(specs)}", "result"
                )
            if how.single_result:
                leaves, which = [value][: len(specs)], ""
        else:
            if is_single and how.explain is None:  # a number or lists of numbers, or else a structure of one leaf
                with contextlib.suppress(Exception):
                    return [stored(value, *specs[0], how.canonicalize)]
            leaves = how.flatten(value)
        try:
            return stored_leaves(leaves, specs, how.canonicalize, which)
        except Failure:
            if how.explain is not None:
                how.explain(value)
            raise

    def deliver(self, record: Record) -> None:
        how, function = self._how, self._function
        if function is None:
            function, record = handles.object_of(record.arrays[0].tolist(), "Function"), record.behind_first()
        leaves = record.arrays
        if how.unflatten_value is None and len(leaves) != 1:
            text = "was traced for a value that is one array"
            raise Failure(f"callback '{self.label}' {text}; this one has {len(leaves)}")
        arguments = [leaves[0] if how.unflatten_value is None else how.unflatten_value(tuple(leaves))]
        keywords: dict[str, Any] = {}
        if how.transforms is not None and how.transforms_by_position:
            arguments.append(how.transforms)
        elif how.transforms is not None:
            keywords["transforms"] = how.transforms
        if how.device_lookup is not None:
            keywords["device"] = how.device_lookup(record.ordinal)
        if how.index_lookup is not None:
            keywords["index"] = how.index_lookup(tuple(leaves), tuple(map(int, record.offsets)))
        function(*arguments, **keywords)


def is_iterator(value: Any) -> bool:
    """Returns whether the value is an iterator, which is no pytree and causes a warning of JAX's."""
    return isinstance(value, Iterator)


def is_iterator_or_none(value: Any) -> bool:
    return value is None or is_iterator(value)


_NARROWED = {("f64", "f32"), ("s64", "s32"), ("u64", "u32"), ("c128", "c64")}
_ORDER = "biufc"  # each kind of numbers includes the ones before it


def stored(value: Any, shape: Sequence[int], dtype: Any, canonicalize: bool) -> np.ndarray:
    """Returns a new dense array. Raises Failure if the value does not have this shape and dtype."""
    shape, dtype = tuple(shape), np.dtype(dtype)
    expected = f"expected {shape_text(dtype, shape)}, got"
    if value is None:
        raise Failure(f"{expected} None: did the function forget to return it?")
    if type(value) is int and not -(2**63) <= value < 2**64 and kind_of(dtype) in ("f", "c"):
        with contextlib.suppress(OverflowError):
            value = float(value)
    array = np.asarray(value)
    fits = array.dtype == dtype or (canonicalize and (short_name(array.dtype), short_name(dtype)) in _NARROWED)
    kind = kind_of(dtype)
    if type(value) in (bool, int, float, complex) and array.dtype != object:
        fits = _ORDER.index(kind_of(array.dtype)) <= _ORDER.index("u" if kind == "i" else kind)
    if array.shape != shape or not fits:
        raise Failure(f"{expected} {shape_text(array.dtype, array.shape)}")
    with np.errstate(all="ignore"):
        cast = np.array(array, dtype, order="C")
        is_lost = kind == "f" and np.isnan(cast).any() and not np.isnan(array).any()
        if kind in ("i", "u"):
            is_lost = not np.array_equal(array, cast.astype(array.dtype)) or not np.array_equal(array < 0, cast < 0)
        if is_lost:
            raise Failure(f"a value is out of the range of {short_name(dtype)}")
    return cast


def stored_leaves(sequence: Any, specs: Specs, canonicalize: bool, which: str) -> list[np.ndarray]:
    """Applies `stored` to each item. Raises Failure if an item, or their number, does not fit."""
    if not specs:
        return []  # the result of a registered function without declared results
    is_sequence = isinstance(sequence, (tuple, list))
    items = tuple(sequence) if is_sequence else ()
    if len(items) != len(specs):
        got = f"one of {len(items)}" if is_sequence else f"an object of type {type(sequence).__name__}"
        raise Failure(f"its result does not fit: expected a tuple of {len(specs)}, got {got}", "result")
    results = []
    for i, (item, (shape, dtype)) in enumerate(zip(items, specs, strict=True)):
        try:
            results.append(stored(item, shape, dtype, canonicalize))
        except Failure as error:
            raise Failure(f"its result{which.format(i)} does not fit: {error}", "result") from None
    return results
