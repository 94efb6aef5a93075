# SPDX-License-Identifier: Apache-2.0
"""The platform that the tests run on: XLA:CPU, or JAX's CUDA plugin with CALLOUT_TEST_PLATFORM=cuda.

A test runs on either unless it says otherwise:

- `cpu_only(reason)`: what it tests exists on a CPU alone.
- `cuda_xfail(reason)`: it fails on CUDA today; the reason is what it waits for.
- `collectives`: devices exchange values in it, which takes NCCL; the software GPU cannot run that.
- `devices(n)`: it needs n devices.

With CALLOUT_FALLBACK=always it runs by JAX's own callbacks as well, unless it says `native_only(reason)`: docs/fallback.md.
"""

import ctypes
import functools
import hashlib
import os
from pathlib import Path

import core_only
import pytest

PLATFORM = os.environ.get("CALLOUT_TEST_PLATFORM", "cpu")
ON_CUDA = PLATFORM == "cuda"
BY_FALLBACK = os.environ.get("CALLOUT_FALLBACK") == "always"

COLLECTIVES = "GPUs exchange values by NCCL, whose kernels are machine code: it takes hardware"
SOLVERS = "GPUs factorize by cuSOLVER, whose kernels are machine code: it takes hardware"
COMPILERS = "it is about the compilers of kernels; programs with kernels are in software_gpu/python/test_handlers.py"
COUNTED = "XLA's runtime calls the driver, too: calls are counted, and fail, on the double"
HOST = "the host without Python runs programs on XLA:CPU here; rows `host` of gpu-check give it the plugin"
"""Reasons for `cpu_only`."""

BUFFERS = "JAX has no callback on XLA's own memory and none in C++"
DEVICE = "JAX's callbacks do not tell which device calls"
RUN = "JAX's callbacks do not tell which execution calls"
SHARDS = "JAX's partitioned callbacks do not tell which shard is which"
SEVERAL = "a failure in a program over several devices is the next barrier's"
SYNCHRONOUS = "JAX dispatches programs with its callbacks synchronously on a CPU"
WAITS = "JAX takes the interpreter before it calls, and does not tell how long that took"
TEXT = "it reads the custom calls of a program"
"""Reasons for `native_only`."""

NO_COUNTERPART = ("buffer", "acting buffer", "cpp", "numba")


def awaited(outs):
    """The results of a program, when it has ended on a GPU: what a callback there raises comes with the wait.

    On a CPU programs whose callbacks may raise end before their dispatch returns. There this waits for nothing, and so
    `pytest.raises` around it holds dispatch to raising.
    """
    if ON_CUDA:
        import jax

        jax.block_until_ready(outs)
    return outs


def ended(outs):
    """The results of a program that has ended, on a GPU with what its checks and watches found when it had gone on.

    There the barrier raises that. On a CPU the program fails by itself.
    """
    import callout
    import jax

    jax.block_until_ready(outs)
    if ON_CUDA:
        callout.barrier_wait()
    return outs


def entries(names):
    """Names of entry points, to be parameters; those that JAX has no counterpart of are left out by its own callbacks."""
    marks = pytest.mark.native_only(BUFFERS)
    return [pytest.param(name, marks=marks) if name in NO_COUNTERPART else name for name in names]


def devices(n):
    """JAX's first n devices; skips the test where there are fewer."""
    import jax

    if len(found := jax.devices()) < n:
        pytest.skip(f"needs {n} devices")
    return found[:n]


def _loaded(name: str) -> list[Path]:
    """The files of this name that are mapped into the process."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted({Path(line.split(maxsplit=5)[5]) for line in lines if line.endswith(f"/{name}")})


@functools.cache
def on_software_gpu() -> bool:
    """Whether the driver that the plugin has loaded is the software GPU's."""
    import jax

    jax.devices()  # the plugin loads it
    return any(hasattr(ctypes.CDLL(str(driver)), "software_gpu_control") for driver in _loaded("libcuda.so.1"))


def _described(path: Path) -> str:
    return f"{path} (sha256 {hashlib.sha256(path.read_bytes()).hexdigest()[:16]})"


def report() -> list[str]:
    """What the tests run on: devices, and the files of plugin and driver."""
    if not ON_CUDA:
        return []
    import jax
    import jaxlib

    try:
        devices = jax.devices()
    except RuntimeError as error:
        raise pytest.UsageError(f"CALLOUT_TEST_PLATFORM=cuda: JAX has no such device: {error}") from error
    if wrong := [device for device in devices if device.platform != "gpu"]:
        raise pytest.UsageError(f"CALLOUT_TEST_PLATFORM=cuda: expected JAX's devices to be GPUs, got {wrong}")
    version = devices[0].client.platform_version.splitlines()
    files = [file for name in ("xla_cuda_plugin.so", "libcuda.so.1") for file in _loaded(name)]
    return [
        f"platform: cuda, {len(devices)} x {devices[0].device_kind}, {' '.join(version)}, jaxlib {jaxlib.__version__}",
        *(f"{file.name}: {_described(file.resolve())}" for file in files),
    ]


def mark(item: pytest.Item) -> None:
    """Before a test: skips or expects to fail what its marks say of the platform, or of JAX's own callbacks."""
    if (reason := core_only.reason_against(getattr(item, "originalname", item.name))) is not None:
        pytest.skip(reason)
    if BY_FALLBACK:
        for marker in item.iter_markers("native_only"):
            (reason,) = marker.args
            pytest.skip(f"not by JAX's own callbacks: {reason}")
    if not ON_CUDA:
        return
    for marker in item.iter_markers("cpu_only"):
        (reason,) = marker.args
        pytest.skip(f"on a CPU only: {reason}")
    if item.get_closest_marker("collectives") and on_software_gpu():
        pytest.skip(COLLECTIVES)
    for marker in item.iter_markers("cuda_xfail"):
        (reason,) = marker.args
        item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def _choose() -> None:
    """Makes the platform JAX's default, before JAX is imported."""
    if PLATFORM not in ("cpu", "cuda"):
        raise pytest.UsageError(f"CALLOUT_TEST_PLATFORM: expected 'cpu' or 'cuda', got {PLATFORM!r}")
    if ON_CUDA:
        os.environ["JAX_PLATFORMS"] = "cuda,cpu"  # the CPU is there too, as it is for users
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")


_choose()
