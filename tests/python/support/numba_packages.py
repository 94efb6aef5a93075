# SPDX-License-Identifier: Apache-2.0
"""Finds the packages that compile `cuda.jit` kernels, and whether they can compile here."""

import functools
import importlib.util
import warnings

import numpy as np
import pytest
from callout._native.gpu.kernel import LaunchSettings
from callout._native.gpu.numba_compiler import ArrayType
from callout._native.gpu.numba_cuda_target import numba_cuda_target
from callout._native.gpu.numba_image import compiled

INSTALLED = [name for name in ("numba_cuda", "numba_cuda_mlir") if importlib.util.find_spec(name)]


def require():
    """Skips the module if there is no package."""
    if not INSTALLED:
        reason = "needs numba-cuda or numba-cuda-mlir (pip install numba-cuda[cu13])"
        pytest.skip(reason, allow_module_level=True)


def cuda_of(package):
    """Returns the package's `cuda` module."""
    with warnings.catch_warnings():  # NumPy warns when numba-cuda is imported
        warnings.simplefilter("ignore", DeprecationWarning)
        if package == "numba_cuda":
            from numba import cuda
        else:
            from numba_cuda_mlir import cuda
    return cuda


@functools.cache
def missing(package):
    """Returns the part of CUDA that the package needs and does not find; None if it compiles."""
    cuda = cuda_of(package)

    @cuda.jit
    def nothing(out):
        pass

    try:
        compiled("test", nothing, [ArrayType(np.dtype(np.float32), 1, True)])
    except ImportError as error:
        return str(error)
    return None


def kernel_for(kernel, args, results, constants=None, **launch):
    """Makes the kernel that a program embeds."""
    launch = launch or {"grid": 1, "block": 1}
    settings = {"grid": None, "block": None, "launch_dims": None, "threads_per_block": 256, "shared_mem": 0, **launch}
    return numba_cuda_target("test", kernel, constants or {}, LaunchSettings(**settings), frozenset()).kernel(
        args, results
    )
