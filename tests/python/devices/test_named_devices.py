# SPDX-License-Identifier: Apache-2.0
"""Tests that `sharding=SingleDeviceSharding(device)` means the same in every program that JAX makes of a call.

The programs are those of one operation outside of jit, of a loop over lanes, of a rule, and of residuals of a
derivative.
"""

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from jax import lax
from jax.extend import core as jex_core
from jax.sharding import SingleDeviceSharding
from meshes import sharded
from platforms import ON_CUDA

CPP = """
#include "callout/kernel.h"
void twice(callout::In<float> x, callout::Out<float> y) {
  for (int64_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i];
}
CALLOUT_KERNEL(twice);
"""


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def numba_twice(device):
    numba = pytest.importorskip("numba")

    @numba.njit
    def twice(x, y):
        for i in range(x.size):
            y.flat[i] = 2 * x.flat[i]

    return callout.numba.numba_kernel(twice, like, vmap_method="legacy_vectorized", sharding=device)


ENTRIES = {
    "pure": lambda device: (
        lambda x: callout.pure_callback(
            np.multiply, like(x), x, np.float32(2), sharding=device, vmap_method="sequential"
        )
    ),
    "io": lambda device: lambda x: callout.io_callback(lambda v: v * 2, like(x), x, sharding=device),
    "cpp": lambda device: callout.cpp.load_inline(CPP).twice.options(sharding=device, vmap_method="sequential"),
    "numba": numba_twice,
}


def with_jvp(f):
    rule = jax.custom_jvp(f)
    rule.defjvp(lambda primals, tangents: (f(*primals), f(*primals) / primals[0] * tangents[0]))
    return rule


def with_vjp(f):
    rule = jax.custom_vjp(f)
    rule.defvjp(lambda x: (f(x), x), lambda x, g: (f(x) / x * g,))
    return rule


FORMS = {
    "eager": lambda f, x: f(x),
    "a loop over lanes": lambda f, x: jax.vmap(f)(jnp.stack([x, x]))[0],
    "custom_jvp": lambda f, x: with_jvp(f)(x),
    "lanes of a custom_jvp": lambda f, x: jax.vmap(with_jvp(f))(jnp.stack([x, x]))[0],
    "custom_jvp's derivative": lambda f, x: jax.grad(with_jvp(f))(x) * x,
    "lanes of a derivative": lambda f, x: jax.vmap(jax.grad(with_jvp(f)))(jnp.stack([x, x]))[0] * x,
    "linearize": lambda f, x: jax.linearize(with_jvp(f), x)[1](x),
    "custom_vjp": lambda f, x: with_vjp(f)(x),
    "custom_vjp's derivative": lambda f, x: jax.grad(with_vjp(f))(x) * x,
    "a loop's derivative": lambda f, x: jax.grad(
        lambda w: lax.scan(lambda c, _: (with_jvp(f)(x) * c, None), w, None, length=1)[0]
    )(x),
    "checkpoint": lambda f, x: jax.checkpoint(f)(x),
    "a jaxpr": lambda f, x: jex_core.jaxpr_as_fun(jax.make_jaxpr(f)(x))(x)[0],
    "sequential_vmap": lambda f, x: jax.vmap(jax.custom_batching.sequential_vmap(f))(jnp.stack([x, x]))[0],
    "a jit of nothing": lambda f, x: jax.jit(lambda: f(jnp.float32(3)))(),
    "a cond of nothing": lambda f, x: lax.cond(True, lambda: f(jnp.float32(3)), lambda: x),
    "threaded": lambda f, x: jax.jit(callout.threaded(f))(x),
    "threaded, outside of jit": lambda f, x: callout.threaded(f)(x),
    "lanes of a loop that end at different steps": lambda f, x: jax.vmap(
        lambda n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, f(x + 0 * s[1])), (0, x))[1]
    )(jnp.arange(1, 3))[0],
    "locate_nans, forward": lambda f, x: jax.jvp(callout.locate_nans(with_jvp(f)), (x,), (x,))[1],
    "locate_nans": lambda f, x: jax.grad(callout.locate_nans(with_jvp(f)))(x) * x,
}


@pytest.fixture(params=platforms.entries(ENTRIES))
def entry(request, cache):
    if ON_CUDA and request.param in ("cpp", "numba"):
        pytest.skip("on a CPU only: what is written for the host's memory")
    return ENTRIES[request.param]


@pytest.mark.parametrize("form", FORMS)
def test_a_call_that_names_its_device_runs_in_every_program(entry, form):
    f = entry(SingleDeviceSharding(jax.devices()[0]))
    assert FORMS[form](f, jnp.float32(3)) == 6
    jax.effects_barrier()


def test_an_operation_without_jit_disabled_does_too(entry):
    with jax.disable_jit():
        assert with_jvp(entry(SingleDeviceSharding(jax.devices()[0])))(jnp.float32(3)) == 6


@pytest.mark.native_only(platforms.BUFFERS)
@pytest.mark.devices(4)
def test_eager_values_on_another_device_are_rejected(cache):
    f = ENTRIES["cpp"](SingleDeviceSharding(jax.devices()[0]))
    with pytest.raises(ValueError, match=r"`sharding` names .*, which is not one of the program's devices"):
        f(jax.device_put(jnp.float32(3), jax.devices()[1]))


@pytest.mark.collectives
@pytest.mark.devices(4)
@pytest.mark.parametrize("form", [lambda f: f, jax.jit, with_jvp], ids=["eager", "jit", "rule"])
def test_values_over_several_devices_are_collected_on_that_one(entry, form):
    f = form(entry(SingleDeviceSharding(jax.devices()[3])))
    np.testing.assert_array_equal(f(sharded()), 2 * np.arange(8.0))
