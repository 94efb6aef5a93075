# SPDX-License-Identifier: Apache-2.0
"""Runs the command `callout` of the C++ build with programs that this JAX exports."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import c_api
import callout
import jax
import limited
import numpy as np

COMMAND = Path(os.environ.get("CALLOUT_COMMAND") or c_api.BUILD / "bin" / "callout")
STABLEHLO = "1.13.0"  # the version that the CPU plugin reads


TWICE = """
#include "callout/call.h"

void Twice(const callout::Call& call) {
  const auto x = call.arg<float>(0);
  for (int64_t i = 0; i < x.size(); ++i) call.result<float>(0)[i] = 2 * x[i];
}
CALLOUT_DEFINE_CALLBACK(twice, Twice);
"""


def build_library(folder, source, *, optimization="-O1"):
    """Returns the path of a shared library of native callbacks, compiled from C++ in this folder."""
    code, library = folder / "callbacks.cc", folder / "libcallbacks.so"
    code.write_text(source)
    flags = ["-std=c++20", optimization, "-shared", "-fPIC", f"-I{callout.include_dir()}"]
    subprocess.run([os.environ.get("CXX", "c++"), *flags, str(code), "-o", str(library)], check=True)
    return library


def missing():
    """Returns the reason why there is no command; "" if there is one."""
    if not COMMAND.exists():
        return f"no {COMMAND}: cmake --workflow --preset dev"
    return "" if c_api.plugin_path() else "no CPU plugin"


@dataclasses.dataclass
class Finished:
    code: int
    out: str
    err: str
    results: list[np.ndarray]


class Program:
    """A program in a file, run by the command."""

    def __init__(self, folder, jitted, *shapes, allowed=()):
        self.folder, self.path = folder, folder / "program.jax"
        checks = [jax.export.DisabledSafetyCheck.custom_call(target) for target in allowed]
        self.exported = callout.export(jitted, stablehlo_version=STABLEHLO, disabled_checks=checks)(*shapes)
        self.path.write_bytes(self.exported.serialize())

    def run(self, *arguments, bind=(), flags=()):
        """Runs the program with NumPy arrays, which are passed and returned in .npz files."""
        given, returned = self.folder / "given.npz", self.folder / "returned.npz"
        returned.unlink(missing_ok=True)
        np.savez(given, *arguments)
        options = [option for one in bind for option in ("--bind", one)]
        if arguments:
            options += ["--arg", given]
        return self.command("run", self.path, *options, "--output", returned, *flags)

    def info(self):
        return self.command("info", self.path)

    def command(self, name, *rest):
        """Runs `callout NAME REST...` with the plugin."""
        return run_command(name, *rest, "--plugin", c_api.plugin_path(), output=self.folder / "returned.npz")


def run_command(*arguments, output=None, first=""):
    """Runs the command. `first` holds Python statements that change the environment that the command inherits."""
    line = [str(COMMAND), *map(str, arguments)]
    if first:
        begin = f"import os, resource, signal, sys\n{first}\nos.execv(sys.argv[1], sys.argv[1:])"
        line = [sys.executable, "-c", begin, *line]
    done = limited.run(line, capture_output=True, text=True, timeout=100, check=False)
    results = []
    if output is not None and output.exists():
        with np.load(output) as arrays:
            results = [arrays[name] for name in arrays.files]
    return Finished(done.returncode, done.stdout, done.stderr, results)
