# SPDX-License-Identifier: Apache-2.0
"""Tests arguments and results of callout.ffi: pytrees, results as a function of the arguments or from the signature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout import ffi
from ffi_calls import F3, SCALAR

pytestmark = pytest.mark.usefixtures("handlers")


REST = {"mode": "plain", "weights": np.zeros(0, np.int32), "options": {"scale": np.float32(1)}, "negate": False}


@pytest.mark.parametrize("run", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_results_are_a_function_of_the_arguments(run):
    seen = []

    def same(x, **attributes):
        seen.append((type(x), attributes))
        return jax.ShapeDtypeStruct(x.shape, x.dtype)

    call = ffi.ffi_call("test.affine", same)
    for n in (2, 3):
        out = run(lambda x: call(x, a=np.float32(2), b=np.int64(1)))(jnp.arange(float(n)))
        assert out.tolist() == [1, 3, 5][:n]
    assert seen[0] == (jax.ShapeDtypeStruct, {"a": np.float32(2), "b": np.int64(1)})
    both = ffi.ffi_call("test.moments", lambda x, **_: {"a": SCALAR, "b": SCALAR})
    assert jax.tree.map(float, run(lambda x: both(x, **REST))(jnp.arange(3.0))) == {"a": 3, "b": 2}
    with pytest.raises(ValueError, match="result_shape_dtypes must have 'shape' and 'dtype'; got 3 at position 0"):
        ffi.ffi_call("test.affine", lambda x, **_: 3)(jnp.ones(2), a=np.float32(2), b=np.int64(1))
    with pytest.raises(ValueError, match="vmap_method"):
        ffi.ffi_call("test.affine", same, vmap_method="some")


@pytest.mark.parametrize("run", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_results_follow_the_signature(run):
    sums = ffi.ffi_call("test.row_sums")
    assert run(sums)(jnp.ones((2, 3))).tolist() == [3, 3]
    total, largest = run(lambda x: ffi.ffi_call("test.moments", vmap_method="sequential")(x, **REST))(jnp.arange(3.0))
    assert (float(total), float(largest)) == (3, 2)
    with pytest.raises(TypeError, match=r"row_sums': argument 'x': expected float32\[n, m\], got rank 1"):
        run(sums)(jnp.ones(2))
    with pytest.raises(TypeError, match=r"affine': the signature does not say what result 'y' is, float32: say result"):
        run(lambda x: ffi.ffi_call("test.affine")(x, a=np.float32(2), b=np.int64(1)))(jnp.ones(2))
    with pytest.raises(TypeError, match=r"in_memory': its results are not known: say result_shape_dtypes, or register"):
        run(ffi.ffi_call("test.in_memory"))(jnp.ones(2))


@pytest.mark.parametrize("run", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_arguments_and_results_are_pytrees(run):
    call = ffi.ffi_call("test.moments", {"a": [SCALAR], "b": SCALAR})
    out = run(lambda tree: call(tree, **REST))({"x": (jnp.arange(3.0),)})
    assert jax.tree.map(float, out) == {"a": [3], "b": 2}
    grad = jax.grad(
        lambda tree: ffi.ffi_call(
            "test.affine",
            lambda tree, **_: [tree["x"]],
            vjp=(lambda tree, a, b: ([a * tree["x"]], a), lambda a, ct: ({"x": a * ct[0]},)),
        )(tree, a=np.float32(3), b=np.int64(1))[0].sum()
    )
    assert run(grad)({"x": jnp.ones(2)})["x"].tolist() == [3, 3]


def test_an_argument_that_is_no_array_is_named():
    with pytest.raises(
        TypeError,
        match=r"^callout\.ffi\.ffi_call 'test\.affine': argument 1 must be .*, got 'text' of type str at \['a'\]$",
    ) as caught:
        ffi.ffi_call("test.affine", F3)(jnp.ones(3), {"a": "text"}, a=np.float32(1), b=np.int64(1))
    assert caught.value.__cause__ is None
