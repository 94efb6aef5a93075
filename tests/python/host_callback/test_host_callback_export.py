# SPDX-License-Identifier: Apache-2.0
"""Tests `id_print` in exported programs: the name in the program describes it completely."""

import re
import sys

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout._targets import print_target
from jax.sharding import PartitionSpec as P

F32 = jax.ShapeDtypeStruct((), jnp.float32)
VECTOR = jax.ShapeDtypeStruct((3,), jnp.float32)


def export(f, *args):
    return callout.export(jax.jit(f))(*args)


def loaded(f, *args):
    return jax.export.deserialize(export(f, *args).serialize())


def names_in(text):
    return re.findall(r'callback = "([^"]*)"', text)


def name_of(value, **kwargs):
    """Returns the name that an exported program has for a print of `value`."""
    (name,) = names_in(export(lambda v: (hcb.id_print(v, **kwargs), 0)[1], value).mlir_module())
    return name


@pytest.fixture
def output(capsys):
    """Returns the text that `print` has written since the last call."""

    def take():
        hcb.barrier_wait()
        return capsys.readouterr().out

    return take


TREE = {"b": (jnp.arange(30.0), jnp.ones((2, 2))), "a": [jnp.arange(12.0).reshape(3, 4), None, ()]}
DTYPES = (1, 2.5, True, jnp.float16(0.1), jnp.bfloat16(1.5), 1 + 2j, jnp.int4([1, -2]), jnp.float8_e5m2([0.5]))


@pytest.mark.parametrize(
    ("value", "kwargs"),
    [
        (jnp.float32(0.1), {}),
        (TREE, {"what": "tree"}),
        (DTYPES, {"n": 3, "flag": True, "nothing": None, "x": -0.0}),
        (jnp.arange(1001.0), {}),
        (jnp.arange(40.0).reshape(4, 10), {"threshold": 5}),
        (jnp.arange(2000), {"threshold": np.inf}),
        (jnp.arange(7.0), {"threshold": 6.5}),
        (jnp.bfloat16([0.1] * 8), {"threshold": 7}),
        (jnp.full(2, 5e6, jnp.float32), {}),
        (jnp.zeros((0, 3)), {}),
        ((), {}),
        (None, {"what": "nothing"}),
        (jax.random.key(7), {}),
        ({"ä,;% \"'\\\n": 1.0}, {"ü": "quotes \" ' and \\, tabs\t; lines\n, 100%, snowman ☃"}),
        (jnp.float32(1), {"a": "before", "z": "behind", "tap_with_device": True}),
        (jnp.float32(1), {"tap_with_device": True}),
        (jnp.float32(1), {"what": [1, {"a": (2,)}], "of": jnp.float32, "b": b"x"}),
    ],
    ids=str,
)
def test_the_same_text_everywhere(output, value, kwargs):
    def f(v, x):  # JAX exports no program that has effects and no arrays
        hcb.id_print(v, **kwargs)
        return x + x

    f(value, 1.0)
    eager = output()
    assert eager
    jax.jit(f)(value, 1.0)
    assert output() == eager
    exported = export(f, value, 1.0)
    assert callout.exported_names(exported) == ()
    for program in (exported, jax.export.deserialize(exported.serialize())):
        assert program.call(value, 1.0) == 2
        assert output() == eager


def everything(x):
    def body(carry, v):
        hcb.id_print((carry, v), where="scan")
        return carry + v, carry * v

    hcb.id_print(x, what="first")
    total, products = jax.lax.scan(body, jnp.float32(0), x)
    hcb.id_print(total, what="total", tap_with_device=True)
    jax.lax.cond(total > 1, lambda: hcb.id_print(total, branch="large"), lambda: hcb.id_print(-total, branch="small"))
    jax.vmap(lambda v: hcb.id_print(v))(products)
    jax.vmap(jax.vmap(lambda v, w: hcb.id_print((v, w))[0], (None, 0)), (0, None))(products, products)
    return jax.grad(lambda v: hcb.id_print(v * v, of="primal"))(total)


