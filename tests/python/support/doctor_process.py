# SPDX-License-Identifier: Apache-2.0
"""Runs `python -m callout.doctor` in a process of its own."""

import os
import subprocess
import sys

import limited


def run_doctor(**environment: str) -> subprocess.CompletedProcess:
    return limited.run(
        [sys.executable, "-m", "callout.doctor"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
