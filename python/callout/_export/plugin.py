# SPDX-License-Identifier: Apache-2.0
"""Finds the StableHLO version that a PJRT plugin reads."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax

from .. import _jax_compat

# The version that xla-cpu-pjrt 0.0.1 reads, for exports without this package.
_CPU_PLUGIN_VERSION = "1.13.3"


def _cpu_plugin() -> str | None:
    """Returns the path of the CPU plugin, if it is installed in this environment."""
    spec = importlib.util.find_spec("xla_plugins")
    for folder in spec.submodule_search_locations or () if spec else ():
        path = Path(folder, "xla_cpu_pjrt", "xla_cpu_pjrt.so")
        if path.exists():
            return str(path)
    return None


def stablehlo_version(plugin: str) -> str | None:
    """Returns the StableHLO version that a plugin reads; None if the plugin is this jaxlib.

    Args:
        plugin: a path, or a platform of this process; "cpu" is the CPU plugin, because jaxlib's own CPU client is no
            plugin.

    Raises:
        ValueError: there is no such plugin, or it has no version.
    """
    if plugin == "cpu":
        installed = _cpu_plugin()
        if installed is None:
            return _CPU_PLUGIN_VERSION
        plugin = installed
    if "/" not in plugin and not plugin.endswith(".so"):
        try:
            client: Any = jax.local_devices(backend=plugin)[0].client
        except RuntimeError as error:
            raise ValueError(
                f"callout.export: for_plugin={plugin!r} is no platform of this process: {error}"
            ) from error
        version = getattr(client, "stablehlo_current_version", None)
        return None if version is None else ".".join(map(str, version))
    command = [sys.executable, "-c", _jax_compat.PRINT_PLUGIN_VERSION, plugin]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        out, err = done.stdout, done.stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        out, err = "", str(error)
    for line in out.splitlines():
        if line.startswith("StableHLO "):
            return ".".join(line.split()[1:])
    reason = err.strip().splitlines()[-1] if err.strip() else "it printed no version"
    raise ValueError(
        f"callout.export: for_plugin={plugin!r} does not tell its StableHLO version: {reason}. "
        "stablehlo_version sets it by hand"
    )
