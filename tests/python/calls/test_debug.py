# SPDX-License-Identifier: Apache-2.0
"""debug_callback and debug_print: the forms, formats and transformations of JAX's own."""

import functools

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from jax import lax

ORDERED = pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])


@pytest.fixture
def seen():
    """Returns a list, and a callback that appends to it."""

    class Seen(list):
        def note(self, x):
            self.append(np.asarray(x).tolist())

    return Seen()


def waited(out):
    jax.block_until_ready(out)
    jax.effects_barrier()
    return out


@ORDERED
def test_eager_jit_and_an_unused_place(seen, ordered):
    def f(x):
        callout.debug_callback(seen.note, x, ordered=ordered)
        return x * 2

    assert float(f(jnp.float32(1))) == 2
    assert float(waited(jax.jit(f)(2.0))) == 4
    waited(jax.jit(lambda x: callout.debug_callback(seen.note, x, ordered=ordered))(3.0))
    assert seen == [1, 2, 3]


def test_keywords_pytrees_and_static_arguments():
    got = []

    def callback(tree, text, *, scale, kind):
        got.append((tree["a"].tolist(), text, float(scale), kind))

    jax.jit(lambda x: callout.debug_callback(callback, {"a": x}, "label", scale=2.0, kind=dict))(jnp.arange(2))
    callout.debug_callback(callback, {"a": jnp.arange(1)}, "eager", scale=1, kind=None)
    jax.effects_barrier()
    assert got == [([0, 1], "label", 2.0, dict), ([0], "eager", 1.0, None)]


def test_form_with_the_settings_first(seen):
    got = []
    jax.jit(
        lambda x: callout.debug_callback(ordered=True)(lambda a, *, ordered: got.append(ordered), x, ordered="mine")
    )(1)
    jax.jit(lambda x: callout.debug_callback()(seen.note, x))(2)
    jax.effects_barrier()
    assert (got, seen) == (["mine"], [2])
    with pytest.raises(TypeError, match="arguments without a callback"):
        callout.debug_callback(None, 1)
    for form in (callout.debug_callback, callout.debug_callback()):
        with pytest.raises(TypeError, match="the first argument must be callable, got 3"):
            form(3)


@ORDERED
def test_grad_sees_primals_and_vmap_each_lane(seen, ordered):
    def f(x):
        callout.debug_callback(seen.note, x, ordered=ordered)
        return jnp.sin(x)

    waited(jax.grad(f)(1.0))
    assert seen == [1]
    waited(jax.vmap(f)(jnp.arange(3.0)))
    waited(jax.jit(jax.vmap(jax.grad(f)))(jnp.arange(2.0)))
    waited(jax.vmap(lambda x, y: callout.debug_callback(seen.note, x + y), in_axes=(0, None))(jnp.arange(2), 10))
    assert seen == [1, 0, 1, 2, 0, 1, 10, 11]


def test_a_name_takes_arrays_only(seen):
    callout.register("test.debug.named", seen.note)
    try:
        for run in (lambda f: f, jax.jit):
            with pytest.raises(TypeError, match=r"'test\.debug\.named' takes arrays; 'text' has no place"):
                run(lambda x: callout.debug_callback("test.debug.named", "text", x))(1.0)
    finally:
        callout.unregister("test.debug.named")


RECORDS = np.array([(1, 2.0), (3, 4.0)], [("i", "i4"), ("x", "f4")])


@pytest.mark.parametrize("value", [RECORDS, RECORDS[0], RECORDS.view(np.recarray), np.zeros(2, "V4")])
@pytest.mark.parametrize("jit", [jax.jit, lambda fn: fn], ids=["jit", "eager"])
def test_records_are_passed_as_they_are(value, jit):
    got = []
    jit(lambda x: callout.debug_callback(lambda *args: got.append(args), value, x))(jnp.float32(1))
    jax.effects_barrier()
    ((records, number),) = got
    assert records is value
    assert number == 1


def test_records_are_printed_as_they_are(capsys):
    jax.jit(lambda x: callout.debug_print("{} {}", RECORDS, x))(jnp.float32(1))
    jax.effects_barrier()
    assert capsys.readouterr().out == "[(1, 2.) (3, 4.)] 1.0\n"


