# SPDX-License-Identifier: Apache-2.0
"""Runs the model that train_digits.py exported by the command `callout`, and compares the results with JAX's.

The command is a C++ program: no Python, no JAX. This script only starts it.

Usage: python examples/run_digits.py COMMAND PLUGIN [folder, default build/demo]
"""

import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np


def main(command: str, plugin: str, folder: str = "build/demo") -> None:
    out = Path(folder)
    arguments = [
        *(command, "run", f"{out}/digits.jax", "--plugin", plugin, "--arg", f"{out}/test.npz"),
        *("--bind", f"digits.evaluate={out}/libevaluate.so:evaluate", "--bind", "accuracy=print:accuracy {value:.2%}"),
        *("--output", f"{out}/result.npz", "--repeat", "100", "--stats"),
    ]
    print("\nthe same model without Python:\n  " + shlex.join(arguments), flush=True)
    done = subprocess.run(arguments, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"the command failed with exit code {done.returncode}")
    lines = done.stdout.splitlines()
    print("\n".join("  " + line for line in (lines[0], "  ...", *lines[-4:])))  # the lines of a tap, and the statistics
    expected, result = np.load(out / "expected.npz"), np.load(out / "result.npz")
    for name in expected.files:
        np.testing.assert_array_equal(result[name], expected[name], err_msg=name)
    print(f"the same {expected['arr_0'].size} digits and the same confusion matrix as from JAX")


if __name__ == "__main__":
    main(*sys.argv[1:])
