# SPDX-License-Identifier: Apache-2.0
"""`call`: arguments, results to the letter, and failures."""

import re
import threading

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest

RUNS = pytest.mark.parametrize("run", [lambda f: f, jax.jit], ids=["eager", "jit"])


@pytest.fixture(autouse=True)
def no_error_left():
    yield
    hcb.barrier_wait()


@RUNS
def test_trees_in_and_out(run):
    def host(arg):
        assert type(arg["b"]) is np.ndarray
        assert arg["b"].shape == ()
        return [arg["a"].sum(), (arg["b"] * 2,)]

    shape = [jnp.float32(0), (jax.ShapeDtypeStruct((), jnp.int32),)]
    out = run(lambda x: hcb.call(host, x, result_shape=shape))({"a": jnp.arange(3.0), "b": 4})
    assert out == [3.0, (8,)]


@RUNS
@pytest.mark.parametrize("result", [2.5, np.float64(2.5), np.float32(2.5), np.array(2.5), jnp.float32(2.5)], ids=repr)
def test_results_in_jax_dtypes_fit(run, result):
    assert run(lambda: hcb.call(lambda _: result, (), result_shape=1.0))() == 2.5


def test_result_shapes_are_canonical():
    out = hcb.call(lambda _: np.ones(2), (), result_shape=np.zeros(2))
    assert out.dtype == jnp.float32
    with jax.enable_x64(True):
        for run in (lambda f: f, jax.jit):
            assert run(lambda: hcb.call(lambda _: 2.5, (), result_shape=np.zeros(())))().dtype == jnp.float64


@RUNS
@pytest.mark.parametrize(("shape", "result"), [(None, None), ((), ()), ([], []), ({}, {})], ids=str)
def test_without_results_it_runs_all_the_same(run, shape, result):
    ran = []

    def host(x):
        ran.append(x.item())
        return result

    assert run(lambda x: hcb.call(host, x, result_shape=shape))(3) == shape
    assert ran == [3]


def test_a_call_with_an_unused_result_runs():
    ran = []
    f = jax.jit(lambda x: (hcb.call(lambda v: ran.append(1) or v, x, result_shape=x), 7)[1])
    assert f(1.0) == 7
    assert f(1.0) == 7
    hcb.barrier_wait()
    assert ran == [1, 1]


@pytest.mark.native_only(platforms.DEVICE)
@pytest.mark.devices(4)
@RUNS
def test_the_device(run):
    third = jax.devices()[3]
    got = []
    x = jax.device_put(jnp.arange(2.0), third)
    host = lambda v, device: got.append(device) or v  # noqa: E731
    out = run(lambda v: hcb.call(host, v, result_shape=v, call_with_device=True))(x)
    assert got == [third]
    assert out.devices() == {third}


@RUNS
def test_the_callback_may_use_jax(run):
    inner = jax.jit(lambda v: jnp.sin(v) + 1)
    out = run(lambda v: hcb.call(lambda a: inner(a), v, result_shape=v))(jnp.arange(3.0))
    np.testing.assert_allclose(out, np.sin(np.arange(3.0)) + 1, rtol=1e-6)


def test_callbacks_with_options():
    kinds = []
    host = callout.options(lambda v: kinds.append(type(v)) or v, args="jax")
    assert jax.jit(lambda x: hcb.call(host, x, result_shape=x))(2.0) == 2
    assert issubclass(kinds[0], jax.Array)


def test_a_callback_whose_repr_raises():
    class Host:
        def __repr__(self):
            raise KeyError("no text")

        def __call__(self, v):
            return v

    assert jax.jit(lambda x: hcb.call(Host(), x, result_shape=x))(2.0) == 2


def wrong(host):
    def make(x):
        return hcb.call(host, x, result_shape=jax.ShapeDtypeStruct((3,), jnp.float32))

    return make


MISMATCHES = {
    "tree": (lambda x: (x,), r"with pytree PyTreeDef\(\*\) but returned PyTreeDef\(\(\*,\)\)"),
    "list": (lambda x: list(x), r"with pytree PyTreeDef\(\*\) but returned PyTreeDef\(\[\*, \*, \*\]\)"),
    "None": (lambda x: None, r"with pytree PyTreeDef\(\*\) but returned PyTreeDef\(None\)"),
    "shape": (lambda x: x[:2], r"with abstract values float32\[3\] but returned float32\[2\]"),
    "dtype": (lambda x: x.astype(int), r"with abstract values float32\[3\] but returned int32\[3\]"),
    "rank": (lambda x: 2.5, r"with abstract values float32\[3\] but returned float32\[\]"),
}


@RUNS
@pytest.mark.parametrize("kind", MISMATCHES)
def test_results_that_do_not_fit(run, kind):
    host, text = MISMATCHES[kind]
    whole = r"Callback func .* should have returned a result " + text
    with pytest.raises(RuntimeError, match=whole):
        jax.block_until_ready(run(wrong(host))(jnp.arange(3.0)))
    with pytest.raises(hcb.CallbackException, match=whole) as caught:
        hcb.barrier_wait()
    assert type(caught.value.__cause__) is TypeError


def test_a_number_of_another_kind_does_not_fit():
    with pytest.raises(RuntimeError, match=r"abstract values float32\[\] but returned int32\[\]"):
        hcb.call(lambda _: 2, (), result_shape=1.0)
    with pytest.raises(hcb.CallbackException):
        hcb.barrier_wait()


