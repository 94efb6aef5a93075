# SPDX-License-Identifier: Apache-2.0
"""Tests `error_if`, `warn_if` and `check`: the reported element and lane, under every transformation, at every call."""

import contextlib
import logging

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

F32 = jax.ShapeDtypeStruct((3,), jnp.float32)
BAD = np.array([1, -2.5, 3], np.float32)
GOOD = np.array([1, 2, 3], np.float32)


def not_negative(x, **options):
    return callout.error_if(x, x < 0, "negative {value:.2f}", **options)


def failure(f, *args):
    """Returns the text of the CheckError of a call."""
    with pytest.raises(callout.CheckError) as caught:
        platforms.ended(f(*args))
    assert isinstance(caught.value, RuntimeError)
    with contextlib.suppress(callout.CheckError):
        jax.effects_barrier()
    text = str(caught.value)
    return text[text.index("check failed: ") :].splitlines()[0]


def passes(f, *args):
    return jax.tree.map(np.asarray, jax.block_until_ready(f(*args)))


def test_class_and_text_are_equal_at_every_call():
    f = jax.jit(lambda x: not_negative(x) * 2)
    assert passes(f, GOOD).tolist() == [2, 4, 6]
    texts = {failure(f, BAD) for _ in range(1000)}
    (text,) = texts
    assert text.startswith("check failed: negative -2.50 (index [1], device 0; ")
    assert f"; {__file__}:" in text
    late = " (found when the program had gone on)" if platforms.ON_CUDA else ""
    assert text.endswith(" in not_negative)" + late)
    assert passes(f, GOOD).tolist() == [2, 4, 6]


def test_an_eager_check_fails_at_once():
    assert failure(not_negative, BAD).startswith("check failed: negative -2.50 (index [1], device 0; ")
    assert passes(not_negative, GOOD).tolist() == GOOD.tolist()


def test_an_unused_result_is_checked():
    @jax.jit
    def f(x):
        not_negative(x)
        return x.sum()

    assert "negative -2.50" in failure(f, BAD)


@pytest.mark.parametrize(("in_axes", "x"), [(0, BAD[:, None]), (1, BAD[None]), (-1, BAD[None])])
def test_the_lane_of_a_vmap_is_reported(in_axes, x):
    f = jax.jit(jax.vmap(lambda x: callout.error_if(x, x < 0, "{value} in lane {lane} at {index}"), in_axes=in_axes))
    assert failure(f, x).startswith("check failed: -2.5 in lane 1 at [0] (lane 1, index [0], device 0; ")


def test_lanes_of_nested_vmaps_are_reported():
    def one(x, y):
        return callout.error_if(x, x + y > 10, "{x} {y}", x=x, y=y)

    f = jax.jit(jax.vmap(jax.vmap(one, (0, None)), (None, 0)))
    xs, ys = jnp.array([1.0, 2, 3, 9]), jnp.array([0.0, 1, 2])
    assert failure(f, xs, ys).startswith("check failed: 9.0 2.0 (lane (2,3), device 0; ")
    assert passes(f, xs, ys - 5).shape == (3, 4)


def test_a_predicate_without_lanes_is_of_all_of_them():
    f = jax.jit(jax.vmap(lambda x, bad: callout.error_if(x, bad, "{lane}: {value}"), (0, None)))
    assert failure(f, BAD, True).startswith("check failed: -1: [ 1.  -2.5  3. ] (lane all, device 0; ")
    assert passes(f, BAD, False).tolist() == BAD.tolist()


def test_only_lanes_that_took_the_branch_count():
    def branch(x):
        return jax.lax.cond(x > 0, lambda x: callout.error_if(x, x < 2, "small {value}"), lambda x: x, x)

    f = jax.jit(jax.vmap(branch))
    assert passes(f, jnp.array([-1.0, 5.0, 0.0])).tolist() == [-1, 5, 0]
    assert failure(f, jnp.array([-1.0, 5.0, 1.0])).startswith("check failed: small 1.0 (lane 2, device 0; ")


def test_only_lanes_with_a_running_loop_count():
    def count(n):
        def step(i):
            return callout.error_if(i + 1, i >= n, "beyond {value}")

        return jax.lax.while_loop(lambda i: i < n, step, 0)

    assert passes(jax.jit(jax.vmap(count)), jnp.array([1, 4, 2])).tolist() == [1, 4, 2]

    def wrong(n):
        return jax.lax.while_loop(lambda i: i < n, lambda i: callout.error_if(i + 1, i == 3, "at {value}"), 0)

    assert failure(jax.jit(jax.vmap(wrong)), jnp.array([1, 5, 2])).startswith("check failed: at 4 (lane 1, device 0; ")


