# SPDX-License-Identifier: Apache-2.0
"""Programs to profile, and functions that inspect their profiles."""

import collections

import callout
import jax
import jax.numpy as jnp
import numpy as np

F32 = jax.ShapeDtypeStruct((), "float32")


def named(function, name, **options):
    return callout.options(function, name=name, **options)


def double(x):
    return np.float32(2 * x)


def loop(body, steps, x=1.0):
    """Runs `body(x) -> x` `steps` times in one program."""
    jax.jit(lambda x: jax.lax.fori_loop(0, steps, lambda _, x: body(x), x))(jnp.float32(x)).block_until_ready()


def counts(profile):
    """Counts the events of each kind and label."""
    return collections.Counter((event["kind"], event["label"]) for event in profile.events)
