# SPDX-License-Identifier: Apache-2.0
"""Python functions as callbacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..delivery import errors
from ..delivery.record import Record
from ..failures import INVALID_ARGUMENT, Failure
from .callback import Callback, Specs
from .results import Mismatch, is_leaf, stored, stored_leaves

Maybe = Callable[..., Any] | None


class PythonCallback(Callback):
    """A function, and how it is called."""

    def __init__(
        self,
        label: str,
        function: Callable[..., Any],
        unflatten: Maybe,
        unflatten_value: Maybe,
        flatten: Maybe,
        single_result: bool,
        device_lookup: Maybe,
        index_lookup: Maybe,
        transforms: Any,
        canonicalize: bool,
        transforms_by_position: bool,
        barrier_raises: bool,
        log_source: int,
        explain: Maybe,
    ):
        super().__init__(label)
        self._function = function
        self._unflatten = unflatten
        self._unflatten_value = unflatten_value
        self._flatten = flatten
        self._single_result = single_result
        self._device_lookup = device_lookup
        self._index_lookup = index_lookup
        self._transforms = transforms
        self._canonicalize = canonicalize
        self._by_position = transforms_by_position
        self._barrier_raises = barrier_raises
        self.log_source = log_source
        self._explain = explain

    def call(self, arrays: Sequence[np.ndarray], specs: Specs, ordinal: int) -> list[np.ndarray]:
        """Calls the function with copies, which are its own."""
        leaves = [np.array(array, order="C") for array in arrays]
        if self._unflatten is None:
            value = self._function(*leaves)
        else:
            args, kwargs = self._unflatten(tuple(leaves))
            if self._device_lookup is not None:
                kwargs["device"] = self._device_lookup(ordinal)
            value = self._function(*args, **kwargs)
        if not specs and value is None and self._explain is None:
            return []
        return self._stored(value, specs)

    def add_tap_error(self, ordinal: int, failure: Failure) -> None:
        """Keeps a tap's error, if that was asked for."""
        if self._barrier_raises:
            errors.add(self, ordinal, failure.text)

    def _stored(self, value: Any, specs: Specs) -> list[np.ndarray]:
        is_single = len(specs) == 1 and self._single_result
        if self._flatten is not None and not (is_single and is_leaf(value)):
            return self._stored_flat(value, specs, is_single)
        if not self._single_result:
            return stored_leaves(value, specs, self._canonicalize)
        if not specs:
            return []
        if len(specs) > 1:
            text = f"its result does not fit: it returns one array, and the program declares {len(specs)}"
            raise Failure(INVALID_ARGUMENT, text)
        ((shape, dtype),) = specs
        try:
            return [stored(value, shape, dtype, self._canonicalize)]
        except Mismatch as mismatch:
            text = f"its result does not fit: {mismatch}"
        self._explained(value)
        raise Failure(INVALID_ARGUMENT, text)

    def _stored_flat(self, value: Any, specs: Specs, is_single: bool) -> list[np.ndarray]:
        assert self._flatten is not None
        if self._explain is None and type(value) is tuple and len(value) == len(specs) and all(map(is_leaf, value)):
            return stored_leaves(value, specs, self._canonicalize)
        if is_single and self._explain is None:  # a number, numbers in lists; if not, whatever has one leaf
            ((shape, dtype),) = specs
            try:
                return [stored(value, tuple(shape), np.dtype(dtype), self._canonicalize)]
            except Exception:  # noqa: BLE001 - what is wrong with its leaves is said below
                pass
        try:
            return stored_leaves(self._flatten(value), specs, self._canonicalize)
        except Failure:
            self._explained(value)
            raise

    def _explained(self, value: Any) -> None:
        """Raises what says more than a mismatch."""
        if self._explain is not None:
            self._explain(value)

    def check_tap(self, num_leaves: int) -> None:
        """Failure if it takes no taps of so many arrays."""
        if self._unflatten_value is None and num_leaves != 1:
            text = f"callback '{self.label}' was traced for a value that is one array; this one has {num_leaves}"
            raise Failure(INVALID_ARGUMENT, text)

    def deliver(self, record: Record) -> None:
        """Calls a tap's function with a record's arrays, which are its own from then on."""
        leaves = record.arrays
        arguments = [leaves[0] if self._unflatten_value is None else self._unflatten_value(tuple(leaves))]
        keywords: dict[str, Any] = {}
        if self._transforms is not None and self._by_position:
            arguments.append(self._transforms)
        elif self._transforms is not None:
            keywords["transforms"] = self._transforms
        if self._device_lookup is not None:
            keywords["device"] = self._device_lookup(record.ordinal)
        if self._index_lookup is not None:
            keywords["index"] = self._index_lookup(tuple(leaves), tuple(map(int, record.offsets)))
        self._function(*arguments, **keywords)


def make_python_callback(
    label: str,
    function: Any,
    unflatten: Maybe = None,
    unflatten_value: Maybe = None,
    flatten: Maybe = None,
    single_result: bool = True,
    device_lookup: Maybe = None,
    index_lookup: Maybe = None,
    transforms: Any = None,
    zero_copy: bool = False,
    numpy_only: bool = False,
    canonicalize: bool = False,
    transforms_by_position: bool = False,
    barrier_raises: bool = False,
    log_source: int = 0,
    explain: Maybe = None,
) -> Callback:
    """A callback over a Python function. `zero_copy` gets copies, as by JAX's callbacks everywhere."""
    del zero_copy, numpy_only
    return PythonCallback(
        label,
        function,
        unflatten,
        unflatten_value,
        flatten,
        single_result,
        device_lookup,
        index_lookup,
        transforms,
        canonicalize,
        transforms_by_position,
        barrier_raises,
        log_source,
        explain,
    )
