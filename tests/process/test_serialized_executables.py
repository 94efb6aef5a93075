# SPDX-License-Identifier: Apache-2.0
"""Compiled programs with named callbacks that another process loads: `jax.experimental.serialize_executable`."""

import pickle
import subprocess
import sys
import textwrap

import callout
import jax
import jax.numpy as jnp
import pytest
from jax.experimental import serialize_executable

LIKE = jax.ShapeDtypeStruct((3,), jnp.float32)
TIME_LIMIT_S = 100

PROGRAMS = {
    "tap": lambda v: callout.tap("hear", v) + 1,
    "ordered tap": lambda v: callout.tap("hear", v, ordered=True) + 1,
    "debug": lambda v: callout.debug_callback("hear", v) or v + 1,
    "pure": lambda v: callout.pure_callback("ask", LIKE, v),
    "io": lambda v: callout.io_callback("ask", LIKE, v),
    "ordered io": lambda v: callout.io_callback("ask", LIKE, v, ordered=True),
    "watch": lambda v: callout.watch(jnp.stack([v, v / 0]), "serialised")[0] + 1,
    "loop": lambda v: jax.lax.fori_loop(0, 2, lambda _, c: callout.tap("hear", c, ordered=True) + 0.5, v),
    "threaded": callout.threaded(lambda v: callout.io_callback("ask", LIKE, callout.tap("hear", v))),
}

LOAD = """
import pickle, sys
import callout, jax
import jax.numpy as jnp
from jax.experimental import serialize_executable

heard = []
callout.register("hear", lambda v: heard.append(v.tolist()))
callout.register("ask", lambda v: heard.append(v.tolist()) or v + 1)
with open(sys.argv[1], "rb") as file:
    programs = pickle.load(file)
for name, parts in programs.items():
    run = serialize_executable.deserialize_and_load(*parts, execution_devices=jax.devices()[:1])
    for _ in range(2):
        result = run(jnp.arange(3.0)).tolist()
        jax.effects_barrier()
        callout.barrier_wait(60)
    print(name, result, heard)
    heard.clear()
print("watched", callout.stats()["watches"]["serialised"]["nan"] > 0)
"""


@pytest.fixture
def names():
    callout.register("hear", lambda _: None)
    callout.register("ask", lambda v: v + 1)
    yield
    callout.unregister("hear")
    callout.unregister("ask")


def serialized(function):
    return serialize_executable.serialize(jax.jit(function).lower(LIKE).compile())


@pytest.mark.usefixtures("names")
def test_another_process_runs_programs_with_named_callbacks(tmp_path):
    file = tmp_path / "programs"
    file.write_bytes(pickle.dumps({name: serialized(function) for name, function in PROGRAMS.items()}))
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LOAD), str(file)],
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    x, y = [0.0, 1.0, 2.0], [1.0, 2.0, 3.0]
    once = {name: [x] for name in PROGRAMS} | {"watch": [], "loop": [x, [0.5, 1.5, 2.5]], "threaded": [x, x]}
    expected = [f"{name} {y} {once[name] * 2}" for name in PROGRAMS]
    assert ran.stdout.splitlines() == [*expected, "watched True"]


@pytest.mark.parametrize("kind", ["pure", "tap"])
def test_a_program_with_a_function_of_this_process_says_so(kind):
    def function(v):
        return v

    program = {
        "pure": lambda v: callout.pure_callback(function, LIKE, v),
        "tap": lambda v: callout.tap(function, v),
    }[kind]
    with pytest.raises(
        pickle.PicklingError, match=r"function' belongs to this process, .* Bind it by callout\.register"
    ):
        serialized(program)
