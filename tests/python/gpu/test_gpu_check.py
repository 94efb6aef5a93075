# SPDX-License-Identifier: Apache-2.0
"""Tests `ci/gpu_check.sh` without a GPU: the table has every row, with the reason why it did not run."""

import json
import sys
from pathlib import Path

import gpu_double
import jax
import limited
import pytest

_SCRIPT = Path(__file__).parents[3] / "benchmarks/python/gpu/check.py"


@pytest.mark.slow
@pytest.mark.skipif(jax.default_backend() == "gpu", reason="this machine has a GPU")
def test_every_row_reports_a_missing_gpu(tmp_path):
    command = [sys.executable, str(_SCRIPT), "--out", str(tmp_path)]
    environment = gpu_double.environment_without()
    done = limited.run(command, env=environment, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert {row["group"] for row in rows} >= {"driver", "kernels", "calls", "host"}
    assert [row for row in rows if row["status"] != "NOT RUN" or not row["text"]] == []
    assert f"gpu-check: 0 ok, 0 FAILED, {len(rows)} NOT RUN" in done.stdout
    assert "| kernels | CUDA C++ by NVRTC, jit | NOT RUN | JAX has no CUDA device here" in done.stdout


def test_a_group_that_there_is_not_is_refused():
    command = [sys.executable, str(_SCRIPT), "--only", "kernels,none"]
    done = limited.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "no such group: none" in done.stderr
