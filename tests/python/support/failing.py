# SPDX-License-Identifier: Apache-2.0
"""Programs that fail while they run."""

import contextlib

import callout
import jax
import pytest


@contextlib.contextmanager
def fails(text):
    """Expects an error with `text` in the block or at JAX's barrier, and drops the token of the failed program."""
    with pytest.raises(callout.CallbackError, match=text):  # noqa: PT012 - the failure comes with either
        yield
        jax.effects_barrier()
    callout._jax_compat.runtime_token_set().clear()
