# SPDX-License-Identifier: Apache-2.0
"""Checks several devices in one process: collectives beside callbacks, and the devices' numbers."""

from __future__ import annotations

import gc
import os
import threading
from typing import Any

import sources
from own_process import flags, run_alone
from rows import ON_SOFTWARE, Group, NotRunError, expect, gpu

GROUP = Group("two_gpus")
_SIZES = (1 << 10, 1 << 14, 1 << 18, 1 << 20)


def _pair(collective: bool = False) -> list[Any]:
    """Returns two devices. Raises NotRunError without them."""
    import jax

    gpu()
    devices = jax.devices("cuda")
    if len(devices) < 2:
        raise NotRunError("needs hardware with two GPUs in this process")
    if collective and ON_SOFTWARE:
        raise NotRunError("devices exchange values by NCCL: needs hardware")
    return devices[:2]


def _sharded(part: Any, size: int, devices: list[Any]) -> Any:
    """Returns a jitted function that applies `part` to each device's `size` floats, and an argument."""
    import jax
    import numpy as np

    mesh = jax.sharding.Mesh(np.array(devices), ("d",))
    spec = jax.sharding.PartitionSpec("d")
    program = jax.jit(jax.shard_map(part, mesh=mesh, in_specs=spec, out_specs=spec))
    x = jax.device_put(np.ones(2 * size, np.float32), jax.sharding.NamedSharding(mesh, spec))
    return program, x


def _own(v: Any) -> Any:
    return v + 1


def _part(size: int, heard: list[Any], collective: bool) -> Any:
    """Returns a function with a tap, a call and maybe a sum over the devices: x -> x + 1, or the sum of both + 1."""
    import callout
    import jax

    def part(x: Any) -> Any:
        callout.tap(lambda v: heard.append(float(v)), x[0])
        if collective:
            x = jax.lax.psum(x, "d")
        return callout.pure_callback(_own, jax.ShapeDtypeStruct((size,), "float32"), x)

    return part


def _grow(collective: bool) -> str:
    """Calls with more and more bytes, in programs that are dropped right after dispatch."""
    import callout
    import numpy as np

    devices = _pair(collective)
    heard: list[Any] = []
    for size in _SIZES:
        for _ in range(3):
            program, x = _sharded(_part(size, heard, collective), size, devices)
            result = program(x)
            del program
            gc.collect()
            expect(f"{size} floats", np.full(2 * size, 3 if collective else 2, np.float32), result)
    callout.barrier_wait()
    expect("taps", 2 * 3 * len(_SIZES), len(heard))
    return f"{len(heard)} taps, calls of up to {_SIZES[-1] * 4 >> 20} MB on each device"


@GROUP.row("calls of growing size and taps on both, functions dropped meanwhile")
def growing() -> str:
    return _grow(collective=False)


@GROUP.row("the same with psum")
def growing_with_psum() -> str:
    return _grow(collective=True)


@GROUP.row("psum and taps while another thread drops functions")
def dropped_meanwhile() -> str:
    import callout
    import numpy as np

    devices = _pair(collective=True)
    over, heard = threading.Event(), []

    def drop() -> None:
        while not over.is_set():
            program, x = _sharded(_part(256, [], False), 256, devices)
            program(x).block_until_ready()
            del program
            gc.collect()

    program, x = _sharded(_part(1 << 12, heard, True), 1 << 12, devices)
    thread = threading.Thread(target=drop)
    thread.start()
    try:
        for i in range(50):
            expect(f"run {i}", np.full(2 << 12, 3, np.float32), program(x))
    finally:
        over.set()
        thread.join()
    callout.barrier_wait()
    expect("taps", 100, len(heard))
    return "50 runs"


def slow_call() -> str:
    """Runs a call of a minute on one device, while the other device waits in a collective of the program."""
    import callout
    import jax
    import numpy as np

    def wait(v: Any) -> Any:
        threading.Event().wait(60)
        return v + 1

    def part(x: Any) -> Any:
        def late() -> Any:
            return callout.pure_callback(wait, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

        return jax.lax.psum(jax.lax.cond(jax.lax.axis_index("d") == 0, late, lambda: x), "d") + 0 * x

    program, x = _sharded(part, 4, _pair(collective=True))
    expect("the sum", np.full(8, 3, np.float32), program(x))
    return "60 s"


@GROUP.row("a call of 60 s while the other waits in psum, with XLA's time limits raised")
def slow() -> str:
    _pair(collective=True)
    limits = flags(*(f"--xla_gpu_executable_{what}_timeout=300" for what in ("warn_stuck", "terminate")))
    return run_alone(slow_call, limits, timeout_s=240)[0]


def _told(device: Any) -> int:
    """Returns the device number that a buffer callback gets on `device`, and checks the device that a tap gets."""
    import callout
    import jax
    from callout.buffer_callback import buffer_callback

    numbers: list[int] = []
    devices: list[Any] = []

    def look(ctx: Any, out: Any, x: Any) -> None:
        numbers.append(ctx.device_ordinal)
        sources.copy_on_device(ctx.stream, out, x)

    def hear(x: Any, device: Any) -> None:
        devices.append(device)

    @jax.jit
    def program(x: Any) -> Any:
        callout.tap(hear, x, with_device=True)
        return buffer_callback(look, jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    x = jax.device_put(jax.numpy.arange(4.0), device)
    expect("the callback's result", x, program(x))
    callout.barrier_wait()
    expect("the tap's device", str(device), str(devices[0]))
    return numbers[0]


def ordinals() -> str:
    """Returns the PCI buses of JAX's devices, by the numbers that callbacks get."""
    import jax
    from callout import _ext

    jax.config.update("jax_cuda_visible_devices", os.environ.get("CALLOUT_CHECK_VISIBLE", "all"))
    _, _, found, _ = _ext.cuda_driver()
    told = [_told(device) for device in jax.devices("cuda")]
    expect("the callbacks' numbers", [device.local_hardware_id for device in jax.devices("cuda")], told)
    return " ".join(found[number][4] for number in told)


@GROUP.row("devices in another order by CUDA_VISIBLE_DEVICES, or some of them for JAX alone")
def order() -> str:
    import jax

    _pair()
    straight = run_alone(ordinals)[0].split()
    turned = run_alone(ordinals, {"CUDA_VISIBLE_DEVICES": "1,0"})[0].split()
    expect("in the other order", straight[1::-1], turned)
    both = f"{' '.join(straight)}, {' '.join(turned)}"
    if jax.__version_info__[:2] == (0, 11):
        return f"{both}; JAX 0.11 runs no program on some of the devices"
    second = run_alone(ordinals, {"CALLOUT_CHECK_VISIBLE": "1"})[0].split()
    expect("the second alone", straight[1:2], second)
    return f"{both}, {' '.join(second)}"
