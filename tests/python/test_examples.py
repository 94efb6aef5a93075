# SPDX-License-Identifier: Apache-2.0
"""The small examples run as they stand; they check themselves. The large one is `make demo`."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["scipy_in_jit.py", "errors.py", "native_callback/main.py"])
def test_example(name):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
