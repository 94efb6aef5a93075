# SPDX-License-Identifier: Apache-2.0
"""Memory and streams of the CUDA driver's double, as callbacks on the device use them."""

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import gpu_double
import numpy as np

_POINTER, _BYTES = ctypes.c_uint64, ctypes.c_size_t
_SIGNATURES = {
    "cuMemcpyDtoDAsync": [_POINTER, _POINTER, _BYTES, ctypes.c_void_p],
    "cuMemcpyDtoH": [ctypes.c_void_p, _POINTER, _BYTES],
    "cuMemsetD8Async": [_POINTER, ctypes.c_ubyte, _BYTES, ctypes.c_void_p],
    "cuMemAlloc": [ctypes.POINTER(_POINTER), _BYTES],
    "cuMemFree": [_POINTER],
    "cuStreamSynchronize": [ctypes.c_void_p],
    "cuStreamCreate": [ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint],
    "cuStreamBeginCapture": [ctypes.c_void_p, ctypes.c_int],
    "cuStreamEndCapture": [ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)],
    "cuGraphDestroy": [ctypes.c_void_p],
    "cuCtxGetCurrent": [ctypes.POINTER(ctypes.c_void_p)],
    "cuCtxPushCurrent": [ctypes.c_void_p],
    "cuCtxPopCurrent": [ctypes.POINTER(ctypes.c_void_p)],
    "cuDevicePrimaryCtxRetain": [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int],
    "cuDevicePrimaryCtxRelease": [ctypes.c_int],
}


class DriverError(Exception):
    """The driver returned an error."""


@functools.cache
def _function(name: str) -> Any:
    library = gpu_double.library()
    address, found = ctypes.c_void_p(), ctypes.c_int()
    library.cuGetProcAddress_v2(name.encode(), ctypes.byref(address), 13000, ctypes.c_uint64(0), ctypes.byref(found))
    return ctypes.CFUNCTYPE(ctypes.c_int, *_SIGNATURES[name])(address.value)


def driver(name: str, *arguments: Any) -> None:
    """Calls a function of the driver, as a library for GPUs would."""
    result = _function(name)(*arguments)
    if result != 0:
        raise DriverError(f"{name} returned {result}")


def address(buffer: Any) -> int:
    """Returns the address of a Buffer."""
    return int(buffer.__cuda_array_interface__["data"][0])


def seen(buffer: Any) -> np.ndarray:
    """Returns a Buffer's content after the queued work has run."""
    found = np.empty(buffer.shape, buffer.dtype)
    driver("cuStreamSynchronize", buffer.__cuda_array_interface__["stream"])
    driver("cuMemcpyDtoH", found.ctypes.data, address(buffer), buffer.nbytes)
    return found


def copy(ctx: Any, out: Any, x: Any) -> None:
    """Queues a copy, as a buffer callback."""
    driver("cuMemcpyDtoDAsync", address(out), address(x), x.nbytes, ctx.stream)


def filling(value: int) -> Callable[..., None]:
    """Makes a buffer callback that queues a fill with bytes."""

    def fill(ctx: Any, out: Any, *args: Any) -> None:
        driver("cuMemsetD8Async", address(out), value, out.nbytes, ctx.stream)

    return fill