@pytest.mark.native_only(platforms.TEXT)
def test_batched_checks_are_one_call_without_loop_or_branch():
    def branch(x):
        return jax.lax.cond(x > 0, lambda x: not_negative(x), lambda x: x, x)

    text = jax.jit(jax.vmap(branch)).lower(jnp.zeros(7)).as_text()
    assert text.count("callout.v1.tap") == 1
    assert "stablehlo.while" not in text
    assert "stablehlo.case" not in text


def test_the_step_is_that_of_the_loop():
    def f(x):
        return jax.lax.fori_loop(0, 9, lambda i, x: callout.error_if(x - 1, x < 4, "step {step}: {value}", step=i), x)

    assert failure(jax.jit(f), 8.0).startswith("check failed: step 5: 2.0 (step 5, device 0; ")


def test_the_step_is_counted_if_not_given():
    def f(x):
        return jax.lax.fori_loop(0, 9, lambda _, x: callout.error_if(x - 1, x < 4, "step {step}"), x)

    assert failure(jax.jit(f), 8.0).startswith("check failed: step 5 (step 5, device 0; ")


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: jax.grad(lambda x: f(x).sum()),
        lambda f: lambda x: jax.jvp(f, (x,), (x,)),
        lambda f: lambda x: jax.vjp(f, x)[1](x),
        lambda f: jax.jit(jax.checkpoint(f)),
        lambda f: jax.grad(jax.checkpoint(lambda x: f(x).sum())),
        lambda f: jax.hessian(lambda x: f(x).sum()),
        lambda f: jax.jit(jax.jit(f)),
        lambda f: lambda x: jax.lax.scan(lambda c, x: (c, f(x)), 0, x[None])[1],
        lambda f: lambda x: jax.lax.map(f, x[None]),
        callout.threaded,
    ],
    ids=["grad", "jvp", "vjp", "checkpoint", "grad-checkpoint", "hessian", "jit", "scan", "map", "threaded"],
)
@pytest.mark.parametrize("jitted", [True, False])
def test_transformed_programs_are_checked(transform, jitted):
    f = transform(lambda x: not_negative(x) ** 2)
    f = jax.jit(f) if jitted else f
    passes(f, GOOD)
    for _ in range(3):
        assert "check failed: negative -2.50" in failure(f, BAD)


def test_gradients_go_through():
    assert jax.grad(lambda x: (not_negative(x) ** 2).sum())(GOOD).tolist() == [2, 4, 6]


def test_pytrees_are_passed_and_shown_by_name():
    @jax.jit
    def f(tree):
        return callout.error_if(tree, tree["a"] > 0, "{value}")

    tree = {"a": jnp.float32(1), "b": {"c": jnp.int32(7)}}
    assert failure(f, tree).startswith("check failed: a=1.0 b.c=7 (device 0; ")
    assert jax.tree.structure(f({**tree, "a": -1.0})) == jax.tree.structure(tree)


def test_values_are_arrays_numbers_and_objects():
    @jax.jit
    def f(x, y):
        callout.check(x < y, "{1}: {0:.1f} >= {y} {{{name!s:>4}}}", x, 3, y=y, name="n")
        return x

    assert failure(f, 3.0, 2).startswith("check failed: 3: 3.0 >= 2 {   n} (device 0; ")
    assert float(f(1.0, 2)) == 1


@pytest.mark.parametrize(
    "dtype", ["int4", "uint4", "bfloat16", "float8_e4m3fn", "float16", "uint8", "complex64", "bool"]
)
def test_values_of_all_sizes(dtype):
    x = jnp.ones(5, dtype)
    f = jax.jit(lambda x, bad: callout.error_if(x, bad, "{value}"))
    shown = {"complex64": "(1+0j)", "bool": "True"}.get(dtype, "1" if "int" in dtype or "float8" in dtype else "1.0")
    assert failure(f, x, np.arange(5) == 3).startswith(f"check failed: {shown} (index [3], device 0; ")


