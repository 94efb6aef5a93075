# SPDX-License-Identifier: Apache-2.0
"""Tests `id_tap`: the arguments of its function, its result, and the places where it is allowed."""

import functools

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from jax.experimental.ode import odeint


@pytest.fixture
def seen():
    """Returns a list with a tap function that appends (value, transforms) to it."""

    class Seen(list):
        def tap(self, value, transforms):
            self.append((value, transforms))

        def values(self):
            hcb.barrier_wait()
            taken = [jax.tree.map(lambda leaf: leaf.tolist(), value) for value, _ in self]
            self.clear()
            return taken

    return Seen()


def test_it_is_the_identity(seen):
    x = {"a": jnp.arange(3), "b": (2.5, None)}
    for f in (lambda v: hcb.id_tap(seen.tap, v), jax.jit(lambda v: hcb.id_tap(seen.tap, v))):
        out = f(x)
        assert jax.tree.structure(out) == jax.tree.structure(x)
        assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(out))
        assert out["b"][0] == 2.5
    assert seen.values() == [{"a": [0, 1, 2], "b": (2.5, None)}] * 2


def test_the_function_gets_owned_arrays_and_empty_transforms(seen):
    hcb.id_tap(seen.tap, (1.0, jnp.ones(2)))
    hcb.barrier_wait()
    (((scalar, array), transforms),) = seen
    assert (type(scalar), scalar.shape, scalar.dtype) == (np.ndarray, (), np.float32)
    assert array.flags.owndata or array.base is not None
    assert transforms == ()


def test_the_result_is_not_sent(seen):
    assert hcb.id_tap(seen.tap, 1.0, result="not an array" and (jnp.arange(2), 3))[1] == 3
    f = jax.jit(lambda x: hcb.id_tap(seen.tap, x, result=x + 1))
    assert f(1.0) == 2
    assert seen.values() == [1.0, 1.0]


def test_an_unused_tap_is_kept(seen):
    @jax.jit
    def f(x):
        hcb.id_tap(seen.tap, x)
        hcb.id_tap(lambda value, transforms: seen.tap(-value, transforms), x, result=0)
        return 7

    assert f(1.0) == 7
    assert seen.values() == [1.0, -1.0]


def test_the_functions_result_is_ignored():
    assert hcb.id_tap(lambda value, transforms: "ignored", 1.0) == 1
    hcb.barrier_wait()


def test_partial_functions_take_keywords(seen):
    def tap(value, transforms, *, what):
        seen.append((what, value.tolist(), transforms))

    jax.jit(lambda x: hcb.id_tap(functools.partial(tap, what="activation"), x))(2.0)
    hcb.barrier_wait()
    assert seen == [("activation", 2.0, ())]


@pytest.mark.native_only(platforms.DEVICE)
@pytest.mark.devices(4)
def test_the_device_that_ran_it(seen):
    def tap(value, transforms, *, device):
        seen.append((value.tolist(), device))

    third = jax.devices()[3]
    for f in (
        lambda x: hcb.id_tap(tap, x, tap_with_device=True),
        jax.jit(lambda x: hcb.id_tap(tap, x, tap_with_device=True)),
    ):
        f(jax.device_put(1.0, third))
    hcb.barrier_wait()
    assert seen == [(1.0, third)] * 2


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: hcb.id_tap(3, 1.0), TypeError, r"^Expected a callable value, got 3$"),
        (
            lambda: hcb.id_tap(print, "abc"),
            TypeError,
            r"^Argument 'abc' of type <class 'str'> is not a valid JAX type\.$",
        ),
        (lambda: hcb.id_tap(print, 1.0, result=("abc",)), TypeError, r"^Argument 'abc' of type <class 'str'>"),
        (lambda: hcb.id_print("abc"), TypeError, r"^Argument 'abc' of type <class 'str'> is not a valid JAX type\.$"),
        (
            lambda: hcb.id_tap(print, 1.0, what="x"),
            TypeError,
            r"^Support for \*\*kwargs in ``id_tap`` has been removed\. Instead, pre-apply keyword arguments, either by "
            r"using a closure or by passing ``functools\.partial\(tap_func, \*\*kwargs\)``\.$",
        ),
        (lambda: hcb.id_tap(print, 1.0, device_index=-1), ValueError, "device_index must be"),
    ],
)
def test_arguments_that_cannot_be(make, error, text):
    with pytest.raises(error, match=text):
        make()


