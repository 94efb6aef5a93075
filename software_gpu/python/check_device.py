# SPDX-License-Identifier: Apache-2.0
"""Prints on what a program under `software_gpu/run` runs; fails unless it is JAX's CUDA plugin on the software GPU.

Usage: python check_device.py DRIVER [DEVICES]. DRIVER: the libcuda.so.1 that must have been loaded.
"""

import hashlib
import importlib.metadata
import sys
from pathlib import Path

import jax
import jax.numpy as jnp


def mapped(name: str) -> set[Path]:
    """Returns the files of this name that the process has loaded."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {Path(line.split(maxsplit=5)[5]).resolve() for line in lines if line.endswith("/" + name)}


def check(driver: Path, count: int | None) -> str:
    """Returns a line that describes the devices. Raises SystemExit if a program would run on anything else."""
    devices = jax.devices()
    if wrong := [str(device) for device in devices if device.platform != "gpu"]:
        sys.exit(f"software_gpu/run: expected JAX's devices to be GPUs, got {', '.join(wrong)}")
    if count is not None and len(devices) != count:
        sys.exit(f"software_gpu/run: expected {count} devices, got {len(devices)}")
    if (loaded := mapped("libcuda.so.1")) != {driver.resolve()}:
        sys.exit(f"software_gpu/run: expected the driver {driver}, got {', '.join(map(str, loaded)) or 'none'}")
    ones = jnp.ones(4) + 1
    if ones.devices() != {devices[0]} or ones.tolist() != [2.0] * 4:
        sys.exit(f"software_gpu/run: expected 2, 2, 2, 2 on {devices[0]}, got {ones} on {ones.devices()}")
    (plugin,) = mapped("xla_cuda_plugin.so")
    digest = hashlib.sha256(plugin.read_bytes()).hexdigest()
    version = importlib.metadata.version("jax")
    return (
        f"software GPU: JAX {version}, {len(devices)} x {devices[0].device_kind} (platform {devices[0].platform}), "
        f"{plugin} sha256 {digest}"
    )


if __name__ == "__main__":
    print(check(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None), flush=True)
