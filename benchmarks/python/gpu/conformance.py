# SPDX-License-Identifier: Apache-2.0
"""Tests of the C++ build that run on a real device where the environment names one."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from rows import WrongError


def cpp_build() -> Path:
    """The folder of the C++ build: what `CALLOUT_CPP_BUILD` names, or that of `make test-cpp`."""
    return Path(os.environ.get("CALLOUT_CPP_BUILD", Path(__file__).parents[3] / "build" / "gpu"))


def gtest(binary: Path, tests: str, environment: Mapping[str, str]) -> str:
    """Runs the tests that fit a pattern; how many passed. WrongError with the names of those that failed."""
    command = [str(binary), f"--gtest_filter={tests}"]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120)
    failed = re.findall(r"^\[  FAILED  \] (\S+)", done.stdout, re.MULTILINE)
    passed = re.search(r"^\[  PASSED  \] (\d+) test", done.stdout, re.MULTILINE)
    if done.returncode != 0 or passed is None or passed[1] == "0":
        raise WrongError(", ".join(dict.fromkeys(failed)) or done.stderr.strip() or "no tests ran")
    return f"{passed[1]} tests passed"
