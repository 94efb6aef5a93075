# SPDX-License-Identifier: Apache-2.0
"""Runs distributed_worker.py in two processes, or in one, and returns the findings of each."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).with_name("distributed_worker.py")
WHOLE = [float(i) for i in range(8)]
DOUBLE = [2 * v for v in WHOLE]
PARTS = [[WHOLE[:2], WHOLE[2:4]], [WHOLE[4:6], WHOLE[6:]]]  # the shards of each process's devices
TIME_LIMIT_S = 100  # shorter than the whole test's, so that the output of the processes is shown


def run_pair(scenario, folder):
    """Returns the findings of each of the two processes."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    return _run(2, port, scenario, folder)


def run_alone(scenario, folder):
    """Returns the findings of one process with all devices."""
    return _run(1, 0, scenario, folder)[0]


def _run(count, port, scenario, folder):
    command = [sys.executable, str(WORKER)]
    pair = [
        subprocess.Popen(
            [*command, str(rank), str(port), scenario, str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(count)
    ]
    try:
        outputs = [process.communicate(timeout=TIME_LIMIT_S)[0] for process in pair]
    finally:
        for process in pair:
            process.kill()
            process.wait()
    files = [folder / f"{rank}.json" for rank in range(count)]
    seen = [json.loads(file.read_text()) if file.exists() else {} for file in files]
    reasons = [process_saw["not started"] for process_saw in seen if "not started" in process_saw]
    if len(reasons) == count:
        pytest.skip(f"jax.distributed does not start on this machine: {reasons[0]}")
    assert [process.returncode for process in pair] == [0] * count, "\n".join(outputs)
    return seen


def both(saw, name):
    return [process_saw[name] for process_saw in saw]
