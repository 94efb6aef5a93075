# SPDX-License-Identifier: Apache-2.0
"""The identity as native kernels, which the group `kernels` compares."""

from collections.abc import Callable

import callout
import jax
from program import EMPTY, FLOOR, JAX, OURS, TVM, Method, ffi, identity, like

CPP_KERNEL, CPP_PLAIN, NUMBA_KERNEL = "callout.cpp, inline C++", 'callout.cpp, extern "C"', "callout.numba"

SOURCE = """
#include "callout/kernel.h"

void copy(callout::In<float> x, callout::Out<float> y) {
  __builtin_memcpy(y.data(), x.data(), static_cast<size_t>(x.size()) * sizeof(float));
}
CALLOUT_KERNEL(copy);
"""

PLAIN = """
#include <cstdint>

extern "C" __attribute__((visibility("default"))) int32_t copy_scalar(void** ptrs, const int64_t*) {
  *static_cast<float*>(ptrs[1]) = *static_cast<const float*>(ptrs[0]);
  return 0;
}
"""


def missing() -> dict[str, str]:
    """Returns the targets that cannot be measured: {target: reason}."""
    try:
        import numba  # noqa: F401
    except ImportError as error:
        return {NUMBA_KERNEL: f"not installed: {error}"}
    return {}


def _numba(operand: str) -> Callable[[jax.Array], jax.Array]:
    import numba_copies

    kernel = numba_copies.copy_scalar if operand == "scalar" else numba_copies.copy_vector
    return callout.numba.numba_kernel(kernel, like)


def kernel_methods(operand: str, missing: dict[str, str]) -> list[Method]:
    """Returns the methods, each of which copies once, from the argument to the result."""
    methods = [
        Method("empty loop", EMPTY, identity),
        Method("floor: C++ FFI handler", FLOOR, ffi("floor_copy")),
        Method(CPP_KERNEL, OURS, callout.cpp.load_inline(SOURCE).copy),
    ]
    if operand == "scalar":
        plain = callout.cpp.load_inline(PLAIN, {"copy_scalar": {"out": like}})
        methods.append(Method(CPP_PLAIN, OURS, plain.copy_scalar))
    if NUMBA_KERNEL not in missing:
        methods.append(Method(NUMBA_KERNEL, OURS, _numba(operand)))
    if "tvm_cpp" not in missing:
        methods.append(Method("jax-tvm-ffi, C++ function", TVM, ffi("tvm_cpp")))
    pure = Method(
        "jax.pure_callback", JAX, lambda x: jax.pure_callback(identity, like(x), x), slow=True, synchronous=True
    )
    return [*methods, pure]
