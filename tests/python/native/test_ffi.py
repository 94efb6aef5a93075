# SPDX-License-Identifier: Apache-2.0
"""Tests callout.ffi: foreign handlers as jax.ffi calls them, and its additions."""

import pickle
import struct

import callout
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from callout import _jax_compat, ffi
from callout._targets.foreign_attributes import freeze, thaw
from callout._targets.handler_signature import Signature
from ffi_calls import F3, SCALAR, affine, moments
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

pytestmark = pytest.mark.usefixtures("handlers")


def test_eager_jit_and_loops():
    x = jnp.arange(3.0)
    assert affine(x).tolist() == jax.jit(affine)(x).tolist() == [1, 3, 5]
    assert lax.fori_loop(0, 2, lambda _, v: affine(v), x).tolist() == [3, 7, 11]
    assert jax.jit(affine).lower(x).compile()(x).tolist() == [1, 3, 5]


@given(st.floats(-100, 100, width=32, allow_subnormal=False).filter(bool), st.integers(-1000, 1000), st.integers(0, 4))
@settings(max_examples=20, deadline=None)
def test_attributes_arrive_as_they_are(a, b, size):
    x = np.arange(size, dtype=np.float32)
    np.testing.assert_allclose(affine(jnp.asarray(x), a=a, b=b), np.float32(a) * x + b, rtol=1e-6)


def test_attributes_of_every_kind():
    call = ffi.ffi_call("test.moments", (SCALAR, SCALAR))
    settings = {"options": {"scale": np.float32(2)}, "negate": True, "weights": np.array([1, 2, 3], np.int32)}
    total, most = jax.jit(lambda x: call(x, mode="weighted", **settings))(jnp.arange(3.0))
    assert (float(total), float(most)) == (-16, 2)
    assert float(call(jnp.arange(3.0), mode=b"weighted", **settings)[0]) == -16
    total, _ = call(jnp.arange(3.0), mode="plain", **{**settings, "negate": False})
    assert float(total) == 6


def test_results_have_the_declared_structure():
    rest = {"mode": "plain", "weights": np.zeros(0, np.int32), "options": {"scale": np.float32(1)}, "negate": False}
    assert isinstance(ffi.ffi_call("test.moments", [SCALAR, SCALAR])(jnp.ones(2), **rest), list)
    assert isinstance(ffi.ffi_call("test.moments", (SCALAR, SCALAR))(jnp.ones(2), **rest), tuple)
    assert isinstance(affine(jnp.ones(2)), jax.Array)


def test_rules_of_lowering_are_jaxs():
    for name in ("build_ffi_lowering_function", "ffi_lowering"):
        assert getattr(ffi, name) is getattr(jax.ffi, name)


def test_equal_values_of_other_types_are_other_attributes():
    values = [1, True, 1.0, np.int32(1), np.int64(1), np.array(1), "1", {"a": 1}, {"a": True}]
    frozen = [freeze("here", {"v": value}) for value in values]
    assert len(set(frozen)) == len(values)
    for value, kept in zip(values, frozen, strict=True):
        back = thaw(kept)["v"]
        assert type(back) is type(value)
        assert back == value


@pytest.mark.parametrize(
    "values",
    [
        [0.0, -0.0, False, 0],
        [0j, complex(0, -0.0), complex(-0.0, 0)],
        [(1, 0), (1.0, 0.0), (True, False), (1.0, -0.0), ((1, 0),)],
        [(np.float32(0),), (np.float32(-0.0),), (np.float64(0),), (0.0,)],
        [struct.unpack("d", struct.pack("Q", bits))[0] for bits in (0x7FF8 << 48, 0xFFF8 << 48, (0x7FF8 << 48) + 1)],
        [np.zeros(1, dtype) for dtype in (ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn, ml_dtypes.int4)],
    ],
    ids=["numbers", "complex", "tuples", "tuples of NumPy's", "NaN", "dtypes"],
)
def test_indistinguishable_attributes_are_equal(values):
    assert len({freeze("here", {"v": value}) for value in values}) == len(values)
    assert len({freeze("here", {"v": {"w": value}}) for value in values}) == len(values)
    for value in values:
        assert freeze("here", {"v": value}) == freeze("here", {"v": pickle.loads(pickle.dumps(value))})


