# SPDX-License-Identifier: Apache-2.0
"""Waiting for programs: those with effects by their tokens, others by trivial programs that XLA runs after them.

XLA runs the programs that one thread dispatches to one device in turn, and those over several devices of a platform one
after the other, whoever dispatched them. A trivial program on each device and one over all devices of a platform end after
what came before.
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
GRACE_S = 0.05  # beyond the time limit, to find out what is done


def _compile(sharding: jax.sharding.Sharding, length: int) -> Callable[[], jax.Array]:
    def callout_barrier() -> jax.Array:
        return jax.lax.full((length,), 0, np.int32)

    # Compiled ahead of time: a jitted function compiles again after jax.clear_caches() and under other settings.
    compiled: Any = jax.jit(callout_barrier, out_shardings=sharding).lower().compile()
    return compiled  # type: ignore[no-any-return]


class _Trivial:
    """Has the trivial programs, for one set of devices. They have no arguments, so no transfer guard stops them."""

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
    """Returns None while nobody has used a backend. Two threads may compile at once; one's programs are kept."""
    global _trivial
    devices = _jax_compat.devices_in_use()
    if not devices or _has_ended:
        return None
    trivial = _trivial
    if trivial is None or trivial.devices != devices:
        trivial = _trivial = _apart(functools.partial(_Trivial, devices))
    return trivial


def _apart(make: Callable[[], _Trivial]) -> _Trivial:
    """Makes it where JAX knows of nothing that the caller is in: a mesh, a trace, `compute_on`. Those are of its thread."""
    made: list[_Trivial] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            made.append(make())
        except BaseException as error:  # noqa: BLE001 - the caller's
            failed.append(error)

    is_done = _ext.call_with_timeout(run, math.inf)
    if failed:
        raise failed[0]
    if not is_done or not made:
        raise RuntimeError("no thread could be started to compile what waits for programs")
    return made[0]


def prepare() -> None:
    """Compiles the trivial programs, the first time: about 0.1 s that no time limit should count."""
    _get_trivial()


def forget_trivial() -> None:
    """Releases the trivial programs."""
    global _trivial
    _trivial = None


def end() -> None:
    """Releases them for good: executables must not outlive JAX's clean-up at exit. Nothing is waited for from now on."""
    global _has_ended
    _has_ended = True
    forget_trivial()


def _launch(programs: Sequence[Callable[[], jax.Array]]) -> list[Any]:
    if programs and _jax_compat.jit_is_disabled():
        with jax.disable_jit(False):  # compiled programs refuse to run without
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
    """Returns the names of the waits that take longer. A thread that waits for one of them is left to itself."""
    left = list(waits)
    late = False

    def run() -> None:
        while left and not late:
            left[0][1]()
            del left[0]

    if not waits or _ext.call_with_timeout(run, max(seconds, GRACE_S)):
        return []
    late = True
    remaining = list(left)  # the first one is late; what comes after it may be done
    return [name() for name, _ in remaining[:1]] + _not_done(remaining[1:])


def _not_done(waits: list[Wait]) -> list[str]:
    """Returns the names of the waits that do not end at once. Each gets a thread, since a token can only be waited for."""
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
    """Waits for the programs that the barrier covers; the names of those that are not done after `timeout` seconds."""
    trivial = _get_trivial()
    if timeout is None:
        results = _run_on_each_device(trivial)
        tokens.wait_for_pending()
        _run_over_all_devices(trivial)
        _wait(results)
        return []
    deadline = time.monotonic() + timeout
    waits = [*tokens.pending(), (lambda: SEVERAL_DEVICES, lambda: _run_over_all_devices(trivial))]
    # XLA admits 32 programs a device, and dispatching another waits. That must be this thread's last step, because the
    # order of its programs is what counts; so another thread has to find room first.
    waits.append((lambda: OWN, lambda: _wait(_run_on_each_device(trivial))))
    outstanding = list(dict.fromkeys(_wait_in_time(waits, timeout)))
    if OWN in outstanding:
        return outstanding
    results = _run_on_each_device(trivial)
    if not all(result.is_ready() for result in results):
        outstanding += _wait_in_time([(lambda: OWN, lambda: _wait(results))], max(0.0, deadline - time.monotonic()))
    return outstanding
