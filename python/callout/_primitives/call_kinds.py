# SPDX-License-Identifier: Apache-2.0
"""What transformations ask about a call that has effects: each of its primitives says it here, where that is made."""

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
    """What a kind of call is like.

    `where`: the public function, which errors show. `threaded`: the parameters of a call in `callout.threaded` that the
    primitive's own do not have. `of_host`: devices that ask alike may get different answers. `has_lanes`: it can run for
    some lanes of a batch only. The checks raise where a transformation is refused: `check_batch` gets whether the call is
    ordered, `check_jvp` and `check_transpose` nothing.
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
    """Says what the calls of `primitive` are like."""
    _by_primitive[primitive] = _by_where[kind.where] = kind


def of_primitive(primitive: Any) -> CallKind | None:
    """Returns the kind of a primitive's calls; None if nothing is said about it."""
    return _by_primitive.get(primitive)


def of_where(where: str) -> CallKind:
    """Returns the kind of call that errors name so."""
    return _by_where[where]
