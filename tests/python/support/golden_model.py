# SPDX-License-Identifier: Apache-2.0
"""Functions that golden_findings.py exports. Programs contain the line numbers of this file: never move a line."""

import callout
import jax
import jax.numpy as jnp
from jax import lax


def negative(x):
    return callout.error_if(x, x < 0, "negative {x:.2f} of {whole}, {{as it is}} ä%;", x=x, whole=x.sum()) * 2


def outside(x):
    callout.check((x > -1).all(), "the least is {0:.1f}", x.min(), step=7)
    return x + 1


def lanes(x):
    return jax.vmap(jax.vmap(lambda x: callout.error_if(x, x < 0, "{value} in lane {lane} at {index}")))(x)


def warned(x):
    def step(i, x):
        return callout.warn_if(x + 1, x > 7, "{value} of step {step}, device {device}", step=i)

    return lax.fori_loop(0, 10, step, x)


def warned_in_branches(x):
    def careful(x):
        return callout.warn_if(x, x < -1, "{value} in lane {lane}")

    return jax.vmap(lambda x: lax.cond(x < 0, careful, lambda x: x * 2, x))(x)


def became_nan(x):
    return callout.error_if(x, x < 0, "{value}", on_error="nan")


def logarithm(x):
    y = jnp.log(x)
    return y + 1


def overflow(x):
    y = jnp.exp(x)
    return y * 0.5


def masked(x):
    return jnp.where(x > 0, jnp.log(x), 0).sum()


def looped(x):
    def step(x, i):
        x = x - 1
        return jnp.log(x), i

    return lax.scan(step, x, jnp.arange(3))[0]
