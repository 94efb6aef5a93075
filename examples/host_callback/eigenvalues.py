# SPDX-License-Identifier: Apache-2.0
"""Computes eigenvalues of general matrices by NumPy inside jit. JAX has them on CPU only, with limited derivatives.

Run: python examples/host_callback/eigenvalues.py
"""

import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np


def host_eigenvalues(m: np.ndarray) -> np.ndarray:
    return np.linalg.eigvals(m).astype(np.complex64)


def eigenvalues(m: jax.Array) -> jax.Array:
    """Returns the eigenvalues, of shape (..., d), of matrices of shape (..., d, d)."""
    return hcb.call(host_eigenvalues, m, result_shape=jax.ShapeDtypeStruct(m.shape[:-1], jnp.complex64))


@jax.jit
def spectral_radius(m: jax.Array) -> jax.Array:
    return jnp.abs(eigenvalues(m)).max(axis=-1)


def main() -> None:
    rotations = jnp.array([[[0.0, -0.5], [0.5, 0.0]], [[0.0, -2.0], [2.0, 0.0]]])
    radius = spectral_radius(rotations)
    print("spectral radius:", radius)
    np.testing.assert_allclose(radius, [0.5, 2], rtol=1e-6)
    hcb.barrier_wait()


if __name__ == "__main__":
    main()
