# SPDX-License-Identifier: Apache-2.0
"""Programs that stop in their middle until they are released, after their dispatch has returned.

On a CPU, a numpy_only callback waits. On CUDA no Python callback can wait, because XLA calls the host in the thread
that dispatches the program. There the stream waits, in a function of the C library that the driver calls.
"""

import ctypes
import threading

import callout
import jax
import jax.numpy as jnp
import pytest
from callout.buffer_callback import buffer_callback
from platforms import BY_FALLBACK, ON_CUDA, SYNCHRONOUS

F32 = jax.ShapeDtypeStruct((), jnp.float32)


class Gate:
    """Blocks programs until it is opened."""

    def __init__(self):
        self.inside, self.opened = threading.Semaphore(0), threading.Event()
        self.left = []

    def __call__(self, value):
        self.inside.release()
        assert self.opened.wait(60)
        self.left.append(float(value))
        return value

    def in_program(self, value):
        # The product of matrices makes the program expensive: XLA runs cheap ones in their caller's thread.
        matrix = jnp.full((64, 64), value)
        value = value + 0 * (matrix @ matrix)[0, 0]
        return self.pass_through(value)

    def pass_through(self, value):
        return callout.pure_callback(callout.options(self, numpy_only=True), F32, value)

    def open(self):
        self.opened.set()

    def close(self):
        self.opened.clear()

    def await_inside(self, count=1):
        for _ in range(count):
            assert self.inside.acquire(timeout=60)


class StreamGate(Gate):
    """Blocks the streams on which programs run. Every value is 1, so `left` returns 1 for each that has passed."""

    def __init__(self):
        super().__init__()
        self._libc, self._driver = ctypes.CDLL(None), ctypes.CDLL("libcuda.so.1")
        self._entry, self._exit = (self._semaphore() for _ in range(2))
        self._held = 0

    def _semaphore(self):
        semaphore = ctypes.create_string_buffer(64)
        assert self._libc.sem_init(semaphore, 0, 0) == 0
        return semaphore

    def _launch(self, stream, function, semaphore):
        launched = self._driver.cuLaunchHostFunc(ctypes.c_void_p(stream), function, semaphore)
        assert launched == 0, f"cuLaunchHostFunc: {launched}"

    def _hold(self, ctx, _out, _value):
        if not self.opened.is_set():
            self._held += 1
            self._launch(ctx.stream, self._libc.sem_wait, self._entry)
        self._launch(ctx.stream, self._libc.sem_post, self._exit)
        self.inside.release()

    def pass_through(self, value):
        return buffer_callback(self._hold, F32, input_output_aliases={0: 0}, has_side_effect=True)(value)

    def open(self):
        super().open()
        while self._held:
            self._held -= 1
            self._libc.sem_post(self._entry)

    @property
    def left(self):
        count = ctypes.c_int()
        assert self._libc.sem_getvalue(self._exit, ctypes.byref(count)) == 0
        return [1.0] * count.value

    @left.setter
    def left(self, _value):
        pass


def gate():
    """Makes a gate for programs on JAX's default platform."""
    if BY_FALLBACK:
        pytest.skip(SYNCHRONOUS)
    return StreamGate() if ON_CUDA else Gate()
