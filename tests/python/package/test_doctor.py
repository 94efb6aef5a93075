# SPDX-License-Identifier: Apache-2.0
"""Tests what `python -m callout.doctor` prints about CUDA, with and without a driver and a compiler."""

import os
import sys
import warnings
from pathlib import Path

import core_only
import pytest
from callout import _jax_compat, doctor
from callout._native.gpu.nvrtc import find_nvrtc
from callout.cuda import CompileError
from doctor_process import run_doctor

pytestmark = pytest.mark.cpu_only("it gives the command other drivers than the one that programs run on")

# make gpu-test builds a driver whose devices are threads.
DOUBLE = os.environ.get(
    "CALLOUT_SOFTWARE_GPU", str(Path(__file__).parents[3] / "build" / "gpu" / "software_gpu/driver/libcuda.so.1")
)


def line_of(row: str, **environment: str) -> str:
    done = run_doctor(**environment)
    assert done.returncode == 0, done.stdout + done.stderr
    [line] = [line for line in done.stdout.splitlines() if line.startswith(f"{row} ")]
    return line.split(maxsplit=1)[1]


def test_the_wheel_is_named():
    line = line_of("wheel")
    if core_only.has_core():
        version = f"cp{sys.version_info[0]}{sys.version_info[1]}"
        assert line.startswith(f"{version}-{version}")
        assert "docs/fallback.md" not in line
    else:
        assert line == "py3-none-any, by JAX's own callbacks: docs/fallback.md"


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (None, "none"),
        (
            "Tag: cp312-cp312-manylinux_2_27_x86_64\nTag: cp312-cp312-manylinux_2_28_x86_64\n",
            "cp312-cp312-manylinux_2_27_x86_64, cp312-cp312-manylinux_2_28_x86_64",
        ),
        (
            "Root-Is-Purelib: true\nTag: py3-none-any\n",
            "py3-none-any, by JAX's own callbacks: docs/fallback.md",
        ),
    ],
)
def test_the_wheel_is_known_by_its_tags(monkeypatch, told, line):
    class Installed:
        def read_text(self, name):
            return told if name == "WHEEL" else None

    monkeypatch.setattr(doctor.metadata, "distribution", lambda _: Installed())
    assert doctor._wheel() == line


def cuda_line(driver: str, **environment: str) -> str:
    return line_of("CUDA", CALLOUT_CUDA_DRIVER=driver, **environment)


def test_a_missing_driver_is_reported_and_is_no_failure():
    line = cuda_line("/no/such/libcuda.so.1")
    assert line.startswith("there is no CUDA driver: cannot load shared library '/no/such/libcuda.so.1': ")


@pytest.mark.software_gpu
def test_the_devices_of_a_driver_are_listed():
    line = cuda_line(DOUBLE, CALLOUT_SOFTWARE_GPU_DEVICES="2")
    assert line == (
        f"driver 13.0 ({DOUBLE}), 0: Software H100, sm_90, 0000:01:00.0; 1: Software H100, sm_90, 0000:02:00.0; experimental"
    )


@pytest.mark.software_gpu
def test_a_driver_without_devices_is_reported_with_a_reason():
    line = cuda_line(DOUBLE, CALLOUT_SOFTWARE_GPU_DEVICES="0")
    assert line == (
        f"driver 13.0 ({DOUBLE}), no devices: "
        "cuInit failed: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected"
    )


@pytest.mark.software_gpu
def test_an_old_driver_is_reported_with_its_version():
    line = cuda_line(DOUBLE, CALLOUT_SOFTWARE_GPU_VERSION="11080")
    assert line == f"CUDA driver '{DOUBLE}' is too old: expected CUDA 12.0 or newer, got 11.8"


@pytest.mark.slow
def test_the_compiler_is_named_and_none_is_no_failure():
    line = line_of("NVRTC", CALLOUT_NVRTC="/no/such/libnvrtc.so")
    assert line.startswith("compiling CUDA C++ takes NVRTC: pip install nvidia-cuda-nvrtc")
    assert "cannot load shared library '/no/such/libnvrtc.so'" in line
    try:
        found = find_nvrtc()
    except CompileError as error:
        pytest.skip(str(error))
    assert line_of("NVRTC").startswith(f"{str(found).split()[1]} ({found.path}), ")


@pytest.mark.parametrize(
    ("newest", "version", "told"),
    [
        ("NEWEST_TESTED", (0, 9), "jax 0.10.2 to 0.12; this is"),
        ("NEWEST_TESTED_PYTHON", (3, 10), "to 3.10; this is 3."),
    ],
)
def test_untested_newer_versions_warn(monkeypatch, newest, version, told):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _jax_compat.warn_if_untested()
    monkeypatch.setattr(_jax_compat.versions, newest, version)
    with pytest.warns(UserWarning, match=f"callout was tested with .*{told}.* Please report"):
        _jax_compat.warn_if_untested()
