# SPDX-License-Identifier: Apache-2.0
"""Tests samplers that write their draws from the scan that makes them, in processes that are killed."""

import signal
import sys
from pathlib import Path

import limited
import numpy as np
import pytest
import zarr

EXAMPLES = Path(__file__).parents[3] / "examples"

# Continues a store until it has the given number of draws, and is then killed.
CHAINS = """
import os, signal, sys
import callout, jax, zarr
sys.path.insert(0, sys.argv[1])
import chains_on_disk

path, kind, draws = sys.argv[2], sys.argv[3], int(sys.argv[4])
sink = callout.sinks.Zarr(path, append=True)
there = zarr.open_group(path, mode="r").get("x")
rows, positions = (0, None) if there is None else (there.shape[0], there[-1])
chains = getattr(chains_on_disk, kind)
keep = lambda _, x: callout.tap(sink, x, name="x")
program, begin = chains_on_disk.sampler(chains, range(rows, draws), keep, positions)
program(begin)
callout.barrier_wait()
os.kill(os.getpid(), signal.SIGKILL)
"""


def run(path, kind, draws):
    command = [sys.executable, "-c", CHAINS, EXAMPLES, path, kind, draws]
    done = limited.run([*map(str, command)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.cpu_only("processes of a GPU's take its memory")
@pytest.mark.parametrize("kind", ["walk", "blackjax", "numpyro"])
def test_four_killed_chains_can_be_continued(kind, tmp_path):
    if kind != "walk":
        pytest.importorskip(kind)
    run(tmp_path / "killed.zarr", kind, 130)
    assert zarr.open_group(tmp_path / "killed.zarr", mode="r")["x"].shape == (130, 4, 10)
    run(tmp_path / "killed.zarr", kind, 300)
    run(tmp_path / "whole.zarr", kind, 300)
    draws = [zarr.open_group(tmp_path / f"{name}.zarr", mode="r")["x"][:] for name in ("killed", "whole")]
    assert draws[0].shape == (300, 4, 10)
    np.testing.assert_array_equal(*draws)
    assert len(np.unique(draws[0][:, :, 0])) > 300  # the chains moved, each in its own way
