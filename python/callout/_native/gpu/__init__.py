# SPDX-License-Identifier: Apache-2.0
"""Kernels for CUDA devices, compiled elsewhere and launched by C++: what callout.cuda and callout.numba_cuda share."""