def test_keys_and_mutable_arrays_are_read():
    f = jax.jit(lambda key: callout.check(jnp.bool_(False), "{key}", key=key))
    assert failure(f, jax.random.key(3)).startswith("check failed: [0 3] (device 0; ")

    @jax.jit
    def g(x):
        ref = jax.new_ref(x)
        ref[...] = x - 2
        callout.error_if(0, ref[...] < 0, "{x}", x=ref)
        return ref[...]

    assert failure(g, 1.0).startswith("check failed: -1.0 (device 0; ")
    assert float(g(2.0)) == 0


@pytest.fixture
def checks():
    """Restores callout.config.checks after the test."""
    before = callout.config.checks
    yield lambda value: callout.config.update("checks", value)
    callout.config.checks = before


def test_checks_that_are_off_leave_no_trace(checks):
    def program():
        def f(x):
            x = not_negative(x)
            callout.warn_if(x, x > 2, "large {value}")
            callout.check(x < 7, "{x}", x=x)
            return x * 2

        return jax.jit(f).lower(F32).as_text()

    def f(x):
        return x * 2

    with_checks = program()
    checks("off")
    assert program() == jax.jit(f).lower(F32).as_text() != with_checks


def test_errors_can_be_warnings(checks, caplog):
    checks("warn")
    f = jax.jit(not_negative)
    with caplog.at_level(logging.WARNING, "callout"):
        for _ in range(5):
            assert passes(f, BAD).tolist() == BAD.tolist()
        callout.barrier_wait()
    texts = [record.getMessage() for record in caplog.records]
    assert [text.partition(";")[0] for text in texts] == [
        "check failed: negative -2.50 (index [1], device 0",
        "check failed: negative -2.50 (index [1], device 0, 2 times so far",
        "check failed: negative -2.50 (index [1], device 0, 4 times so far",
    ]


def test_a_warning_does_not_depend_on_the_setting_for_errors(caplog):
    f = jax.jit(lambda x: callout.warn_if(x, x < 0, "careful {value}"))
    with caplog.at_level(logging.WARNING, "callout"):
        passes(f, BAD)
        callout.barrier_wait()
    assert [record.getMessage().partition(" (")[0] for record in caplog.records] == ["check failed: careful -2.5"]


def test_nan_takes_the_place_of_values():
    f = jax.jit(lambda x: callout.error_if((x, 3), x < 0, "{value}", on_error="nan"))
    x, n = passes(f, BAD)
    assert (np.isnan(x).all(), int(n)) == (True, 3)
    assert passes(f, GOOD)[0].tolist() == GOOD.tolist()


def test_a_constant_that_makes_all_values_nan_warns_at_tracing():
    f = jax.jit(lambda x: callout.error_if(x, True, "never", on_error="nan"))
    with pytest.warns(UserWarning, match=r"callout\.error_if: the result is always NaN, .* constant: never") as caught:
        assert np.isnan(passes(f, GOOD)).all()
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda x: callout.error_if(x, x, "t"), TypeError, r"the predicate must be boolean, got float32"),
        (lambda x: callout.error_if(x, None, "t"), TypeError, r"the predicate must be boolean, got None"),
        (lambda x: callout.error_if(x, x < 0, 3), TypeError, r"the text must be a str, got 3"),
        (lambda x: callout.error_if(x, x < 0, "{nobody}"), ValueError, r"has a field 'nobody'; there are \['value', "),
        (lambda x: callout.error_if(x, x < 0, "t", x), ValueError, r"does not use the values \[0\]"),
        (lambda x: callout.error_if(x, x < 0, "t", a=x), ValueError, r"does not use the values \['a'\]"),
        (lambda x: callout.error_if(x, x < 0, "{"), ValueError, r"callout\.error_if: the text '\{': Single '\{'"),
        (
            lambda x: callout.error_if(x, x < 0, "{a:.2f}", a="s"),
            ValueError,
            r"error_if: the text .* value 'a': Unknown",
        ),
        (lambda x: callout.error_if(x, x < 0, "x" * 70_000), ValueError, r"at most 65536 bytes, got 70000"),
        (
            lambda x: callout.error_if(x, x < 0, "{}" * 1024, *[x] * 1024),
            ValueError,
            r"the text shows at most 1023 arrays, got 1024",
        ),
        (lambda x: callout.error_if(x, x < 0, "{value:q}"), ValueError, r"the text '\{value:q\}': "),
        (lambda x: callout.error_if(x, x < 0, "t", on_error="cry"), ValueError, r"on_error must be one of \['default'"),
        (
            lambda x: callout.error_if(x, x < 0, "t", on_error="breakpoint"),
            ValueError,
            r"callout\.tap of the value can",
        ),
        (
            lambda x: callout.check(x > 0, "{value}", t=x),
            ValueError,
            r"'value', which shows the values without a name, and there are none that no other field shows",
        ),
        (lambda x: callout.check(x > 0, "t", on_error="nan"), ValueError, r"needs a value to be NaN"),
        (
            lambda x: callout.error_if(x, x < 0, f"x is {x}"),
            ValueError,
            r"error_if: the text 'x is \w+Tracer\(.*float32\[\]\)' shows no value but a tracer, '\w+Tracer.*': an f-string "
            r'is formatted while JAX traces the program; write fields, "x is \{x\}", and pass the values, x=x',
        ),
        (
            lambda x: callout.warn_if(x, x < 0, f"x is {x}"),
            ValueError,
            r"warn_if: the text .* shows no value but a tracer",
        ),
        (lambda x: callout.check(x < 0, f"x is {x}"), ValueError, r"check: the text .* shows no value but a tracer"),
        (lambda x: callout.error_if(x, x < 0, "t", step=1.5), TypeError, r"step must be an integer scalar"),
    ],
)
def test_wrong_arguments_are_rejected_when_traced(call, kind, message):
    with pytest.raises(kind, match=message):
        jax.jit(call).lower(jnp.float32(1))


