# SPDX-License-Identifier: Apache-2.0
"""Tests the output of `id_print` byte for byte, and the transformations under which it prints."""

import collections
import dataclasses
import math
import sys
import threading

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np
import pytest

THIRTY = """[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23
 24 25 26 27 28 29]"""
THIRTY_FLOATS = """[ 0.  1.  2.  3.  4.  5.  6.  7.  8.  9. 10. 11. 12. 13. 14. 15. 16. 17.
 18. 19. 20. 21. 22. 23. 24. 25. 26. 27. 28. 29.]"""


def printed(stream, value, **kwargs):
    hcb.id_print(value, output_stream=stream, **kwargs)
    eager = stream.take()
    jax.jit(lambda v: hcb.id_print(v, output_stream=stream, **kwargs))(value)
    assert stream.take() == eager
    return eager


SCALARS = (1, 1.0, True, np.float32(2.5), np.int8(3), jnp.bfloat16(1.5), 1e-10, 1e10, math.nan, -math.inf)
TREE = {"b": ([jnp.arange(30.0)][0], jnp.ones((2, 2))), "a": jnp.arange(12.0).reshape(3, 4)}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (SCALARS, "( 1 1. True 2.5 3 1.5 1.e-10 1.e+10 nan -inf )\n"),
        ((1 + 2j, jnp.full(2, 1j)), "( 1.+2.j [0.+1.j 0.+1.j] )\n"),
        ([1.0, (2.0, {"b": 3.0, "a": jnp.arange(3)}), None, ()], "[ 1. ( 2. { a=[0 1 2] b=3. } ) None (  ) ]\n"),
        ((jnp.arange(30), jnp.arange(30.0)), f"( {THIRTY}\n  {THIRTY_FLOATS} )\n"),
        (
            TREE,
            "{ a=[[ 0.  1.  2.  3.]\n [ 4.  5.  6.  7.]\n [ 8.  9. 10. 11.]]\n  b=( "
            f"{THIRTY_FLOATS}\n    [[1. 1.]\n [1. 1.]] ) }}\n",
        ),
        (jnp.zeros((0, 3)), "[]\n"),
        ((), "(  )\n"),
        (None, "None\n"),
        (np.float64(0.1), "0.1\n"),
        (collections.namedtuple("Pair", "x y")(1, 2), "( 1 2 )\n"),  # noqa: PYI024
        (collections.OrderedDict(z=1, B=2, a=3), "{ B=2 a=3 z=1 }\n"),
        (jnp.array([True, False]), "[ True False]\n"),
        (jnp.bfloat16([1.5, 2]), "[1.5 2]\n"),
    ],
    ids=str,
)
def test_values(stream, value, text):
    assert printed(stream, value) == text


def test_prng_keys_are_their_integers(stream):
    key = jax.random.key(7)
    assert printed(stream, key) == "[0 7]\n"
    assert hcb.id_print(key, output_stream=stream) is key
    stream.take()


@jax.tree_util.register_pytree_node_class
class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def tree_flatten(self):
        return (self.x, self.y), None

    @classmethod
    def tree_unflatten(cls, _, leaves):
        return cls(*leaves)

    def __str__(self):
        return f"Point at {self.x}, {self.y}"


def test_the_users_nodes_are_printed_with_their_repr(stream):
    assert printed(stream, (Point(jnp.float32(1), jnp.arange(2)), 3)) == "( Point at 1.0, [0 1] 3 )\n"


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Checked:
    """A pytree whose constructor checks its children."""

    x: jax.Array

    def __post_init__(self):
        assert self.x.shape == (2,)

    def __str__(self):
        return f"checked {self.x}"


def test_nodes_that_look_at_their_children(stream):
    value = Checked(jnp.arange(2.0))
    assert printed(stream, [value, 1]) == "[ checked [0. 1.] 1 ]\n"
    assert hcb.call(lambda v: v.x.sum(), value, result_shape=1.0) == 1


def test_float0_leaves_are_false(stream):
    zero = np.zeros((), jax.dtypes.float0)
    assert hcb.id_print((1.0, zero), output_stream=stream)[1] is zero
    assert stream.take() == "( 1. False )\n"

    @jax.custom_jvp
    def print_tangents(arg):
        return arg

    @print_tangents.defjvp
    def print_tangents_jvp(primals, tangents):
        hcb.id_print(tangents[0], output_stream=stream)
        return primals[0], tangents[0]

    for wrap in (lambda f: f, jax.jit):
        jax.jvp(wrap(lambda x: print_tangents((x, 3))[0]), (2.0,), (0.5,))
        assert stream.take() == "( 0.5 False )\n"


