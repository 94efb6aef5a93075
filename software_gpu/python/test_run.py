# SPDX-License-Identifier: Apache-2.0
"""Tests that `software_gpu/run` starts no command that would run on anything else than the software GPU."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parents[1] / "run"


@pytest.fixture
def run(tmp_path):
    """Returns a function that runs a command which leaves a file, and returns its output and whether it ran."""

    def with_environment(*options, **changed):
        left = tmp_path / "left"
        environment = {**os.environ, "CALLOUT_SOFTWARE_GPU_PYTHON": sys.executable, **changed}
        done = subprocess.run(
            [RUN, *options, "touch", left], env=environment, capture_output=True, text=True, timeout=100, check=False
        )
        assert (done.returncode == 0) == left.exists()
        return done.stderr, left.exists()

    return with_environment


def test_it_says_what_a_command_runs_on(run):
    said, ran = run("--devices", "2")
    assert ran
    assert "2 x " in said
    assert "(platform gpu)" in said
    assert "xla_cuda_plugin.so sha256 " in said


def test_without_the_plugin_nothing_runs(run, tmp_path):
    # This package hides the one that holds the plugins.
    (tmp_path / "jax_plugins").mkdir()
    (tmp_path / "jax_plugins" / "__init__.py").touch()
    said, ran = run(PYTHONPATH=str(tmp_path))
    assert not ran
    assert "cuda" in said


def test_with_another_driver_nothing_runs(run, tmp_path):
    driver = next(Path(folder) / "libcuda.so.1" for folder in os.environ["LD_LIBRARY_PATH"].split(":"))
    other = shutil.copy(driver, tmp_path)
    said, ran = run(LD_PRELOAD=str(other))
    assert not ran
    assert f"expected the driver {driver}" in said
    assert str(other) in said


def test_a_driver_that_is_not_built_is_named(run):
    said, ran = run(CALLOUT_SOFTWARE_GPU_DRIVER="/nowhere/libcuda.so.1")
    assert not ran
    assert "/nowhere/libcuda.so.1 is not built" in said
