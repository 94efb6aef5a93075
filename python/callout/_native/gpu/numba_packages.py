# SPDX-License-Identifier: Apache-2.0
"""Numba's package for CUDA, whichever of them is there."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from typing import Any

import numpy as np

HOW_TO_GET = "pip install numba-cuda[cu13], or numba-cuda-mlir[cu13]; [cu12] for CUDA 12"


def _has(package: str) -> bool:
    """Tells whether a package can be imported; it is not."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # what it is a part of
        return False


@functools.cache
def import_numba_cuda() -> Any:
    """Returns `numba.cuda`, whole.

    numba-cuda refers to `np.row_stack`, which NumPy 2.5 has no more, when the first kernel is compiled (numba-cuda issue
    907: it stays so). What refers to it is imported here, with the name there; nothing of it is left.
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
    """Returns the module with `as_cuda_array` and `external_stream`: the one that the program uses, or the one there is.

    Raises:
        ImportError: neither package is there.
    """
    if "numba_cuda_mlir" in sys.modules and "numba.cuda" not in sys.modules:
        return importlib.import_module("numba_cuda_mlir.cuda")
    if _has("numba.cuda"):
        return import_numba_cuda()
    if _has("numba_cuda_mlir"):
        return importlib.import_module("numba_cuda_mlir.cuda")
    raise ImportError(f"{where} needs numba-cuda, which is not installed ({HOW_TO_GET})", name="numba_cuda")
