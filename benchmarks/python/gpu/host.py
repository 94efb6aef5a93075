# SPDX-License-Identifier: Apache-2.0
"""The host without Python on a CUDA plugin."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import tempfile
from pathlib import Path

import sources
from rows import Group, NotRunError, WrongError, gpu

GROUP = Group("host")
_COMMAND = Path(os.environ.get("CALLOUT_HOST_COMMAND", Path(__file__).parents[3] / "build/host/bin/callout"))


def _plugin() -> str:
    gpu()
    if not _COMMAND.is_file():
        raise NotRunError("the command is not built (make host)")
    for package in ("jax_plugins.xla_cuda13", "jax_plugins.xla_cuda12"):
        found = importlib.util.find_spec(package)
        if found is not None and found.origin is not None:
            return str(Path(found.origin).with_name("xla_cuda_plugin.so"))
    raise NotRunError("JAX's CUDA plugin is not a package here")


@GROUP.row("an exported program with a kernel")
def kernel() -> str:
    import callout
    import jax
    import jax.numpy as jnp

    plugin = _plugin()
    program = callout.export(jax.jit(sources.scale(2.0)), platforms=["cuda"])(jnp.ones(4, jnp.float32))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.bin"
        file.write_bytes(program.serialize())
        command = [str(_COMMAND), "run", str(file), "--plugin", plugin, "--arg", "f32[4]=3"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0 or "6" not in done.stdout:
        raise WrongError(f"exit code {done.returncode}: {done.stdout} {done.stderr}")
    return done.stdout.strip()
