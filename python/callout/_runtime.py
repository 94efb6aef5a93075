# SPDX-License-Identifier: Apache-2.0
"""Start and end: registering the FFI targets with JAX, and draining what is queued when the interpreter exits."""

from __future__ import annotations

import atexit
import time

import jax

from . import _errors, _ext, _jax_compat, _partition, _programs
from ._config import config
from ._logging import logger

# What plugins call the platform when they ask for what was registered. Lowering rules use the other name.
_PLUGIN_PLATFORMS = {"cuda": "CUDA"}


def register_targets() -> None:
    """Tells JAX about our FFI targets. Starts no backend."""
    for name, platform, handlers in _ext.ffi_targets():
        jax.ffi.register_ffi_target(name, handlers, platform=_PLUGIN_PLATFORMS.get(platform, platform))


def lend_host_callback_handler() -> None:
    """Lets calls on XLA's own threads run where XLA takes them for host callbacks: see docs/hangs.md."""
    handler = _jax_compat.host_callback_handler()
    if handler is not None:
        _ext.lend_host_callback_handler(handler)


def check_usable() -> None:
    """Raises ForkError in a forked child."""
    if _ext.is_forked_child():
        raise _errors.ForkError(_errors.FORK_TEXT)


def device_of(ordinal: int) -> jax.Device:
    """This process's JAX device with an FFI device ordinal."""
    return next(device for device in _jax_compat.local_devices() if _jax_compat.ordinal_of(device) == ordinal)


def _at_exit() -> None:
    if _ext.is_forked_child():
        return
    deadline = time.monotonic() + config.exit_timeout_s
    if _ext.live_counts()["callbacks"]:
        _programs.wait_for_programs(config.exit_timeout_s)
    _programs.forget_trivial()
    undelivered = _ext.shutdown(max(0.0, deadline - time.monotonic()))
    count, _, last = _ext.take_delivery_errors()
    if count:
        logger.error("%d taps failed and no barrier_wait() came after; the last one: %s", count, last)
    _ext.begin_exit()
    _ext.stop_watchdog()
    inside = _ext.close_interpreter(max(0.1, deadline - time.monotonic()))
    if undelivered:
        logger.warning(
            "exit: %d tap records were not delivered within exit_timeout_s=%g", undelivered, config.exit_timeout_s
        )
    if inside:
        logger.warning("exit: %d thread(s) still inside Python callbacks", inside)


def start() -> None:
    """Called once, by `import callout`."""
    _jax_compat.warn_if_untested()
    register_targets()
    _partition.register()
    lend_host_callback_handler()
    atexit.register(_at_exit)
