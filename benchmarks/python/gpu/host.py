# SPDX-License-Identifier: Apache-2.0
"""Checks the host without Python on a CUDA plugin."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import sources
from conformance import cpp_build, gtest
from rows import Group, NotRunError, WrongError, expect, gpu

GROUP = Group("host")
_COMMAND = Path(os.environ.get("CALLOUT_HOST_COMMAND", Path(__file__).parents[3] / "build/host/bin/callout"))


_TESTS = cpp_build() / "src/host"

_NEGATE = """
#include "callout/call.h"
void Negate(const callout::Call& call) {
  auto x = call.arg<float>(0);
  auto y = call.result<float>(0);
  for (int64_t i = 0; i < x.size(); ++i) y[i] = -x[i];
}
CALLOUT_DEFINE_CALLBACK(negate, Negate);
"""


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
        said = _run(program, Path(folder), plugin)
    if "6" not in said:
        raise WrongError(f"expected 6, got {said}")
    return said


@GROUP.row("conformance: both flavours of callbacks")
def conformance() -> str:
    plugin = _plugin()
    binary = _TESTS / "host_plugin_test"
    if not binary.is_file():
        raise NotRunError(f"{binary.name} is not built (make test-cpp)")
    return gtest(binary, "*PluginConformance*Other*", {"CALLOUT_TEST_OTHER_PLUGIN": plugin})


def _run(program: Any, folder: Path, plugin: str, *options: str) -> str:
    """Runs an exported program with the argument 3 four times by the command, and returns its output."""
    file = folder / "program.bin"
    file.write_bytes(program.serialize())
    command = [str(_COMMAND), "run", str(file), "--plugin", plugin, "--arg", "f32[4]=3", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise WrongError(f"exit code {done.returncode}: {done.stdout} {done.stderr}")
    return done.stdout.strip()


@GROUP.row("an exported program with a call and taps")
def callbacks() -> str:
    import callout
    import jax
    import jax.numpy as jnp

    plugin = _plugin()
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        raise NotRunError("needs a C++ compiler")

    def step(_: Any, x: Any) -> Any:
        callout.tap("sum", x.sum())
        return callout.pure_callback("negate", jax.ShapeDtypeStruct(x.shape, x.dtype), x) * 2

    exported = callout.export(jax.jit(lambda x: jax.lax.fori_loop(0, 3, step, x)), platforms=["cuda"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "negate.cc").write_text(_NEGATE)
        built = [compiler, "-std=c++20", "-O2", "-shared", "-fPIC", f"-I{callout.include_dir()}", "negate.cc"]
        subprocess.run([*built, "-o", "negate.so"], cwd=folder, check=True)
        bound = ("--bind", f"negate={folder}/negate.so:negate", "--bind", "sum=print")
        said = _run(exported(jnp.ones(4, jnp.float32)), folder, plugin, *bound)
    expect("taps", ["sum: 12", "sum: -24", "sum: 48"], said.splitlines()[:3])
    if "-24" not in said.splitlines()[-1]:
        raise WrongError(f"expected -24, got {said}")
    return " ".join(said.split())
