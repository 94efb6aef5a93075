# SPDX-License-Identifier: Apache-2.0
"""Prints tangents and cotangents during differentiation, and collects values behind a barrier.

Run: python examples/host_callback/derivatives.py
"""

import sys
from typing import Any

import callout.host_callback as hcb
import jax
import numpy as np


@jax.custom_jvp
def print_tangents(arg: Any) -> None:
    """Returns its argument. The derivative of this function prints the tangents."""


@print_tangents.defjvp
def _(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (arg_dot,) = tangents
    hcb.id_print(arg_dot, what="tangents")
    return primals, tangents


@jax.custom_vjp
def print_cotangents(arg: Any) -> Any:
    """Returns `arg`, and prints its cotangents in the backward pass if the caller uses the result."""
    return arg


def _backward(_: None, cotangent: Any) -> tuple[Any]:
    hcb.id_print(cotangent, what="cotangents")
    return (cotangent,)


print_cotangents.defvjp(lambda arg: (print_cotangents(arg), None), _backward)


def power3(x: Any) -> Any:
    y = x * x
    hcb.id_print((x, y), what="x,x^2")
    print_tangents((x, y))
    return y * x


def power3_with_cotangents(x: Any) -> Any:
    y = x * x
    x, y = print_cotangents((x, y))
    return y * x


def collect(steps: int) -> list[float]:
    """Returns the values of a loop: `id_tap` does not make it wait, and `barrier_wait` waits for all values."""
    seen: list[float] = []

    @jax.jit
    def newton(x: Any) -> Any:
        def step(_: Any, value: Any) -> Any:
            value = (value + 2 / value) / 2
            return hcb.id_tap(lambda v, _: seen.append(float(v)), value)

        return jax.lax.fori_loop(0, steps, step, x)

    newton(1.0)
    hcb.barrier_wait()
    return seen


def main() -> None:
    jax.jvp(power3, (3.0,), (0.1,))  # ( 3. 9. ), then ( 0.1 0.6 )
    jax.grad(power3_with_cotangents)(3.0)  # ( 9. 3. )
    hcb.barrier_wait()
    roots = collect(5)
    sys.stdout.write(f"Newton's way to the root of 2: {roots}\n")
    np.testing.assert_allclose(roots[-1], 2**0.5, rtol=1e-6)


if __name__ == "__main__":
    main()
