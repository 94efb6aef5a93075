# SPDX-License-Identifier: Apache-2.0
"""Eager values to NumPy and back, around callbacks that do not enter XLA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from .. import _jax_compat, _runtime


def to_host(value: Any) -> np.ndarray:
    """The value as NumPy sees it; waits for it. Python numbers get JAX's dtypes."""
    if not isinstance(value, (jax.Array, np.ndarray)):
        value = jax.numpy.asarray(value)
    return np.asarray(value)


def placement(values: Sequence[Any]) -> tuple[jax.Device, int, bool]:
    """Where an eager operation on `values` runs: device, its FFI ordinal, and whether its results are committed there."""
    devices = _jax_compat.local_devices()
    for value in values:
        if isinstance(value, jax.Array) and value.committed:
            device = min(value.devices(), key=lambda candidate: candidate.id)
            return device, devices.index(device) if device in devices else 0, True
    default = _jax_compat.default_device()
    if isinstance(default, jax.Device):
        return default, devices.index(default) if default in devices else 0, False
    return devices[0], 0, False


def check_usable() -> None:
    """Raises ForkError in a forked child."""
    _runtime.check_usable()