@pytest.mark.parametrize("wrap", [lambda f: f, callout.threaded], ids=["ordered", "threaded"])
def test_control_flow_and_transformations_keep_program_order(output, wrap):
    x = jnp.arange(1.0, 4.0)
    traced = jax.jit(wrap(everything))
    result = float(traced(x))
    expected = output()
    assert expected.startswith("what: first\n[1. 2. 3.]\nwhere: scan\n( 0. 1. )\nwhere: scan\n( 1. 2. )\n")
    assert "transforms: [('batch', {'batch_dims': (None, 0)}), ('batch', {'batch_dims': (0, None)})]\n" in expected
    assert expected.endswith("of: primal\n36.\n")
    program = loaded(wrap(everything), VECTOR)
    assert "token" not in next(line for line in program.mlir_module().splitlines() if "@main(" in line)
    for _ in range(3):
        assert float(program.call(x)) == result == 12
        assert output() == expected


def test_a_returned_tangent_is_transposed(output):
    @jax.custom_jvp
    def f(x):
        return x

    @f.defjvp
    def f_jvp(primals, tangents):
        return primals[0], hcb.id_print(tangents[0])

    program = loaded(lambda x: jax.vjp(f, x)[1](2 * x), F32)
    assert program.call(2.0) == (4,)
    assert output() == "transforms: ['transpose']\n4.\n"


@pytest.mark.devices(4)
def test_every_device_of_a_shard_map_prints(output):
    mesh = jax.make_mesh((4,), ("d",), devices=jax.devices()[:4])
    f = jax.shard_map(lambda v: hcb.id_print(v, tap_with_device=True) + 1, mesh=mesh, in_specs=P("d"), out_specs=P("d"))
    x = jax.device_put(np.arange(4.0, dtype=np.float32), jax.NamedSharding(mesh, P("d")))
    exported = callout.export(jax.jit(f))(jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding))
    jax.jit(jax.export.deserialize(exported.serialize()).call)(x)
    lines = output().splitlines()
    expected = [(f"device: {device}", f"[{i}.]") for i, device in enumerate(jax.devices()[:4])]
    assert sorted(zip(lines[::2], lines[1::2], strict=True)) == expected


def test_the_format_of_the_name_is_frozen():
    pair = (jnp.float32(1), [jnp.float32(2)])
    end = f";{int(print_target._EXPONENTS_FROM)};"
    assert name_of(1.0) == f"id_print:1;1000{end};l0"
    assert name_of(pair, what="x,y", n=1) == (
        f"id_print:1;1000{end}tn:%201%20what:%20x%2Cy;(,t(%20,l0,b2,(,t[%20,l1,t%20],),t%20),)"
    )
    assert name_of(1.0, a=1, z="ä", tap_with_device=True, threshold=-7) == (
        f"id_print:1;-1{end}ta:%201%20device:%20,d,t%20z:%20%C3%A4;l0"
    )


def test_equal_prints_have_one_name_in_every_program():
    def f(x):
        return hcb.id_print(x, what="a" + "b", n=2)

    (traced,) = names_in(jax.jit(f).lower(1.0).as_text())
    assert {traced} == set(names_in(export(f, F32).mlir_module()))
    assert {traced} == set(names_in(jax.jit(lambda y: hcb.id_print(y, n=2, what="ab") + 1).lower(1.0).as_text()))
    assert traced.startswith("id_print:1;")
    assert names_in(jax.jit(lambda x: hcb.id_print(x, what="ab", n=3)).lower(1.0).as_text()) != [traced]


@jax.tree_util.register_pytree_node_class
class Point:
    def __init__(self, x):
        self.x = x

    def tree_flatten(self):
        return (self.x,), None

    @classmethod
    def tree_unflatten(cls, _, leaves):
        return cls(*leaves)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda x: hcb.id_print(x, output_stream=sys.stderr), "it has an output_stream"),
        (lambda x: hcb.id_print(Point(x)), "a class of its value writes its own text"),
        (lambda x: hcb.id_print(x, threshold=np.nan), "its threshold nan is not a number"),
        (lambda x: hcb.id_print(x, threshold="many"), "its threshold 'many' is not a number"),
        (lambda x: hcb.id_print(x, what=x), "its keyword 'what' is a traced value, which only `arg` may have"),
        (lambda x: hcb.id_print(x, what="\ud800"), "its keywords have text that is not Unicode"),
    ],
)
def test_prints_without_a_textual_form_are_rejected(make, reason):
    with pytest.raises(ValueError, match="id_print: an exported program carries a print as text") as caught:
        export(lambda x: (make(x), x)[1], F32)
    assert str(caught.value).endswith(f"and this one is more: {reason}")


