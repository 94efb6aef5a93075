# SPDX-License-Identifier: Apache-2.0
"""Tests programs that one process exports and another loads."""

import json
import subprocess
from pathlib import Path

import callout
import pytest

SOURCE = Path(__file__).parents[1] / "python" / "support" / "native_callbacks.cc"

# Both processes bind names to functions that record their arguments.
BIND = """
got = []
def note(name, give=lambda v: v + 1):
    return lambda v: (got.append([name, np.asarray(v).tolist()]), give(v))[1]
def bind_python():
    for name in ("tap.ordered", "tap", "call", "io"):
        callout.register(name, note(name))
    callout.register("debug", note("debug", lambda v: None))
def report(out):
    callout.barrier_wait()
    import json
    print(json.dumps({"out": np.asarray(out).tolist(), "got": got}), flush=True)
"""

EXPORT = """
V = jax.ShapeDtypeStruct((3,), jnp.float32)
@jax.jit
def f(x):
    def body(i, c):
        c = callout.tap("tap.ordered", c, ordered=True)
        c = callout.io_callback("io", V, c, ordered=True)
        return callout.pure_callback("scale", V, callout.pure_callback("call", V, c))
    x = jax.lax.fori_loop(0, 3, body, x)
    callout.debug_callback("debug", x)
    return callout.tap("tap", x)
open(sys.argv[1], "wb").write(callout.export(f)(V).serialize())
"""

LOAD = """
program = jax.export.deserialize(open(sys.argv[1], "rb").read())
"""

RUN = """
report(program.call(jnp.arange(3.0)))
"""


@pytest.fixture
def library(tmp_path):
    path = tmp_path / "libnative_callbacks.so"
    flags = ["-std=c++20", "-O1", "-shared", "-fPIC", f"-I{callout.include_dir()}"]
    subprocess.run(["c++", *flags, str(SOURCE), "-o", str(path)], check=True)
    return path


@pytest.fixture
def process(run, tmp_path):
    """Runs a program that finds the exported file as its first argument."""

    def run_with_file(*parts):
        done = run(f"sys.argv[1:] = [{str(tmp_path / 'program.bin')!r}]\n" + "\n".join(parts))
        assert (done.code, done.err) == (0, ""), done.err
        return done.out

    return run_with_file


def by_name(records):
    return {name: [value for other, value in records if other == name] for name, _ in records}


@pytest.mark.slow
def test_both_processes_see_the_same_results(process, library):
    bind = f"{BIND}\nbind_python()\ncallout.register('scale', '{library}:scale')\n"
    here = json.loads(process(bind, EXPORT, "report(f(jnp.arange(3.0)))"))
    there = json.loads(process(bind, LOAD, RUN))
    assert there["out"] == here["out"] == [28, 36, 44]
    assert by_name(there["got"]) == by_name(here["got"])
    ordered = [name for name, _ in there["got"] if name in ("tap.ordered", "io")]
    assert ordered == ["tap.ordered", "io"] * 3
    assert len(there["got"]) == 3 + 3 + 3 + 1 + 1


@pytest.mark.slow
def test_names_may_be_bound_after_export(process, library):
    process(EXPORT)
    out = process(BIND, f"bind_python()\ncallout.register('scale', '{library}:scale')", LOAD, RUN)
    assert json.loads(out)["out"] == [28, 36, 44]


@pytest.mark.slow
def test_an_unbound_name_is_listed_with_the_others(process):
    process(EXPORT)
    out = process(
        LOAD,
        """
        callout.register("scale", lambda v: v)
        print(*callout.exported_names(program))
        for _ in range(2):
            try:
                with callout.reraise():
                    program.call(jnp.arange(3.0))
            except callout.UnboundNameError as error:
                print(str(error).partition("; ")[2])
        """.replace("\n        ", "\n"),
    )
    needed = "the program needs: 'call' (not bound) 'debug' (not bound) 'io' (not bound) 'scale' 'tap' (not bound) "
    error = needed + "'tap.ordered' (not bound); registered names: 'scale'\n"
    assert out == "call debug io scale tap tap.ordered\n" + error * 2


@pytest.mark.slow
def test_a_process_without_callout_gets_an_error_that_names_it(process, tmp_path):
    process(EXPORT)
    out = process(
        """
import subprocess
code = "import sys, jax; jax.export.deserialize(open(sys.argv[1], 'rb').read())"
done = subprocess.run([sys.executable, "-c", code, sys.argv[1]], capture_output=True, text=True)
print(done.stderr.splitlines()[-1])
"""
    )
    assert "NotImplementedError: cannot deserialize effect type <class 'callout." in out


def test_a_loaded_program_is_the_first_one_that_calls_python(run):
    """Tests JAX 0.12, which runs a program without host callbacks in a context that ends with the dispatch."""
    done = run(
        """
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
x = jax.device_put(jnp.arange(8.0), NamedSharding(Mesh(np.array(jax.devices()), ("d",)), P("d")))
callout.register("call", lambda v: v + 1)
same = jax.ShapeDtypeStruct(x.shape, x.dtype)
exported = callout.export(jax.jit(lambda x: callout.io_callback("call", same, x, ordered=True)))(x)
f = jax.jit(jax.export.deserialize(exported.serialize()).call)
for i in range(500):
    y = f(x).block_until_ready()
print(np.asarray(y).tolist())
""",
        XLA_FLAGS="--xla_force_host_platform_device_count=4",
    )
    assert (done.code, done.err) == (0, ""), done.err
    assert done.out == "[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]\n"


PRINTING = """
import callout.host_callback as hcb
@jax.jit
def f(x):
    def body(c, v):
        return c + hcb.id_print(v, step=1), hcb.id_print((c, x), what="ä", tap_with_device=True)[0]
    hcb.id_print(jnp.arange(2000.0), what="above the threshold")
    c, sums = jax.lax.scan(body, jnp.bfloat16(0), x.astype(jnp.bfloat16))
    return jax.vmap(lambda v: hcb.id_print(v))(sums), hcb.id_print(c)
"""


@pytest.mark.slow
def test_prints_are_unchanged_after_import(process):
    here = process(
        PRINTING,
        "open(sys.argv[1], 'wb').write(callout.export(f)(jnp.arange(3.0)).serialize())",
        "f(jnp.arange(3.0)); callout.barrier_wait()",
    )
    there = process(
        LOAD,
        "import contextlib, io",
        "with contextlib.redirect_stdout(io.StringIO()) as text:",
        "    program.call(jnp.arange(3.0)); callout.barrier_wait()",
        "assert 'callout.host_callback' not in sys.modules",
        "sys.stdout.write(text.getvalue())",
    )
    assert there == here
    assert "transforms: [('batch', {'batch_dims': (0,)})]\n" in here


@pytest.mark.slow
def test_a_late_print_at_exit_is_delivered(process):
    process(PRINTING, "open(sys.argv[1], 'wb').write(callout.export(f)(jnp.arange(3.0)).serialize())")
    assert process(LOAD, "program.call(jnp.arange(3.0))").count("\n") == 17