INTEGERS = ["bool", "int4", "uint4", "int8", "int16", "int32", "uint8", "uint16", "uint32"]
FLOATS = ["float16", "float32", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64"]


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_dtypes(seen, dtype):
    x = jnp.array([0, 1, 1], dtype)
    jax.jit(lambda v: hcb.id_tap(seen.tap, v))(x)
    hcb.barrier_wait()
    ((value, _),) = seen
    assert value.dtype == np.dtype(x.dtype)
    assert value.tolist() == np.asarray(x).tolist()


def test_64_bits(seen):
    with jax.enable_x64(True):
        jax.jit(lambda v: hcb.id_tap(seen.tap, v))((jnp.float64(0.1), jnp.int64(1 << 40)))
    hcb.id_tap(seen.tap, np.float64([0.1]))
    hcb.barrier_wait()
    assert [leaf.dtype.name for leaf in jax.tree.leaves([value for value, _ in seen])] == [
        "float64",
        "int64",
        "float32",
    ]


@pytest.mark.parametrize("value", [(), None, {}, [None, ()], jnp.zeros((0,)), jnp.zeros((2, 0, 3), jnp.int8)], ids=str)
def test_values_without_elements(seen, value):
    hcb.id_tap(seen.tap, value)
    jax.jit(lambda: hcb.id_tap(seen.tap, value))()
    jax.jit(lambda: callout.threaded(lambda x: (hcb.id_tap(seen.tap, value), x)[1])(0))()
    assert seen.values() == [jax.tree.map(np.ndarray.tolist, jax.tree.map(np.asarray, value))] * 3


def test_control_flow_in_program_order(seen):
    def tap(x):
        return hcb.id_tap(seen.tap, x)

    @jax.jit
    def f(x):
        x = tap(x)
        x = jax.lax.cond(x > 0, lambda v: tap(v + 10), lambda v: tap(v + 20), x)
        x = jax.lax.fori_loop(0, 2, lambda i, v: tap(v + 100), x)
        x = jax.lax.while_loop(lambda v: tap(v) < 300, lambda v: tap(v + 100), x)
        x, _ = jax.lax.scan(lambda v, y: (tap(v + y), None), x, jnp.array([1000, 2000]))
        return jax.lax.switch(x // 3000, [tap, lambda v: tap(-v)], x)

    f(1)
    f(-1)
    first = [1, 11, 111, 211, 211, 311, 311, 1311, 3311, -3311]
    assert seen.values() == [*first, -1, 19, 119, 219, 219, 319, 319, 1319, 3319, -3319]


def test_successive_computations_stay_in_order(seen):
    f = jax.jit(lambda x: hcb.id_tap(seen.tap, jnp.sin(x)[0] * 0 + x[0]))
    g = jax.jit(lambda x: hcb.id_tap(seen.tap, x))
    expected = []
    for i in range(50):
        f(jnp.full(1000, float(i)))
        g(float(-i))
        hcb.id_tap(seen.tap, 1000.0 + i)
        expected += [float(i), float(-i), 1000.0 + i]
    assert seen.values() == expected


def test_taps_and_calls_are_in_order_together(seen):
    def ask(x):
        seen.append((np.asarray(-x), ()))
        return x + 1

    @jax.jit
    def f(x):
        def step(_, v):
            v = hcb.id_tap(seen.tap, v)
            v = hcb.call(ask, v, result_shape=v)
            return hcb.id_tap(seen.tap, v)

        return jax.lax.fori_loop(0, 3, step, x)

    assert f(1) == 4
    assert seen.values() == [1, -1, 2, 2, -2, 3, 3, -3, 4]


def test_named_calls_and_nested_jits(seen):
    @jax.named_call
    def inner(x):
        return hcb.id_tap(seen.tap, x)

    assert jax.jit(jax.jit(inner))(2.0) == 2
    assert seen.values() == [2.0]


@pytest.mark.slow
def test_odeint(seen):
    def slope(y, t):
        return hcb.id_tap(seen.tap, -y * jnp.exp(t * 0))

    times = jnp.linspace(0.0, 1.0, 3)
    y = jax.jit(lambda y0: odeint(slope, y0, times))(1.0)
    np.testing.assert_allclose(y, np.exp(-np.asarray(times)), rtol=1e-3)
    count = len(seen.values())
    assert count > 4
    gradient = jax.grad(lambda y0: odeint(slope, y0, times)[-1])(1.0)
    assert gradient == pytest.approx(np.exp(-1), rel=1e-3)
    assert len(seen.values()) > count


def test_integer_arguments_have_float0_tangents(seen):
    def f(x, n):
        x, n = hcb.id_tap(seen.tap, (x, n))
        return x * n

    assert jax.grad(f)(2.0, jnp.float32(3)) == 3
    jax.jvp(lambda n: hcb.id_tap(seen.tap, n), (3,), (np.zeros((), jax.dtypes.float0),))
    assert seen.values() == [(2.0, 3.0), 3]


def test_higher_order_gradients(seen):
    def f(x):
        return hcb.id_tap(seen.tap, x * x) * x

    assert jax.grad(jax.grad(f))(2.0) == 12
    assert seen.values() == [4.0]
    assert jax.jvp(jax.grad(f), (2.0,), (1.0,))[1] == 12
    assert jax.jacfwd(f)(2.0) == 12
    assert jax.jacrev(f)(2.0) == 12
    assert {np.ravel(value)[0] for value in seen.values()} == {4.0}


def test_prng_keys_pass_as_they_are(seen):
    f = jax.jit(lambda key: hcb.id_tap(seen.tap, key))
    key = jax.random.key(3)
    assert f(key) == key
    assert f(key).dtype == key.dtype
    assert seen.values() == [[0, 3]] * 2
    f(jax.random.PRNGKey(4))
    hcb.barrier_wait()
    ((value, _),) = seen
    assert (value.tolist(), value.dtype) == ([0, 4], np.uint32)


def test_custom_derivatives_around_it(seen):
    @jax.custom_vjp
    def f(x):
        return hcb.id_tap(seen.tap, x) ** 2

    f.defvjp(lambda x: (f(x), x), lambda x, g: (hcb.id_tap(seen.tap, 2 * x * g),))
    assert jax.jit(jax.grad(f))(3.0) == 6
    assert seen.values() == [3.0, 6.0]


@pytest.mark.parametrize("kind", ["scan", "while", "cond", "vmap", "grad", "checkpoint"])
def test_threaded_programs(seen, kind):
    def tap(x):
        return hcb.id_tap(seen.tap, x)

    def ask(x):
        return hcb.call(lambda v: np.float32(v + 1), x, result_shape=x)

    programs = {
        "scan": (lambda x: jax.lax.scan(lambda c, _: (ask(tap(c)), None), x, length=3)[0], [1.0, 2.0, 3.0]),
        "while": (lambda x: jax.lax.while_loop(lambda c: tap(c) < 3, ask, x), [1.0, 2.0, 3.0]),
        "cond": (lambda x: jax.lax.cond(x > 0, lambda c: ask(tap(c)), tap, x), [1.0]),
        "vmap": (lambda x: jax.vmap(tap)(x + jnp.arange(2.0)), [[1.0, 2.0]]),
        "grad": (jax.grad(lambda x: tap(x) ** 2), [1.0]),
        "checkpoint": (jax.grad(lambda x: jnp.sin(jax.checkpoint(lambda y: tap(y) ** 2)(x))), [1.0, 1.0]),
    }
    program, expected = programs[kind]
    plain = jax.jit(program)(jnp.float32(1))
    assert seen.values() == expected
    threaded = jax.jit(callout.threaded(program))(jnp.float32(1))
    np.testing.assert_array_equal(plain, threaded)
    assert seen.values() == expected


def test_threaded_calls_reject_the_same_as_calls():
    def ask(x):
        return hcb.call(lambda v: v, x, result_shape=x)

    with pytest.raises(NotImplementedError, match="batching rules are implemented only for id_tap, not for call"):
        jax.vmap(callout.threaded(ask))(jnp.arange(2.0))
    with pytest.raises(NotImplementedError, match="JVP rule is implemented only for id_tap, not for call"):
        jax.grad(callout.threaded(ask))(1.0)
