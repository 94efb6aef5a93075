# SPDX-License-Identifier: Apache-2.0
"""Describes calls with effects to transformations. Each primitive adds its description here."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[..., Any]


def allow(*_: Any) -> None:
    """Allows a transformation."""


@dataclasses.dataclass(frozen=True)
class CallKind:
    """The properties of a kind of call.

    `where`: the public function, for errors. `threaded`: additional parameters of a call in `callout.threaded`.
    `of_host`: devices with equal operands may get different results. `has_lanes`: the call can run for some lanes of a
    batch only. The checks raise an error if a transformation is not supported: `check_batch` gets whether the call is
    ordered, `check_jvp` and `check_transpose` get nothing.
    """

    where: str
    threaded: Mapping[str, Any] = dataclasses.field(default_factory=lambda: types.MappingProxyType({}))
    of_host: bool = False
    has_lanes: bool = True
    check_batch: Check = allow
    check_jvp: Check = allow
    check_transpose: Check = allow


_by_primitive: dict[Any, CallKind] = {}
_by_where: dict[str, CallKind] = {}


def add(primitive: Any, kind: CallKind) -> None:
    """Sets the kind of the calls of `primitive`."""
    _by_primitive[primitive] = _by_where[kind.where] = kind


def of_primitive(primitive: Any) -> CallKind | None:
    """Returns the kind of a primitive's calls; None if it has none."""
    return _by_primitive.get(primitive)


def of_where(where: str) -> CallKind:
    """Returns the kind of call of a public function."""
    return _by_where[where]
