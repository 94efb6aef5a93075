# SPDX-License-Identifier: Apache-2.0
"""Tests programs that this JAX exports and the command runs, without Python."""

import json
import warnings

import callout
import callout.host_callback as hcb
import command
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pandas as pd
import platforms
import pytest
import trace_format
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # TensorBoard's dependencies warn when they are imported
    from tensorboard.backend.event_processing import event_file_loader

pytestmark = [
    pytest.mark.skipif(bool(command.missing()), reason=command.missing() or "there is one"),
    pytest.mark.cpu_only(platforms.HOST),
]

F32 = jax.ShapeDtypeStruct((), jnp.float32)
ECHO = """
#include <cstring>
#include "callout/call.h"

void Echo(const callout::Call& call) {
  const callout_call& raw = *call.raw();
  if (raw.num_results == 0) return;
  std::memcpy(raw.results[0].data, raw.args[0].data, raw.args[0].size_bytes);
}
CALLOUT_DEFINE_CALLBACK(echo, Echo);

void Fail(const callout::Call&) { throw std::runtime_error("the disk is gone"); }
CALLOUT_DEFINE_CALLBACK(fail, Fail);
"""


@pytest.fixture
def program(tmp_path):
    return lambda jitted, *shapes: command.Program(tmp_path, jitted, *shapes)


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """Builds a library with the functions `echo` and `fail`, and returns its path."""
    return command.build_library(tmp_path_factory.mktemp("command"), ECHO)


