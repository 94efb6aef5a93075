# SPDX-License-Identifier: Apache-2.0
"""Calls a function of another library inside jit, and differentiates it by this library: `autograd` on NumPy.

Run: python examples/host_callback/outside_autodiff.py
"""

from collections.abc import Callable
from typing import Any

import autograd
import autograd.numpy as anp
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np


def outside(function: Callable[[Any], Any], result_shape: Any) -> Callable[[Any], Any]:
    """Wraps an `autograd` function of one array for JAX programs; `jax.grad` gets its derivative from `autograd`."""

    def in_float32(f: Callable[..., Any]) -> Callable[[Any], Any]:
        return lambda arg: np.asarray(f(arg), np.float32)

    def pull_back(pair: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        arg, cotangent = pair
        back, _ = autograd.make_vjp(function)(arg)
        return back(cotangent)

    @jax.custom_vjp
    def call(arg: Any) -> Any:
        return hcb.call(in_float32(function), arg, result_shape=result_shape)

    def backward(arg: Any, cotangent: Any) -> tuple[Any]:
        return (hcb.call(in_float32(pull_back), (arg, cotangent), result_shape=arg),)

    call.defvjp(lambda arg: (call(arg), arg), backward)
    return call


def log_sum_exp(x: Any) -> Any:
    top = anp.max(x)
    return top + anp.log(anp.sum(anp.exp(x - top)))


def main() -> None:
    f = outside(log_sum_exp, jax.ShapeDtypeStruct((), jnp.float32))
    x = jnp.array([1.0, 2.0, 3.0])
    value, gradient = jax.jit(jax.value_and_grad(lambda v: f(2 * v)))(x)
    expected, slope = jax.value_and_grad(lambda v: jax.nn.logsumexp(2 * v))(x)
    print(f"value {value}, gradient {gradient}")
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    np.testing.assert_allclose(gradient, slope, rtol=1e-5)
    hcb.barrier_wait()


if __name__ == "__main__":
    main()
