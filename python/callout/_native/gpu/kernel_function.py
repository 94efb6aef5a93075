# SPDX-License-Identifier: Apache-2.0
"""GPU kernels as JAX functions, and their targets, which make a launch for each combination of shapes and dtypes."""

from __future__ import annotations

import abc
import threading
from collections.abc import Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import mlir

from ... import _ext
from ..._base import patches
from ..._primitives import context
from ..._targets import target_attributes
from ..function import NativeFunction
from ..native_target import NativeTarget
from .kernel import Kernel


class GpuTarget(NativeTarget, abc.ABC):
    """The base of targets that launch a kernel. Programs carry its image, so no name is bound or looked up."""

    __slots__ = ("_kernels", "_lock")

    platforms = ("cuda",)
    is_kernel = True

    def __init__(self, key: Hashable, label: str, content: str = ""):
        super().__init__(key, label, None, content)
        self._kernels: dict[Hashable, Kernel] = {}
        self._lock = threading.RLock()

    @abc.abstractmethod
    def kernel(self, args: Sequence[Any], results: Sequence[Any]) -> Kernel:
        """Returns the launch for operands and results of these shapes and dtypes.

        Raises:
            TypeError: the kernel does not fit the operands and results.
            ValueError: there is no valid launch for them.
        """

    def kernel_for(self, args: Sequence[Any], results: Sequence[Any]) -> Kernel:
        """Returns the cached result of `kernel`. Thread-safe."""
        key = tuple(tuple((tuple(aval.shape), str(aval.dtype)) for aval in avals) for avals in (args, results))
        with self._lock:
            if key not in self._kernels:
                made = self.kernel(args, results)
                for code in {made.image.code, made.image.portable or made.image.code}:
                    _ext.expect_image(code)
                self._kernels[key] = made
            return self._kernels[key]

    def specialise(self, args: Sequence[Any], results: Sequence[Any]) -> GpuTarget:
        """Makes the kernel, so that tracing the program raises its errors."""
        self.kernel_for(args, results)
        return self

    def lower_launch(
        self,
        ctx: mlir.LoweringRuleContext,
        args: Sequence[Any],
        avals_in: Sequence[Any],
        avals_out: Sequence[Any],
        *,
        in_place: dict[int, int],
        **more: Any,
    ) -> Sequence[Any]:
        """Lowers the launch. In a jit over several devices each of them launches the kernel, with whole arrays."""
        patches.ensure("errors")
        kernel = self.kernel_for(avals_in, avals_out)
        lower = jax.ffi.ffi_lowering(kernel.target, has_side_effect=False, operand_output_aliases=in_place)
        attributes = {"callback": self.label, **kernel.attributes(portable=context.is_exporting(ctx)), **more}
        results: Sequence[Any] = lower(
            ctx, *args, **target_attributes.encode(f"kernel '{self.label}'", kernel.target, attributes)
        )
        return results

    def bind(self, transforms: Any = ()) -> str:
        """Returns the kernel's name, for errors."""
        del transforms
        return self.label

    def is_held_by_programs(self, name: str) -> bool:
        del name
        """Returns False, because programs carry the image."""
        return False

    def is_python(self) -> bool:
        return False


class GpuFunction(NativeFunction):
    """The base of GPU kernels as functions, which take arrays or pytrees by position, and constants by keyword.

    The results of a launch without threads are zeros. `vmap` launches the kernel once for each lane, with the lane's
    arrays: in one call of the program, or, with "sequential" and "sequential_unrolled", in a loop.
    """

    def _call(
        self, flat: Sequence[Any], avals: Sequence[Any], target: NativeTarget, results: Sequence[Any], **params: Any
    ) -> Sequence[Any]:
        assert isinstance(target, GpuTarget)
        launch = target.kernel_for(avals, results).launch
        if 0 in (*launch.grid, *launch.block):
            return [jnp.zeros(aval.shape, aval.dtype) for aval in results]
        return super()._call(flat, avals, target, results, **params)
