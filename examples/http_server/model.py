# SPDX-License-Identifier: Apache-2.0
"""The model of both servers: how unusual a vector is for a user, by the user's covariance."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

FEATURES = 8
BATCHES = (1, 4, 16)


def make_scores(
    variance_of: Callable[[jax.Array], jax.Array], see: Callable[[jax.Array], object]
) -> Callable[..., jax.Array]:
    """Returns the model. `variance_of` returns a user's variance, which is not in the program. `see` gets all scores."""

    def score(vector: jax.Array, variance: jax.Array) -> jax.Array:
        covariance = variance * jnp.eye(FEATURES) + 0.5 * jnp.outer(jnp.sin(vector), jnp.sin(vector))
        return jnp.sqrt(vector @ jnp.linalg.solve(covariance, vector))

    def scores(vectors: jax.Array, users: jax.Array) -> jax.Array:
        result = jax.vmap(score)(vectors, variance_of(users))
        see(result)
        return result

    return scores
