# SPDX-License-Identifier: Apache-2.0
"""Tests compiled programs with named callbacks that another process loads: `jax.experimental.serialize_executable`."""

import functools
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import callout
import callout.host_callback as hcb
import ffi_calls
import jax
import jax.numpy as jnp
import limited
import pytest
from callout.buffer_callback import buffer_callback
from callout.progress import progress
from jax.experimental import serialize_executable

LIKE = jax.ShapeDtypeStruct((3,), jnp.float32)
TIME_LIMIT_S = 100

FILL = """
#include <stdint.h>
int32_t fill(void** ptrs, const int64_t* dims) {
  for (int64_t i = 0; i < dims[0]; ++i) ((float*)ptrs[1])[i] = ((float*)ptrs[0])[i] + 1;
  return 0;
}
"""
SCALE = """
#include "callout/kernel.h"
void scale(callout::In<float, 1> x, callout::Out<float, 1> y) {
  for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] + 1;
}
CALLOUT_KERNEL(scale);
"""


@functools.cache
def scale():
    """A function in an embedded library: the other process has no other library."""
    return callout.cpp.load_inline(SCALE, name="serialised", embed=True).scale


PROGRAMS = {
    "tap": lambda v: callout.tap("hear", v) + 1,
    "ordered tap": lambda v: callout.tap("hear", v, ordered=True) + 1,
    "debug": lambda v: callout.debug_callback("hear", v) or v + 1,
    "pure": lambda v: callout.pure_callback("ask", LIKE, v),
    "io": lambda v: callout.io_callback("ask", LIKE, v),
    "ordered io": lambda v: callout.io_callback("ask", LIKE, v, ordered=True),
    "watch": lambda v: callout.watch(jnp.stack([v, v / 0]), "serialised")[0] + 1,
    "loop": lambda v: jax.lax.fori_loop(0, 2, lambda _, c: callout.tap("hear", c, ordered=True) + 0.5, v),
    "buffer": lambda v: buffer_callback("fill", LIKE)(v),
    "acting buffer": lambda v: buffer_callback("fill", LIKE, has_side_effect=True)(v),
    "ffi": lambda v: ffi_calls.affine(v, 1.0, 1),
    "cpp": lambda v: scale()(v),
    "id_print": lambda v: hcb.id_print(v, what="serialised") + 1,
    "error_if": lambda v: callout.error_if(v, v < 0, "negative {value}") + 1,
    "check": lambda v: callout.check(v.sum() > 0, "{v}", v=v) or v + 1,
    "warn_if": lambda v: callout.warn_if(v, v > 1, "large {value}") + 1,
    "locate_nans": callout.locate_nans(lambda v: jnp.where(v > 0, v / v, 1.0) * v + 1),
    "threaded": callout.threaded(lambda v: callout.io_callback("ask", LIKE, callout.tap("hear", v))),
}

HEARD = {"tap", "ordered tap", "debug", "pure", "io", "ordered io"}

LOAD = """
import pickle, sys
import callout, jax
import jax.numpy as jnp
from jax.experimental import serialize_executable

heard = []
callout.register("hear", lambda v: heard.append(v.tolist()))
callout.register("ask", lambda v: heard.append(v.tolist()) or v + 1)
callout.register("fill", sys.argv[2] + ":fill")
sys.path.append(sys.argv[3])
import ffi_calls

ffi_calls.register(sys.argv[4])
failing = pickle.loads(bytes.fromhex(sys.stdin.read()))
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
run = serialize_executable.deserialize_and_load(*failing, execution_devices=jax.devices()[:1])
for _ in range(2):
    try:
        jax.block_until_ready(run(jnp.arange(3.0)))
    except callout.CheckError as error:
        print("failed", "negative 2.00 (index [2], device 0; " in str(error))
print("watched", callout.stats()["watches"]["serialised"]["nan"] > 0)
"""


@pytest.fixture(scope="module")
def filling(tmp_path_factory):
    """Builds the library of `fill`."""
    folder = tmp_path_factory.mktemp("fill")
    (folder / "fill.c").write_text(FILL)
    library = folder / "libfill.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", str(folder / "fill.c"), "-o", str(library)], check=True)
    return library


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """Builds the library of foreign functions, which this process registers."""
    library = ffi_calls.build(tmp_path_factory.mktemp("ffi"))
    ffi_calls.register(library)
    return library


@pytest.fixture
def names(filling):
    callout.register("hear", lambda _: None)
    callout.register("ask", lambda v: v + 1)
    callout.register("fill", f"{filling}:fill")
    yield
    for name in ("hear", "ask", "fill"):
        callout.unregister(name)


def serialized(function):
    return serialize_executable.serialize(jax.jit(function).lower(LIKE).compile())


@pytest.mark.slow
@pytest.mark.usefixtures("names")
def test_another_process_runs_programs_with_named_callbacks(tmp_path, filling, foreign):
    file = tmp_path / "programs"
    file.write_bytes(pickle.dumps({name: serialized(function) for name, function in PROGRAMS.items()}))
    failing = serialized(lambda v: callout.error_if(v, v > 1, "negative {value:.2f}"))
    support = str(Path(ffi_calls.__file__).parent)
    ran = limited.run(
        [sys.executable, "-c", textwrap.dedent(LOAD), str(file), str(filling), support, str(foreign)],
        input=pickle.dumps(failing).hex(),
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    x, y = [0.0, 1.0, 2.0], [1.0, 2.0, 3.0]
    once = {name: [x] if name in HEARD else [] for name in PROGRAMS} | {
        "loop": [x, [0.5, 1.5, 2.5]],
        "threaded": [x, x],
    }
    expected = [f"{name} {y} {once[name] * 2}" for name in PROGRAMS]
    lines = ran.stdout.splitlines()
    printed = ["what: serialised", "[0. 1. 2.]"]
    assert [line for line in lines if line not in printed] == [*expected, *["failed True"] * 2, "watched True"]
    assert [line for line in lines if line in printed] == printed * 2
    assert ran.stderr.count("check failed: large 2.0") == 2


@pytest.mark.parametrize("kind", ["pure", "tap"])
def test_a_program_with_a_local_function_is_marked(kind):
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


def test_a_program_with_a_progress_bar_advises_export():
    bar = progress(2, tqdm_type="std", desc="serialised", disable=True)
    with pytest.raises(pickle.PicklingError, match=r"'callout\.progress\.serialised' is drawn .* by callout\.export"):
        serialized(lambda v: jax.lax.fori_loop(0, 2, bar(lambda _, c: c + 0.5), v))
