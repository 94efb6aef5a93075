# SPDX-License-Identifier: Apache-2.0
"""Whole processes with time limits: what happens when one ends, forks, hangs or loads two cores."""

import dataclasses
import os
import subprocess
import sys
import textwrap

import pytest

PRELUDE = """
import os, sys, threading, time
import numpy as np
import jax, jax.numpy as jnp
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
        done = subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, **environment},
            check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    return run_program
