# SPDX-License-Identifier: Apache-2.0
"""Reads the devices of this process, and a thread's settings of JAX."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Sequence
from typing import Any

import jax

from .versions import MISSING

_kept: Sequence[jax.Device] = ()
_first: tuple[Any, Any] = (None, None)  # (devices, place): a cache of `default_place`

# The settings' own objects, because every eager call reads all settings, and `jax.config` would take twice as long.
_x64: Any = jax.enable_x64
_nans: Any = jax.debug_nans
_infs: Any = jax.debug_infs
_default_device: Any = jax.default_device


def local_devices() -> Sequence[jax.Device]:
    """Returns this process's devices that callbacks run on (all but Metal's), those of the default platform first."""
    return _kept or _with_callbacks(tuple(jax.local_devices()))


def keep_local_devices() -> None:
    """Fixes the result of `local_devices` at the exit of a process whose threads still run.

    JAX drops its backends at exit. A thread that reads the devices afterwards would start a backend during Python's
    finalization, and jaxlib would crash the process.
    """
    global _kept
    if threading.active_count() > 1:
        _kept = local_devices()


@functools.lru_cache(maxsize=1)
def _with_callbacks(of_default_platform: Sequence[jax.Device]) -> Sequence[jax.Device]:
    devices = [device for device in of_default_platform if device.platform in ("cpu", "gpu", "tpu")]
    if all(device.platform != "cpu" for device in devices):
        with contextlib.suppress(RuntimeError):  # JAX is configured without CPUs
            devices += jax.local_devices(backend="cpu")
    return tuple(devices)


def ordinal_of(device: jax.Device) -> int:
    """Returns the device's FFI ordinal. XLA:CPU passes the id, even if processes share the ids (0, 1, 2048, 2049)."""
    return device.id if device.platform == "cpu" else device.local_hardware_id or 0


def x64_enabled() -> bool:
    """Returns whether this thread keeps 64-bit types."""
    return bool(_x64.value)


def refused_values() -> tuple[str, ...]:
    """Returns which of "nan" and "inf" results must not have, by this thread's `jax_debug_nans` and `jax_debug_infs`."""
    nan, inf = _nans.value, _infs.value
    return (("nan",) if nan else ()) + (("inf",) if inf else ())


def jit_is_disabled() -> bool:
    """Returns whether this thread runs programs step by step, without jit."""
    settings: Any = jax.config
    return bool(settings.jax_disable_jit)


def default_place() -> tuple[jax.Device, int]:
    """Returns the device where this thread computes with uncommitted values, and its FFI ordinal."""
    global _first
    default = _default_device.value
    if default is not None and isinstance(default, jax.Device):
        return default, ordinal_of(default)
    devices = _kept or jax.local_devices()  # JAX returns one list while the backends live
    if devices is not _first[0]:
        device = local_devices()[0]
        _first = devices, (device, ordinal_of(device))
    place: tuple[jax.Device, int] = _first[1]
    return place


def uses_shardy() -> bool:
    """Returns whether shardings are written in Shardy's dialect."""
    settings: Any = jax.config
    return bool(getattr(settings, "jax_use_shardy_partitioner", True))


def cpu_device() -> jax.Device:
    """Returns a CPU device of this process. Raises RuntimeError if JAX is configured without CPUs."""
    return jax.local_devices(backend="cpu")[0]


def first_ordinal(platform: str) -> int:
    """Returns the FFI ordinal of this process's first device of a platform."""
    name = platform if platform in ("cpu", "tpu") else "gpu"
    return next((ordinal_of(device) for device in local_devices() if device.platform == name), 0)


def devices_in_use() -> Sequence[jax.Device]:
    """Returns `local_devices`, or none before the first use of a backend. Unlike the public API, starts no backend."""
    if _backends_are_initialized is not None and not _backends_are_initialized():
        return []
    return local_devices()


def has_backend() -> bool:
    """Returns whether a backend has started. Takes no lock."""
    return bool(_backends)


try:
    from jax._src.xla_bridge import _backends
except ImportError:
    _backends = {"": None}
    MISSING.append("jax._src.xla_bridge._backends")


try:
    from jax._src.xla_bridge import backends_are_initialized as _backends_are_initialized
except ImportError:
    _backends_are_initialized = None  # type: ignore[assignment]
    MISSING.append("jax._src.xla_bridge.backends_are_initialized")
