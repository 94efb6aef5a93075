# SPDX-License-Identifier: Apache-2.0
"""Tests callbacks on the memory of a CUDA device, on the driver's double, in processes of their own."""

import importlib.util
import sys

import callout
import gpu_double
import pytest
from callout._native.gpu import numba_packages
from cuda_compilers import require_nvcc


@pytest.mark.parametrize("suite", ["gpu_buffer_programs.py", "gpu_buffer_protocols.py"])
@pytest.mark.software_gpu
def test_buffer_callbacks(suite):
    gpu_double.passed(gpu_double.run_suites(suite))


@pytest.mark.parametrize(
    ("package", "module"), [("numba_cuda", "numba.cuda"), ("numba_cuda_mlir", "numba_cuda_mlir.cuda")]
)
@pytest.mark.software_gpu
def test_functions_of_device_arrays(package, module, monkeypatch):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"could not import '{package}'")
    monkeypatch.setenv("CALLOUT_TEST_NUMBA", module)
    gpu_double.passed(gpu_double.run_suites("gpu_callables.py"))


@pytest.mark.software_gpu
def test_host_functions_of_cuda():
    require_nvcc()
    gpu_double.passed(gpu_double.run_suites("gpu_host_functions.py"))


def test_without_numba_the_function_names_the_package(monkeypatch):
    for package in ("numba.cuda", "numba_cuda_mlir"):
        monkeypatch.delitem(sys.modules, package, raising=False)
    monkeypatch.setattr(numba_packages, "_has", lambda package: False)
    with pytest.raises(ImportError, match=r"needs numba-cuda, which is not installed \(pip install numba-cuda\[cu13\]"):
        callout.numba_cuda.numba_cuda_callable(print, ())
