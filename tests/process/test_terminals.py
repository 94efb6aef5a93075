# SPDX-License-Identifier: Apache-2.0
"""Tests progress bars in whole processes: on a terminal, at exit, beside other bars."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import textwrap

import pytest

PRELUDE = """
import jax, jax.numpy as jnp
import callout
from callout.progress import PBar, progress, scan_tqdm
def add(c, x):
    return c + x, None
"""


@pytest.fixture
def on_terminal(tmp_path):
    """Runs a program whose standard streams are a terminal, and returns the text that the terminal received."""

    def run_program(program, **environment):
        script = tmp_path / "program.py"
        script.write_text(PRELUDE + textwrap.dedent(program))
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        process = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, **environment},
        )
        os.close(theirs)
        pieces = []
        try:
            while True:
                try:
                    piece = os.read(ours, 65536)
                except OSError:  # the last process has closed the terminal
                    break
                if not piece:
                    break
                pieces.append(piece)
            assert process.wait(timeout=60) == 0, b"".join(pieces).decode()
        finally:
            process.kill()
            process.wait()
            os.close(ours)
        return b"".join(pieces).decode()

    return run_program


def screen_of(text):
    """Returns the lines of a terminal that received `text`, by the control codes that tqdm uses."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[A|[\r\n]|[^\x1b\r\n]+", text):
        if part == "\x1b[A":
            row = max(0, row - 1)
        elif part == "\r":
            column = 0
        elif part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        else:
            old = lines[row].ljust(column)
            lines[row] = old[:column] + part + old[column + len(part) :]
            column += len(part)
    return [line.rstrip() for line in lines]


@pytest.mark.slow
def test_terminal_shows_one_line_in_place(on_terminal):
    text = on_terminal("""
        jax.lax.scan(progress(10_000, "fit", mininterval=0, loss=lambda out: out[0])(add), 0.0, jnp.ones(10_000))
        callout.barrier_wait()
        print("after")
    """)
    lines = [line for line in screen_of(text) if line]
    assert len(lines) == 2
    assert re.fullmatch(r"fit: 100%\|.*\| 10000/10000 \[.*it/s, loss=1e\+4\]", lines[0])
    assert lines[1] == "after"
    assert text.count("\r") > 2  # the bar was redrawn in its line


def test_terminal_shows_bars_below_each_other(on_terminal):
    text = on_terminal("""
        step = scan_tqdm(100, desc="lane")(lambda c, x: (c + 1, None))
        jax.vmap(lambda i: jax.lax.scan(step, PBar(i, 0), jnp.arange(100))[0].carry)(jnp.arange(3))
        callout.barrier_wait()
    """)
    lines = [line for line in screen_of(text) if line]
    assert len(lines) == 3
    assert all(re.match(r"lane: 100%\|.*\| 100/100 ", line) for line in lines)


def test_nested_bar_is_cleared_and_the_outer_one_left(on_terminal):
    text = on_terminal("""
        inner = progress(desc="inner", mininterval=0)(add)
        outer = progress(desc="outer", mininterval=0)(lambda c, x: (jax.lax.scan(inner, c, jnp.ones(50))[0], None))
        jax.lax.scan(outer, 0.0, jnp.ones(20))
        callout.barrier_wait()
    """)
    assert "inner:" in text
    lines = [line for line in screen_of(text) if line]
    assert len(lines) == 1
    assert re.match(r"outer: 100%\|.*\| 20/20 ", lines[0])


def test_exit_draws_queued_messages_and_ends_the_line(on_terminal):
    text = on_terminal("""
        jax.lax.scan(progress(10, "fit")(add), 0.0, jnp.ones(10))
    """)
    assert next(line for line in screen_of(text) if line).startswith("fit: 100%")
    assert text.rstrip(" ").endswith("\n")


def test_exit_after_a_failure_ends_the_line(run):
    done = run("""
        from callout.progress import progress
        def fail(x):
            if x == 5:
                raise ValueError("boom")
            return x
        def step(c, x):
            return c, callout.pure_callback(fail, F32, x)
        try:
            jax.block_until_ready(jax.jit(lambda xs: jax.lax.scan(progress(10, "fit")(step), 0, xs))(jnp.arange(10.0)))
        except Exception:
            print("failed")
    """)
    assert (done.code, done.out) == (0, "failed\n")
    assert re.search(r"fit: .*\| [0-5]/10 \[.*\]\n$", done.err)


def test_bars_of_tqdm_itself_continue_beside_ours(run):
    done = run("""
        from callout.progress import progress
        from tqdm import tqdm
        add = progress(100, "inner", leave=False)(lambda c, x: (c + x, None))
        step = jax.jit(lambda c: jax.lax.scan(add, c, jnp.ones(100))[0])
        c = 0.0
        for _ in tqdm(range(5), "outer"):
            c = step(c)
            callout.barrier_wait()
        print(float(c))
    """)
    assert (done.code, done.out) == (0, "500.0\n")
    assert "outer: 100%" in done.err
    assert "inner: " in done.err


def test_fork_leaves_the_parents_bars_alone(run):
    done = run("""
        from callout.progress import progress
        jax.lax.scan(progress(10, "fit")(lambda c, x: (c + x, None)), 0.0, jnp.ones(10))
        callout.barrier_wait()
        import warnings
        warnings.simplefilter("ignore")
        child = os.fork()
        if child == 0:
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(status)
    """)
    assert (done.code, done.out) == (0, "0\n")
    assert done.err.count("10/10") >= 1
