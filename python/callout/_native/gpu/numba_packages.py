# SPDX-License-Identifier: Apache-2.0
"""Imports the installed one of Numba's packages for CUDA."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from typing import Any

import numpy as np

HOW_TO_GET = "pip install numba-cuda[cu13], or numba-cuda-mlir[cu13]; [cu12] for CUDA 12"


def _has(package: str) -> bool:
    """Returns whether a package can be imported, without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False


@functools.cache
def import_numba_cuda() -> Any:
    """Returns `numba.cuda`, completely imported.

    numba-cuda refers to `np.row_stack`, which NumPy 2.5 has removed, when the first kernel is compiled (numba-cuda
    issue 907, which will not be fixed). So the module that refers to it is imported here, while the name temporarily
    exists.
    """
    cuda = importlib.import_module("numba.cuda")
    if not _has("numba.cuda.np") or "row_stack" in vars(np):
        return cuda
    vars(np)["row_stack"] = np.vstack
    try:
        importlib.import_module("numba.cuda.np.arrayobj")
        importlib.import_module("numba.cuda.np.npyimpl")
    finally:
        del vars(np)["row_stack"]
    return cuda


def import_cuda(where: str) -> Any:
    """Returns the module with `as_cuda_array` and `external_stream`: the already imported one, or the installed one.

    Raises:
        ImportError: neither package is installed.
    """
    if "numba_cuda_mlir" in sys.modules and "numba.cuda" not in sys.modules:
        return importlib.import_module("numba_cuda_mlir.cuda")
    if _has("numba.cuda"):
        return import_numba_cuda()
    if _has("numba_cuda_mlir"):
        return importlib.import_module("numba_cuda_mlir.cuda")
    raise ImportError(f"{where} needs numba-cuda, which is not installed ({HOW_TO_GET})", name="numba_cuda")
