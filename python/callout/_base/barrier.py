# SPDX-License-Identifier: Apache-2.0
"""`callout.barrier_wait` waits for programs and for the delivery of records."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .. import _ext, _jax_compat
from . import errors, lifetime, programs
from .arguments import warn
from .config import config

_after_delivery: list[Callable[[], None]] = []


def after_delivery(function: Callable[[], None]) -> None:
    """Registers a `function` that barriers call after delivery. Its exceptions are raised like those of taps."""
    _after_delivery.append(function)


def _raise_tap_errors() -> None:
    count, first, last = _ext.take_delivery_errors()
    for function in _after_delivery:
        try:
            function()
        except Exception as failure:  # noqa: BLE001 - raised below
            last = errors.take(failure)[1], failure
            count, first = count + 1, [*first, failure]
    if last is None:
        return
    text, cause = last
    group = BaseExceptionGroup(f"the first {len(first)} of {count} failed taps", first)
    message = f"{count} tap{'s' if count > 1 else ''} failed since the last barrier; the last one: {text}"
    error = errors.TapError(message, count, group)
    if config.chain_errors:
        errors.adopt(error, cause)
    raise error from cause


def refuse_inside_callbacks(what: str) -> None:
    """Raises CallbackError inside a callback or a tap's function, where waiting would never end."""
    if _ext.inside_call() or _jax_compat.inside_jax_callback():
        raise errors.CallbackError(f"{what} inside a callback would wait for the callback's own program")
    if _ext.on_delivery_thread():
        raise errors.CallbackError(f"{what} inside a tap's function would wait for itself")


def warn_inside_traces(what: str) -> None:
    """Warns if JAX traces a program now, because the barrier does not become part of the program."""
    if _jax_compat.is_tracing_a_program():
        warn(
            f"{what} inside a function that JAX traces waits once, while the function is traced, and not when the program "
            "runs: call it after the program"
        )


def drain() -> None:
    """Waits for the queued records, except inside callbacks, where waiting would never end."""
    if not (_ext.on_delivery_thread() or _ext.inside_call() or _ext.is_forked_child()):
        _ext.drain(-1.0)


def _is_duration(seconds: Any) -> bool:
    try:
        return bool(seconds >= 0)
    except TypeError:  # a string, for example
        return False


def barrier_wait(timeout: float | None = None) -> None:
    """Waits until the programs that may tap are done and every tap's record is delivered.

    The barrier covers everything that was dispatched or queued before the call: programs of the calling thread,
    programs over several devices, programs with taps of any thread, and every record. It does not cover programs
    without taps that other threads dispatched to one device. It must not be called inside a callback or a tap's
    function. Inside a function that JAX traces, the barrier does not become part of the program, and warns.

    Args:
        timeout: seconds for programs and records together; None waits for ever.

    Raises:
        TapError: taps failed since the last barrier; also an instance of the last exception's class where layouts allow.
        BarrierTimeout: names the programs and queues that did not end in time; nothing is lost.
        CallbackError: the call is inside a callback or a tap's function.
        ForkError: the process is a forked child.

    Example:
        >>> seen = []
        >>> y = jax.jit(lambda x: callout.tap(seen.append, x))(jnp.float32(2))
        >>> callout.barrier_wait(timeout=60)
        >>> [float(value) for value in seen]
        [2.0]
    """
    lifetime.check_usable()
    if timeout is not None and not _is_duration(timeout):
        raise ValueError(f"callout.barrier_wait: timeout must be None or 0 or more seconds, got {timeout!r}")
    refuse_inside_callbacks("callout.barrier_wait()")
    warn_inside_traces("callout.barrier_wait()")
    if timeout is not None:
        programs.prepare()
    deadline = None if timeout is None else time.monotonic() + timeout
    retired, _ = _ext.retired_handles()
    outstanding = programs.wait_for_programs(timeout)
    outstanding += _ext.drain(-1.0 if deadline is None else max(0.0, deadline - time.monotonic()))
    if not outstanding:
        _ext.free_handles(retired)  # their programs have ended, and their records are delivered
    else:
        raise errors.BarrierTimeout(f"barrier_wait(timeout={timeout}): still outstanding: {'; '.join(outstanding)}")
    _raise_tap_errors()
