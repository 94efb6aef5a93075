# SPDX-License-Identifier: Apache-2.0
"""A GPU kernel as a JAX function: what callout.cuda and callout.numba_cuda share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from ..function import NativeFunction
from ..target import NativeTarget
from .target import GpuTarget


class GpuFunction(NativeFunction):
    """Called with arrays, or pytrees of them, and with its constants by keyword.

    A launch without threads gives zeros. `vmap` launches the kernel once a lane, with the lane's arrays: in one call of the
    program, or, for "sequential" and "sequential_unrolled", in a loop.
    """

    def _call(
        self, flat: Sequence[Any], avals: Sequence[Any], target: NativeTarget, results: Sequence[Any], **params: Any
    ) -> Sequence[Any]:
        assert isinstance(target, GpuTarget)
        launch = target.kernel_for(avals, results).launch
        if 0 in (*launch.grid, *launch.block):
            return [jnp.zeros(aval.shape, aval.dtype) for aval in results]
        return super()._call(flat, avals, target, results, **params)
