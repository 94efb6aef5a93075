# SPDX-License-Identifier: Apache-2.0
"""Measures callbacks on XLA's own memory: a copy by NumPy, and a callback that does nothing."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from callout.buffer_callback import buffer_callback
from jax.experimental.buffer_callback import buffer_callback as jax_buffer_callback
from measure import Contender, Row, compare
from program import EMPTY, FLOOR, JAX, OPERANDS, OURS, CallLoop, Method, ffi, identity, like, steps

OPERANDS_HERE = ("scalar", "1 KB", "1 MB")


def copy(ctx: Any, out: Any, x: Any) -> None:
    np.asarray(out)[...] = np.asarray(x)


def nothing(ctx: Any, out: Any, x: Any) -> None:
    """Leaves the result as it is, because the result shares the argument's memory."""


def _method(label: str, role: str, make: Callable[..., Any], body: Callable[..., None]) -> Method:
    aliases = {0: 0} if body is nothing else None

    def apply(x: jax.Array) -> jax.Array:
        return make(body, like(x), input_output_aliases=aliases)(x)

    return Method(label, role, apply, slow=True, synchronous=True)


def _row(operand: str, body: Callable[..., None], what: str, rounds: int) -> Row:
    methods = [
        Method("empty loop", EMPTY, identity),
        Method("floor: C++ FFI handler", FLOOR, ffi("floor_copy")),
        _method("callout.buffer_callback", OURS, buffer_callback, body),
        _method("jax.experimental.buffer_callback", JAX, jax_buffer_callback, body),
    ]
    contenders = []
    for method in methods:
        loop = CallLoop(method, OPERANDS[operand], steps(operand, method.slow), False, rest=1)
        contenders.append(Contender(method.label, method.role, loop.play))
    title = f"buffer callback that {what}, f32 {operand}, calling thread"
    return compare(f"buffer/{body.__name__}/{operand}", title, "us", contenders, rounds)


def run(rounds: int) -> list[Row]:
    rows = [_row(operand, copy, "copies with NumPy", rounds) for operand in OPERANDS_HERE]
    return [*rows, _row("scalar", nothing, "does nothing", rounds)]
