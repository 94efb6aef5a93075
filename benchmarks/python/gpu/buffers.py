# SPDX-License-Identifier: Apache-2.0
"""Checks callbacks on a GPU's own memory: other libraries use it without a copy. Measures a call beside JAX's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rows import Group, WrongError, expect, gpu, microseconds, need, side_by_side

GROUP = Group("buffers")
_STEPS = 300


def _x(size: int = 1024, dtype: str = "float32") -> Any:
    import jax
    import jax.numpy as jnp

    return jax.device_put(jnp.arange(size).astype(dtype), gpu())


def _like(x: Any) -> Any:
    import jax

    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def _address(buffer: Any) -> int:
    return int(buffer.__cuda_array_interface__["data"][0])


def _doubled(callback: Callable[..., None], x: Any, **settings: Any) -> None:
    """Runs a callback that doubles its operand, between kernels of XLA's."""
    import jax
    from callout.buffer_callback import buffer_callback

    call = buffer_callback(callback, _like(x), **settings)
    program = jax.jit(lambda x: call(x + 1) + 1)
    for _ in range(3):
        expect("2 (x + 1) + 1", 2 * (x + 1) + 1, program(x))


def _same(what: str, ours: int, theirs: int) -> None:
    if ours != theirs:
        raise WrongError(f"{what}: the buffer is at {ours:#x}, the library's array at {theirs:#x}")


@GROUP.row("PyTorch by DLPack, on XLA's stream")
def torch_dlpack() -> str:
    gpu()
    torch = need("torch")

    def double(ctx: Any, out: Any, x: Any) -> None:
        with torch.cuda.stream(torch.cuda.ExternalStream(ctx.stream)):
            source, target = torch.from_dlpack(x), torch.from_dlpack(out)
            _same("argument", _address(x), source.data_ptr())
            _same("result", _address(out), target.data_ptr())
            torch.mul(source, 2, out=target)

    _doubled(double, _x())
    return f"PyTorch {torch.__version__}"


@GROUP.row("PyTorch by DLPack, bfloat16")
def torch_bfloat16() -> str:
    gpu()
    torch = need("torch")

    def double(ctx: Any, out: Any, x: Any) -> None:
        with torch.cuda.stream(torch.cuda.ExternalStream(ctx.stream)):
            torch.mul(torch.from_dlpack(x), 2, out=torch.from_dlpack(out))

    _doubled(double, _x(64, "bfloat16"))
    return ""


@GROUP.row("PyTorch on its own stream waits for XLA's")
def torch_other_stream() -> str:
    gpu()
    torch = need("torch")

    def double(ctx: Any, out: Any, x: Any) -> None:
        side, xla = torch.cuda.Stream(), torch.cuda.ExternalStream(ctx.stream)
        with torch.cuda.stream(side):
            torch.mul(torch.from_dlpack(x), 2, out=torch.from_dlpack(out))
        xla.wait_stream(side)

    _doubled(double, _x(1 << 22))
    return ""


@GROUP.row("CuPy by the CUDA array interface")
def cupy_interface() -> str:
    gpu()
    cupy = need("cupy")

    def double(ctx: Any, out: Any, x: Any) -> None:
        with cupy.cuda.ExternalStream(ctx.stream):
            source, target = cupy.asarray(x), cupy.asarray(out)
            _same("argument", _address(x), source.data.ptr)
            _same("result", _address(out), target.data.ptr)
            cupy.multiply(source, 2, out=target)

    _doubled(double, _x())
    return f"CuPy {cupy.__version__}"


@GROUP.row("CuPy by DLPack")
def cupy_dlpack() -> str:
    gpu()
    cupy = need("cupy")

    def double(ctx: Any, out: Any, x: Any) -> None:
        with cupy.cuda.ExternalStream(ctx.stream):
            source, target = cupy.from_dlpack(x), cupy.from_dlpack(out)
            _same("argument", _address(x), source.data.ptr)
            cupy.multiply(source, 2, out=target)

    _doubled(double, _x())
    return ""


@GROUP.row("Numba by the CUDA array interface, also 0-d")
def numba_interface() -> str:
    import jax.numpy as jnp

    gpu()
    need("numba_cuda")
    need("callout.numba_cuda")
    from callout._native.gpu.numba_packages import import_cuda

    cuda = import_cuda("gpu-check")

    @cuda.jit
    def kernel(x: Any, out: Any) -> None:
        i = cuda.grid(1)
        if i < out.size:
            out[i] = 2 * x[i]

    @cuda.jit
    def scalar_kernel(x: Any, out: Any) -> None:
        out[()] = 2 * x[()]

    def double(ctx: Any, out: Any, x: Any) -> None:
        source, target = cuda.as_cuda_array(x, sync=False), cuda.as_cuda_array(out, sync=False)
        _same("argument", _address(x), int(source.__cuda_array_interface__["data"][0]))
        launched = kernel if x.ndim else scalar_kernel
        launched[8, 128, cuda.external_stream(ctx.stream)](source, target)

    _doubled(double, _x())
    _doubled(double, jnp.float32(3) + _x(1)[0])
    return ""


