# SPDX-License-Identifier: Apache-2.0
"""Uses SciPy inside jit, with a derivative: fits a Bessel function of any real order by gradient descent.

JAX has no Bessel functions of the first kind of real order, but SciPy has. A call costs a third of a microsecond more
than SciPy itself, so it can be used inside a loop.

Usage: python examples/scipy_in_jit.py
"""

import callout
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special


def _bessel_on_host(order: np.ndarray, x: np.ndarray) -> np.ndarray:
    return scipy.special.jv(order, x).astype(x.dtype)


_host = callout.options(_bessel_on_host, numpy_only=True)  # SciPy does not use JAX


@jax.custom_jvp
def bessel(order: jax.Array, x: jax.Array) -> jax.Array:
    """Returns J_order(x), elementwise. Differentiable in x."""
    order, x = jnp.broadcast_arrays(jnp.asarray(order, jnp.float32), jnp.asarray(x, jnp.float32))
    return callout.pure_callback(_host, jax.ShapeDtypeStruct(x.shape, x.dtype), order, x, vmap_method="broadcast_all")


@bessel.defjvp
def _bessel_jvp(primals, tangents):
    order, x = primals
    slope = (bessel(order - 1, x) - bessel(order + 1, x)) / 2
    return bessel(order, x), slope * tangents[1]


@jax.jit
def fit(start: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    """Returns the scale s for which J_1.5(s * x) is y, by 300 steps of gradient descent with several SciPy calls each."""
    loss = jax.grad(lambda scale: jnp.mean((bessel(1.5, scale * x) - y) ** 2))
    return jax.lax.fori_loop(0, 300, lambda _, scale: scale - 0.05 * loss(scale), start)


def main() -> None:
    x = jnp.linspace(0.1, 10, 200)
    true_scale = 0.8
    y = scipy.special.jv(1.5, true_scale * np.asarray(x)).astype(np.float32)
    with callout.reraise():
        found = float(fit(jnp.float32(0.7), x, y))
        slopes = jax.jit(jax.vmap(jax.grad(bessel, argnums=1), in_axes=(None, 0)))(jnp.float32(1.5), x)
    print(f"scale: {found:.4f}, expected {true_scale}")
    error = np.abs(slopes - scipy.special.jvp(1.5, np.asarray(x))).max()
    print(f"largest error of the derivative: {error:.1e}")
    assert abs(found - true_scale) < 1e-3
    assert error < 1e-4


if __name__ == "__main__":
    main()
