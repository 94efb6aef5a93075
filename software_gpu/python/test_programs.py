# SPDX-License-Identifier: Apache-2.0
"""Compares XLA's own programs on the software GPU with XLA:CPU, to check the software GPU without Callout.

Run by `make gpu-test`; by hand: `software_gpu/run pytest software_gpu/python`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

jax.config.update("jax_enable_x64", True)

GPU = jax.devices()[0]
CPU = jax.devices("cpu")[0]

# Relative to the sum of the magnitudes of an element and of the largest element.
TOLERANCES = {
    "float64": 1e-12,
    "float32": 2e-5,
    "complex64": 2e-5,
    "complex128": 1e-12,
    "bfloat16": 2e-2,
    "float16": 4e-3,
}


def numbers(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> np.ndarray:
    """Returns normal numbers, or integers of both signs where the type has them."""
    random = np.random.default_rng([seed, *shape])
    kind = jnp.dtype(dtype)
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if jnp.issubdtype(kind, jnp.integer):
        least = 0 if jnp.issubdtype(kind, jnp.unsignedinteger) else -100
        return random.integers(least, 100, shape).astype(dtype)
    if jnp.issubdtype(kind, jnp.complexfloating):
        return (random.normal(size=shape) + 1j * random.normal(size=shape)).astype(dtype)
    return np.asarray(random.normal(size=shape) * 3).astype(kind)


def on(device, function, arguments):
    placed = [jax.device_put(argument, device) for argument in arguments]
    results = jax.jit(function)(*placed)
    for leaf in jax.tree.leaves(results):
        assert leaf.devices() == {device}
    return jax.tree.map(np.asarray, results)


def expect_same(function, *arguments, tolerance=None):
    """Runs a function on both platforms and compares the types, shapes and values of the results."""
    got = jax.tree.leaves(on(GPU, function, arguments))
    expected = jax.tree.leaves(on(CPU, function, arguments))
    assert len(got) == len(expected) > 0
    for one, other in zip(got, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        allowed = tolerance or TOLERANCES.get(str(other.dtype))
        if allowed is None:
            np.testing.assert_array_equal(one, other)
            continue
        wide = np.complex128 if np.iscomplexobj(other) else np.float64
        one, other = one.astype(wide), other.astype(wide)
        finite = np.abs(other[np.isfinite(other)])
        largest = float(finite.max()) if finite.size else 0.0
        np.testing.assert_allclose(one, other, rtol=allowed, atol=allowed * largest)


def loop(body):
    return lambda x: lax.fori_loop(0, 10, body, x)


UNARY = {
    "add": lambda x: x + 1,
    "trigonometry": lambda x: jnp.sin(x) * jnp.cos(x) + jnp.tan(x / 7),
    "exponentials": lambda x: jnp.exp(x) + jnp.expm1(x / 3) + jnp.log1p(jnp.abs(x)) + jnp.log(jnp.abs(x) + 1),
    "powers": lambda x: jnp.abs(x) ** 3.3 + x**3 + jnp.sqrt(jnp.abs(x)) + jnp.cbrt(x),
    "hyperbolic": lambda x: jnp.tanh(x) + jax.nn.sigmoid(x) + jnp.arctan(x) + jnp.arctan2(x, x + 2),
    "erf": lambda x: lax.erf(x) + lax.erf_inv(jnp.tanh(x / 4)),
    "rounding": lambda x: (jnp.floor(x), jnp.ceil(x), jnp.round(x), jnp.trunc(x), jnp.sign(x)),
    "remainders": lambda x: (jnp.remainder(x, 1.5), jnp.fmod(x, 1.5)),
    "selections": lambda x: (jnp.where(x > 0, x, -x), jnp.clip(x, -1, 1), x > 0, jnp.isnan(x / (x - x))),
    "sums": lambda x: (x.sum(), x.sum(0), x.sum(1), x.mean(), x.prod(1)),
    "extrema": lambda x: (x.max(0), x.min(1), x.argmax(), x.argmin(1), x.argmax(0)),
    "variance": lambda x: (x.var(0), x.std(1)),
    "softmax": lambda x: (jax.nn.softmax(x, axis=-1), jax.nn.logsumexp(x, axis=0)),
    "sorts": lambda x: (jnp.sort(x, axis=0), jnp.argsort(x, axis=1), jnp.sort(x, axis=None)),
    "top_k": lambda x: lax.top_k(x, 5),
    "cumulative": lambda x: (jnp.cumsum(x, axis=0), jnp.cumprod(x / 3, axis=1), lax.cummax(x, axis=1)),
    "layout": lambda x: (x.T + 1, x.reshape(-1)[::-1], jnp.flip(x, 1), jnp.roll(x, 3, 0), jnp.tile(x, (2, 1))),
    "concatenation": lambda x: (jnp.concatenate([x, 2 * x]), jnp.pad(x, 2), jnp.stack([x, x + 1], 1)),
    "gather": lambda x: (x[jnp.array([3, 1, 2])], x[:, jnp.array([0, 5])], jnp.take_along_axis(x, x.argsort(0), 0)),
    "scatter": lambda x: (x.at[jnp.array([3, 1, 3])].add(1.0), x.at[2].set(0.0), x.at[:, jnp.array([1, 4])].max(0.5)),
    "histogram": lambda x: jnp.histogram(x, bins=8, range=(-9, 9))[0],
    "scan": lambda x: lax.scan(lambda carry, row: (carry + row, carry * row), jnp.zeros_like(x[0]), x),
    "associative_scan": lambda x: lax.associative_scan(jnp.add, x),
    "fori_loop": loop(lambda i, x: x * 0.5 + i),
    "dynamic_update": loop(
        lambda i, x: lax.dynamic_update_slice(x, lax.dynamic_slice(x, (i, 0), (1, 3)) * 2, (i + 1, 1))
    ),
    "while_loop": lambda x: lax.while_loop(
        lambda c: c[1].max() < 1e4, lambda c: (c[0] + 1, c[1] * 1.5), (0, jnp.abs(x))
    ),
    "cond": lambda x: lax.cond(x[0, 0] > 0, lambda y: y * 2, lambda y: jnp.sort(y, 0) - 1, x),
    "switch": lambda x: lax.switch(jnp.argmax(x[0, :3]), [jnp.sin, jnp.cos, lambda y: y * y], x),
    "nested_loops": loop(lambda i, x: lax.fori_loop(0, i, lambda j, y: y + j * 0.125, x)),
    "gradient": jax.grad(lambda x: (jnp.tanh(x) ** 2).sum() + jax.nn.softmax(x).max()),
    "vmap": jax.vmap(lambda row: jnp.where(row.sum() > 0, row, jnp.cumsum(row))),
    "window": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 2), "SAME"),
    "complex_parts": lambda x: (jnp.exp(1j * x), jnp.abs(x + 1j * x.sum()), jnp.angle(1j * x + 1)),
    "segments": lambda x: jax.ops.segment_sum(x, jnp.arange(x.shape[0]) // 5, num_segments=8),
    "norm": lambda x: x / jnp.linalg.norm(x, axis=1, keepdims=True),
}


@pytest.mark.parametrize("name", UNARY)
def test_programs_of_floats(name):
    expect_same(UNARY[name], numbers((40, 12)))


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
@pytest.mark.parametrize("name", ["add", "exponentials", "sums", "softmax", "sorts", "extrema", "gradient", "scan"])
def test_programs_of_other_floats(name, dtype):
    x = (numbers((24, 8), dtype) / 4).astype(dtype)
    expect_same(UNARY[name], x, tolerance=0.05 if dtype in ("bfloat16", "float16") else None)


INTEGERS = {
    "arithmetic": lambda x: (x + x, x * x, x - 3, -x),
    "division": lambda x: (x // 3, x % 7, lax.div(x, jnp.full_like(x, 5)), lax.rem(x, jnp.full_like(x, 5))),
    "bits": lambda x: (x ^ (x << 2), x & 21, x | 8, ~x, lax.population_count(x), lax.clz(x)),
    "reductions": lambda x: (x.sum(dtype=x.dtype), x.max(0), x.min(1), x.argmax(), (x > 3).sum(), (x > 3).any(1)),
    "order": lambda x: (jnp.sort(x, axis=0), jnp.cumsum(x, axis=1, dtype=x.dtype), jnp.argsort(x, axis=1)),
    "conversions": lambda x: (x.astype(jnp.float32) * 0.5, x.astype(jnp.int8), x.astype(bool), x.astype(jnp.int64)),
}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("name", INTEGERS)
def test_programs_of_integers(name, dtype):
    expect_same(INTEGERS[name], numbers((20, 9), dtype))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_programs_of_complex_numbers(dtype):
    z = numbers((6, 5), dtype)
    expect_same(lambda z: (z * z, z / (z + 2), jnp.abs(z), jnp.conj(z).T, jnp.exp(z), jnp.sqrt(z), z.sum(0)), z)


def test_programs_of_booleans():
    b = numbers((20, 9), "bool")
    expect_same(lambda b: (b & b[::-1], b | b[:1], ~b, b.any(0), b.all(1), b.sum()), b)


@pytest.mark.parametrize("sampler", ["normal", "uniform", "bits", "permutation", "categorical", "gumbel"])
def test_random_numbers_are_the_same(sampler):
    def draw(seed):
        key = jax.random.key(seed[0])
        if sampler == "permutation":
            return jax.random.permutation(key, 100)
        if sampler == "categorical":
            return jax.random.categorical(key, jnp.arange(6.0), shape=(50,))
        kind = {"bits": jnp.uint32}.get(sampler, jnp.float32)
        return getattr(jax.random, sampler)(key, (300,), kind)

    expect_same(draw, np.array([7], np.uint32))


PRODUCTS = {
    "matrices": ("ij,jk->ik", (9, 17), (17, 12)),
    "left_transposed": ("ji,jk->ik", (17, 9), (17, 12)),
    "right_transposed": ("ij,kj->ik", (9, 17), (12, 17)),
    "both_transposed": ("ji,kj->ik", (17, 9), (12, 17)),
    "vector": ("ij,j->i", (9, 17), (17,)),
    "inner": ("i,i->", (33,), (33,)),
    "outer": ("i,j->ij", (9,), (7,)),
    "batch": ("bij,bjk->bik", (3, 9, 17), (3, 17, 12)),
    "batch_inside": ("ibj,bkj->bik", (9, 3, 17), (3, 12, 17)),
    "large": ("ij,jk->ik", (65, 130), (130, 70)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "bfloat16", "float16"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_matrix_products(name, dtype):
    spec, left, right = PRODUCTS[name]
    a, b = (numbers(shape, dtype, seed) for seed, shape in enumerate((left, right)))
    if dtype in ("bfloat16", "float16"):
        a, b = (x.astype(dtype) / np.asarray(4, dtype) for x in (a, b))
    expect_same(lambda a, b: jnp.einsum(spec, a, b), a, b)


@pytest.mark.parametrize("name", ["matrices", "batch"])
def test_matrix_products_of_small_integers(name):
    spec, left, right = PRODUCTS[name]
    a, b = numbers(left, "int8"), numbers(right, "int8", 1)
    expect_same(lambda a, b: jnp.einsum(spec, a, b, preferred_element_type=jnp.int32), a, b)


@pytest.mark.parametrize("name", ["matrices", "batch"])
def test_matrix_products_accumulate_in_wider_floats(name):
    spec, left, right = PRODUCTS[name]
    a, b = (numbers(shape, "float32", seed).astype(jnp.bfloat16) for seed, shape in enumerate((left, right)))
    expect_same(lambda a, b: jnp.einsum(spec, a, b, preferred_element_type=jnp.float32), a, b)


@pytest.mark.parametrize("activation", ["none", "relu", "gelu", "silu"])
def test_layers_with_a_bias(activation):
    """XLA turns a bias and an activation into an epilogue of the product where it can."""
    function = {"none": lambda x: x, "relu": jax.nn.relu, "gelu": jax.nn.gelu, "silu": jax.nn.silu}[activation]
    x, w, b = numbers((16, 24)), numbers((24, 8), seed=1), numbers((8,), seed=2)
    expect_same(lambda x, w, b: function(x @ w / 4 + b), x, w, b, tolerance=1e-4)


def test_a_network_is_trained():
    def loss(parameters, x, y):
        hidden = jax.nn.relu(x @ parameters[0] + parameters[1])
        return ((hidden @ parameters[2] - y) ** 2).mean()

    def train(x, y, *parameters):
        def step(parameters, _):
            value, gradient = jax.value_and_grad(loss)(parameters, x, y)
            return [p - 0.01 * g for p, g in zip(parameters, gradient, strict=True)], value

        return lax.scan(step, list(parameters), None, length=8)

    shapes = [(12, 6), (12, 2), (6, 10), (10,), (10, 2)]
    expect_same(train, *(numbers(shape, seed=seed) / 3 for seed, shape in enumerate(shapes)), tolerance=1e-4)


def test_products_in_command_buffers_compute_at_each_replay():
    program = jax.jit(lambda x, w: jnp.sort(jax.nn.relu(x @ w) @ w.T, axis=0) - 1)
    w = numbers((12, 12), seed=1) / 8
    for seed in range(6):
        x = numbers((8, 12), seed=seed)
        expected = np.asarray(program(jax.device_put(x, CPU), jax.device_put(w, CPU)))
        got = np.asarray(program(jax.device_put(x, GPU), jax.device_put(w, GPU)))
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["convolution", "fft", "cholesky", "qr", "triangular_solve"])
def test_what_has_no_library_fails_with_an_error(name, capfd):
    """A program that calls a missing library returns no wrong numbers; the software GPU names the missing function."""
    x = numbers((6, 6)) + 9 * np.eye(6, dtype=np.float32)
    function, said = {
        "convolution": (lambda x: lax.conv(x[None, None], x[None, None], (1, 1), "SAME"), "cudnn"),
        "fft": (jnp.fft.fft, "cufft"),
        "cholesky": (jnp.linalg.cholesky, "cusolver"),
        "qr": (lambda x: jnp.linalg.qr(x)[0], "cu"),
        "triangular_solve": (lambda x: lax.linalg.triangular_solve(x, x), "cublasS"),
    }[name]
    with pytest.raises(RuntimeError):
        on(GPU, function, [x])
    assert f"software GPU: {said}" in capfd.readouterr().err


@pytest.mark.skipif(len(jax.devices()) < 2, reason="needs two devices")
def test_two_devices_compute_and_copy():
    first, second = jax.devices()[:2]
    x = numbers((16, 6))
    there = jax.device_put(jax.device_put(x, first) * 2, second)
    assert there.devices() == {second}
    np.testing.assert_allclose(np.asarray(there @ there.T), (2 * x) @ (2 * x).T, rtol=1e-4, atol=1e-4)
    mesh = jax.make_mesh((2,), ("x",), devices=[first, second])
    sharded = jax.device_put(x, jax.NamedSharding(mesh, jax.P("x")))
    np.testing.assert_allclose(
        np.asarray(jax.jit(lambda x: jnp.tanh(x) + 1)(sharded)), np.tanh(x) + 1, rtol=1e-5, atol=1e-6
    )
