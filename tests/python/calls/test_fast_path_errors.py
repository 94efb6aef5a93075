# SPDX-License-Identifier: Apache-2.0
"""Tests that `except MyError` catches an error at every call of a jitted function as at the first, with plain jax.jit."""

import functools
import sys

import callout
import callout.buffer_callback
import callout.cpp
import callout.host_callback as hcb
import cloudpickle
import jax
import jax.numpy as jnp
import limited
import numpy as np
import platforms
import pytest
from callout._base.errors import fast_path_is_translated
from jax import lax
from platforms import ON_CUDA, awaited

F32 = jax.ShapeDtypeStruct((), jnp.float32)


class MyError(Exception):
    pass


class Switch:
    """A callback that raises `error` while `fails` is True."""

    def __init__(self, error=MyError):
        self.fails = False
        self.error = error
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        if self.fails:
            raise self.error("told to")
        return x


def failures(call, count=3):
    """Returns the error of each of `count` calls."""
    errors = []
    for _ in range(count):
        with pytest.raises(Exception) as info:  # noqa: PT011 - the tests look at it
            awaited(call())
        errors.append(info.value)
    return errors


def assert_alike(errors, error_class=MyError):
    """Checks that each error is an `error_class` and a JaxRuntimeError, and that its cause is an `error_class`."""
    for error in errors:
        assert isinstance(error, error_class)
        assert isinstance(error, jax.errors.JaxRuntimeError)
        assert isinstance(error.__cause__, error_class)
        assert "told to" in str(error)
    assert len({type(error) for error in errors}) == 1


def buffer(switch):
    def function(ctx, out, x):
        switch(None)  # the result is the argument's buffer

    return callout.buffer_callback.buffer_callback(function, F32, input_output_aliases={0: 0})


ENTRIES = {
    "pure": lambda switch, x: callout.pure_callback(switch, F32, x),
    "numpy_only": lambda switch, x: callout.pure_callback(callout.options(switch, numpy_only=True), F32, x),
    "io": lambda switch, x: callout.io_callback(switch, F32, x),
    "ordered io": lambda switch, x: callout.io_callback(switch, F32, x, ordered=True),
    "debug": lambda switch, x: (callout.debug_callback(switch, x), x)[1],
    "buffer": lambda switch, x: buffer(switch)(x),
    "host_callback": lambda switch, x: hcb.call(switch, x, result_shape=F32),
    "threaded": lambda switch, x: callout.io_callback(switch, F32, x, ordered=True),
}


@pytest.mark.parametrize("after", [0, 1, 3])
@pytest.mark.parametrize("name", platforms.entries(ENTRIES))
def test_every_call_raises_the_error_of_the_first(name, after):
    switch = Switch()
    function = functools.partial(ENTRIES[name], switch)
    f = jax.jit(callout.threaded(function) if name == "threaded" else function)
    x = jnp.float32(2)
    for _ in range(after):
        f(x).block_until_ready()
    switch.fails = True
    assert_alike(failures(lambda: f(x).block_until_ready()))
    switch.fails = False
    if name == "host_callback":
        with pytest.raises(hcb.CallbackException):
            hcb.barrier_wait()
    assert f(x) == 2


def test_a_wrong_result_is_a_result_error_each_time():
    result = [np.float32(1)]
    f = jax.jit(lambda x: callout.pure_callback(lambda _: result[0], F32, x))
    for _ in range(3):
        f(1.0)
    result[0] = np.ones(3, np.float32)
    assert all(isinstance(error, callout.ResultError) for error in failures(lambda: f(1.0)))


@pytest.mark.native_only(platforms.BUFFERS)
@pytest.mark.usefixtures("cache")
def test_a_failing_cpp_function_is_a_callback_error_each_time():
    module = callout.cpp.load_inline(
        """
        #include "callout/kernel.h"
        callout::Error check(callout::In<float> x, callout::Out<float> y) {
          if (x[0] <= 0) return callout::Error("not above 0");
          y[0] = x[0];
          return {};
        }
        CALLOUT_KERNEL(check);
        """
    )
    f = jax.jit(lambda x: module.check(x))
    x = jnp.ones(1)
    for _ in range(3):
        f(x)
    errors = failures(lambda: f(-x).block_until_ready())
    assert all(isinstance(error, callout.CallbackError) and "not above 0" in str(error) for error in errors)


@pytest.mark.cpu_only("on CUDA the next tap of the device fails: test_gpu_taps.py")
def test_a_watch_that_stops_raises_non_finite_error_each_time():
    f = jax.jit(lambda x: callout.watch(x, "fast path", stop=True) + 1)
    for _ in range(3):
        f(jnp.float32(1)).block_until_ready()
    errors = failures(lambda: f(jnp.float32(np.nan)).block_until_ready())
    assert all(isinstance(error, callout.NonFiniteError) for error in errors)


def test_jitted_functions_of_one_function_share_it():
    switch = Switch()

    def function(x):
        return callout.pure_callback(switch, F32, x)

    for _ in range(4):
        jax.jit(function)(1.0)
    switch.fails = True
    assert_alike(failures(lambda: jax.jit(function)(1.0)))


