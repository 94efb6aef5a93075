# SPDX-License-Identifier: Apache-2.0
"""Sets values of `callout.config` for the length of a block."""

import contextlib

import callout
import jax


@contextlib.contextmanager
def fallback(value):
    """Sets `config.fallback` for a block, and restores the old value even if the block sets another one."""
    before = callout.config.fallback
    callout.config.fallback = value
    try:
        yield
    finally:
        callout.config.fallback = before


def jax_has(flag):
    """Returns true if JAX's new `checkpoint` ("remat3") or derivative rules ("custom_vjp3", "custom_jvp3") are on."""
    return bool(getattr(jax.config, f"jax_{flag}", False))
