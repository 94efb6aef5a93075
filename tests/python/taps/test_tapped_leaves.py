# SPDX-License-Identifier: Apache-2.0
"""Tests values that a tap rejects, and the texts of the errors."""

import callout
import jax
import numpy as np
import pytest


def test_a_nonarray_leaf_is_named_by_its_path():
    class Callable:
        def __call__(self):
            """Does nothing."""

    with pytest.raises(TypeError, match=r"got .* at \['layers'\]\[1\]; leave functions out, as equinox.filter"):
        callout.tap(lambda v: None, {"layers": [1.0, Callable()]})
    with pytest.raises(TypeError, match=r"got 'text' of type str at \['name'\]$"):
        callout.tap(lambda v: None, {"name": "text"})
    with pytest.raises(TypeError, match=r"got array\('text', dtype='<U4'\) of type ndarray at \['name'\]$"):
        callout.tap(lambda v: None, {"name": np.array("text")})


def test_a_name_that_shows_a_tracer_is_refused():
    for named in (lambda x, name: callout.tap(print, x, name=name), callout.watch):
        with pytest.raises(ValueError, match=r"the name 'x is \w+Tracer\(.*' shows no value but a tracer"):
            jax.jit(lambda x, named=named: named(x, name=f"x is {x}"))(1.0)


def test_a_nonarray_value_is_rejected_at_the_users_line():
    def user():
        jax.jit(lambda x: callout.tap(print, {"x": x, "note": "text"}))(1.0)

    with pytest.raises(TypeError, match=r"got 'text' of type str at \['note'\]") as caught:
        user()
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert [entry.name for entry in caught.traceback[1:]] == ["user", "<lambda>"]
