# SPDX-License-Identifier: Apache-2.0
"""Tests calls with results for CUDA: their lowering, and suites of calls on the driver's double."""

import callout
import jax
import jax.numpy as jnp
import pytest
from gpu_double import passed, run_suites

F32 = jax.ShapeDtypeStruct((), jnp.float32)


@pytest.mark.parametrize("suite", ["gpu_calls.py", "gpu_device_calls.py"])
@pytest.mark.software_gpu
def test_calls(suite):
    passed(run_suites(suite))


# `make gpu-test` runs most of these suites with JAX's plugin each time.
@pytest.mark.soak
@pytest.mark.parametrize(
    "suites",
    [
        ("test_pure_callback.py", "test_io_callback.py", "test_results.py"),
        ("test_debug.py", "test_host_callback_call.py", "test_native_programs.py"),
        ("test_errors.py", "test_ordered.py", "test_shard_map.py"),
    ],
    ids=lambda suites: suites[0],
)
@pytest.mark.software_gpu
def test_suites_of_calls_on_the_double(suites):
    outcomes = run_suites(*suites)
    assert outcomes["passed"] >= 50
    assert "failed" not in outcomes


def lowered(f, *args, platform="cuda"):
    return jax.jit(f).trace(*args).lower(lowering_platforms=(platform,)).as_text()


def everything(x):
    x = callout.pure_callback(lambda v: v, F32, x)
    callout.debug_callback(print, x)
    return callout.io_callback(lambda v: v, F32, x, ordered=True)


def test_calls_are_lowered_for_cuda():
    text = lowered(everything, 1.0)
    assert text.count("callout.v1.call(") == 3
    assert "not_supported" not in text


def test_only_cpu_programs_are_dispatched_synchronously():
    assert "host_callback" in lowered(everything, 1.0, platform="cpu")
    assert "host_callback" not in lowered(everything, 1.0)


def test_other_platforms_are_refused_by_name():
    message = r"callbacks are not supported on platform METAL; supported: cpu, cuda\. .*platform_dependent\(cpu="
    with pytest.raises(NotImplementedError, match=message):
        lowered(everything, 1.0, platform="METAL")


def test_calls_with_the_devices_memory_are_buffer_callbacks_on_cuda():
    fn = callout.options(lambda v: v, memory="device")

    def f(x):
        return callout.pure_callback(fn, F32, x)

    assert jax.jit(f)(1.0) == 1
    assert "callout.v1.buffer(" in lowered(f, 1.0)
    assert "callout.v1.call(" in lowered(f, 1.0, platform="cpu")
    with pytest.raises(NotImplementedError, match=r'has options\(memory="device"\), and the program is for cpu, cuda'):
        jax.jit(f).trace(1.0).lower(lowering_platforms=("cpu", "cuda"))
