# SPDX-License-Identifier: Apache-2.0
"""Tests callout.numba_cuda in processes where Numba is missing, is a simulator, or has just been imported."""

import json
import os
import sys

import limited
import pytest


def in_a_process(code, **environment):
    """Runs the code in a process and returns its output."""
    result = limited.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_first_kernel_names_missing_packages():
    said = in_a_process(
        "import sys\n"
        "for name in ('numba', 'numba_cuda', 'numba_cuda_mlir', 'cuda'): sys.modules[name] = None\n"
        "import callout.numba_cuda\n"
        "try: callout.numba_cuda.numba_cuda_kernel(lambda x: x, None, launch_dims=1)\n"
        "except ImportError as error: print(error)\n"
    )
    assert "callout.numba_cuda needs numba-cuda, which is not installed (pip install numba-cuda[cu13]" in said


def test_importing_does_not_import_numba():
    code = "import callout.numba_cuda, sys; print('numba' in sys.modules, 'numba_cuda_mlir' in sys.modules)"
    assert in_a_process(code).split() == ["False", "False"]


def test_kernels_of_the_simulator_are_refused_by_name():
    pytest.importorskip("numba", reason="needs numba")
    said = in_a_process(
        "import callout\n"
        "from numba import cuda\n"
        "@cuda.jit\n"
        "def kernel(out): pass\n"
        "try: callout.numba_cuda.numba_cuda_kernel(kernel, None, launch_dims=1)\n"
        "except TypeError as error: print(error)\n",
        NUMBA_ENABLE_CUDASIM="1",
    )
    assert "the kernel is one of Numba's simulator (NUMBA_ENABLE_CUDASIM)" in said


def test_numpy_is_as_it_was():
    pytest.importorskip("numba_cuda", reason="needs numba-cuda")
    code = (
        "import json, numpy as np\n"
        "before = set(vars(np))\n"
        "from callout._native.gpu.numba_packages import import_numba_cuda\n"
        "import_numba_cuda()\n"
        "print(json.dumps(['row_stack' in before, 'row_stack' in vars(np)]))\n"
    )
    before, after = json.loads(in_a_process(code))
    assert before == after