def test_results_are_those_of_jax(program):
    @jax.jit
    def f(x, n):
        return jnp.sin(x) * n, {"sum": x.sum(), "n": n + 1}

    x, n = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3), np.float32(2)
    done = program(f, x, n).run(x, n)
    assert done.code == 0, done.err
    for got, expected in zip(done.results, jax.tree.leaves(f(x, n)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_results_are_printed_as_numpy_prints_them(program):
    x = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    assert program(jax.jit(lambda x: x * 1), x).run(x).out == f"{x}\n"
    done = program(jax.jit(lambda x: (x.astype(int) > 0, x[0, 0])), x).run(x)
    assert done.out == f"result 0, bool[3,5]:\n{x.astype(int) > 0}\nresult 1, f32[]:\n{x[0, 0]!s}\n"


@pytest.mark.parametrize("value", [0.0, 2.0, -0.5, 0.1, 1e-5, 1.5e-5, 123456.789, 1e15, 1e16, 1.25e20, np.nan, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scalars_are_printed_as_numpy_prints_them(program, dtype, value):
    with jax.enable_x64(True):
        done = program(jax.jit(lambda x: x), jax.ShapeDtypeStruct((), dtype)).run(dtype(value))
    assert done.out == f"{np.array(value, dtype)!s}\n"


def test_taps_and_calls_in_a_loop(program, library, tmp_path):
    @jax.jit
    def f(x):
        def body(i, x):
            callout.tap("seen", {"i": i, "x": x}, ordered=True)
            return callout.pure_callback("echo", jax.ShapeDtypeStruct(x.shape, x.dtype), x) + 1

        return jax.lax.fori_loop(0, 1000, body, x)

    records = tmp_path / "seen.jsonl"
    done = program(f, jnp.zeros(2)).run(
        np.zeros(2, np.float32), bind=[f"echo={library}:echo", f"seen=jsonl:{records}"], flags=["--stats"]
    )
    assert done.code == 0, done.err
    np.testing.assert_array_equal(done.results[0], [1000, 1000])
    seen = [json.loads(line) for line in records.read_text().splitlines()]
    assert [record["i"] for record in seen] == list(range(1000))
    assert seen[-1]["x"] == [999, 999]
    rows = {line.split()[0]: line.split()[1] for line in done.out.splitlines() if line.startswith(("echo", "seen"))}
    assert rows == {"echo": "1000", "seen": "1000"}


def test_taps_in_files_for_pandas_and_tensorboard(program, tmp_path):
    @jax.jit
    def f(x):
        def body(i, x):
            callout.tap("table", {"x": x, "half": x / 2}, ordered=True)
            callout.tap("events", {"x": x, "half": x / 2}, ordered=True)
            return x + 1

        return jax.lax.fori_loop(0, 100, body, x)

    table, events = tmp_path / "table.csv", tmp_path / "events"
    exported = program(f, jnp.float32(0))
    done = exported.run(np.float32(0), bind=[f"table=csv:{table}", f"events=tensorboard:{events}"])
    assert done.code == 0, done.err
    read = pd.read_csv(table)
    assert list(read) == ["name", "step", "device", "time", "half", "x"]
    assert list(read.step) == list(read.x) == list(range(100))
    (path,) = events.iterdir()
    _, *summaries = event_file_loader.EventFileLoader(str(path)).Load()
    assert [event.step for event in summaries] == list(range(100))
    values = {value.tag: value.tensor.float_val[0] for value in summaries[-1].summary.value}
    assert values == {"events/half": 49.5, "events/x": 99}

    refused = exported.run(np.float32(0), bind=[f"table=csv:{tmp_path}", f"events=tensorboard:{events}"])
    assert refused.code == 2
    assert f"--bind 'table=csv:{tmp_path}': cannot open '{tmp_path}' for CSV: Is a directory" in refused.err


DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "bfloat16", "int4", "uint4"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz"),
]


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_is_passed_to_a_native_function(program, library, tmp_path, name):
    dtype = np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)
    values = np.array([[0, 1, 1], [1, 0, 1], [3, 2, 1]]).astype(dtype)
    with jax.enable_x64(True):

        @jax.jit
        def f(x):
            callout.tap("seen", x)
            return callout.pure_callback("echo", jax.ShapeDtypeStruct(x.shape, x.dtype), x)

        exported = program(f, jax.ShapeDtypeStruct(values.shape, dtype))
    done = exported.run(values, bind=[f"echo={library}:echo", f"seen=jsonl:{tmp_path / 'seen.jsonl'}"])
    assert done.code == 0, done.err
    np.testing.assert_array_equal(done.results[0].view(dtype), values)
    seen = json.loads((tmp_path / "seen.jsonl").read_text())["value"]
    if values.dtype.kind == "c":
        seen, values = np.array(seen)[..., 0], values.real
    np.testing.assert_array_equal(np.array(seen).astype(np.float64), values.astype(np.float64))


def test_prints_in_a_scan_match_jax(program, capfd):
    @jax.jit
    def f(x):
        def body(x, i):
            x = hcb.id_print(x * 2, step="doubled")
            hcb.id_print({"i": i, "x": (x, [x.sum()])}, where="dict")
            return x, x

        return jax.lax.scan(body, x, jnp.arange(3))

    x = np.array([0.5, 1.25], np.float32)
    f(x)
    hcb.barrier_wait()
    expected = capfd.readouterr().out
    assert expected.count("step: doubled") == 3
    done = program(f, x).run(x)
    assert done.code == 0, done.err
    assert done.out.startswith(expected)
    np.testing.assert_array_equal(done.results[0], 8 * x)


@pytest.mark.parametrize("spec", [P("x"), P(None, "x"), P()])
def test_a_shard_map_over_two_devices(program, library, tmp_path, spec):
    mesh = jax.make_mesh((2,), ("x",), devices=jax.devices()[:2])

    def on_shard(x):
        callout.tap("seen", x)
        return callout.pure_callback("echo", jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    f = jax.jit(jax.shard_map(on_shard, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    sharded = jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(mesh, spec))
    done = program(f, sharded).run(x, bind=[f"echo={library}:echo", f"seen=jsonl:{tmp_path / 'seen.jsonl'}"])
    assert done.code == 0, done.err
    np.testing.assert_array_equal(done.results[0], x)
    records = [json.loads(line) for line in (tmp_path / "seen.jsonl").read_text().splitlines()]
    assert sorted(record["device"] for record in records) == [0, 1]
    parts = {record["device"]: np.array(record["value"]) for record in records}
    expected = [x, x] if spec == P() else np.split(x, 2, axis=0 if spec == P("x") else 1)
    np.testing.assert_array_equal(parts[0], expected[0])
    np.testing.assert_array_equal(parts[1], expected[1])


def test_info_lists_the_names_a_program_needs(program):
    @jax.jit
    def f(x, n):
        callout.tap("seen", x[0])
        return callout.pure_callback("scale", jax.ShapeDtypeStruct(x.shape, x.dtype), x, n)

    done = program(f, jnp.zeros((2, 3)), jnp.int32(1)).info()
    assert done.code == 0, done.err
    for line in (
        "argument 0: f32[2,3]",
        "argument 1: s32[]",
        "result 0: f32[2,3]",
        "call 'scale' (f32[2,3], s32[]) -> (f32[2,3])",
        "tap 'seen' (f32[3])",
        "--bind 'scale=...' --bind 'seen=...'",
    ):
        assert line in done.out


def test_info_knows_prints(program):
    done = program(jax.jit(lambda x: hcb.id_print(x, what="x")), jnp.zeros(3)).info()
    assert done.code == 0, done.err
    assert "  id_print (f32[3])\n" in done.out
    assert "--bind" not in done.out


def test_a_print_in_a_format(program):
    @jax.jit
    def f(x):
        callout.tap("loss=0", {"loss": x, "i": 3}, name="train")
        return x + 1

    done = program(f, F32).run(np.float32(0.25), bind=["loss=0=print:{name} {i:03d} loss={loss:.1%}"])
    assert (done.code, done.out) == (0, "train 003 loss=25.0%\n1.25\n")
    done = program(f, F32).run(np.float32(0.25), bind=["loss=0=print:{loss:%%}"])
    assert done.code == 2
    assert "at character 6: Invalid format specifier '%%'" in done.err


def test_an_unbound_name_is_refused_before_anything_runs(program):
    @jax.jit
    def f(x):
        callout.tap("seen", x)
        return callout.pure_callback("scale", F32, x)

    done = program(f, F32).run(np.float32(1), bind=["seen=print"])
    assert (done.code, done.out) == (2, "")
    assert "no callback is bound to the name 'scale'; the program needs: 'scale' (not bound) 'seen';" in done.err


def test_a_failing_callback_is_the_command_s_failure(program, library):
    @jax.jit
    def f(x):
        callout.tap("before", x, ordered=True)
        return callout.pure_callback("fail", F32, x)

    done = program(f, F32).run(np.float32(1), bind=[f"fail={library}:fail", "before=print"], flags=["--repeat", "3"])
    assert done.code == 1
    assert "callback 'fail' failed on device 0: the disk is gone" in done.err
    assert done.results == []
    done = program(jax.jit(lambda x: (callout.tap("t", x), x)[1]), F32).run(np.float32(1), bind=[f"t={library}:fail"])
    assert done.code == 1
    assert "1 taps failed; the last one:" in done.err


def test_a_timeline_has_every_call(program, library, tmp_path):
    @jax.jit
    def f(x):
        callout.tap("seen", x)
        return callout.pure_callback("echo", F32, x)

    done = program(f, F32).run(
        np.float32(1),
        bind=[f"echo={library}:echo", "seen=null"],
        flags=["--repeat", "5", "--trace", tmp_path / "trace.json"],
    )
    assert done.code == 0, done.err
    assert "ran 5 times: median " in done.out
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    trace_format.check(events)
    names = [(event["name"], event["cat"]) for event in events if event["ph"] == "X"]
    for span in [("echo", "call"), ("seen", "tap"), ("seen", "delivery"), ("run", "phase")]:
        assert names.count(span) == 5
    rows = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert [rows[number] for number in sorted(rows)] == ["phases", "device 0", "delivery thread callout-native0"]
    assert sum(event["ph"] == "s" for event in events) == 5


def test_jaxs_default_version_is_read_or_explained(tmp_path):
    exported = callout.export(jax.jit(lambda x: (callout.tap("t", x), x + 1)[1]))(F32)
    path = tmp_path / "program.jax"
    path.write_bytes(exported.serialize())
    arguments = ("--plugin", command.c_api.plugin_path(), "--arg", "f32[]=1", "--bind", "t=null")
    done = command.run_command("run", path, *arguments)
    if done.code != 0:
        assert "the program is StableHLO 1." in done.err
        assert 'callout.export(..., stablehlo_version="1.13.3")' in done.err
    else:
        assert done.out == "2.0\n"


def test_a_symbolic_program_runs_after_export_for_known_shapes(tmp_path):
    (shape,) = jax.export.symbolic_args_specs([jnp.zeros(3)], ["n"])
    symbolic = jax.export.export(jax.jit(lambda x: (x / x.shape[0]).sum()))(shape)
    x = np.arange(5, dtype=np.float32)
    program = command.Program(tmp_path, jax.jit(symbolic.call), x)
    done = program.run(x)
    assert done.code == 0, done.err
    np.testing.assert_allclose(done.results[0], x.mean(), rtol=1e-6)


def test_exports_that_cannot_run_are_rejected_with_a_reason(tmp_path):
    (shape,) = jax.export.symbolic_args_specs([jnp.zeros(3)], ["n"])
    several = jax.export.export(jax.jit(lambda x: x + 1), platforms=("cpu", "cuda"))(F32)
    symbolic = jax.export.export(jax.jit(lambda x: x + x.shape[0]))(shape)
    other = jax.export.export(jax.jit(lambda x: x + 1), platforms=("cuda",))(F32)
    path = tmp_path / "program.jax"
    for exported, reason in (
        (several, "was exported for several platforms; export it with platforms=['cpu']"),
        (symbolic, "has symbolic dimensions; export it for the shapes that it is run with"),
        (other, "was exported for 'cuda', and the plugin is for 'cpu'"),
    ):
        path.write_bytes(exported.serialize())
        done = command.run_command("run", path, "--plugin", command.c_api.plugin_path())
        assert done.code == 2
        assert reason in done.err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["frobnicate"], "callout: there is no command 'frobnicate'; there are run, compile, info and cat"),
        (["rum", "x"], "there is no command 'rum'"),
        ([], "Usage: callout"),
        (["run"], "PROGRAM is required"),
        (["run", "/no/such/program"], "cannot read the program '/no/such/program': No such file or directory"),
        (["run", "/dev/null"], "0 bytes are no program: expected MLIR text"),
        (["info", "--plugin", "/no/such/plugin.so"], "cannot load the PJRT plugin '/no/such/plugin.so'"),
        (["run", "x", "--repeat", "0"], "--repeat: Value 0 not in range"),
    ],
)
def test_wrong_arguments_are_rejected(arguments, reason):
    done = command.run_command(*arguments)
    assert (done.code, done.out) == (2, "")
    assert reason in done.err


def test_help_and_version():
    assert "run" in command.run_command("--help").out
    assert command.run_command("--version").out == f"callout {callout.__version__}\n"