def test_keywords_that_print_differently_are_different(stream):
    first = jax.make_jaxpr(lambda x: hcb.id_print(x, what=0.0, output_stream=stream))(1.0)
    assert printed(stream, 1.0, what=-0.0) == "what: -0.0\n1.\n"
    assert "callout_tap" in str(first)


def test_a_stream_may_print_and_ask_for_statistics_itself(stream):
    class Nosy:
        def write(self, text):
            stream.write(f"{callout.stats()['prints']['native'] > 0} {text}")
            if text.startswith("1"):
                hcb.id_print(2.0, output_stream=self)

    callout.config.host_callback_inline = True
    hcb.id_print(1.0, output_stream=Nosy())
    callout.config.host_callback_inline = False
    assert stream.take() == "True 1.\nTrue 2.\n"


def test_keywords_are_sorted_above_the_value_in_one_write_each(stream):
    hcb.id_print(1.0, what="w", a=1, B=[2, "x"], output_stream=stream, tap_with_device=True)
    hcb.barrier_wait()
    assert stream.writes == [f"B: [2, 'x'] a: 1 device: {jax.devices()[0]} what: w\n", "1.\n"]


def test_without_a_stream_it_prints(capsys):
    hcb.id_print(1.0, what="w")
    hcb.barrier_wait()
    assert capsys.readouterr().out == "what: w\n1.\n"


def test_the_stream_is_that_of_the_time_of_printing(monkeypatch, stream):
    f = jax.jit(lambda x: hcb.id_print(x))
    f.lower(1.0).compile()
    monkeypatch.setattr(sys, "stdout", stream)
    f(1.0)
    assert stream.take() == "1.\n"


@pytest.mark.parametrize("threshold", [None, 5, 2000, np.inf])
def test_threshold(stream, threshold):
    value = np.arange(1001)
    expected = np.array2string(value, threshold=1000 if threshold is None else threshold)
    assert printed(stream, value, threshold=threshold) == expected + "\n"


def test_numpy_print_options_of_the_caller(stream):
    value = jnp.array([1.23456789, 1e-7])
    with np.printoptions(precision=3, suppress=True):
        assert printed(stream, value) == np.array2string(np.asarray(value)) + "\n"
    assert printed(stream, value) == np.array2string(np.asarray(value)) + "\n"


def test_counters_distinguish_native_and_numpy_texts(stream):
    before = callout.stats()["prints"]
    printed(stream, (jnp.ones(3), 1))
    printed(stream, jnp.bfloat16(1))
    after = callout.stats()["prints"]
    assert {path: after[path] - before[path] for path in after} == {"native": 2, "numpy": 2}


def test_equal_prints_are_one_program(stream):
    traces = []

    @jax.jit
    def f(x):
        traces.append(x)
        return hcb.id_print(x, what="w", output_stream=stream)

    jaxprs = {str(jax.make_jaxpr(lambda x: hcb.id_print(x, what="w", output_stream=stream))(1.0)) for _ in range(2)}
    assert len(jaxprs) == 1
    f(1.0), f(2.0)
    assert stream.take() == "what: w\n1.\nwhat: w\n2.\n"
    assert len(traces) == 1


@pytest.mark.devices(4)
def test_prints_of_several_threads_do_not_mix():
    class Slow:
        """A stream that lets other threads run inside each write."""

        def __init__(self):
            self.inside = threading.Lock()
            self.texts = []

        def write(self, text):
            assert self.inside.acquire(blocking=False)
            self.texts.append(text)
            self.inside.release()

    stream = Slow()
    with_four_threads = jax.pmap(lambda x: hcb.id_print(x, what="w", output_stream=stream), devices=jax.devices()[:4])
    for _ in range(20):
        with_four_threads(jnp.arange(4.0))
    hcb.barrier_wait()
    assert stream.texts[0::2] == ["what: w\n"] * 80
    assert sorted(stream.texts[1::2]) == sorted([f"{i}.\n" for i in range(4)] * 20)
