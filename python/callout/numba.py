# SPDX-License-Identifier: Apache-2.0
"""Numba functions become JAX functions, which run without Python."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ._base.public_modules import publish
from ._native.function import Constants, NativeFunction, Settings
from ._native.native_target import NativeTarget
from ._targets.foreign_attributes import Constant

__all__ = ["NumbaKernel", "numba_kernel"]
publish(__name__)


def numba_kernel(
    kernel: Any,
    outs: Any,
    *,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    jvp: Callable[..., Any] | None = None,
    vjp: tuple[Callable[..., Any], Callable[..., Any]] | None = None,
    sharding: jax.sharding.SingleDeviceSharding | None = None,
) -> NumbaKernel:
    """Returns a function that calls `kernel(*arguments, *results, **constants)` from inside compiled programs.

    The kernel gets row-major arrays over XLA's own memory (0-d ones for scalars), fills its results, and returns
    nothing. The kernel runs on an XLA thread without the GIL; several threads may be in it at once. An exception in the
    kernel fails the computation, with class and message. The kernel is compiled during tracing, once for each
    combination of dtypes and ranks.

    Args:
        kernel: a function of `numba.njit`, with its options (`parallel`, `fastmath`, `cache`, `error_model`, ...); or a
            `numba.vectorize` or `guvectorize` function; or a `numba.cfunc` of numbers, which is applied to each
            element, or a `numba.cfunc` of (pointers, extents), as in docs/native.md.
        outs: the results: a pytree of `jax.ShapeDtypeStruct`s, or a function of the arguments (with `shape` and `dtype`)
            and the constants that returns one.
        vmap_method: as in `jax.pure_callback`, or "parallel": `vmap` then calls the kernel once for each lane, on
            several of XLA's threads at once.
        input_output_aliases: {argument: result}, both flat indices. Such a result holds its argument's value at the
            start, and the kernel updates it in place.
        jvp: `jvp(primals, tangents, **constants)` returns (results, their tangents).
        vjp: (`forward(*args, **constants)` returns (results, residuals), `backward(residuals, cotangents)` returns one
            cotangent for each argument).
        sharding: `SingleDeviceSharding` of the device that calls the kernel, in a jit over several devices.

    Returns:
        A function of arrays, or pytrees of them, and of the kernel's constants by keyword: numbers are passed at run time;
        strings, tuples, arrays and None are compiled in. It returns the results in the structure of `outs`.

    Raises:
        ImportError: Numba is not installed.
        TypeError: `kernel` is not one of the above; or, from the returned function: the kernel does not fit the
            arguments, Numba does not have a dtype (float16, bfloat16, float8, int4), the kernel returns a value, or it
            writes to an argument.

    Example:
        >>> import numba
        >>> @numba.njit
        ... def running_maximum(x, out):
        ...     best = x[0]
        ...     for i in range(x.size):
        ...         best = max(best, x[i])
        ...         out[i] = best
        >>> call = callout.numba.numba_kernel(running_maximum, jax.ShapeDtypeStruct((3,), jnp.float32))
        >>> jax.jit(call)(jnp.array([1.0, 3.0, 2.0]))
        Array([1., 3., 3.], dtype=float32)
    """
    settings = Settings(outs, vmap_method, jvp, vjp, sharding, input_output_aliases)
    return NumbaKernel(kernel, settings)


def _require() -> None:
    try:
        import numba  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "callout.numba needs Numba, which is not installed (pip install callout[numba])", name="numba"
        ) from error


class NumbaKernel(NativeFunction):
    """Calls a Numba kernel; `numba_kernel` makes it. `options(...)` takes `numba_kernel`'s settings and returns a copy."""

    def __init__(self, kernel: Any, settings: Settings):
        _require()
        from ._native import numba_kernel as kernels

        name = getattr(kernels.python_function(kernel), "__name__", "kernel")
        super().__init__(f"callout.numba '{name}'", name, settings)
        kernels.check(self._where, kernel)
        self._kernel = kernel
        self._targets: set[NativeTarget] = set()  # kept so that nothing is compiled twice

    def __repr__(self) -> str:
        return f"<Numba kernel {self.__name__}>"

    def prepare(self, *args: Any, **constants: Any) -> None:
        """Compiles the kernel for arguments, or `jax.ShapeDtypeStruct`s, of these dtypes and ranks.

        As long as this object lives, programs that another process exported find the compiled kernel.
        """
        jax.eval_shape(functools.partial(self, **constants), *args)

    def _with(self, settings: Settings) -> NumbaKernel:
        return NumbaKernel(self._kernel, settings)

    def _prepare(self, constants: Mapping[str, Any]) -> tuple[NativeTarget, Constants]:
        from numba import typeof

        from ._native.numba_kernel import is_constant
        from ._native.numba_target import numba_target

        numbers: dict[str, np.generic] = {}
        baked: dict[str, Any] = {}
        for name in sorted(constants):
            value = constants[name]
            if isinstance(value, (bool, int, float, np.integer, np.floating, np.bool_)):
                numbers[name] = self._number(name, value)
            elif isinstance(value, jax.Array):
                raise self._error(f"constant {name!r} is an array of JAX; pass it as an argument")
            elif is_constant(value):
                baked[name] = copy.deepcopy(value)  # the caller may change its arrays later
            else:
                raise self._error(f"constant {name!r} must be a number, a string, a tuple or an array, got {value!r}")
        passed = tuple((name, typeof(number)) for name, number in numbers.items())
        written = frozenset(self._settings.input_output_aliases or {})
        target = numba_target(self._where, self._kernel, passed, baked, written)
        self._targets.add(target)
        return target, tuple((name, Constant(number)) for name, number in numbers.items())

    def _number(self, name: str, value: Any) -> np.generic:
        number: Any = np.asarray(value)
        if number.dtype.kind not in "biuf" or number.dtype == np.float16:
            raise self._error(f"constant {name!r} must be a number of 64 bits at most, got {value!r}")
        scalar: np.generic = number[()]
        return scalar

    def _results(self, args: Sequence[Any], avals: Sequence[Any], constants: Mapping[str, Any]) -> Any:
        del args, avals, constants
        raise self._error("say what it returns: numba_kernel(kernel, outs)")
