# SPDX-License-Identifier: Apache-2.0
"""Tests taps on CUDA: whole programs on the driver's double, in a process of its own (see gpu_double.py)."""

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import pytest
from gpu_double import run_suites

# The CPU's tests of taps must pass on CUDA, too, except those in which the program itself notices a full queue.
LATER = "not test_on_full_fail_fails and not test_on_full_drop_newest_counts"
# These take minutes, and `make gpu-test` runs the first of them with JAX's plugin, too.
SUITES = [
    *("test_tap.py", "test_tap_sending.py", "test_barrier.py", "test_host_callback_tap.py"),
    *(
        "test_threaded.py",
        "test_ordered.py",
        "test_sinks.py",
        "test_stats.py",
        "test_shard_map.py",
    ),
    *("test_host_callback_print.py", "test_host_callback_transformations.py", "test_host_callback_barrier.py"),
    *("test_debug.py", "test_sink_files.py", "test_statistics.py"),
    *("test_progress.py", "test_progress_compiled.py", "test_progress_transformations.py"),
]


@pytest.mark.software_gpu
def test_taps_on_the_double():
    assert run_suites("gpu_taps.py")["passed"] > 5


@pytest.mark.soak
@pytest.mark.software_gpu
@pytest.mark.parametrize("suite", SUITES)
def test_all_of_taps_on_the_double(suite):
    assert run_suites(suite, "-k", LATER)["passed"] > 5


@pytest.mark.soak
def test_full_queues_on_the_double():
    assert run_suites("test_full_queue.py", "-k", LATER)["passed"] == 2  # LATER excludes the others


@pytest.mark.parametrize(
    "tapped",
    [
        lambda x: callout.tap(print, x),
        lambda x: callout.tap(print, x, ordered=True),
        lambda x: callout.watch(x, stop=True),
        lambda x: callout.threaded(lambda y: callout.tap(print, y, ordered=True))(x),
        lambda x: hcb.id_tap(lambda value, _: None, x),
        lambda x: callout.tap(callout.sinks.Null(), x, step=jnp.int32(3)),
    ],
)
def test_programs_with_taps_are_lowered_for_cuda(tapped):
    text = jax.jit(tapped).trace(jnp.ones(3)).lower(lowering_platforms=("cuda",)).as_text()
    assert "@callout.v1.tap" in text