@RUNS
def test_no_result_was_expected(run):
    with pytest.raises(RuntimeError, match=r"with pytree PyTreeDef\(None\) but returned PyTreeDef\(\*\)"):
        jax.block_until_ready(run(lambda x: (hcb.call(lambda v: v, x), x + 1))(jnp.float32(1)))
    with pytest.raises(hcb.CallbackException):
        hcb.barrier_wait()


class OddError(Exception):
    pass


def test_a_failing_call_fails_its_computation_and_no_other():
    def host(x):
        if x == 13:
            raise OddError(f"got {x}")
        return x

    f = jax.jit(lambda x: hcb.call(host, x, result_shape=x) + 1)
    assert f(1) == 2
    for _ in range(2):
        with pytest.raises(RuntimeError, match="OddError: got 13"):
            jax.block_until_ready(f(13))
        assert f(2) == 3
        with pytest.raises(hcb.CallbackException) as caught:
            hcb.barrier_wait()
        assert re.match(
            r"There were exceptions during callback processing\. Last one was: Traceback \(most recent call last\):\n",
            str(caught.value),
        )
        assert str(caught.value).endswith("OddError: got 13\n")
        assert "in host\n" in str(caught.value)
        assert isinstance(caught.value.__cause__, OddError)
        hcb.barrier_wait()


def test_the_exception_itself_with_reraise():
    f = jax.jit(lambda x: hcb.call(lambda v: 1 // int(v), x, result_shape=x))
    with pytest.raises(ZeroDivisionError), callout.reraise():
        jax.block_until_ready(f(0))
    with pytest.raises(ZeroDivisionError), callout.reraise():
        hcb.barrier_wait()


def test_eager_failures_are_runtime_errors_of_the_users_class():
    with pytest.raises(RuntimeError, match="by zero") as caught:
        hcb.call(lambda v: 1 // int(v), 0, result_shape=0)
    assert isinstance(caught.value, ZeroDivisionError)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(hcb.CallbackException, match="by zero"):
        hcb.barrier_wait()


def test_taps_before_a_failing_call_are_delivered():
    seen = []

    @jax.jit
    def f(x):
        hcb.id_tap(lambda v, _: seen.append(v.item()), x)
        return hcb.call(lambda v: 1 // int(v), x, result_shape=x)

    with pytest.raises(RuntimeError):
        jax.block_until_ready(f(0))
    with pytest.raises(hcb.CallbackException):
        hcb.barrier_wait()
    assert seen == [0]


@pytest.mark.parametrize(
    ("transform", "text"),
    [
        (jax.vmap, r"^batching rules are implemented only for id_tap, not for call\."),
        (jax.grad, r"^JVP rule is implemented only for id_tap, not for call\."),
        (lambda f: lambda x: jax.jvp(f, (x[0],), (x[0],)), r"^JVP rule is implemented only for id_tap, not for call\."),
        (
            lambda f: lambda x: jax.linear_transpose(f, x)(x),
            r"^differentiation rules are implemented only for id_tap, not for call\.",
        ),
    ],
    ids=["vmap", "grad", "jvp", "transpose"],
)
def test_transformations_are_refused(transform, text):
    f = lambda x: hcb.call(lambda v: v, x, result_shape=x)  # noqa: E731
    argument = jnp.float32(1) if transform is jax.grad else jnp.arange(2.0)
    with pytest.raises(NotImplementedError, match=text):
        transform(f)(argument)


def test_vmap_of_an_independent_call():
    ran = []
    f = lambda x: x + hcb.call(lambda v: ran.append(1) or v, 1.0, result_shape=1.0)  # noqa: E731
    assert jax.vmap(f)(jnp.arange(2.0)).tolist() == [1, 2]
    assert ran == [1]


def test_custom_derivatives_make_it_differentiable():
    @jax.custom_vjp
    def f(x):
        return hcb.call(lambda v: np.sin(v), x, result_shape=x)

    f.defvjp(lambda x: (f(x), x), lambda x, g: (g * hcb.call(lambda v: np.cos(v), x, result_shape=x),))
    for wrapped in (f, jax.checkpoint(f), jax.jit(f)):
        assert jax.grad(lambda x, g=wrapped: g(x) * 2)(1.0) == pytest.approx(2 * np.cos(1))


def test_refused_arguments():
    with pytest.raises(TypeError, match=r"^Expected a callable value, got 3$"):
        hcb.call(3, 1.0)
    with pytest.raises(TypeError, match=r"^Argument 'abc' of type <class 'str'> is not a valid JAX type\.$"):
        hcb.call(print, "abc")
    with pytest.raises(
        ValueError,
        match=r"^result_shape should be a pytree of values with structure matching the expected result of the callback "
        r"function\. The values must be either numeric scalars, or must have 'shape' and 'dtype' attributes\. Got string$",
    ):
        hcb.call(print, 1.0, result_shape="string")


@pytest.mark.devices(4)
def test_concurrent_computations_do_not_mix():
    def host(pair):
        return pair[0] * 1000 + pair[1]

    f = jax.jit(lambda i, x: hcb.call(host, (i, x), result_shape=x))
    wrong = []

    def work(i):
        device = jax.devices()[i]
        for x in range(50):
            out = f(jax.device_put(i, device), jax.device_put(x, device))
            if out != i * 1000 + x:
                wrong.append((i, x, out))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
