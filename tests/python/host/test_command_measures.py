# SPDX-License-Identifier: Apache-2.0
"""Tests `callout run` with expected results, as a benchmark, and in a pipe."""

import io
import json

import c_api
import callout
import command
import jax
import limited
import numpy as np
import platforms
import pytest

pytestmark = [
    pytest.mark.skipif(bool(command.missing()), reason=command.missing() or "there is one"),
    pytest.mark.cpu_only(platforms.HOST),
]

X, N = np.arange(6, dtype=np.float32).reshape(2, 3), np.int32(3)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Exports a step of a state; the callback "seen" gets a tap in each run."""

    @jax.jit
    def step(x, n):
        callout.tap("seen", n)
        return x * 2, n + 1

    return command.Program(tmp_path_factory.mktemp("measures"), step, X, N)


def _run(program, *flags, stdin=None):
    flags = [*flags, "--bind", "seen=print", "--plugin", c_api.plugin_path()]
    line = [command.COMMAND, "run", program.path, *flags]
    return limited.run([*map(str, line)], input=stdin, capture_output=True, timeout=100, check=False)


ARGUMENTS = ("--arg", "f32[2,3]=0,1,2,3,4,5", "--arg", "s32[]=3")


def test_results_are_compared_in_their_order(program, tmp_path):
    good, bad, other = tmp_path / "good.npy", tmp_path / "bad.npy", tmp_path / "other.npz"
    np.save(good, X * 2)
    np.save(bad, X * 2 + np.array([[0, 0, 0], [0, 0.5, 0]], np.float32))
    np.savez(other, wrong=N, right=N + 1, float=np.float32(4))
    done = _run(program, *ARGUMENTS, "--expect", good, "--expect", f"{other}:right")
    assert (done.returncode, done.stderr) == (0, b"")

    done = _run(program, *ARGUMENTS, "--expect", bad, "--expect", f"{other}:wrong", "--json")
    assert done.returncode == 1
    errors = done.stderr.decode()
    assert f"result 0, f32[2,3], differs from '{bad}': 1 of 6 elements differ; the first at [1,1]: " in errors
    assert "expected 8.5, got 8; max error 0.5, relative 0.0588 (rtol 1e-05, atol 1e-08)" in errors
    assert "result 1, s32[], differs from" in errors
    comparison = json.loads(done.stdout)["comparison"]
    assert comparison["equal"] is False
    assert [each["differing"] for each in comparison["results"]] == [1, 1]
    assert comparison["results"][0]["index"] == [1, 1]

    for tolerance in (("--rtol", "0.1"), ("--atol", "0.5")):
        done = _run(program, *ARGUMENTS, "--expect", bad, "--expect", "s32[]=4", *tolerance)
        assert done.returncode == 0, done.stderr
    done = _run(program, *ARGUMENTS, "--expect", good, "--expect", f"{other}:float")
    assert done.returncode == 1
    assert b"result 1 differs from" in done.stderr
    assert b"expected f32[], got s32[]" in done.stderr
    done = _run(program, *ARGUMENTS, "--expect", good)
    assert done.returncode == 1
    assert b"the program returns 2 results, expected 1" in done.stderr
    for missing, reason in (("/no/such.npy", "/no/such.npy"), (f"{other}:none", "it has: 'wrong' 'right' 'float'")):
        done = _run(program, *ARGUMENTS, "--expect", missing)
        assert (done.returncode, done.stdout) == (2, b"")
        assert reason in done.stderr.decode()


def test_runs_are_counted_timed_and_at_once(program, tmp_path):
    flags = ("--repeat", "20", "--warm-up", "5", "--concurrency", "4", "--json", "--expect", "f32[2,3]=0,2,4,6,8,10")
    done = _run(program, *ARGUMENTS, *flags, "--expect", "s32[]=4")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)  # the report is separate from the output of "seen"
    assert done.stderr.count(b"seen: 3\n") == 25
    assert len(told["nanoseconds"]) == 20
    assert told["callbacks"]["seen"]["calls"] == 25
    assert told["comparison"]["equal"] is True
    percentiles = told["percentiles"]
    assert min(told["nanoseconds"]) <= percentiles["p50"] <= percentiles["p90"] <= percentiles["p99"]
    assert percentiles["p99"] == max(told["nanoseconds"])
    assert told["runs_per_second"] > 0

    metrics = tmp_path / "metrics.prom"
    done = _run(program, *ARGUMENTS, "--min-duration", "0.05", "--json", "--metrics", metrics)
    told = json.loads(done.stdout)
    assert sum(told["nanoseconds"]) <= 20 * 0.05e9
    assert len(told["nanoseconds"]) > 1
    text = metrics.read_text()
    assert f'callout_callback_calls_total{{callback="seen"}} {len(told["nanoseconds"])}\n' in text
    # The families are those of Python's metrics.
    jax.jit(lambda x: (callout.tap(lambda _: None, x), x)[1])(X)
    callout.barrier_wait()
    heads = {line for line in callout.stats().prometheus().splitlines() if line.startswith("#")}
    assert {line for line in text.splitlines() if line.startswith("#")} <= heads
    done = _run(program, *ARGUMENTS, "--concurrency", "3")
    assert b"ran 3 times: median (p50) " in done.stdout


def test_a_state_loop_feeds_itself(program, tmp_path):
    state = tmp_path / "state.npz"
    np.savez(state, arr_1=N, unused=np.zeros(2), arr_0=X)
    for _ in range(3):
        done = _run(program, "--arg", f"{state}:arr_0", "--arg", f"{state}:arr_1", "--output", state)
        assert done.returncode == 0, done.stderr
    with np.load(state) as arrays:
        np.testing.assert_array_equal(arrays["arr_0"], X * 8)
        assert arrays["arr_1"] == 6


def test_arrays_go_through_pipes(program):
    given = io.BytesIO()
    np.save(given, X)
    np.save(given, N)
    first = _run(program, "--arg", "-", "--arg", "-", "--output", "-", "--stats", stdin=given.getvalue())
    assert first.returncode == 0, first.stderr
    assert b"seen: 3\n" in first.stderr
    second = _run(program, "--arg", "-:arr_0", "--arg", "-:arr_1", "--output", "-", stdin=first.stdout)
    with np.load(io.BytesIO(second.stdout)) as arrays:
        np.testing.assert_array_equal(arrays["arr_0"], X * 4)
    assert b"arr_0" in first.stdout
    third = _run(program, "--arg", "-", stdin=second.stdout)
    assert b"result 1, s32[]:\n6\n" in third.stdout
    for flags, stdin, reason in (
        (["--arg", "-", "--arg", "-"], given.getvalue()[:152], "standard input has no array, or no more of them"),
        (["--arg", "-:x"], given.getvalue(), "standard input is no .npz file"),
        ([*ARGUMENTS, "--json", "--output", "-"], b"", "are both for standard output"),
    ):
        done = _run(program, *flags, stdin=stdin)
        assert (done.returncode, done.stdout) == (2, b"")
        assert reason in done.stderr.decode()


def test_plugins_get_their_options(program):
    done = command.run_command("info", "--plugin", c_api.plugin_path(), "--plugin-option", "cpu_device_count=3")
    assert done.out.count("ordinal") == 3
    done = command.run_command("info", "--plugin", c_api.plugin_path(), "--plugin-option", "cpu_device_count=many")
    assert done.code == 2
    assert "the plugin refuses --plugin-option 'cpu_device_count=many': " in done.err
    done = command.run_command("info", "--plugin", c_api.plugin_path(), "--plugin-option", "x")
    assert "--plugin-option: expected NAME=VALUE, got 'x'" in done.err
    done = _run(program, *ARGUMENTS, "--plugin-option", "cpu_device_count=2")
    assert done.returncode == 0, done.stderr
