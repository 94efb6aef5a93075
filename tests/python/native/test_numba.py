# SPDX-License-Identifier: Apache-2.0
"""Tests callout.numba: Numba functions in JAX programs, with types, transformations, and rejected functions."""

import concurrent.futures
import gc

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout.numba import numba_kernel
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

numba = pytest.importorskip("numba")

F32 = jax.ShapeDtypeStruct((), jnp.float32)


def same(x, *_, **__):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


@numba.njit
def running_sum(x, out):
    total = x.dtype.type(0)
    for i in range(x.size):
        total += x[i]
        out[i] = total


@numba.njit
def copy(x, out):
    out[...] = x


@numba.njit
def decay(x, a, out):
    carry = x.dtype.type(0)
    for i in range(x.size):
        carry = a[()] * carry + x[i]
        out[i] = carry


@numba.njit
def affine(x, out, scale=1.0, shift=0, mode="add", offsets=(0,)):
    for i in range(x.size):
        out[i] = x[i] * scale + (shift if mode == "add" else -shift) + offsets[0]


def decay_in_jax(x, a):
    return lax.scan(lambda c, v: (a * c + v,) * 2, jnp.zeros((), x.dtype), x)[1]


def test_eager_jit_and_loops():
    kernel = numba_kernel(running_sum, same)
    x = jnp.arange(5.0)
    np.testing.assert_array_equal(kernel(x), np.cumsum(np.asarray(x)))
    np.testing.assert_array_equal(jax.jit(kernel)(x.astype(jnp.int32)), np.cumsum(np.arange(5)))
    loop = jax.jit(lambda v: lax.fori_loop(0, 3, lambda _, c: kernel(c), v))
    np.testing.assert_array_equal(loop(x), np.cumsum(np.cumsum(np.cumsum(np.asarray(x)))))
    np.testing.assert_array_equal(lax.scan(lambda c, v: (c, kernel(v)), 0, jnp.ones((2, 3)))[1], [[1, 2, 3]] * 2)


DTYPES = ["bool", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64))]
DTYPES += ["float32", "float64", "complex64", "complex128"]


