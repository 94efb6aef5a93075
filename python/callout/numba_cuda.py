# SPDX-License-Identifier: Apache-2.0
"""JAX programs launch kernels of `numba.cuda`, without Python at run time.

The first kernel needs numba-cuda or numba-cuda-mlir; importing this module needs neither.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import functools
import importlib.util
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ._base.public_modules import publish
from ._native.function import Constants, Settings
from ._native.gpu.callable import numba_cuda_callable as numba_cuda_callable
from ._native.gpu.kernel import Dims, LaunchSettings, SharedBytes
from ._native.gpu.kernel_function import GpuFunction
from ._native.gpu.numba_compiler import Baked
from ._native.gpu.numba_cuda_target import NumbaCudaTarget, baked, numba_cuda_target
from ._native.gpu.numba_image import has_compiler, is_simulated
from ._native.gpu.numba_packages import HOW_TO_GET

__all__ = ["NumbaCudaKernel", "numba_cuda_callable", "numba_cuda_kernel"]
publish(__name__)


def numba_cuda_kernel(
    kernel: Any,
    outs: Any,
    *,
    grid: Dims | None = None,
    block: Dims | None = None,
    launch_dims: Dims | None = None,
    threads_per_block: int = 256,
    shared_mem: SharedBytes = 0,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    jvp: Callable[..., Any] | None = None,
    vjp: tuple[Callable[..., Any], Callable[..., Any]] | None = None,
    sharding: jax.sharding.SingleDeviceSharding | None = None,
) -> NumbaCudaKernel:
    """Returns a function that launches `kernel(*arguments, *results, **constants)` on XLA's stream, in compiled programs.

    The kernel gets row-major arrays over XLA's own memory (0-d ones for scalars), and fills its results. The kernel is
    compiled during tracing, once for each combination of dtypes and ranks; the program carries the compiled kernel.

    Args:
        kernel: a function of `cuda.jit` of numba-cuda, numba-cuda-mlir or Numba itself. With `debug=True`, an exception
            in the kernel fails the computation, with class and message; otherwise `raise` silently ends a thread.
        outs: the results: a pytree of `jax.ShapeDtypeStruct`s, or a function of the arguments (with `shape` and `dtype`)
            and the constants that returns one.
        grid: blocks to launch: a number, up to three of them, or a function of arguments and results (with `shape` and
            `dtype`) that returns these.
        block: threads of a block, likewise.
        launch_dims: instead of `grid` and `block`, the threads to launch, likewise. They are rounded up to whole blocks
            of `threads_per_block`, 16 x 16 or 8 x 8 x 4 threads, but a block has no more threads than `launch_dims`.
        threads_per_block: threads of a block for `launch_dims` of one dimension.
        shared_mem: dynamic shared memory of a block, in bytes, or a function as for `grid`.
        vmap_method: as in `jax.pure_callback`. All but "sequential" and "sequential_unrolled" launch the kernel once
            for each lane from one call. The kernel never sees the batch.
        input_output_aliases: {argument: result}, both flat indices. Such a result holds its argument's value at the
            start, and the kernel updates it in place.
        jvp: `jvp(primals, tangents, **constants)` returns (results, their tangents).
        vjp: (`forward(*args, **constants)` returns (results, residuals), `backward(residuals, cotangents)` returns one
            cotangent for each argument).
        sharding: accepted for symmetry with `callout.numba`, and ignored: in a jit over several devices each of them
            launches the kernel.

    Returns:
        A function of arrays, or pytrees of them, and of the kernel's constants by keyword: numbers are passed to each
        launch; strings, tuples, arrays and None are compiled in. It returns the results in the structure of `outs`.

    Raises:
        ImportError: numba-cuda is not installed, or, when a kernel is traced, a package that it compiles with.
        TypeError: `kernel` is no such function; or, from the returned function: the kernel does not fit the arguments,
            its compiler does not have a dtype, or the kernel writes to an argument.
        ValueError: neither `launch_dims` nor `grid` and `block` are given, or both; or, from the returned function, no
            GPU can launch such a grid.

    Example:
        >>> from numba import cuda
        >>> @cuda.jit
        ... def add(x, y, out):
        ...     i = cuda.grid(1)
        ...     if i < out.size:
        ...         out[i] = x[i] + y[i]
        >>> like = jax.ShapeDtypeStruct((1024,), jnp.float32)
        >>> call = callout.numba_cuda.numba_cuda_kernel(add, like, launch_dims=1024)
        >>> z = call(jnp.ones(1024), jnp.ones(1024))
    """
    launch = LaunchSettings(grid, block, launch_dims, threads_per_block, shared_mem)
    settings = Settings(outs, vmap_method, jvp, vjp, sharding, input_output_aliases)
    return NumbaCudaKernel(kernel, launch, settings)


def _check(kernel: Any) -> None:
    """Raises TypeError if `kernel` is no kernel, and ImportError if its package is not installed."""
    where = "callout.numba_cuda"
    if has_compiler(kernel):
        if kernel.targetoptions.get("device"):
            raise TypeError(f"{where}: {kernel.py_func.__name__!r} is a device function; a kernel has no device=True")
        return
    if is_simulated(kernel):
        raise TypeError(
            f"{where}: the kernel is one of Numba's simulator (NUMBA_ENABLE_CUDASIM), which is not compiled"
        )
    if all(importlib.util.find_spec(package) is None for package in ("numba", "numba_cuda_mlir")):
        raise ImportError(f"{where} needs numba-cuda, which is not installed ({HOW_TO_GET})", name="numba_cuda")
    if inspect.isfunction(kernel):
        raise TypeError(f"{where}: the kernel is a plain Python function; decorate it with numba.cuda.jit")
    raise TypeError(f"{where}: expected a kernel of numba.cuda.jit, got {kernel!r}")


class NumbaCudaKernel(GpuFunction):
    """Launches a kernel of `numba.cuda`; `numba_cuda_kernel` makes it."""

    def __init__(self, kernel: Any, launch: LaunchSettings, settings: Settings):
        _check(kernel)
        name = kernel.py_func.__name__
        super().__init__(f"callout.numba_cuda '{name}'", name, settings)
        launch.check(self._where)
        self._kernel = kernel
        self._launch = launch

    def __repr__(self) -> str:
        return f"<Numba CUDA kernel {self.__name__}>"

    def options(self, **settings: Any) -> NumbaCudaKernel:
        """Returns a copy with other settings, named as `numba_cuda_kernel`'s (`out` is another name of `outs`)."""
        names = {field.name for field in dataclasses.fields(LaunchSettings)}
        launch = {name: settings.pop(name) for name in names & settings.keys()}
        if "outs" in settings:
            settings["out"] = settings.pop("outs")
        changed = dataclasses.replace(self._launch, **launch)
        return NumbaCudaKernel(self._kernel, changed, dataclasses.replace(self._settings, **settings))

    def prepare(self, *args: Any, **constants: Any) -> None:
        """Compiles the kernel for arguments, or `jax.ShapeDtypeStruct`s, of these shapes and dtypes."""
        jax.eval_shape(functools.partial(self, **constants), *args)

    def _with(self, settings: Settings) -> NumbaCudaKernel:
        return NumbaCudaKernel(self._kernel, self._launch, settings)

    def _prepare(self, constants: Mapping[str, Any]) -> tuple[NumbaCudaTarget, Constants]:
        values = {name: self._constant(name, value) for name, value in constants.items()}
        written = frozenset(self._settings.input_output_aliases or {})
        return numba_cuda_target(self._where, self._kernel, values, self._launch, written), ()

    def _constant(self, name: str, value: Any) -> np.generic | Baked:
        if isinstance(value, (bool, int, float, complex, np.generic)) and not isinstance(value, enum.Enum):
            number: Any = np.asarray(value)
            if number.dtype.kind in "biufc" or number.dtype.name == "bfloat16":
                scalar: np.generic = number[()]
                return scalar
        elif isinstance(value, jax.Array):
            raise self._error(f"constant {name!r} is an array of JAX; pass it as an argument")
        elif _is_constant(value):
            return baked(copy.deepcopy(value))  # the caller may change its arrays later
        raise self._error(f"constant {name!r} must be a number, a string, a tuple or an array, got {value!r}")

    def _results(self, args: Sequence[Any], avals: Sequence[Any], constants: Mapping[str, Any]) -> Any:
        del args, avals, constants
        raise self._error("say what it returns: numba_cuda_kernel(kernel, outs, ...)")


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biufc"
    return isinstance(value, (type(None), str, bool, int, float, complex, np.number, np.bool_, enum.Enum))
