# SPDX-License-Identifier: Apache-2.0
"""Waits for programs: with effects by their tokens, others by trivial programs that XLA runs after them.

XLA runs programs that one thread dispatches to one device in their order, and programs over several devices of a
platform one after the other. So a trivial program on each device, and one over all devices of a platform, end after the
earlier programs.
"""

from __future__ import annotations

import functools
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .. import _ext, _jax_compat
from . import tokens
from .tokens import OWN, Wait

SEVERAL_DEVICES = "programs over several devices"
GRACE_S = 0.05  # beyond the time limit, to find out which programs have ended


def _compile(sharding: jax.sharding.Sharding, length: int) -> Callable[[], jax.Array]:
    def callout_barrier() -> jax.Array:
        return jax.lax.full((length,), 0, np.int32)

    # The program is compiled ahead of time, because a jitted function would compile again after jax.clear_caches() and
    # under other settings.
    compiled: Any = jax.jit(callout_barrier, out_shardings=sharding).lower().compile()
    return compiled  # type: ignore[no-any-return]


class _Trivial:
    """Holds the trivial programs for one set of devices. They have no arguments, so that no transfer guard stops them."""

    def __init__(self, devices: Sequence[jax.Device]):
        self.devices = devices
        self.single = [_compile(jax.sharding.SingleDeviceSharding(device), 1) for device in self.devices]
        self.shared: list[Callable[[], jax.Array]] = []
        for platform in dict.fromkeys(device.platform for device in self.devices):
            together = [device for device in self.devices if device.platform == platform]
            if len(together) > 1:
                mesh = jax.sharding.Mesh(np.array(together), ("d",))
                sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
                self.shared.append(_compile(sharding, len(together)))


_trivial: _Trivial | None = None
_has_ended = False


def _get_trivial() -> _Trivial | None:
    """Returns the trivial programs, or None if no backend has started. Two threads may compile at once; one's are kept."""
    global _trivial
    devices = _jax_compat.devices_in_use()
    if not devices or _has_ended:
        return None
    trivial = _trivial
    if trivial is None or trivial.devices != devices:
        trivial = _trivial = _apart(functools.partial(_Trivial, devices))
    return trivial


def _apart(make: Callable[[], _Trivial]) -> _Trivial:
    """Makes the programs in a new thread, without the mesh, trace or `compute_on` that JAX keeps in the caller's thread."""
    made: list[_Trivial] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            made.append(make())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller
            failed.append(error)

    is_done = _ext.call_with_timeout(run, math.inf)
    if failed:
        raise failed[0]
    if not is_done or not made:
        raise RuntimeError("no thread could be started to compile what waits for programs")
    return made[0]


def prepare() -> None:
    """Compiles the trivial programs at the first call: about 0.1 s, which no time limit should include."""
    _get_trivial()


def forget_trivial() -> None:
    """Releases the trivial programs."""
    global _trivial
    _trivial = None


def end() -> None:
    """Releases the trivial programs for good, because executables must not outlive JAX's exit. Later waits do nothing."""
    global _has_ended
    _has_ended = True
    forget_trivial()


def _launch(programs: Sequence[Callable[[], jax.Array]]) -> list[Any]:
    if programs and _jax_compat.jit_is_disabled():
        with jax.disable_jit(False):  # compiled programs do not run under disable_jit
            return _launch(programs)
    try:
        return [program() for program in programs]
    except jax.errors.JaxRuntimeError:
        return []


def _run_on_each_device(trivial: _Trivial | None) -> list[Any]:
    return _launch(trivial.single) if trivial else []


def wait_on_each_device() -> None:
    """Waits for all programs that this thread has dispatched to one device."""
    _wait(_run_on_each_device(_get_trivial()))


def _run_over_all_devices(trivial: _Trivial | None) -> None:
    if trivial and trivial.shared:
        _wait(_launch(trivial.shared))


def _wait(results: Sequence[Any]) -> None:
    for result in results:
        tokens.has_failed(result)


def _wait_in_time(waits: list[Wait], seconds: float) -> list[str]:
    """Returns the names of the waits that take longer than `seconds`. The threads of these waits keep waiting."""
    left = list(waits)
    late = False

    def run() -> None:
        while left and not late:
            left[0][1]()
            del left[0]

    if not waits or _ext.call_with_timeout(run, max(seconds, GRACE_S)):
        return []
    late = True
    remaining = list(left)  # the first wait is late; later ones may have ended
    return [name() for name, _ in remaining[:1]] + _not_done(remaining[1:])


def _not_done(waits: list[Wait]) -> list[str]:
    """Returns the names of the waits that do not end at once. Each gets a thread, because a token cannot be polled."""
    done: list[int] = []
    ended = threading.Semaphore(0)

    def run(index: int) -> None:
        waits[index][1]()
        done.append(index)
        ended.release()

    for index in range(len(waits)):
        _ext.call_with_timeout(functools.partial(run, index), 0.0)
    deadline = time.monotonic() + GRACE_S
    for _ in waits:
        if not ended.acquire(timeout=max(0.0, deadline - time.monotonic())):
            break
    return [name() for index, (name, _) in enumerate(waits) if index not in done]


def wait_for_programs(timeout: float | None) -> list[str]:
    """Waits for the programs that the barrier covers. Returns the names of those that run after `timeout` seconds."""
    trivial = _get_trivial()
    if timeout is None:
        results = _run_on_each_device(trivial)
        tokens.wait_for_pending()
        _run_over_all_devices(trivial)
        _wait(results)
        return []
    deadline = time.monotonic() + timeout
    waits = [*tokens.pending(), (lambda: SEVERAL_DEVICES, lambda: _run_over_all_devices(trivial))]
    # XLA admits 32 programs for each device, and dispatching another one blocks. This thread must dispatch the trivial
    # programs itself, behind its other programs, so it does so last, and another thread first waits for room.
    waits.append((lambda: OWN, lambda: _wait(_run_on_each_device(trivial))))
    outstanding = list(dict.fromkeys(_wait_in_time(waits, timeout)))
    if OWN in outstanding:
        return outstanding
    results = _run_on_each_device(trivial)
    if not all(result.is_ready() for result in results):
        outstanding += _wait_in_time([(lambda: OWN, lambda: _wait(results))], max(0.0, deadline - time.monotonic()))
    return outstanding
