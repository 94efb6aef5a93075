# SPDX-License-Identifier: Apache-2.0
"""Tests grids and blocks of GPU launches: they cover the threads that are asked for, and impossible ones are rejected."""

import math
import re

import jax
import numpy as np
import pytest
from callout._native.gpu.kernel import launch_shape
from hypothesis import given
from hypothesis import strategies as st

X = jax.ShapeDtypeStruct((1000,), np.float32)
Y = jax.ShapeDtypeStruct((30, 40), np.float32)


def text(value):
    """Returns a text that is equal in every process, since it becomes the id of a test."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))


def shape(**how):
    return launch_shape("'k'", [X], [Y], **how)


@pytest.mark.parametrize(
    ("how", "grid", "block"),
    [
        ({"launch_dims": 1000}, (4, 1, 1), (256, 1, 1)),
        ({"launch_dims": 1000, "threads_per_block": 128}, (8, 1, 1), (128, 1, 1)),
        ({"launch_dims": 100}, (1, 1, 1), (100, 1, 1)),
        ({"launch_dims": (30, 40)}, (2, 3, 1), (16, 16, 1)),
        ({"launch_dims": [30, 5]}, (2, 1, 1), (16, 5, 1)),
        ({"launch_dims": (9, 9, 9)}, (2, 2, 3), (8, 8, 4)),
        ({"launch_dims": np.int64(257)}, (2, 1, 1), (256, 1, 1)),
        ({"launch_dims": lambda x, y: x.size}, (4, 1, 1), (256, 1, 1)),
        ({"launch_dims": lambda x, y: y.shape}, (2, 3, 1), (16, 16, 1)),
        ({"launch_dims": 0}, (0, 1, 1), (1, 1, 1)),
        ({"launch_dims": (40, 0)}, (3, 0, 1), (16, 1, 1)),
        ({"grid": 4, "block": 256}, (4, 1, 1), (256, 1, 1)),
        ({"grid": (2, 3), "block": (8, 8, 16)}, (2, 3, 1), (8, 8, 16)),
        ({"grid": lambda x, y: (y.shape[0], 1, 2), "block": lambda x, y: y.shape[1]}, (30, 1, 2), (40, 1, 1)),
        ({"grid": 0, "block": 1}, (0, 1, 1), (1, 1, 1)),
        ({"grid": (2**31 - 1, 65535, 65535), "block": (4, 4, 64)}, (2**31 - 1, 65535, 65535), (4, 4, 64)),
    ],
    ids=text,
)
def test_shapes(how, grid, block):
    assert shape(**how) == (grid, block)


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=3), st.integers(1, 1024))
def test_launch_dims_are_covered_and_blocks_are_no_larger(dims, threads):
    grid, block = shape(launch_dims=tuple(dims), threads_per_block=threads)
    for wanted, blocks, size in zip(dims, grid, block, strict=False):
        assert blocks * size >= wanted > (blocks - 1) * size
        assert size <= max(wanted, 1)
    assert math.prod(block) <= max(threads, 256)
    assert grid[len(dims) :] == block[len(dims) :] == (1,) * (3 - len(dims))


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({}, ValueError, r"'k': say how many threads to launch: launch_dims=, or grid= and block=; got grid=None"),
        ({"grid": 3}, ValueError, "say how many threads to launch"),
        ({"block": 3}, ValueError, "say how many threads to launch"),
        ({"launch_dims": 3, "block": 3}, ValueError, "'k': launch_dims= replaces grid= and block="),
        ({"launch_dims": 3, "grid": 3, "block": 3}, ValueError, "launch_dims= replaces"),
        ({"launch_dims": (1, 2, 3, 4)}, ValueError, r"launch_dims must have one to three dimensions, got 4: \(1, 2"),
        ({"launch_dims": ()}, ValueError, "launch_dims must have one to three dimensions, got 0"),
        ({"launch_dims": -1}, ValueError, r"launch_dims must not be negative, got \(-1,\)"),
        ({"launch_dims": 1.5}, TypeError, "launch_dims must be integers, got 1.5"),
        ({"launch_dims": "8"}, TypeError, "launch_dims must be integers, got '8'"),
        ({"launch_dims": True}, TypeError, "launch_dims must be integers, got True"),
        ({"launch_dims": lambda x, y: x.shape[0] / 2}, TypeError, "launch_dims must be integers, got 500.0"),
        ({"launch_dims": (1, 65536 * 16)}, ValueError, r"grid.y is at most 65535, got 65536: \(1, 65536\)"),
        ({"launch_dims": 2**31, "threads_per_block": 1}, ValueError, "grid.x is at most 2147483647, got 2147483648"),
        ({"launch_dims": 1, "threads_per_block": 0}, ValueError, "threads_per_block must be from 1 to 1024, got 0"),
        ({"launch_dims": 1, "threads_per_block": 1025}, ValueError, "threads_per_block must be from 1 to 1024, got 10"),
        ({"launch_dims": 1, "threads_per_block": 2.0}, TypeError, "threads_per_block must be an integer, got 2.0"),
        ({"grid": 1, "block": 1025}, ValueError, "block.x is at most 1024, got 1025"),
        ({"grid": 1, "block": (1, 1, 65)}, ValueError, "block.z is at most 64, got 65"),
        ({"grid": 1, "block": (33, 32)}, ValueError, r"a block has at most 1024 threads, got 1056: \(33, 32\)"),
        ({"grid": 1, "block": (8, 0)}, ValueError, r"a block has at least one thread, got \(8, 0\)"),
        ({"grid": (1, 1, 65536), "block": 1}, ValueError, "grid.z is at most 65535, got 65536"),
    ],
    ids=text,
)
def test_impossible_launches_are_rejected(how, error, message):
    with pytest.raises(error, match=message):
        shape(**how)