def test_layouts():
    x = jnp.arange(6.0).reshape(2, 3)
    flat = jax.ShapeDtypeStruct((2, 3), jnp.float32)
    for layout in ((1, 0), (-1, -2), [1, 0]):
        out = jax.jit(ffi.ffi_call("test.in_memory", flat, input_layouts=[layout]))(x)
        assert np.asarray(out).ravel().tolist() == [0, 3, 1, 4, 2, 5]
    out = ffi.ffi_call("test.in_memory", flat, output_layouts=(1, 0))(x)
    assert np.asarray(out).T.ravel().tolist() == [0, 1, 2, 3, 4, 5]
    batched = ffi.ffi_call("test.in_memory", flat, input_layouts=[(1, 0)], vmap_method="broadcast_all")
    np.testing.assert_array_equal(jax.vmap(batched)(jnp.stack([x, x]))[1].ravel(), [0, 3, 1, 4, 2, 5])
    for bad, message in [
        ([(0, 0)], "is not a layout of an array of rank 2"),
        ([(0,)], "is not a layout"),
        ([], "number of inputs"),
    ]:
        with pytest.raises(ValueError, match=message):
            ffi.ffi_call("test.in_memory", flat, input_layouts=bad)(x)


def test_aliases():
    call = ffi.ffi_call("test.add_one", F3, input_output_aliases={0: 0})
    x = jnp.arange(3.0)
    assert jax.jit(call)(x).tolist() == [1, 2, 3]
    assert x.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=r"argument 0 is float32\[2\], result 0 is float32\[3\]"):
        call(jnp.zeros(2))
    with pytest.raises(ValueError, match="there is no argument 1; the call has 1"):
        ffi.ffi_call("test.add_one", F3, input_output_aliases={1: 0})(x)
    two = jax.ShapeDtypeStruct((2, 2), jnp.float32)
    with pytest.raises(ValueError, match="their layouts differ"):
        ffi.ffi_call("test.add_one", two, input_output_aliases={0: 0}, input_layouts=[(1, 0)])(jnp.zeros((2, 2)))


def test_tokens():
    token = jax.lax.create_token(0)
    call = ffi.ffi_call("test.pass", (_jax_compat.abstract_token(), SCALAR))

    @jax.jit
    def twice(token, x):
        token, x = call(x, token)
        return call(x, token)[1]

    assert float(twice(token, jnp.float32(1))) == 3


@pytest.mark.parametrize(
    "method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized"]
)
def test_vmap(method):
    x = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(jax.vmap(lambda v: affine(v, vmap_method=method))(x), 2 * x + 1)
    np.testing.assert_array_equal(jax.jit(jax.vmap(jax.vmap(lambda v: affine(v, vmap_method=method))))(x), 2 * x + 1)


def test_the_first_spelling_still_works():
    x = jnp.ones((2, 3))
    with pytest.deprecated_call(match="vectorized= is deprecated; use vmap_method='legacy_vectorized'"):
        call = ffi.ffi_call("test.affine", F3, vectorized=True)
    assert jax.vmap(lambda v: call(v, a=np.float32(1), b=np.int64(1)))(x).tolist() == [[2, 2, 2]] * 2
    with pytest.deprecated_call(match="pass the arguments to what ffi_call returns"):
        out = ffi.ffi_call("test.affine", F3, jnp.zeros(3), a=np.float32(1), b=np.int64(4))
    assert out.tolist() == [4, 4, 4]
    with pytest.raises(ValueError, match="contradict"), pytest.deprecated_call():
        ffi.ffi_call("test.affine", F3, vectorized=True, vmap_method="sequential")


def test_stages_and_state():
    call = jax.jit(lambda: ffi.ffi_call("test.count", jax.ShapeDtypeStruct((), jnp.int32), has_side_effect=True)())
    assert [int(call()) for _ in range(3)] == [1, 2, 3]


def test_older_custom_calls():
    assert float(jax.jit(ffi.ffi_call("test.legacy_twice", SCALAR, custom_call_api_version=1))(3.0)) == 6
    opaque = ffi.ffi_call("test.legacy_opaque", SCALAR, custom_call_api_version=3, legacy_backend_config="four")
    assert float(jax.jit(opaque)(3.0)) == 7
    with pytest.raises(ValueError, match="legacy_backend_config needs custom_call_api_version < 4, got 4"):
        ffi.ffi_call("test.legacy_opaque", SCALAR, legacy_backend_config="four")
    with pytest.raises(ValueError, match="attributes need custom_call_api_version >= 4, got 1"):
        ffi.ffi_call("test.legacy_twice", SCALAR, custom_call_api_version=1)(3.0, a=1)


def test_errors_of_a_handler_are_raised():
    with pytest.raises(Exception, match="a must not be zero"):
        affine(jnp.ones(3), a=0).block_until_ready()
    with pytest.raises(Exception, match="unheard_of"):
        jax.jit(ffi.ffi_call("test.unheard_of", F3))(jnp.ones(3))


def test_side_effects_are_kept(handlers):
    before = handlers.noted()
    jax.jit(lambda x: (ffi.ffi_call("test.note", (), has_side_effect=True)(x), x)[1])(jnp.ones(4)).block_until_ready()
    jax.jit(lambda x: (ffi.ffi_call("test.note", ())(x), x)[1])(jnp.ones(100)).block_until_ready()
    assert handlers.noted() == before + 4


