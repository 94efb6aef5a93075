# SPDX-License-Identifier: Apache-2.0
"""Lines inside of derivative rules: JAX takes all that a rule traces for its call."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from ... import _jax_compat
from ..._base.patches import Place
from .user_lines import is_the_users


class _Here(threading.local):
    tracing = 0


_here = _Here()


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Keeps the lines of rules while this thread traces for `locate_nans`."""
    _here.tracing += 1
    try:
        yield
    finally:
        _here.tracing -= 1


def _call(original: Any, *args: Any, **params: Any) -> Any:
    if not _here.tracing or not is_the_users(params.get("bwd")):
        return NotImplemented
    with _jax_compat.own_lines():
        return original(*args, **params)


def hooked() -> Sequence[Place]:
    """Names what is patched: see `_base.patches`."""
    found = _jax_compat.custom_transpose_rule()
    return [] if found is None else [Place(*found, before=_call)]
