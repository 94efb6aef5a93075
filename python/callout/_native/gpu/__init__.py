# SPDX-License-Identifier: Apache-2.0
"""Kernels for CUDA devices, which C++ launches: the common part of callout.cuda and callout.numba_cuda."""
