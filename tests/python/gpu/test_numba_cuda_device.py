# SPDX-License-Identifier: Apache-2.0
"""Tests the driver's double as the device for which Numba's own dispatchers compile, in processes of their own."""

import os
import sys
from pathlib import Path

import limited
import pytest
from gpu_double import DRIVER


@pytest.mark.cpu_only(
    "it reads machine code, and beside the plugin the assembler is the software GPU's, which makes none"
)
@pytest.mark.parametrize("package", ["numba_cuda", "numba_cuda_mlir"])
@pytest.mark.software_gpu
def test_kernels_are_compiled_for_the_device(package):
    pytest.importorskip(package, reason=f"needs {package.replace('_', '-')} (pip install)")
    if not DRIVER.is_file():
        pytest.skip(f"needs the software GPU (make gpu-test): {DRIVER.name} is missing")
    tests = Path(__file__).with_name("numba_cuda_device.py")
    folders = [str(DRIVER.parent), os.environ.get("LD_LIBRARY_PATH", "")]
    result = limited.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", f"[{package}]", str(tests)],
        env={**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, folders))},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "skipped" not in result.stdout