@pytest.mark.slow
@given(st.sampled_from(DTYPES), st.lists(st.integers(0, 3), max_size=4), st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_every_dtype_and_shape_arrives_as_it_is(dtype, shape, seed):
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    bits = np.random.default_rng(seed).integers(0, 2 if dtype == "bool" else 256, size, np.uint8)
    with jax.enable_x64(True):
        x = jnp.asarray(bits.view(dtype).reshape(shape))
        out = jax.jit(numba_kernel(copy, same))(x)
    assert (out.dtype, out.shape) == (x.dtype, x.shape)
    np.testing.assert_array_equal(np.asarray(out).tobytes(), np.asarray(x).tobytes())


def test_several_arguments_and_results_as_pytrees():
    @numba.njit
    def moments(x, y, total, squares):
        total[()] = x.sum() + y[0]
        squares[:] = x * x

    outs = {"b": jax.ShapeDtypeStruct((3,), jnp.float32), "a": F32}
    result = jax.jit(numba_kernel(moments, outs))({"x": jnp.arange(3.0), "y": jnp.ones(1)})
    assert (float(result["a"]), result["b"].tolist()) == (4, [0, 1, 4])


def test_constants_are_arguments_or_part_of_the_code():
    kernel = numba_kernel(affine, same)
    x = jnp.arange(3.0)
    assert kernel(x).tolist() == [0, 1, 2]
    assert jax.jit(lambda v: kernel(v, scale=2.5, shift=1))(x).tolist() == [1, 3.5, 6]
    assert kernel(x, shift=1, mode="subtract", offsets=(10, 20)).tolist() == [9, 10, 11]
    assert kernel(x, shift=np.uint8(3), scale=np.float32(0)).tolist() == [3, 3, 3]
    (target,) = {*numba_kernel(affine, same)._targets} or [None]
    assert target is None, "nothing is compiled before it is traced"


def test_numbers_do_not_compile_the_kernel_again():
    kernel = numba_kernel(affine, same)
    for scale in (1.0, 2.0, 3.0):
        kernel(jnp.ones(2), scale=scale)
    (target,) = kernel._targets
    assert len(target._specialised) == 1


@pytest.mark.slow
def test_kernels_may_allocate_and_call():
    @numba.njit
    def by_size(x, out):
        out[:] = np.sort(np.concatenate((x, -x)))[: x.size]

    assert numba_kernel(by_size, same)(jnp.array([3.0, 1.0, 2.0])).tolist() == [-3, -2, -1]


@pytest.mark.parametrize("method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "parallel"])
def test_vmap(method):
    @numba.njit
    def rows(x, out):
        flat, result = x.reshape(-1, x.shape[-1]), out.reshape(-1, x.shape[-1])
        for i in range(flat.shape[0]):
            result[i] = np.cumsum(flat[i])

    kernel = numba_kernel(rows, same, vmap_method=method)
    x = jnp.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(jax.vmap(kernel)(x), np.cumsum(x, -1))
    np.testing.assert_array_equal(jax.jit(jax.vmap(jax.vmap(kernel), in_axes=1, out_axes=1))(x), np.cumsum(x, -1))


def test_vmap_over_some_arguments_in_parallel():
    kernel = numba_kernel(decay, same, vmap_method="parallel")
    x, a = jnp.arange(24.0).reshape(2, 3, 4), jnp.array([0.5, 0.25, 0.0])
    for axes in [((0, None), (0, 0)), ((0, None), (None, 0)), ((None, 0), (0, None)), ((1, None), (0, None))]:
        values = x[0] if None in (axes[0][0], axes[1][0]) else x
        decays = a if 0 in (axes[0][1], axes[1][1]) else a[0]
        both = [jax.vmap(jax.vmap(f, in_axes=axes[1]), in_axes=axes[0]) for f in (kernel, decay_in_jax)]
        np.testing.assert_allclose(both[0](values, decays), both[1](values, decays), rtol=1e-6)


def test_vmap_needs_a_method():
    with pytest.raises(NotImplementedError, match=r"vmap needs a vmap_method, one of \['parallel', 'sequential'"):
        jax.vmap(numba_kernel(running_sum, same))(jnp.ones((2, 3)))
    with pytest.raises(ValueError, match=r"callout\.numba 'running_sum': vmap_method must be one of \['parallel'"):
        numba_kernel(running_sum, same, vmap_method="all")


def test_results_in_the_place_of_arguments():
    @numba.njit
    def add_to(x, y, out):
        out += y

    kernel = numba_kernel(add_to, same, input_output_aliases={0: 0}, vmap_method="parallel")
    x = jnp.arange(3.0)
    assert jax.jit(lambda v: kernel(v, jnp.ones(3)) + v)(x).tolist() == [1, 3, 5], "the argument is needed later"
    assert jax.jit(kernel, donate_argnums=0)(jnp.arange(3.0), jnp.ones(3)).tolist() == [1, 2, 3]
    assert jax.vmap(kernel, in_axes=(None, 0))(x, jnp.ones((2, 3))).tolist() == [[1, 2, 3]] * 2
    assert x.tolist() == [0, 1, 2]


def test_derivative_rules():
    call = numba_kernel(decay, same)
    forward = numba_kernel(decay, same, jvp=lambda p, t: (call(*p), decay_in_jax(t[0], p[1]) + 0 * t[1]))  # linear in x
    x, a = jnp.arange(4.0), jnp.float32(0.5)
    expected = jax.jvp(lambda v: decay_in_jax(v, a), (x,), (jnp.ones(4),))
    np.testing.assert_allclose(jax.jvp(lambda v: forward(v, a), (x,), (jnp.ones(4),)), expected)
    backward = numba_kernel(
        decay, same, vjp=(lambda x, a: (call(x, a), a), lambda a, ct: (call(ct[::-1], a)[::-1], jnp.zeros_like(a)))
    )
    got = jax.jit(jax.grad(lambda v: (backward(v, a) * x).sum()))(x)
    np.testing.assert_allclose(got, jax.grad(lambda v: (decay_in_jax(v, a) * x).sum())(x))
    with pytest.raises(ValueError, match="jvp= or vjp="):
        jax.grad(lambda v: call(v, a).sum())(x)


def test_errors_of_a_kernel_keep_class_and_message():
    @numba.njit
    def checks(x, out):
        if x[()] < 0:
            raise ValueError("negative input", 42)
        out[()] = 1 // int(x[()])

    f = jax.jit(numba_kernel(checks, F32))
    assert float(f(1.0)) == 1
    with pytest.raises(ValueError, match="negative input") as caught, callout.reraise():
        f(-1.0).block_until_ready()
    assert caught.value.args == ("negative input", 42)
    with pytest.raises(ZeroDivisionError), callout.reraise():
        f(0.0).block_until_ready()
    with pytest.raises(Exception, match=r"(?s)'.*checks' failed on device 0: .*ValueError: \('negative input', 42\)"):
        f(-1.0).block_until_ready()
    assert float(f(1.0)) == 1


def test_many_threads_run_and_trace_one_kernel():
    kernel = numba_kernel(running_sum, same)

    def work(i):
        x = jnp.arange(float(10 + i % 3))
        return np.array_equal(jax.jit(lambda v: kernel(v))(x), np.cumsum(np.asarray(x)))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(24)))
    (target,) = kernel._targets
    assert len(target._specialised) == 1


@pytest.mark.collectives
@pytest.mark.devices(2)
def test_several_devices():
    kernel = numba_kernel(running_sum, same)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("d",))
    x = jax.device_put(jnp.ones(4), jax.NamedSharding(mesh, jax.P("d")))
    assert jax.jit(kernel)(x).tolist() == [1, 2, 3, 4]
    sharded = jax.shard_map(kernel, mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d"))
    assert jax.jit(sharded)(x).tolist() == [1, 2, 1, 2]


def test_a_kernel_dies_with_its_program():
    def use():
        kernel = numba_kernel(numba.njit(lambda x, out: None), same)
        jax.jit(kernel)(jnp.ones(2)).block_until_ready()
        return callout.stats()["live"]["callbacks"]

    before = callout.stats()["live"]["callbacks"]
    assert use() == before + 1
    jax.clear_caches()
    gc.collect()
    assert callout.stats()["live"]["callbacks"] == before
