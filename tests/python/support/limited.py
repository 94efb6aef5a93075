# SPDX-License-Identifier: Apache-2.0
"""Limits of processor time, which a busy machine does not shorten, for tests and the processes that they start.

tests/conftest.py has pytest call the hooks. A test that computes for longer than TEST_SECONDS (120) ends its process
with the stacks of all threads on standard error; tests with the mark `soak` have no such limit. A test that waits for
ever is ended by pytest's `faulthandler_timeout`, which is real time and therefore generous.
"""

import faulthandler
import os
import signal
import subprocess
import sys

import pytest

TEST_SECONDS = int(os.environ.get("TEST_SECONDS", "120"))
WAITING = 10  # times its processor time that a process may take, since it also waits for the cores


def pytest_configure(config):
    # pytest captures standard error while tests run, but not yet here. After the stacks, the signal ends the process.
    faulthandler.register(signal.SIGPROF, file=os.dup(sys.stderr.fileno()), all_threads=True, chain=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    signal.setitimer(signal.ITIMER_PROF, 0 if item.get_closest_marker("soak") else TEST_SECONDS)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def run(command, *, timeout, **options):
    """Runs a process like `subprocess.run`, with `timeout` in seconds of processor time; raises TimeoutExpired."""
    limit = f"--cpu={timeout}:{timeout + 5}"  # the second limit would be SIGKILL
    done = subprocess.run(["prlimit", limit, "--", *command], timeout=WAITING * timeout, **options)
    if done.returncode == -signal.SIGXCPU:
        raise subprocess.TimeoutExpired(command, timeout, done.stdout, done.stderr)
    return done
