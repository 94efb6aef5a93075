# SPDX-License-Identifier: Apache-2.0
"""Programs with a call in a `fori_loop`. Needs JAX only, because an environment without Callout uses it, too."""

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from measure import Refused

FLOOR, OURS, JAX, TVM, EMPTY = "floor", "callout", "jax", "jax-tvm-ffi", "empty"

OPERANDS = {"scalar": (), "1 KB": (256,), "256 KB": (1 << 16,), "1 MB": (1 << 18,)}
# Enough work for XLA to run a program on its pool. A program with less work runs in the calling thread.
WORK = np.full((128, 128), 1 / 128, np.float32)
# Work of about a millisecond.
MUCH_WORK = np.full((384, 384), 1 / 384, np.float32)


@dataclasses.dataclass
class Method:
    label: str
    role: str
    apply: Callable[[jax.Array], jax.Array]  # the identity, or a function of the same shape
    slow: bool = False  # True for tens of microseconds
    synchronous: bool = False  # JAX runs programs with it on the thread that calls them
    asynchronous: bool = False  # XLA's threads run programs with it, however small they are
    received: Callable[[], int] | None = None  # for taps: how many records have been delivered
    values: Callable[[], list[float]] | None = None  # for taps that keep records: the first element of each


def identity(x: Any) -> Any:
    return x


def like(x: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def ffi(target: str) -> Callable[[jax.Array], jax.Array]:
    """Returns the identity by an FFI target."""
    return lambda x: jax.ffi.ffi_call(target, like(x))(x)


def steps(operand: str, slow: bool) -> int:
    """Returns the number of calls in a round."""
    if operand in ("256 KB", "1 MB"):
        return 200 if slow else 500
    return 2_000 if slow else 20_000


def make_program(
    method: Method, shape: tuple[int, ...], n: int, pool: bool, spaced: bool
) -> Callable[..., tuple[jax.Array, jax.Array]]:
    """Returns x, work -> (x + n in its first element, number of the thread). `spaced`: work before each call."""

    def step(carry, work):
        x, w = carry
        if spaced:
            w = w @ work
            x = add_to_first(x, 0 * w[0, 0])
        return add_to_first(method.apply(x), 1), w

    @jax.jit
    def program(x, work):
        if pool:
            x = add_to_first(x, 0 * (work @ work)[0, 0])
        x, _ = jax.lax.fori_loop(0, n, lambda _, carry: step(carry, work), (x, work))
        first = x if x.ndim == 0 else x[0]
        return x, jax.ffi.ffi_call("floor_thread_id", jax.ShapeDtypeStruct((), jnp.int32))(first)

    return program


def add_to_first(x: jax.Array, y: jax.Array | int) -> jax.Array:
    return x + y if x.ndim == 0 else x.at[0].add(y)


class CallLoop:
    """A contender whose round is one run of the program, including the wait."""

    def __init__(
        self, method: Method, shape: tuple[int, ...], n: int, pool: bool, spaced: bool = False, rest: float = 0
    ):
        """Makes the program. `rest`: the value of all elements but the first, which is 0."""
        self.method, self.n, self.pool, self.rest = method, n, pool or spaced, rest
        self.program = make_program(method, shape, n, pool, spaced)
        x = np.full(shape, rest, np.float32)
        x[(0,) * x.ndim] = 0
        self.x = jnp.asarray(x)
        self.work = jnp.asarray(MUCH_WORK if spaced else WORK)
        jax.block_until_ready((self.x, self.work))

    def play(self) -> dict[str, float]:
        start = time.perf_counter()
        x, thread = self.program(self.x, self.work)
        x.block_until_ready()
        figures = {"program": (time.perf_counter() - start) / self.n * 1e6, **self._delivery(start)}
        self._check_result(np.ravel(x), int(thread))
        return figures

    def _delivery(self, start: float) -> dict[str, float]:
        """Returns further figures, of work after the program's end."""
        return {}

    def _check_result(self, x: np.ndarray, thread: int) -> None:
        if x[0] != self.n:
            raise Refused(f"the result is {x[0]}, not {self.n}")
        if np.any(x[1:] != self.rest):
            raise Refused(f"the result has elements other than {self.rest}")
        inline = thread == threading.get_native_id()
        wanted_inline = (not self.pool or self.method.synchronous) and not self.method.asynchronous
        if inline != wanted_inline:
            raise Refused(f"it ran on {'the calling thread' if inline else 'a pool thread'}")
