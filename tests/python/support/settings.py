# SPDX-License-Identifier: Apache-2.0
"""Settings of `callout.config` for the length of a block."""

import contextlib

import callout


@contextlib.contextmanager
def fallback(value):
    """Another `config.fallback`; what the block makes of it is taken back, too."""
    before = callout.config.fallback
    callout.config.fallback = value
    try:
        yield
    finally:
        callout.config.fallback = before