@pytest.mark.parametrize("options", [{"precision": 3}, {"edgeitems": 2}], ids=str)
def test_exports_reject_custom_print_options(output, options):
    value = np.float32([1 / 3] * 8)
    with np.printoptions(**options):
        expected = np.array2string(value, threshold=7)
        jax.jit(lambda x: hcb.id_print(x, threshold=7))(value)
        with pytest.raises(ValueError, match="print options of NumPy that are not the default ones"):
            export(lambda x: hcb.id_print(x), F32)
    assert output() == expected + "\n"


def test_print_options_where_it_runs_do_not_matter(output):
    program = loaded(lambda x: hcb.id_print(x), F32)
    with np.printoptions(precision=2):
        program.call(1 / 3)
    assert output() == "0.33333334\n"


def test_keywords_that_change_are_as_they_were_when_exported(output):
    steps = [1]

    def f(x):
        return hcb.id_print(x, steps=steps)

    program = loaded(f, F32)
    traced = jax.jit(f)
    traced(1.0)
    assert output() == "steps: [1]\n1.\n"
    steps.append(2)
    traced(1.0)
    assert output() == "steps: [1, 2]\n1.\n"
    program.call(1.0)
    assert output() == "steps: [1]\n1.\n"


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ("", "expected format 1, which is what this version of Callout reads, got ''"),
        ("2;1000;1000000;;l0", "expected format 1"),
        ("1;1000;1000000;;l1", "expected the leaves 0 to 0 once each, got 'l1'"),
        ("1;1000;1000000;t%zz;l0", "expected two hexadecimal digits after each '%', got '%zz'"),
    ],
)
def test_malformed_names_fail_the_compilation(payload, text):
    with pytest.raises(jax.errors.JaxRuntimeError, match=re.escape(text)):
        jax.jit(lambda x: callout.tap(f"id_print:{payload}", x))(1.0)


def test_a_name_for_another_value_fails_the_tap(output):
    f = jax.jit(lambda x: callout.tap("id_print:1;1000;1000000;;(,l0,b2,l1,)", x))
    f(1.0)
    with pytest.raises(callout.TapError, match="an id_print of 2 arrays got 1"):
        callout.barrier_wait()
    assert output() == ""


def test_text_that_is_no_utf8_is_replaced(output):
    jax.jit(lambda x: callout.tap("id_print:1;1000;1000000;t%FFx;l0", x))(1.0)
    assert output() == "�x\n1.\n"


def test_names_are_not_for_registering():
    with pytest.raises(callout.RegistrationError, match="must not begin with 'py:', 'native:' or 'id_print:'"):
        callout.register("id_print:1;1000;1000000;;l0", print)


def test_statistics_count_them_under_one_label(output):
    before = callout.stats()["callbacks"].get("id_print", {"calls": 0})["calls"]
    hcb.id_print(1.0)
    jax.jit(lambda x: hcb.id_print(x))(1.0)
    loaded(lambda x: hcb.id_print(x), F32).call(1.0)
    assert output() == "1.\n" * 3
    assert callout.stats()["callbacks"]["id_print"]["calls"] - before == 3


def test_encoding_and_decoding_agree():
    text = "".join(map(chr, [*range(1, 0x250), 0x2603, 0x1F600]))
    pieces = [(3, "", 0), (0, text, 0), (1, "", 0), (2, "", 4), (1, "", 1), (4, "", 0)]
    for head in (("", None), (text, None), (text, text), ("", ""), ("d", "t")):
        name = print_target.encode(head, pieces, 7, 1e8)
        assert name.isascii()
        assert name.isprintable()
        assert not set(name) & set('"\\ ')
        payload = name.removeprefix(print_target.PREFIX)
        assert callout._ext.parse_value_print(payload) == (*head, pieces, 2, 7, 100000000)
