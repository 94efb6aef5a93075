# SPDX-License-Identifier: Apache-2.0
"""Which StableHLO version a PJRT plugin speaks."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import jax

from . import _jax_compat


def stablehlo_version(plugin: str) -> str | None:
    """The StableHLO version that a plugin speaks; None if it is this jaxlib. `plugin`: a platform, or a path.

    Raises:
        ValueError: there is no such plugin, or it does not say.
    """
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
