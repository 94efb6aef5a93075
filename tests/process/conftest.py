# SPDX-License-Identifier: Apache-2.0
"""Runs whole processes with time limits, for tests of exit, fork, hangs and load on two cores."""

import dataclasses
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import limited
import pytest

# Requests to servers on this machine bypass any proxy.
os.environ["no_proxy"] = "localhost,127.0.0.1"

_SUPPORT = Path(__file__).parents[1] / "python" / "support"
PRELUDE = f"""
import os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may start background jobs with it ignored
import numpy as np
import jax, jax.numpy as jnp
if os.environ.get("CALLOUT_TEST_ON_GPU_DOUBLE"):
    sys.path.append({str(_SUPPORT)!r})
    import gpu_double  # it imports callout in its own way
import callout
F32 = jax.ShapeDtypeStruct((), jnp.float32)
"""


@dataclasses.dataclass
class Finished:
    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """Runs a Python program; a hang is a failure."""

    def run_program(program, timeout=60, **environment):
        script = tmp_path_factory.mktemp("process") / "program.py"
        script.write_text(PRELUDE + textwrap.dedent(program))
        done = limited.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, **environment},
            check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    return run_program


@pytest.fixture
def start(tmp_path):
    """Starts a Python program whose output can be read; the program is killed at the end of the test at the latest."""
    started = []

    def start_program(program):
        script = tmp_path / f"program{len(started)}.py"
        script.write_text(PRELUDE + textwrap.dedent(program))
        process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start_program
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()