@pytest.mark.parametrize(
    "transform",
    [
        jax.vmap,
        pytest.param(jax.grad, marks=pytest.mark.cpu_only("nobody waits for the value that comes before the gradient")),
    ],
    ids=["vmap", "grad"],
)
def test_jitted_functions_inside_of_eager_transformations(transform):
    switch = Switch()

    @jax.custom_jvp
    def call(x):
        return callout.pure_callback(switch, F32, x, vmap_method="sequential")

    call.defjvp(lambda primals, tangents: (call(*primals), tangents[0]))
    f = transform(jax.jit(call))
    x = jnp.ones(3) if transform is jax.vmap else jnp.float32(1)
    for _ in range(3):
        f(x)
    switch.fails = True
    assert_alike(failures(lambda: f(x)))


def test_methods_keywords_static_and_donated_arguments():
    switch = Switch()

    class Model:
        @functools.partial(jax.jit, static_argnames=("self", "scale"), donate_argnames="x")
        def step(self, x, *, scale):
            return scale * callout.pure_callback(switch, F32, x)

    model = Model()
    for _ in range(3):
        model.step(jnp.float32(1), scale=2)
    switch.fails = True
    assert_alike(failures(lambda: model.step(jnp.float32(1), scale=2)))


def test_compiled_ahead_of_time():
    switch = Switch()
    f = jax.jit(lambda x: callout.pure_callback(switch, F32, x)).lower(jnp.float32(1)).compile()
    for _ in range(3):
        f(jnp.float32(1))
    switch.fails = True
    assert_alike(failures(lambda: f(jnp.float32(1))))


@pytest.mark.devices(4)
def test_in_shard_map_over_several_devices():
    switch = Switch()
    mesh = jax.make_mesh((4,), ("d",))

    def shard(x):
        return callout.pure_callback(switch, jax.ShapeDtypeStruct((2,), jnp.float32), x)

    f = jax.jit(jax.shard_map(shard, mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d"), check_vma=False))
    x = jax.device_put(np.ones(8, np.float32), jax.sharding.NamedSharding(mesh, jax.P("d")))
    for _ in range(3):
        f(x).block_until_ready()
    switch.fails = True
    assert_alike(failures(lambda: f(x).block_until_ready()))


def test_a_loop_ends_that_depends_on_the_missing_result():
    switch = Switch()
    f = jax.jit(lambda x: lax.while_loop(lambda c: c < 10, lambda c: 1 + callout.pure_callback(switch, F32, c), x))
    for _ in range(3):
        assert f(0.0) == 10
    switch.fails = True
    switch.calls = 0
    assert_alike(failures(lambda: f(0.0)))
    assert switch.calls == 3  # one call for each failing program


def test_exceptions_that_cannot_be_combined_are_always_the_cause():
    switch = Switch(OSError)
    f = jax.jit(lambda x: callout.pure_callback(switch, F32, x))
    for _ in range(3):
        f(1.0)
    switch.fails = True
    for error in failures(lambda: f(1.0)):
        assert type(error) is jax.errors.JaxRuntimeError
        assert isinstance(error.__cause__, OSError)


def test_a_function_that_was_pickled_raises_the_same_each_time():
    switch = Switch()
    callout.register("switch", switch)
    try:
        f = cloudpickle.loads(cloudpickle.dumps(jax.jit(lambda x: callout.pure_callback("switch", F32, x))))
        for _ in range(3):
            f(1.0)
        switch.fails = True
        raised = failures(lambda: f(1.0))
    finally:
        callout.unregister("switch")
    if fast_path_is_translated():
        assert_alike(raised)


def test_without_the_patch_jax_errors_are_raised():
    switch = Switch()
    f = jax.jit(lambda x: callout.pure_callback(switch, F32, x))
    for _ in range(3):
        f(1.0)
    switch.fails = True
    callout.config.chain_errors = False
    try:
        plain = jax.errors.JaxRuntimeError if ON_CUDA else ValueError  # a GPU raises at the wait, a CPU at the dispatch
        assert all(type(error) is plain for error in failures(lambda: f(1.0)))
    finally:
        callout.config.chain_errors = True
    assert_alike(failures(lambda: f(1.0)))


def test_errors_of_others_are_left_alone():
    mine = ValueError("callout: callback 'x' failed, says the user's own code")

    def function(x):
        raise mine

    (error,) = failures(lambda: jax.jit(function)(1.0), count=1)
    assert error is mine
    with pytest.raises(TypeError, match="abstract array"):
        jax.jit(lambda x: callout.pure_callback(np.sin, F32, x))("text")


JITTED_BEFORE = """
import jax, jax.numpy as jnp
F32 = jax.ShapeDtypeStruct((), jnp.float32)
fails = False
def callback(x):
    if fails:
        raise KeyError("told to")
    return x
def function(x):
    import callout
    return callout.pure_callback(callback, F32, x)
f = jax.jit(function)  # nobody has imported callout yet
for _ in range(3):
    f(1.0)
fails = True
for _ in range(3):
    try:
        f(1.0).block_until_ready()
    except KeyError as error:
        print(isinstance(error, jax.errors.JaxRuntimeError), type(error.__cause__).__name__)
"""


def test_functions_that_were_jitted_before_the_import():
    run = limited.run([sys.executable, "-c", JITTED_BEFORE], capture_output=True, text=True, timeout=100, check=True)
    assert run.stdout.split() == ["True", "KeyError"] * 3
