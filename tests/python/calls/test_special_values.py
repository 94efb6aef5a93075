# SPDX-License-Identifier: Apache-2.0
"""Tests NaN and infinity in results of callbacks while JAX checks for them (jax_debug_nans, jax_debug_infs)."""

import functools

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout.buffer_callback import buffer_callback
from platforms import BY_FALLBACK

F32 = jax.ShapeDtypeStruct((), jnp.float32)


def fill_nan(ctx, out, x):
    np.asarray(out)[...] = np.nan


BAD = np.float32(np.nan)
SPECIAL = {
    "pure_callback": lambda x: callout.pure_callback(lambda v: BAD, F32, x, vmap_method="sequential"),
    "io_callback": lambda x: callout.io_callback(lambda v: BAD, F32, x),
    "name": lambda x: callout.pure_callback("not a number", F32, x, vmap_method="sequential"),
    "second of two": lambda x: callout.pure_callback(lambda v: (v, BAD), (F32, F32), x, vmap_method="sequential")[1],
    "call": lambda x: hcb.call(lambda v: BAD, x, result_shape=F32),
    **({} if BY_FALLBACK else {"buffer_callback": buffer_callback(fill_nan, F32, vmap_method="sequential")}),
}


@pytest.fixture
def not_a_number():
    callout.register("not a number", lambda v: BAD)
    yield
    callout.unregister("not a number")


@pytest.mark.usefixtures("not_a_number")
@pytest.mark.parametrize("name", SPECIAL)
def test_jax_debug_nans_names_the_callback_that_returned_a_nan(name):
    call = SPECIAL[name]
    ways = {
        "eager": call,
        "jit": jax.jit(lambda x: call(x) + 1),
        "vmap": jax.vmap(call),
        "jit of vmap": jax.jit(jax.vmap(call)),
    }
    if name == "call":
        ways = {way: ways[way] for way in ("eager", "jit")}
    for way, run in ways.items():
        x = jnp.ones(2) if "vmap" in way else jnp.float32(1)
        run(x)  # the check is off
        with jax.debug_nans(True), pytest.raises(FloatingPointError, match=r"\(nan\) encountered in .*"):
            run(x)
        if way in ("eager", "jit"):
            with jax.debug_nans(True), pytest.raises(FloatingPointError, match=r"callback|callout"):
                run(x)


def test_a_special_value_that_jax_looks_for_is_named():
    call = functools.partial(callout.pure_callback, lambda v: np.log(v), F32)
    with jax.debug_infs(True), np.errstate(all="ignore"):
        with pytest.raises(FloatingPointError) as info:
            call(jnp.float32(0))
        assert np.isnan(call(jnp.float32(-1)))
    name = "test_special_values.test_a_special_value_that_jax_looks_for_is_named.<locals>.<lambda>"
    assert str(info.value).startswith(f"invalid value (inf) encountered in a result of callback '{name}")
    with jax.debug_nans(True):
        assert callout.pure_callback(lambda v: v, jax.ShapeDtypeStruct((), jnp.int32), jnp.int32(1)) == 1
