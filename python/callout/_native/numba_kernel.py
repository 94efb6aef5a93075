# SPDX-License-Identifier: Apache-2.0
"""What may be a Numba kernel, and how each becomes a dispatcher that takes arrays and fills arrays."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numba
from numba import types
from numba.core.ccallback import CFunc
from numba.core.dispatcher import Dispatcher
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc

_ELEMENTWISE = (types.Number, types.Boolean)


def _signature(cfunc: Any) -> Any:
    return cfunc._sig


def is_pointer_function(kernel: Any) -> bool:
    """Returns True for a `cfunc` that takes the pointers and the extents, as a plain C function does."""
    if not isinstance(kernel, CFunc):
        return False
    signature = _signature(kernel)
    return (
        signature.return_type == types.int32
        and len(signature.args) == 2
        and all(isinstance(argument, types.RawPointer | types.CPointer) for argument in signature.args)
    )


def check(where: str, kernel: Any) -> None:
    """Raises TypeError for what cannot be a kernel, with the reason."""
    if isinstance(kernel, Dispatcher):
        if kernel.targetoptions.get("forceobj"):
            raise TypeError(f"{where}: the kernel is compiled in object mode, which runs in Python; use numba.njit")
        return
    if isinstance(kernel, (DUFunc, GUFunc)):
        return
    if isinstance(kernel, CFunc):
        signature = _signature(kernel)
        elementwise = all(isinstance(kind, _ELEMENTWISE) for kind in (*signature.args, signature.return_type))
        if elementwise or is_pointer_function(kernel):
            return
        raise TypeError(
            f"{where}: a cfunc of signature {signature} does not tell its shapes; one of numbers, or of (pointers, "
            "extents) as in callout/abi.h does"
        )
    if inspect.isfunction(kernel):
        raise TypeError(f"{where}: the kernel is a plain Python function; decorate it with numba.njit")
    raise TypeError(f"{where}: expected a function of numba.njit, vectorize, guvectorize or cfunc, got {kernel!r}")


def _define(name: str, source: str, known: Mapping[str, Any]) -> Any:
    scope = dict(known)
    exec(compile(source, f"<callout.numba {name}>", "exec"), scope)
    return numba.njit(scope[name])


def _elementwise(kernel: Any, num_args: int, is_scalar: bool) -> Any:
    """Returns a kernel that calls a ufunc."""
    args = [f"a{i}" for i in range(num_args)]
    body = f"o[()] = f({', '.join(f'{a}[()]' for a in args)})" if is_scalar else f"f({', '.join([*args, 'o'])})"
    return _define("kernel", f"def kernel({', '.join([*args, 'o'])}):\n    {body}\n", {"f": kernel})


def _generalised(kernel: Any, num_operands: int) -> Any:
    names = ", ".join(f"a{i}" for i in range(num_operands))
    return _define("kernel", f"def kernel({names}):\n    f({names})\n", {"f": kernel})


def _with_constants(kernel: Any, num_operands: int, passed: tuple[str, ...], baked: Mapping[str, Any]) -> Any:
    """Returns a kernel that takes numbers behind its arrays, and has other constants in its code."""
    arrays = [f"a{i}" for i in range(num_operands)]
    parameters = ", ".join([*arrays, *(f"c_{name}" for name in passed)])
    keywords = [*(f"{name}=c_{name}" for name in passed), *(f"{name}=k_{name}" for name in baked)]
    source = f"def kernel({parameters}):\n    return f({', '.join([*arrays, *keywords])})\n"
    return _define("kernel", source, {"f": kernel, **{f"k_{name}": value for name, value in baked.items()}})


def _takes_exactly(function: Any, count: int) -> bool:
    """Returns True for a function of `count` parameters, none of which has a default."""
    parameters = inspect.signature(function).parameters.values()
    plain = [p.kind == p.POSITIONAL_OR_KEYWORD and p.default is p.empty for p in parameters]
    return all(plain) and len(plain) == count


def dispatcher_of(
    kernel: Any, num_args: int, num_results: int, is_scalar: bool, passed: tuple[str, ...], baked: Mapping[str, Any]
) -> Any:
    """Returns a dispatcher of `num_args + num_results` arrays and the numbers `passed`. `kernel` was checked."""
    if isinstance(kernel, CFunc):
        kernel = numba.vectorize([_signature(kernel)])(python_function(kernel))
    if isinstance(kernel, DUFunc):
        kernel = _elementwise(kernel, num_args, is_scalar)
    elif isinstance(kernel, GUFunc):
        kernel = _generalised(kernel, num_args + num_results)
    num_operands = num_args + num_results
    if passed or baked or not _takes_exactly(kernel.py_func, num_operands):
        return _with_constants(kernel, num_operands, passed, baked)
    return kernel


def python_function(kernel: Any) -> Any:
    """Returns the function that was decorated."""
    for holder in (kernel, getattr(kernel, "_dispatcher", None), getattr(kernel, "gufunc_builder", None)):
        for name in ("py_func", "_pyfunc"):
            if found := getattr(holder, name, None):
                return found
    return kernel
