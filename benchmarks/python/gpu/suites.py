# SPDX-License-Identifier: Apache-2.0
"""Runs the Python test suites on a GPU, which pass on a CPU and on the software GPU.

Tests that need several devices are skipped on a machine with one.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

from rows import Group, WrongError, gpu, need

GROUP = Group("suites")
_TESTS = Path(__file__).parents[3] / "tests" / "python"
_SUITES = {
    "calls": ("test_pure_callback.py", "test_io_callback.py", "test_debug.py", "test_results.py", "test_errors.py"),
    "taps": ("test_tap.py", "test_tap_sending.py", "test_ordered.py", "test_print.py", "test_watch.py"),
    "host_callback": ("test_host_callback_tap.py", "test_host_callback_call.py", "test_host_callback_print.py"),
}
_TIMEOUT_S = 150


def _run(files: tuple[str, ...]) -> str:
    gpu()
    need("pytest")
    need("hypothesis")
    # Warnings are not errors here, because the machine's versions are not pinned.
    options = ["-q", "-p", "no:cacheprovider", "-o", "filterwarnings=", "--tb=line"]
    if importlib.util.find_spec("xdist") is not None:
        options += ["-n", "4", "--dist", "worksteal"]
    paths = [str(next(_TESTS.rglob(file))) for file in files]
    command = [sys.executable, "-m", "pytest", *options, *paths]
    environment = {**os.environ, "CALLOUT_TEST_PLATFORM": "cuda"}
    done = subprocess.run(command, cwd=_TESTS, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S)
    last = (done.stdout.strip().splitlines() or [done.stderr.strip()])[-1]
    if done.returncode != 0:
        failed = re.findall(r"^(?:FAILED|ERROR) \S*::(\S+)", done.stdout, re.MULTILINE)
        raise WrongError(f"{last}: {', '.join(failed)}")
    return last


for _name, _files in _SUITES.items():
    GROUP.row(_name)(functools.partial(_run, _files))
