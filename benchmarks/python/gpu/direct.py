# SPDX-License-Identifier: Apache-2.0
"""Calls the CUDA driver directly, to measure costs without Callout."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from rows import NotRunError

POINTER = ctypes.c_void_p


class Driver:
    """Calls functions of the driver, on the primary context of device 0, which JAX uses."""

    def __init__(self) -> None:
        try:
            self.library = ctypes.CDLL(os.environ.get("CALLOUT_CUDA_DRIVER") or "libcuda.so.1")
        except OSError as error:
            raise NotRunError(str(error)) from error
        self.functions: dict[str, Any] = {}
        self.call("cuInit", 0)
        self.context = POINTER()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.call("cuCtxPushCurrent", self.context)

    def function(self, name: str) -> Callable[..., int] | None:
        """Returns the driver's function in its version of CUDA 12.0; None if there is none."""
        if name not in self.functions:
            address, status = POINTER(), ctypes.c_int()
            found = self.library.cuGetProcAddress_v2(
                name.encode(), ctypes.byref(address), 12000, ctypes.c_uint64(0), ctypes.byref(status)
            )
            made = ctypes.CFUNCTYPE(ctypes.c_int)(address.value) if found == 0 and address.value else None
            self.functions[name] = made
        return self.functions[name]

    def call(self, name: str, *arguments: object) -> None:
        function = self.function(name)
        if function is None:
            raise OSError(f"this driver has no {name}")
        result = function(*arguments)
        if result != 0:
            raise OSError(f"{name}: CUDA error {result}")

    def stream(self) -> POINTER:
        made = POINTER()
        self.call("cuStreamCreate", ctypes.byref(made), 1)
        return made

    def event(self, flags: int = 0) -> POINTER:
        made = POINTER()
        self.call("cuEventCreate", ctypes.byref(made), flags)
        return made

    def pinned(self, size: int) -> ctypes.c_void_p:
        made = POINTER()
        self.call("cuMemHostAlloc", ctypes.byref(made), ctypes.c_size_t(size), 3)
        return made

    def memory(self, size: int) -> ctypes.c_uint64:
        made = ctypes.c_uint64()
        self.call("cuMemAlloc", ctypes.byref(made), ctypes.c_size_t(size))
        return made

    @contextlib.contextmanager
    def freed(self, memory: ctypes.c_uint64, host: ctypes.c_void_p) -> Iterator[None]:
        """Frees both at the end of the block."""
        try:
            yield
        finally:
            self.call("cuMemFree", memory)
            self.call("cuMemFreeHost", host)


def pinned_rate(size: int, repeats: int = 5) -> float:
    """Measures the GB/s of a copy from the device to pinned memory and back."""
    driver = Driver()
    host, memory, stream, bytes_ = driver.pinned(size), driver.memory(size), driver.stream(), ctypes.c_size_t(size)
    best = float("inf")
    with driver.freed(memory, host):
        for _ in range(repeats):
            start = time.perf_counter()
            driver.call("cuMemcpyDtoHAsync", host, memory, bytes_, stream)
            driver.call("cuMemcpyHtoDAsync", memory, host, bytes_, stream)
            driver.call("cuStreamSynchronize", stream)
            best = min(best, time.perf_counter() - start)
    return 2 * size / best / 1e9


def graph_replay(image: bytes, symbol: str, launches: int) -> Callable[[int], None]:
    """Returns a function of a count, which replays a CUDA graph so often, and waits.

    The graph has `launches` launches of one thread each, of a kernel with two pointers.
    """
    driver = Driver()
    library, kernel, graph, executable = POINTER(), POINTER(), POINTER(), POINTER()
    driver.call("cuLibraryLoadData", ctypes.byref(library), ctypes.c_char_p(image), None, None, 0, None, None, 0)
    driver.call("cuLibraryGetKernel", ctypes.byref(kernel), library, symbol.encode())
    stream, memory = driver.stream(), driver.memory(64)
    parameters = (POINTER * 2)(*[ctypes.cast(ctypes.pointer(memory), POINTER)] * 2)
    launch = kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, None
    driver.call("cuLaunchKernel", *launch)  # the first launch loads the kernel, which a capture does not permit
    driver.call("cuStreamBeginCapture", stream, 1)
    for _ in range(launches):
        driver.call("cuLaunchKernel", *launch)
    driver.call("cuStreamEndCapture", stream, ctypes.byref(graph))
    driver.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_uint64(0))

    def replay(count: int) -> None:
        for _ in range(count):
            driver.call("cuGraphLaunch", executable, stream)
        driver.call("cuStreamSynchronize", stream)

    return replay