WRONG = [
    (
        lambda x: affine(x, a=1.0, b=1).shape and ffi.ffi_call("test.affine", F3)(x, x),
        r"expected 1 arguments \(x\), got 2",
    ),
    (lambda x: affine(x.astype(jnp.int32)), "argument 'x': expected float32.*, got dtype int32"),
    (
        lambda x: ffi.ffi_call("test.affine", jax.ShapeDtypeStruct((3,), jnp.int32))(x, a=np.float32(1), b=np.int64(1)),
        "result 'y': expected float32, got dtype int32",
    ),
    (lambda x: ffi.ffi_call("test.affine", F3)(x, a=np.float32(1)), r"missing: \['b'\]"),
    (
        lambda x: ffi.ffi_call("test.affine", F3)(x, a=np.float32(1), b=np.int64(1), c=2),
        r"expected the attributes \['a', 'b'\], got \['a', 'b', 'c'\]; unknown: \['c'\]",
    ),
    (
        lambda x: ffi.ffi_call("test.affine", F3)(x, a=np.float64(1), b=np.int64(1)),
        r"attribute 'a': expected numpy.float32, got float64",
    ),
    (
        lambda x: moments(x.reshape(1, 3)),
        r"argument 'x': expected float32\[n\], got rank 2",
    ),
    (
        lambda x: moments(x, options=1),
        "attribute 'options': expected dict, got 1",
    ),
    (
        lambda x: ffi.ffi_call("test.moments", (SCALAR, SCALAR))(
            x, mode="", weights=np.zeros(1), options={}, negate=False
        ),
        "attribute 'weights': expected an array of int32, got float64",
    ),
    (
        lambda x: ffi.ffi_call("test.in_memory", F3)(x, a=jnp.ones(2)),
        "attribute 'a' is a jax.Array; pass it as an argument",
    ),
    (lambda x: ffi.ffi_call("test.in_memory", F3)(x, a={1, 2}), "attribute 'a' cannot be hashed"),
]


@pytest.mark.parametrize(("use", "message"), WRONG, ids=range(len(WRONG)))
def test_a_signature_is_checked_when_a_call_is_traced(use, message):
    with pytest.raises(TypeError, match=r"callout\.ffi\.ffi_call 'test\.\w+': .*" + message):
        jax.make_jaxpr(use)(jnp.ones(3))


def test_dimensions_with_a_name_are_equal():
    signature = Signature("(x: f32[n, m], y: *[..., m], z: s32[2]) -> (out: f32[n])")

    def check(*shapes, out=(4,)):
        dtypes = (jnp.float32, jnp.float16, jnp.int32)
        args = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
        signature.check("f", args, [jax.ShapeDtypeStruct(out, jnp.float32)], {})

    check((4, 5), (7, 8, 5), (2,))
    for shapes, message in [
        (((4, 5), (6,), (2,)), r"argument 'y': expected any dtype\[\.\.\., m\] with m = 5, got shape \(6,\)"),
        (((4, 5), (5,), (3,)), r"argument 'z': expected int32\[2\] with 2 = 2, got shape \(3,\)"),
        (((3, 5), (5,), (2,)), r"result 'out': expected float32\[n\] with n = 3, got shape \(4,\)"),
    ]:
        with pytest.raises(TypeError, match=message):
            check(*shapes)


@pytest.mark.parametrize("text", ["x: f32", "(x f32) -> ()", "(x: f33[n]) -> ()", "(x: f32, *, a b) -> ()"])
def test_a_signature_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match=r"callout\.ffi"):
        Signature(text)


def test_derivative_rules():
    x = jnp.arange(3.0)
    with pytest.raises(ValueError, match=r"'test\.affine' cannot be differentiated: pass jvp=, vjp= or transpose="):
        jax.grad(lambda v: affine(v).sum())(x)

    def jvp(primals, tangents, a, b):
        return affine(*primals, a=a, b=b), affine(*tangents, a=a, b=0)

    out, tangent = jax.jvp(lambda v: affine(v, a=3.0, jvp=jvp), (x,), (jnp.ones(3),))
    assert (out.tolist(), tangent.tolist()) == ([1, 4, 7], [3, 3, 3])
    vjp = (lambda x, a, b: (affine(x, a=a, b=b), a), lambda a, ct: (ct * a,))
    assert jax.jit(jax.grad(lambda v: affine(v, a=3.0, vjp=vjp).sum()))(x).tolist() == [3, 3, 3]
    linear = lambda v: affine(v, a=3.0, b=0, transpose=lambda ct, a, b: affine(ct, a=a, b=b))  # noqa: E731
    assert jax.grad(lambda v: linear(v).sum())(x).tolist() == [3, 3, 3]
    assert jax.linear_transpose(linear, x)(jnp.ones(3))[0].tolist() == [3, 3, 3]
    assert jax.jvp(linear, (x,), (jnp.ones(3),))[1].tolist() == [3, 3, 3]


