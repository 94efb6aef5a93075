# SPDX-License-Identifier: Apache-2.0
"""Runs a JAX function on another device than the calling program's, with reverse-mode derivatives of any order.

Run: python examples/host_callback/other_device.py
"""

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")

import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np


def on_device(function: Callable[[Any], Any], device: jax.Device) -> Callable[[Any], Any]:
    """Returns a function that runs `function`, of one pytree, on `device`."""

    def there(arg: Any) -> Any:
        return jax.jit(function)(jax.device_put(arg, device))

    @jax.custom_vjp
    def call(arg: Any) -> Any:
        return hcb.call(there, arg, result_shape=jax.eval_shape(function, arg))

    def forward(arg: Any) -> tuple[Any, Any]:
        return call(arg), arg

    def backward(arg: Any, cotangent: Any) -> tuple[Any]:
        def pull_back(pair: Any) -> Any:
            value, g = pair
            return jax.vjp(function, value)[1](g)[0]

        # Wrap the derivative by `on_device`, too, so that derivatives of it also run on the device.
        return (on_device(pull_back, device)((arg, cotangent)),)

    call.defvjp(forward, backward)
    return call


def main() -> None:
    here, there = jax.devices()[:2]
    devices = []

    def cube(x: jax.Array) -> jax.Array:
        x = hcb.id_tap(lambda value, transforms, device: devices.append(device), x, tap_with_device=True)
        return x * x * x

    f = jax.jit(on_device(cube, there))
    x = jax.device_put(jnp.float32(2), here)
    values = f(x), jax.jit(jax.grad(f))(x), jax.jit(jax.grad(jax.grad(f)))(x)
    hcb.barrier_wait()
    print(f"x^3 and two derivatives at 2 on {here}: {[float(v) for v in values]}; computed on {set(devices)}")
    np.testing.assert_allclose(values, [8, 12, 12])
    assert set(devices) == {there}
    assert values[0].devices() == {here}


if __name__ == "__main__":
    main()
