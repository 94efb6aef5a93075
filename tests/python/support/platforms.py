# SPDX-License-Identifier: Apache-2.0
"""The platform of the tests: XLA:CPU, or JAX's CUDA plugin with CALLOUT_TEST_PLATFORM=cuda.

A test runs on either platform unless it has a mark:

- `cpu_only(reason)`: the test is about a feature of CPUs only.
- `cuda_xfail(reason)`: the test fails on CUDA today; the reason names the missing part.
- `collectives`: devices exchange values, which takes NCCL; the software GPU cannot run it.
- `devices(n)`: the test needs n devices.

With CALLOUT_FALLBACK=always, a test runs by JAX's own callbacks, too, unless it has the mark
`native_only(reason)`: docs/fallback.md.
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
    """Returns the results of a program; on a GPU, waits for its end, which raises the error of a callback.

    On a CPU, programs whose callbacks may raise end before their dispatch returns. There this function waits for
    nothing, so that `pytest.raises` around it checks that the dispatch raises.
    """
    if ON_CUDA:
        import jax

        jax.block_until_ready(outs)
    return outs


def ended(outs):
    """Returns the results of a program that has ended, with its checks and watches evaluated.

    On a GPU, checks and watches run after the program has gone on, and the barrier raises their errors. On a CPU, the
    program itself fails.
    """
    import callout
    import jax

    jax.block_until_ready(outs)
    if ON_CUDA:
        callout.barrier_wait()
    return outs


def entries(names):
    """Returns names of entry points as parameters; JAX's own callbacks skip those without a counterpart in JAX."""
    marks = pytest.mark.native_only(BUFFERS)
    return [pytest.param(name, marks=marks) if name in NO_COUNTERPART else name for name in names]


def devices(n):
    """Returns JAX's first n devices; skips the test if there are fewer."""
    import jax

    if len(found := jax.devices()) < n:
        pytest.skip(f"needs {n} devices")
    return found[:n]


def _loaded(name: str) -> list[Path]:
    """Returns the files of this name that are mapped into the process."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted({Path(line.split(maxsplit=5)[5]) for line in lines if line.endswith(f"/{name}")})


@functools.cache
def on_software_gpu() -> bool:
    """Returns true if the driver that the plugin has loaded is the software GPU's."""
    import jax

    jax.devices()  # makes the plugin load the driver
    return any(hasattr(ctypes.CDLL(str(driver)), "software_gpu_control") for driver in _loaded("libcuda.so.1"))


def _described(path: Path) -> str:
    return f"{path} (sha256 {hashlib.sha256(path.read_bytes()).hexdigest()[:16]})"


def report() -> list[str]:
    """Describes the devices, and the files of the plugin and the driver."""
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
    """Skips a test, or expects its failure, by its marks for the platform and for JAX's own callbacks."""
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
        os.environ["JAX_PLATFORMS"] = "cuda,cpu"  # with the CPU, which users have, too
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")


_choose()
