# SPDX-License-Identifier: Apache-2.0
"""Tests callbacks that use JAX while their own program and others are in flight: which end, and which are reported."""

import contextlib
import os
import runpy
import subprocess
import sys
import threading
from pathlib import Path

import limited
import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "python" / "hangs.py"
SCENARIOS = runpy.run_path(str(SCRIPT))
PROMISED = SCENARIOS["promised"]()
NOT_PROMISED = [name for name in SCENARIOS["PROMISED_FROM"] if name not in PROMISED]


def scenario(*arguments):
    """Runs a scenario; a hang is a failure."""
    done = limited.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=90, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@contextlib.contextmanager
def running(name):
    """Starts a process that hangs, with its errors to read, and kills it when the block ends or after a minute."""
    with subprocess.Popen(
        [sys.executable, str(SCRIPT), name, "--rounds", "1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "CALLOUT_HANG_REPORT_S": "0.5"},
    ) as process:
        limit = threading.Timer(60, process.kill)
        limit.start()
        try:
            yield process
        finally:
            limit.cancel()
            process.kill()


@pytest.mark.parametrize("name", PROMISED)
def test_promised_scenarios_end(name):
    assert f"{name}: 5 rounds ended" in scenario(name, "--rounds", "5")


@pytest.mark.parametrize("name", NOT_PROMISED)
def test_hangs_are_reported(name):
    lines = []
    with running(name) as process:
        for line in process.stderr:
            lines.append(line)
            if " in use_jax" in line:  # the callback's own frame, in the stacks at the end
                break
        assert process.poll() is None, "it ended"
    text = "".join(lines)
    assert "hang report: callback '__main__.Scenario.use_" in text
    assert "has made no progress for" in text
    assert "(device 0, run " in text
    assert "in a callback that its program waits for" in text
    assert "use NumPy in it, or call block_until_ready() on the inputs" in text


@pytest.mark.parametrize("remedy", SCENARIOS["REMEDIES"])
def test_each_remedy_cures_the_hang(remedy):
    assert "not_ready: 3 rounds ended" in scenario("not_ready", "--remedy", remedy, "--rounds", "3")


def test_an_error_on_a_thread_of_xla_is_the_callbacks(run):
    done = run("""
        release = threading.Event()
        hold = callout.options(lambda x: release.wait() and x, numpy_only=True)
        def fail(x):
            raise KeyError(threading.current_thread() is threading.main_thread())
        held = jax.jit(lambda m: callout.pure_callback(hold, F32, (m @ m).mean()))(jnp.full((300, 300), 0.05))
        out = jax.jit(lambda x: callout.pure_callback(fail, F32, x))(held)
        release.set()
        try:
            with callout.reraise():
                out.block_until_ready()
        except KeyError as error:
            print(error)
    """)
    assert (done.code, done.out) == (0, "False\n"), done.err


def test_nothing_watches_before_there_is_a_callback(run):
    done = run("""
        from pathlib import Path
        def watchers():
            return [task.read_text() for task in Path("/proc/self/task").glob("*/comm")].count("callout-watch\\n")
        assert watchers() == 0
        callout.config.hang_report_s = 20
        assert watchers() == 0
        f = jax.jit(lambda x: callout.pure_callback(lambda v: v, F32, x))
        f(1.0).block_until_ready()
        while not watchers():
            pass  # it gives itself its name
        callout.config.hang_report_s = 10
        assert watchers() == 1
    """)
    assert done.code == 0, done.err
