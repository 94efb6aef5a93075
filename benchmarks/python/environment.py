# SPDX-License-Identifier: Apache-2.0
"""Describes versions and machine, without which the figures mean little."""

import datetime
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

from floor import compiler

PACKAGES = ("callout", "jax", "jaxlib", "jax-tvm-ffi", "jax-tqdm", "equinox", "tqdm", "numba", "numpy")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def busy() -> str:
    """Returns a warning if other programs use the processors, or ""."""
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    return (
        f"other programs are at work (load {load:.1f} on {cores} cores): the figures are too high" if load > 1 else ""
    )


def describe() -> dict[str, str]:
    """Returns the description above every table, in the order in which it is printed."""
    version = subprocess.run([compiler(), "--version"], capture_output=True, text=True, check=True).stdout
    return {
        "date": datetime.date.today().isoformat(),
        **{package: _version(package) for package in PACKAGES},
        "python": platform.python_version(),
        "compiler": version.splitlines()[0],
        "cpu": _cpu(),
        "cores": str(len(os.sched_getaffinity(0))),
        "load": f"{os.getloadavg()[0]:.2f}",
    }