@GROUP.row("a tensor that outlives its call fails the program")
def kept() -> str:
    import jax
    from callout.buffer_callback import buffer_callback

    x = _x()
    torch = need("torch")
    tensors: list[Any] = []

    def keeps(ctx: Any, out: Any, x: Any) -> None:
        tensors.append(torch.from_dlpack(x))

    try:
        jax.block_until_ready(jax.jit(buffer_callback(keeps, _like(x)))(x))
    except (RuntimeError, ValueError) as error:
        if "argument 0 beyond its call" not in str(error):
            raise WrongError(f"expected the buffer's name, got {error}") from error
        return ""
    raise WrongError("the program succeeded")


@GROUP.row("command_buffer_compatible: Python runs when XLA records")
def captured() -> str:
    import jax
    from callout.buffer_callback import buffer_callback

    x = _x()
    cupy = need("cupy")
    runs = [0]

    def double(ctx: Any, out: Any, x: Any) -> None:
        runs[0] += 1
        with cupy.cuda.ExternalStream(ctx.stream):
            cupy.multiply(cupy.asarray(x), 2, out=cupy.asarray(out))

    call = buffer_callback(double, _like(x), command_buffer_compatible=True)

    @jax.jit
    def program(x: Any) -> Any:
        for _ in range(8):
            x = call(x)
        return x

    for _ in range(5):
        jax.block_until_ready(program(x))
    before = runs[0]
    for _ in range(100):
        expect("eight times 2", 256 * x, program(x))
    if runs[0] - before >= 800:
        raise WrongError("Python ran in each call: XLA did not capture it")
    return f"Python ran in {runs[0] - before} of 800 calls"


def _functions() -> tuple[Any, Any]:
    """Returns a function that quadruples in two launches, and Numba's module."""
    gpu()
    need("numba_cuda")
    from callout._native.gpu.numba_packages import import_cuda

    cuda = import_cuda("gpu-check")

    @cuda.jit
    def add(x: Any, y: Any, out: Any) -> None:
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + y[i]

    def four_times(x: Any, out: Any, scratch: Any, stream: Any) -> None:
        add[4, 256, stream](x, x, scratch)
        add[4, 256, stream](scratch, scratch, out)

    return four_times, cuda


@GROUP.row("numba_cuda_callable with scratch and graph=True: replays run no Python")
def graph() -> str:
    import jax
    from callout import _ext
    from callout.numba_cuda import numba_cuda_callable

    function, _ = _functions()
    x = _x(1000)
    runs = [0]

    def counted(*arguments: Any) -> None:
        runs[0] += 1
        function(*arguments)

    call = numba_cuda_callable(counted, _like(x), scratch=_like(x), graph=True)
    program = jax.jit(lambda x: jax.lax.fori_loop(0, _STEPS, lambda _, v: call(v) / 4, x))
    before = _ext.recorded_call_counts()
    expect("x", x, program(x))
    expect("x + 1", x + 1, program(x + 1))
    recorded, launched = (now - then for now, then in zip(_ext.recorded_call_counts(), before, strict=True))
    if runs[0] != 1 + recorded or recorded > _STEPS / 4:
        raise WrongError(f"Python ran {runs[0]} times, {recorded} calls were recorded")
    return f"Python ran {runs[0]} times, {launched} launches of {recorded} recordings"


@GROUP.row("one call of two Numba kernels in a loop")
def callable_cost() -> str:
    import jax
    from callout.numba_cuda import numba_cuda_callable

    function, _ = _functions()
    x = _x(1000)

    def loop(call: Any) -> Any:
        return jax.jit(lambda x: jax.lax.fori_loop(0, _STEPS, lambda _, v: call(v), x))

    loops = [loop(numba_cuda_callable(function, _like(x), scratch=_like(x), graph=graph)) for graph in (False, True)]
    figures = [microseconds(lambda f=f: f(x), calls=_STEPS) for f in loops]
    return side_by_side(["graph=False", "graph=True"], figures)


@GROUP.row("one buffer callback in a loop")
def call_cost() -> str:
    import jax
    from callout.buffer_callback import buffer_callback
    from jax.experimental.buffer_callback import buffer_callback as jax_buffer_callback

    def nothing(ctx: Any, out: Any, x: Any) -> None:
        pass

    x = _x(4)

    def loop(make: Any) -> Any:
        call = make(nothing, _like(x), input_output_aliases={0: 0})
        return jax.jit(lambda x: jax.lax.fori_loop(0, _STEPS, lambda _, v: call(v), x))

    loops = [loop(make) for make in (buffer_callback, jax_buffer_callback)]
    figures = [microseconds(lambda f=f: f(x), calls=_STEPS) for f in loops]
    return side_by_side(["ours", "JAX"], figures)
