# SPDX-License-Identifier: Apache-2.0
"""Parses and checks signatures of foreign functions: "(x: f32[n, m], y: f32[m], *, eps: f32) -> (z: f32[n])"."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from .. import _ext

_SHORT: dict[str, str] = {**_ext.DTYPE_NAMES, "pred": "bool"}
_KINDS: dict[str, Any] = {"str": str, "bool": (bool, np.bool_), "dict": dict, "any": object}
_BUFFER = re.compile(r"(\w+)\s*:\s*(\w+|\*)\s*(\[[^\]]*\])?\s*$")
_ATTRIBUTE = re.compile(r"(\w+)\s*:\s*(\w+)\s*(\[\])?\s*(\?)?\s*$")


def _dtype(text: str) -> np.dtype[Any] | None:
    """Returns the dtype of a name; None for any dtype."""
    return None if text == "*" else np.dtype(jax.numpy.dtype(_SHORT.get(text, text)))


@dataclasses.dataclass(frozen=True)
class _Buffer:
    name: str
    dtype: np.dtype[Any] | None
    dims: tuple[str, ...] | None  # numbers, names, or "..." in front; None: any shape

    def check(self, aval: Any, extents: dict[str, int]) -> str:
        """Returns the reason why `aval` does not fit, or ""."""
        if self.dtype is not None and np.dtype(aval.dtype) != self.dtype:
            return f"expected {self}, got dtype {np.dtype(aval.dtype).name}"
        if self.dims is None:
            return ""
        dims, shape = self.dims, tuple(aval.shape)
        if dims[:1] == ("...",):
            dims = dims[1:]
            shape = shape[max(len(shape) - len(dims), 0) :]
        if len(dims) != len(shape):
            return f"expected {self}, got rank {len(aval.shape)} (shape {tuple(aval.shape)})"
        for dim, extent in zip(dims, shape, strict=True):
            known = int(dim) if dim.isdigit() else extents.setdefault(dim, extent)
            if known != extent:
                return f"expected {self} with {dim} = {known}, got shape {tuple(aval.shape)}"
        return ""

    def known(self, extents: Mapping[str, int]) -> jax.ShapeDtypeStruct | None:
        """Returns the type for these extents of dimensions; None if dtype or shape are not determined."""
        if self.dtype is None or self.dims is None:
            return None
        shape = [int(dim) if dim.isdigit() else extents.get(dim) for dim in self.dims]
        return None if None in shape else jax.ShapeDtypeStruct(tuple(shape), self.dtype)

    def __str__(self) -> str:
        dims = "" if self.dims is None else f"[{', '.join(self.dims)}]"
        return f"{'any dtype' if self.dtype is None else self.dtype.name}{dims}"


@dataclasses.dataclass(frozen=True)
class _Attribute:
    name: str
    type: str
    is_array: bool
    is_optional: bool

    def check(self, value: Any) -> str:
        """Returns the reason why `value` does not fit, or ""."""
        if self.type in _KINDS:
            fits = isinstance(value, _KINDS[self.type])
        else:
            array = np.asarray(value)
            fits = array.ndim == int(self.is_array) and array.dtype == _dtype(self.type)
        if fits:
            return ""
        got = (
            f"{np.asarray(value).dtype.name} {value!r}" if isinstance(value, (np.generic, np.ndarray)) else repr(value)
        )
        return f"expected {self}, got {got}"

    def __str__(self) -> str:
        dtype = None if self.type in _KINDS else _dtype(self.type)
        if dtype is None:
            return self.type
        return f"an array of {dtype.name}" if self.is_array else f"numpy.{dtype.name}"


def _split(text: str) -> list[str]:
    """Splits a text at the commas outside of brackets."""
    parts = re.split(r",(?![^\[]*\])", text)
    return [part.strip() for part in parts if part.strip()]


def _check_all(
    where: str, what: str, declared: Sequence[_Buffer], avals: Sequence[Any], extents: dict[str, int]
) -> None:
    avals = [aval for aval in avals if hasattr(aval, "shape")]  # no tokens
    if len(declared) != len(avals):
        names = ", ".join(one.name for one in declared)
        raise TypeError(f"{where}: expected {len(declared)} {what}s ({names}), got {len(avals)}")
    for one, aval in zip(declared, avals, strict=True):
        if why := one.check(aval, extents):
            raise TypeError(f"{where}: {what} '{one.name}': {why}")


class Signature:
    """A handler's parsed signature. A name of a dimension has one extent throughout.

    Args:
        text: the `signature` of `register_ffi_target`.

    Raises:
        ValueError: the text is no signature.
    """

    def __init__(self, text: str):
        match = re.fullmatch(r"\s*\((.*?)\)\s*->\s*\((.*)\)\s*", text, re.DOTALL)
        if match is None:
            raise ValueError(
                f"callout.ffi: a signature looks like '(x: f32[n], *, eps: f32) -> (y: f32[n])', got {text!r}"
            )
        self._text = text
        inputs = _split(match[1])
        star = inputs.index("*") if "*" in inputs else len(inputs)
        self._args = [self._buffer(part) for part in inputs[:star]]
        self._attributes = [self._attribute(part) for part in inputs[star + 1 :]]
        self._results = [self._buffer(part) for part in _split(match[2])]

    def __repr__(self) -> str:
        return f"Signature({self._text!r})"

    def _buffer(self, text: str) -> _Buffer:
        match = _BUFFER.fullmatch(text)
        if match is None:
            raise ValueError(f"callout.ffi: expected 'name: dtype[dims]' in a signature, got {text!r}")
        dims = None if match[3] is None else tuple(dim.strip() for dim in match[3][1:-1].split(",") if dim.strip())
        return _Buffer(match[1], self._checked(match[2]), dims)

    def _attribute(self, text: str) -> _Attribute:
        match = _ATTRIBUTE.fullmatch(text)
        if match is None:
            raise ValueError(f"callout.ffi: expected 'name: dtype', 'name: dtype[]' or 'name: str', got {text!r}")
        if match[2] not in _KINDS:
            self._checked(match[2])
        return _Attribute(match[1], match[2], match[3] is not None, match[4] is not None)

    def _checked(self, name: str) -> np.dtype[Any] | None:
        try:
            return _dtype(name)
        except TypeError:
            raise ValueError(f"callout.ffi: unknown dtype {name!r} in the signature {self._text!r}") from None

    def results_for(self, target: str, args: Sequence[Any]) -> list[jax.ShapeDtypeStruct]:
        """Returns the results for arguments. Raises TypeError if arguments do not fit, or do not determine the results."""
        where = f"callout.ffi.ffi_call '{target}'"
        extents: dict[str, int] = {}
        _check_all(where, "argument", self._args, args, extents)
        results = []
        for one in self._results:
            if (known := one.known(extents)) is None:
                raise TypeError(
                    f"{where}: the signature does not say what result '{one.name}' is, {one}: say result_shape_dtypes"
                )
            results.append(known)
        return results

    def check(self, target: str, args: Sequence[Any], results: Sequence[Any], attributes: Mapping[str, Any]) -> None:
        """Raises TypeError, with the name, if an argument, a result or an attribute does not fit."""
        where = f"callout.ffi.ffi_call '{target}'"
        extents: dict[str, int] = {}
        _check_all(where, "argument", self._args, args, extents)
        _check_all(where, "result", self._results, results, extents)
        known = {attribute.name: attribute for attribute in self._attributes}
        missing = [name for name, attribute in known.items() if not attribute.is_optional and name not in attributes]
        unknown = [name for name in attributes if name not in known]
        if missing or unknown:
            raise TypeError(
                f"{where}: expected the attributes {sorted(known)}, got {sorted(attributes)}"
                + (f"; missing: {missing}" if missing else "")
                + (f"; unknown: {unknown}" if unknown else "")
            )
        for name, value in attributes.items():
            if why := known[name].check(value):
                raise TypeError(f"{where}: attribute '{name}': {why}")
