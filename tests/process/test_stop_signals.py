# SPDX-License-Identifier: Apache-2.0
"""Tests that signals stop a program, whose state the process then has; without a flag they end the process."""

import signal
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.native_only("programs read flags by a handler of XLA FFI")

PROGRAM = textwrap.dedent(
    """
    import os
    import signal
    import jax
    from jax import lax
    import callout

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored

    def say(i):
        print("begun", flush=True)

    @jax.jit
    def train(stop):
        def step(i):
            return callout.tap(say, i, step=i, every=1 << 30) + 1
        return lax.while_loop(lambda i: ~stop.is_set(), step, 0)

    for _ in range(2):
        with callout.StopFlag(signals=[signal.SIGINT, signal.SIGTERM]) as stop:
            steps = int(train(stop))
        print("stopped", steps > 0, flush=True)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)  # signal.pause() would miss one that comes just before it
    try:
        print("free", flush=True)
        os.read(woken, 1)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    """
)


@pytest.fixture
def process():
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("last", [signal.SIGINT, signal.SIGTERM])
def test_signals_stop_programs_and_then_do_as_ever(process, last):
    for number in (signal.SIGTERM, signal.SIGINT):
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        assert process.stdout.readline() == "stopped True\n"
    assert process.stdout.readline() == "free\n"
    process.send_signal(last)
    if last == signal.SIGINT:
        assert process.stdout.readline() == "interrupted\n"
    assert process.wait(timeout=60) == (0 if last == signal.SIGINT else -signal.SIGTERM)


def test_a_forked_child_cannot_use_a_flag():
    program = textwrap.dedent(
        """
        import os
        import callout, jax
        stop = callout.StopFlag()
        assert not jax.jit(lambda stop: stop.is_set())(stop)
        child = os.fork()
        if child == 0:
            try:
                stop.is_set()
            except callout.ForkError:
                os._exit(7)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 7
        stop.set()
        """
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