def test_platform_dependent():
    f = jax.jit(lambda x: lax.platform_dependent(x, cpu=affine, default=lambda v: v))
    assert f(jnp.ones(3)).tolist() == [3, 3, 3]


def test_targets_of_jaxlib():
    a = jnp.array([[4.0, 2.0], [2.0, 3.0]])
    shapes = (jax.ShapeDtypeStruct((2, 2), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32))
    factor, info = jax.jit(
        lambda a: ffi.ffi_call(
            "lapack_spotrf_ffi",
            shapes,
            input_output_aliases={0: 0},
            input_layouts=[(1, 0)],
            output_layouts=[(1, 0), None],
        )(a, uplo=np.uint8(ord("L")))
    )(a)
    assert int(info) == 0
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(np.asarray(a)), rtol=1e-6)


def test_an_array_attribute_keeps_its_traced_value():
    weights = np.array([1, 1, 1], np.int32)
    traced = jax.jit(lambda x: moments(x, mode="weighted", weights=weights, options={"scale": np.float32(1)})).trace(
        jnp.ones(3)
    )
    weights[:] = 9
    assert float(traced.lower().compile()(jnp.ones(3))[0]) == 3


def test_registering_anew_without_a_signature_forgets_it(handlers):
    capsule = ffi.pycapsule(handlers.add_one)
    ffi.register_ffi_target("test.again", capsule, signature="(x: f64[]) -> ()")
    with pytest.raises(TypeError, match=r"argument 'x': expected float64|expected 0 results"):
        ffi.ffi_call("test.again", SCALAR)(jnp.zeros((), jnp.float32))
    ffi.register_ffi_target("test.again", capsule)
    ffi.ffi_call("test.again", SCALAR, input_output_aliases={0: 0})(1.0)


def turn(keys, **settings):
    results = (jax.ShapeDtypeStruct(keys.shape, keys.dtype), jax.ShapeDtypeStruct(keys.shape, jnp.uint32))
    return ffi.ffi_call("test.turn_keys", results, **settings)(keys)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_prng_keys_are_arguments_and_results(impl):
    key = jax.random.key(7, impl=impl)
    keys = jax.random.split(key, (2, 3))
    for some in (key, keys):
        words = np.asarray(jax.random.key_data(some))
        for call in (turn, jax.jit(turn), lambda k: turn(k, input_layouts=[range(k.ndim + 1)])):
            turned, sums = call(some)
            assert turned.dtype == some.dtype
            assert turned.shape == some.shape
            np.testing.assert_array_equal(jax.random.key_data(turned), words[..., ::-1])
            np.testing.assert_array_equal(sums, words.sum(-1, dtype=np.uint32))
    jax.random.normal(turned[0, 0])


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
def test_prng_keys_are_batched_and_scanned(method):
    keys = jax.random.split(jax.random.key(7), 3)
    turned, sums = jax.vmap(lambda k: turn(k, vmap_method=method))(keys)
    scanned = jax.lax.scan(lambda _, k: (None, turn(k)), None, keys)[1]
    for got in (turned, scanned[0]):
        np.testing.assert_array_equal(jax.random.key_data(got), np.asarray(jax.random.key_data(keys))[:, ::-1])
    np.testing.assert_array_equal(sums, scanned[1])


def test_prng_keys_are_updated_in_place():
    keys = jax.random.split(jax.random.key(7), 3)
    text = jax.jit(lambda k: turn(k, input_output_aliases={0: 0})).lower(keys).as_text()
    assert "operand_index = 0" in text


def test_other_results_of_calls_are_no_keys():
    """A callback gets integers, and `jax.random.wrap_key_data` makes keys of its result, as with JAX's callbacks."""
    key = jax.random.key(7)
    with pytest.raises(TypeError, match="a callback cannot return arrays of dtype key<fry>"):
        callout.pure_callback(lambda k: k, key, key)


def test_the_type_of_tokens_is_public():
    assert ffi.abstract_token is _jax_compat.abstract_token()


def test_ids_of_types_are_registered_with_the_type():
    with pytest.raises(ValueError, match="not supported after jaxlib version"):  # with every supported JAX
        jax.ffi.register_ffi_type_id("mine", None)
    with pytest.raises(ValueError, match="takes the id of type 'mine' alone"):
        ffi.register_ffi_type_id("mine", None)
