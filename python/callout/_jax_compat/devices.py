# SPDX-License-Identifier: Apache-2.0
"""The devices of this process, and the settings of JAX that a thread has."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Sequence
from typing import Any

import jax

from .versions import MISSING

_kept: Sequence[jax.Device] = ()


def local_devices() -> Sequence[jax.Device]:
    """Returns this process's devices that callbacks run on, those of the default platform first: all but Metal's."""
    return _kept or _with_callbacks(tuple(jax.local_devices()))


def keep_local_devices() -> None:
    """Makes `local_devices` return the devices that there are now, at the exit of a process with threads that go on.

    JAX drops its backends at exit. A thread that asks for devices afterwards would start a backend while Python goes away,
    and jaxlib ends the process then.
    """
    global _kept
    if threading.active_count() > 1:
        _kept = local_devices()


@functools.lru_cache(maxsize=1)
def _with_callbacks(of_default_platform: Sequence[jax.Device]) -> Sequence[jax.Device]:
    devices = [device for device in of_default_platform if device.platform in ("cpu", "gpu", "tpu")]
    if all(device.platform != "cpu" for device in devices):
        with contextlib.suppress(RuntimeError):  # JAX was told to use other platforms only
            devices += jax.local_devices(backend="cpu")
    return tuple(devices)


def ordinal_of(device: jax.Device) -> int:
    """Returns the device's FFI ordinal. XLA:CPU passes the id, also where processes share the ids (0, 1, 2048, 2049)."""
    return int(device.id if device.platform == "cpu" else device.local_hardware_id or 0)


def x64_enabled() -> bool:
    """Tells whether 64-bit types are kept, in this thread."""
    settings: Any = jax.config
    return bool(settings.jax_enable_x64)


def refused_values() -> tuple[str, ...]:
    """Returns which of "nan" and "inf" no result may have, as `jax_debug_nans` and `jax_debug_infs` say in this thread."""
    settings: Any = jax.config
    nan, inf = settings.jax_debug_nans, settings.jax_debug_infs
    return (("nan",) if nan else ()) + (("inf",) if inf else ())


def jit_is_disabled() -> bool:
    """Tells whether programs run step by step, in this thread."""
    settings: Any = jax.config
    return bool(settings.jax_disable_jit)


def default_device() -> Any:
    """Returns `jax_default_device` of this thread, or None."""
    settings: Any = jax.config
    return settings.jax_default_device


def uses_shardy() -> bool:
    """Tells whether shardings are written in Shardy's dialect."""
    settings: Any = jax.config
    return bool(getattr(settings, "jax_use_shardy_partitioner", True))


def cpu_device() -> jax.Device:
    """Returns a CPU of this process. RuntimeError if JAX was told to use other platforms only."""
    return jax.local_devices(backend="cpu")[0]


def first_ordinal(platform: str) -> int:
    """Returns the FFI ordinal of this process's first device of a platform."""
    name = platform if platform in ("cpu", "tpu") else "gpu"
    return next((ordinal_of(device) for device in local_devices() if device.platform == name), 0)


def devices_in_use() -> Sequence[jax.Device]:
    """Returns `local_devices`, or none while nobody has used a backend. Starts no backend: the public API does."""
    if _backends_are_initialized is not None and not _backends_are_initialized():
        return []
    return local_devices()


def has_backend() -> bool:
    """Tells whether somebody has used a backend. Takes no lock."""
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
