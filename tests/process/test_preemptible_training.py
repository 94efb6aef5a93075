# SPDX-License-Identifier: Apache-2.0
"""Tests the example of a training that survives SIGTERM: a stopped run and the next one give the results of a whole run."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.native_only("programs read flags by a handler of XLA FFI")

EXAMPLE = Path(__file__).parents[2] / "examples" / "preemptible_training.py"
NEVER = 2_000_000_000  # a number of steps that is never reached


def command(folder, steps):
    return [sys.executable, str(EXAMPLE), str(folder), str(steps)]


def finish(folder, steps):
    done = subprocess.run(command(folder, steps), capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    outcome, digest = [line for line in done.stdout.splitlines() if not line.startswith("training")]
    return outcome, digest


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_run_and_the_next_one_are_one_run(tmp_path, number):
    with subprocess.Popen(command(tmp_path / "stopped", NEVER), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "training, behind step 0\n"
            process.send_signal(number)
            rest = process.stdout.read()
            assert process.wait(timeout=600) == 0
        finally:
            process.kill()
    stopped = int(re.search(r"^stopped: from step 0 to (\d+)$", rest, re.MULTILINE).group(1))
    assert 0 < stopped < NEVER
    steps = stopped + 1000
    outcome, digest = finish(tmp_path / "stopped", steps)
    assert outcome == f"done: from step {stopped} to {steps}"
    assert finish(tmp_path / "whole", steps) == (f"done: from step 0 to {steps}", digest)