def test_the_result_is_ignored():
    callout.register("test.debug.returns", lambda x: x + 1)
    try:
        waited(jax.jit(lambda x: callout.debug_callback("test.debug.returns", x))(1.0))
        waited(jax.jit(lambda x: callout.debug_callback(lambda v: v + 1, x))(1.0))
    finally:
        callout.unregister("test.debug.returns")


@pytest.mark.native_only(platforms.TEXT)
def test_many_lanes_compile_to_one_loop(seen):
    text = jax.jit(jax.vmap(lambda x: callout.debug_callback(seen.note, x))).lower(jnp.arange(1000.0)).as_text()
    assert text.count("@callout.v1.call") == 1


POLICIES = ("everything_saveable", "nothing_saveable", "dots_saveable", "dots_with_no_batch_dims_saveable")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("looped", [False, True], ids=["plain", "scan"])
def test_remat_of_lanes_calls_as_often_as_jax_does(seen, policy, looped):
    def gradient(debug_callback, note):
        def f(x):
            debug_callback(note, x)
            return jnp.sin(x)

        def repeated(x):
            return lax.scan(lambda c, _: (jax.vmap(f)(c), None), x, length=3)[0] if looped else jax.vmap(f)(x)

        kept = jax.checkpoint(repeated, policy=getattr(jax.checkpoint_policies, policy))
        return jax.jit(jax.grad(lambda x: kept(x).sum()))

    of_jax = []
    waited(gradient(jax.debug.callback, lambda x: of_jax.append(float(x)))(jnp.arange(3.0)))
    waited(gradient(callout.debug_callback, seen.note)(jnp.arange(3.0)))
    assert sorted(seen) == sorted(of_jax)


def test_jvp_linearize_and_transpose(seen):
    @jax.custom_jvp
    def f(x):
        return x * 3

    @f.defjvp
    def _(primals, tangents):
        callout.debug_callback(seen.note, tangents[0])
        return f(*primals), tangents[0] * 3

    waited(jax.jvp(f, (1.0,), (5.0,)))
    assert seen == [5]
    assert float(waited(jax.grad(f)(1.0))) == 3


def test_remat_calls_again_as_jax_does(seen):
    def count(policy, callback):
        seen.clear()

        @functools.partial(jax.checkpoint, policy=policy)
        def f(x):
            y = jnp.sin(x)
            callback(seen.note, y)
            return jnp.sin(y)

        waited(jax.grad(f)(1.0))
        return len(seen)

    policies = jax.checkpoint_policies
    for policy in (None, policies.everything_saveable, policies.nothing_saveable, policies.dots_saveable):
        assert count(policy, callout.debug_callback) == count(policy, jax.debug.callback), policy


@ORDERED
def test_control_flow(seen, ordered):
    def f(x):
        def note(value):
            callout.debug_callback(seen.note, value, ordered=ordered)
            return value

        y = lax.cond(x > 0, lambda v: note(v), lambda v: v, x)
        y, _ = lax.scan(lambda c, _: (note(c + 1), None), y, length=2)
        return lax.while_loop(lambda c: note(c) < 14, lambda c: c + 1, y)

    assert float(waited(jax.jit(f)(10.0))) == 14
    assert seen == [10, 11, 12, 12, 13, 14]


@pytest.mark.devices(4)
def test_shard_map_and_pmap_call_on_every_device(seen):
    mesh = jax.make_mesh((2,), ("d",))
    f = jax.shard_map(
        lambda x: (callout.debug_callback(seen.note, x), x)[1], mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d")
    )
    waited(jax.jit(f)(jax.device_put(jnp.arange(4.0), jax.NamedSharding(mesh, jax.P("d")))))
    waited(jax.pmap(lambda x: (callout.debug_callback(seen.note, x), x)[1])(jnp.arange(2.0)))
    assert sorted(map(str, seen)) == ["0.0", "1.0", "[0.0, 1.0]", "[2.0, 3.0]"]


def test_an_exception_reaches_the_caller():
    def boom(_):
        raise ZeroDivisionError("debugging")

    @jax.jit
    def f(x):
        callout.debug_callback(boom, x)
        return x

    with pytest.raises(ZeroDivisionError, match="debugging"), callout.reraise():
        waited(f(1.0))


