# SPDX-License-Identifier: Apache-2.0
"""Runs tests of the C++ build on a real device, if the environment names one."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from rows import WrongError


def cpp_build() -> Path:
    """Returns the folder of the C++ build: `CALLOUT_CPP_BUILD`, or the one of `make test-cpp`."""
    return Path(os.environ.get("CALLOUT_CPP_BUILD", Path(__file__).parents[3] / "build" / "gpu"))


def gtest(binary: Path, tests: str, environment: Mapping[str, str]) -> str:
    """Runs the tests that match a pattern. Returns how many passed; raises WrongError with the names of failed tests."""
    command = [str(binary), f"--gtest_filter={tests}"]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120)
    failed = re.findall(r"^\[  FAILED  \] (\S+)", done.stdout, re.MULTILINE)
    passed = re.search(r"^\[  PASSED  \] (\d+) test", done.stdout, re.MULTILINE)
    if done.returncode != 0 or passed is None or passed[1] == "0":
        raise WrongError(", ".join(dict.fromkeys(failed)) or done.stderr.strip() or "no tests ran")
    return f"{passed[1]} tests passed"
