# SPDX-License-Identifier: Apache-2.0
"""Transfers that `jax.transfer_guard` has no say in, because a program makes none in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax

T = TypeVar("T")


def unguarded(function: Callable[..., T], *args: Any) -> T:
    """Returns `function(*args)`, which may move arrays from and to the host whatever the guard says.

    Where the guard refuses it is called again, since to ask the guard first takes as long as half of an eager call.
    """
    try:
        return function(*args)
    except jax.errors.JaxRuntimeError as error:
        if not str(error).startswith("INVALID_ARGUMENT: Disallowed"):
            raise
    with jax.transfer_guard("allow"):
        return function(*args)