def test_texts_that_c_strings_cannot_carry_are_readable():
    f = jax.jit(lambda x: callout.error_if(x, x < 0, "a\0b \ud800 {value}"))
    assert failure(f, BAD).startswith("check failed: a\\0b \\ud800 -2.5 (index [1], device 0; ")


def test_a_step_of_each_lane_is_refused():
    f = jax.vmap(lambda x: callout.error_if(x, x < 0, "t", step=x))
    with pytest.raises(ValueError, match="`step` differs from lane to lane"):
        f(jnp.arange(3))


def test_constants_that_are_fine_add_nothing():
    text = jax.jit(lambda x: callout.error_if(x, False, "never")).lower(F32).as_text()
    assert "callout" not in text
    assert "callout" not in jax.jit(lambda x: (callout.check(True, "always"), x)[1]).lower(F32).as_text()
    assert failure(jax.jit(lambda x: callout.error_if(x, True, "always")), GOOD).startswith(
        "check failed: always (device"
    )


@pytest.mark.collectives
@pytest.mark.native_only(platforms.SHARDS)
@pytest.mark.devices(4)
@pytest.mark.parametrize("axis_type", ["Auto", "Explicit"])
def test_each_device_watches_its_shard_and_reports_global_indices(axis_type):
    kind = getattr(jax.sharding.AxisType, axis_type)
    mesh = Mesh(np.array(jax.devices()[:4]), ("d",), axis_types=(kind,))
    x = jax.device_put(jnp.arange(8.0).at[5].set(-5), NamedSharding(mesh, P("d")))
    f = jax.jit(lambda x: not_negative(x) * 2)
    text = failure(f, x)
    assert text.startswith("check failed: negative -5.00 (index [5], device 2; ")
    assert "all-gather" not in f.lower(x).compile().as_text()
    assert passes(f, abs(x)).tolist() == [0, 2, 4, 6, 8, 10, 12, 14]


@pytest.mark.native_only(platforms.SEVERAL)
@pytest.mark.devices(4)
@pytest.mark.parametrize("check_vma", [True, False])
def test_checks_in_shard_map(check_vma):
    mesh = Mesh(np.array(jax.devices()[:4]), ("d",))
    f = jax.jit(jax.shard_map(not_negative, mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=check_vma))
    assert passes(f, jnp.arange(8.0)).tolist() == list(range(8))
    assert failure(f, jnp.arange(8.0).at[5].set(-5)).startswith("check failed: negative -5.00 (index [1], device 2; ")


def test_exported_programs_carry_their_checks():
    exported = callout.export(jax.jit(lambda x: not_negative(x) * 2))(F32)
    assert callout.exported_names(exported) == ()
    loaded = jax.jit(jax.export.deserialize(exported.serialize()).call)
    assert passes(loaded, GOOD).tolist() == [2, 4, 6]
    assert failure(loaded, BAD).startswith("check failed: negative -2.50 (index [1], device 0; ")
