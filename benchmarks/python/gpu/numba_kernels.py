# SPDX-License-Identifier: Apache-2.0
"""Checks Numba kernels on a GPU: both compilers, exceptions of debug kernels, and functions of several kernels."""

from __future__ import annotations

from typing import Any

from rows import Group, WrongError, expect, gpu, need

GROUP = Group("numba_kernels")


def _add(cuda: Any, **options: Any) -> Any:
    @cuda.jit(**options)
    def add(x: Any, y: Any, out: Any) -> None:
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + y[i]

    return add


def _runs(cuda: Any) -> str:
    import callout
    import jax
    import jax.numpy as jnp

    x = jax.device_put(jnp.arange(1000, dtype=jnp.float32), gpu())
    kernel = callout.numba_cuda.numba_cuda_kernel(
        _add(cuda), jax.ShapeDtypeStruct((1000,), jnp.float32), launch_dims=1000
    )
    expect("sum", 2 * x, jax.jit(kernel)(x, x))
    return str(getattr(cuda, "__version__", "")) or cuda.__name__


@GROUP.row("numba-cuda kernel")
def numba_cuda() -> str:
    gpu()
    need("numba_cuda")
    need("callout.numba_cuda")
    from numba import cuda

    return _runs(cuda)


@GROUP.row("numba-cuda-mlir kernel")
def numba_cuda_mlir() -> str:
    gpu()
    cuda = need("numba_cuda_mlir.cuda")
    need("callout.numba_cuda")
    return _runs(cuda)


@GROUP.row("an exception of a debug kernel")
def debug() -> str:
    import callout
    import jax

    gpu()
    need("numba_cuda")
    need("callout.numba_cuda")
    from numba import cuda

    @cuda.jit(debug=True, opt=False)
    def picky(x: Any, out: Any) -> None:
        i = cuda.grid(1)
        if x[i] < 0:
            raise ValueError("negative")
        out[i] = x[i]

    kernel = callout.numba_cuda.numba_cuda_kernel(picky, jax.ShapeDtypeStruct((4,), "float32"), grid=1, block=4)
    try:
        jax.block_until_ready(jax.jit(kernel)(jax.numpy.array([1, 2, -3, 4], "float32")))
    except RuntimeError as error:
        if "ValueError" not in str(error) or "negative" not in str(error):
            raise WrongError(f"expected ValueError: negative, got {error}") from error
        return str(error).splitlines()[0]
    raise WrongError("the program succeeded")


@GROUP.row("a function of several kernels")
def callable_() -> str:
    import callout
    import jax
    import jax.numpy as jnp

    gpu()
    need("numba_cuda")
    need("callout.numba_cuda")
    from numba import cuda

    add = _add(cuda)

    def twice(x: Any, out: Any, stream: Any) -> None:
        temporary = cuda.device_array(x.shape, x.dtype, stream=stream)
        add[4, 256, stream](x, x, temporary)
        add[4, 256, stream](temporary, temporary, out)

    x = jax.device_put(jnp.arange(1000, dtype=jnp.float32), gpu())
    function = callout.numba_cuda.numba_cuda_callable(twice, jax.ShapeDtypeStruct((1000,), jnp.float32))
    expect("4x", 4 * x, jax.jit(function)(x))
    return ""
