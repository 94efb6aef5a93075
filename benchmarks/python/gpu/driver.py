# SPDX-License-Identifier: Apache-2.0
"""The driver table and the image handlers on a real driver."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from rows import Group, NotRunError, WrongError, gpu

GROUP = Group("driver")
_TESTS = Path(os.environ.get("CALLOUT_CPP_BUILD", Path(__file__).parents[3] / "build" / "dev")) / "src/transport/cuda"


def _conformance(suite: str) -> str:
    gpu()
    binary = _TESTS / f"cuda_{suite}_conformance_test"
    if not binary.is_file():
        raise NotRunError(f"{binary.name} is not built (make test-cpp)")
    command = [str(binary), "--gtest_filter=*Real*"]
    environment = {**os.environ, "CALLOUT_TEST_CUDA_DRIVER": "libcuda.so.1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        failed = re.findall(r"^\[  FAILED  \] (\S+)", done.stdout, re.MULTILINE)
        raise WrongError(f"{', '.join(dict.fromkeys(failed)) or done.stderr.strip()}")
    passed = re.search(r"\[  PASSED  \] (\d+) test", done.stdout)
    return f"{passed[1] if passed else 0} tests passed"


@GROUP.row("conformance: launches")
def launches() -> str:
    return _conformance("launch")


@GROUP.row("conformance: memory")
def memory() -> str:
    return _conformance("memory")


@GROUP.row("conformance: streams and events")
def streams() -> str:
    return _conformance("stream")


@GROUP.row("conformance: captures and graphs")
def captures() -> str:
    return _conformance("capture")