FORMATS = [
    ("x: {}", (1.5,), {}),
    ("{x:.3f} and {y!s:>8}", (), {"x": 2.0, "y": 3}),
    ("{0} {1} {0}", (1, True), {}),
    ("{a[0]} {a[1]}", (), {"a": (1, 2)}),
    ("array {}", (np.arange(3, dtype=np.float32),), {}),
    ("matrix\n{m}", (), {"m": np.eye(2, dtype=np.int32)}),
    ("text {} and object {}", ("static", None), {}),
    ("complex {}", (np.complex64(1 + 2j),), {}),
    ("half {} {}", (jnp.bfloat16(1.5), jnp.float16(0.1)), {}),
]


@pytest.mark.parametrize(("fmt", "args", "kwargs"), FORMATS, ids=[fmt[:16] for fmt, _, _ in FORMATS])
def test_print_formats_like_jax(capsys, fmt, args, kwargs):
    def text_of(show):
        def f(*leaves):
            a, k = jax.tree.unflatten(tree, leaves)
            show(fmt, *a, **k)

        static = {
            i: leaf for i, leaf in enumerate(jax.tree.leaves((args, kwargs))) if isinstance(leaf, (str, type(None)))
        }
        leaves, tree = jax.tree.flatten((args, kwargs))
        waited(jax.jit(f, static_argnums=tuple(static))(*leaves))
        compiled = capsys.readouterr().out
        show(fmt, *args, **kwargs)
        jax.effects_barrier()
        return compiled, capsys.readouterr().out

    assert text_of(callout.debug_print) == text_of(jax.debug.print)


@ORDERED
def test_print_in_a_loop_and_with_the_settings_first(capsys, ordered):
    @jax.jit
    def f(n):
        callout.debug_print(ordered=ordered)("begin {ordered}", ordered=n)
        return lax.fori_loop(0, 3, lambda i, c: (callout.debug_print("i={i}", i=i, ordered=ordered), c)[1], n)

    waited(f(5))
    assert capsys.readouterr().out.split("\n")[:-1] == ["begin 5", "i=0", "i=1", "i=2"]


def test_print_options_are_those_of_the_trace(capsys):
    with np.printoptions(precision=2):
        waited(jax.jit(lambda x: callout.debug_print("{}", x))(jnp.array([1 / 3])))
    with np.printoptions(formatter={"float": lambda v: f"<{v:.1f}>"}):
        waited(jax.jit(lambda x: callout.debug_print("{}", x))(jnp.array([1 / 3])))
    assert capsys.readouterr().out == "[0.33]\n[<0.3>]\n"


def test_print_formats_fields_after_an_escaped_brace(capsys):
    waited(jax.jit(lambda x: callout.debug_print("{{}} {}", x))(2))  # JAX prints "{{}} {} 2"
    assert capsys.readouterr().out == "{} 2\n"


def test_print_without_placeholders(capsys):
    waited(jax.jit(lambda x: callout.debug_print("values", x, skip_format_check=True))(2))
    callout.debug_print("plain")
    assert capsys.readouterr().out == "values 2\nplain\n"


def test_arguments_that_the_format_does_not_use_are_named():
    with pytest.raises(ValueError, match=r"unused positional arguments: \[2\]"):
        callout.debug_print("{}", 1, 2)
    with pytest.raises(ValueError, match=r"unused keyword arguments: \['y'\].*f-string"):
        callout.debug_print("{x}", x=1, y=2)
    with pytest.raises(IndexError):
        callout.debug_print("{} {}", 1)
    with pytest.raises(KeyError, match="x"):
        callout.debug_print("{x}")
    with pytest.raises(TypeError, match="the format must be a string, got 3"):
        callout.debug_print(3)
    with pytest.raises(TypeError, match="arguments without a format string"):
        callout.debug_print(None, 1)


def test_equal_prints_share_a_name():
    def text():
        return jax.jit(lambda x: callout.debug_print("same {}", x)).lower(1.0).as_text()

    assert text() == text()


def test_an_f_string_with_a_tracer_warns_with_its_line(capsys):
    message = (
        r"debug_print: the format 'x is \w+Tracer\(.*' shows no value but a tracer, '\w+Tracer\(.*': an f-string is "
        r'formatted while JAX traces the program; write placeholders, "x is \{x\}", and pass the values, x=x'
    )
    with pytest.warns(UserWarning, match=message) as caught:
        waited(jax.jit(lambda x: callout.debug_print(f"x is {x}"))(jnp.float32(1)))
    assert caught[0].filename == __file__
    assert capsys.readouterr().out.startswith("x is ")
