# SPDX-License-Identifier: Apache-2.0
"""Collects the reports of `callout.locate_nans` about a call."""

import warnings

import callout
import jax
import numpy as np
import platforms

THREADS_OWN = "here catch_warnings sees its own thread's warnings only (sys.flags.context_aware_warnings)"


def found(f, *args):
    """Returns (reports, results) of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = jax.tree.map(np.asarray, platforms.ended(f(*args)))
    assert all(each.category is callout.NonFiniteWarning for each in caught)
    for each in caught:
        assert f"{each.filename}:{each.lineno} " in str(each.message)
    return [str(each.message) for each in caught], results
