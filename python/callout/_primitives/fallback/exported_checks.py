# SPDX-License-Identifier: Apache-2.0
"""Checks the operands and results of a call in an exported program, like the core does for native calls.

A program may come from anywhere, and JAX's callbacks crash the process if a function returns another number of arrays
than the program declares. The rules, their order and their texts are those of tap_state.cc, call_site.cc and
handlers.cc in src/core/ffi.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ... import _ext
from ..._base.errors import CallbackError
from ..._targets.target_attributes import tables
from ..site import TARGET as TAP

Spec = tuple[np.dtype[Any], tuple[int, ...]]
"""The dtype and the shape of an array."""

_TOKEN: Spec = (np.dtype(np.uint32), ())
_SHORT_NAMES = {name: short for short, name in _ext.DTYPE_NAMES.items()}


def check_tap(label: str, attributes: Mapping[str, Any], operands: Sequence[Spec], results: Sequence[Spec]) -> None:
    """Raises the core's error for a tap whose operands and results do not fit its attributes.

    Raises:
        CallbackError: operands or results do not fit the attributes.
    """
    returned, threaded, deferred = (
        list(attributes.get("returned", ())),
        bool(attributes.get("threaded")),
        bool(attributes.get("deferred")),
    )
    declared = threaded + deferred + len(returned)
    if results and len(results) != declared:
        _refuse(
            f"tap '{label}': expected {declared} results (attributes `threaded`, `returned`, `deferred`), got {len(results)}"
        )
    if threaded:
        operands, results = _without_token(operands, results)
    for place, operand in enumerate(returned):
        if operand >= len(operands) or place >= len(results) or operands[operand] != results[place]:
            _refuse(f"operand {operand} and result {place} of attribute 'returned' do not fit each other")
    if deferred and not (results and _bytes_of(results[-1]) == 4):
        got = _written(results[-1]) if results else "no result"
        _refuse(f"a deferred call's last result must be s32[], got {got}")
    _check_value(label, attributes, operands)


def _check_value(label: str, attributes: Mapping[str, Any], operands: Sequence[Spec]) -> None:
    leaves = str(attributes.get("leaves", "")).split("\n")
    most = tables()[TAP]["label"].most_bytes
    if longest := [name for name in leaves if len(name.encode()) > most]:
        _refuse(f"each name of a tap's `leaves` must have at most {most} characters, got {len(longest[0].encode())}")
    value, step, has_offsets = list(operands), None, bool(attributes.get("offsets"))
    if attributes.get("step"):
        place = len(leaves)
        if place >= len(value) or not _has_integers(value[place]):
            got = _written(value[place]) if place < len(value) else "no operand"
            _refuse(f"tap '{label}': expected its step, an integer, behind its leaves (attribute `step`), got {got}")
        step = value.pop(place)
    expected = len(leaves) + has_offsets
    if len(value) == expected:
        if has_offsets:
            _check_offsets(label, value[:-1], value[-1], step)
    elif value or leaves != [""] or has_offsets:
        _refuse(f"tap '{label}': expected {expected} operands (attributes `leaves`, `offsets`), got {len(value)}")


def _check_offsets(label: str, value: Sequence[Spec], offsets: Spec, step: Spec | None) -> None:
    """Checks the offsets: one for each dimension of the leaves, and of a batched step."""
    rank = sum(len(shape) for _, shape in value)
    dtype, shape = offsets
    if dtype == np.int64 and shape in ((rank,), (rank + (0 if step is None else len(step[1])),)):
        return
    got = _written(offsets)
    _refuse(f"tap '{label}': expected its offsets, s64[{rank}], as the last operand (attribute `offsets`), got {got}")


def check_call(attributes: Mapping[str, Any], operands: Sequence[Spec], results: Sequence[Spec]) -> None:
    """Raises the core's error for a call whose operands and results do not fit its attributes.

    Raises:
        CallbackError: the attributes require a token, and there is none.
    """
    if attributes.get("threaded"):
        _without_token(operands, results)


def check_held(operands: Sequence[Spec], results: Sequence[Spec]) -> None:
    """Raises the core's error for a `callout.v1.check` with wrong operands and results.

    Raises:
        CallbackError: the operands are not a status and values, or the results are not like these values.
    """
    misfit = ""
    if len(operands) != len(results) + 1 or _bytes_of(operands[0]) != 4:
        misfit = f"got {len(operands)} operands and {len(results)} results"
    else:
        pairs = zip(operands[1:], results, strict=True)
        misfit = next((f"got {_written(value)} and {_written(out)}" for value, out in pairs if value != out), "")
    if misfit:
        raise CallbackError(
            f"callout.v1.check: expected operands (s32[] status, values...) and the values as results; {misfit}"
        )


def _without_token(operands: Sequence[Spec], results: Sequence[Spec]) -> tuple[Sequence[Spec], Sequence[Spec]]:
    if list(operands[:1]) != [_TOKEN] or list(results[:1]) != [_TOKEN]:
        got = " and ".join(_written(specs[0]) if specs else "nothing" for specs in (operands, results))
        _refuse(f"a threaded call's first operand and first result must be u32[], got {got}")
    return operands[1:], results[1:]


def _has_integers(spec: Spec) -> bool:
    dtype, shape = spec
    return dtype.kind in "iu" and 0 not in shape  # integers of less than a byte are no NumPy dtypes


def _bytes_of(spec: Spec) -> int:
    dtype, shape = spec
    return dtype.itemsize * math.prod(shape)


def _written(spec: Spec) -> str:
    dtype, shape = spec
    return f"{_SHORT_NAMES.get(dtype.name, dtype.name)}[{','.join(map(str, shape))}]"


def _refuse(what: str) -> NoReturn:
    raise CallbackError(f"callout: {what}")
