# SPDX-License-Identifier: Apache-2.0
"""Tests a callback that crashes the command: the report names it, and the command still ends by the signal."""

import signal
import subprocess

import callout
import command
import jax
import jax.numpy as jnp
import pytest

pytestmark = pytest.mark.skipif(bool(command.missing()), reason=command.missing() or "there is one")

LIBRARY = """
#include <csignal>
#include <cstdlib>
#include "callout/call.h"

static volatile int* volatile nowhere = nullptr;
static volatile int zero = 0;

void Segfault(const callout::Call&) { *nowhere = 1; }
CALLOUT_DEFINE_CALLBACK(sigsegv, Segfault);
void Divide(const callout::Call&) { zero = 1234 / zero; }
CALLOUT_DEFINE_CALLBACK(sigfpe, Divide);
void Abort(const callout::Call&) { std::abort(); }
CALLOUT_DEFINE_CALLBACK(sigabrt, Abort);
void Raise(const callout::Call&) { std::raise(SIGBUS); }
CALLOUT_DEFINE_CALLBACK(sigbus, Raise);
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    # Unoptimized, because the compiler knows that these functions have undefined behavior.
    return command.build_library(tmp_path_factory.mktemp("crashes"), LIBRARY, optimization="-O0")


@jax.jit
def calls(x):
    """A small program, which runs on the thread that calls it."""
    return callout.pure_callback("hook", jax.ShapeDtypeStruct(x.shape, x.dtype), x)


@jax.jit
def multiplies(x):
    """A program that runs on one of XLA's threads."""
    y = x @ x
    return callout.pure_callback("hook", jax.ShapeDtypeStruct(y.shape, y.dtype), y)


@jax.jit
def taps(x):
    callout.tap("hook", x)
    return x


CALLED, SENT = "which the program called", "which got what a tap sent"


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGFPE", "SIGABRT", "SIGBUS"])
@pytest.mark.parametrize(("jitted", "how"), [(calls, CALLED), (multiplies, CALLED), (taps, SENT)])
def test_the_callback_is_named(tmp_path, library, jitted, how, name):
    program = command.Program(tmp_path, jitted, jax.ShapeDtypeStruct((64, 64), jnp.float32))
    done = program.command("run", program.path, "--arg", "f32[64,64]=1", "--bind", f"hook={library}:{name.lower()}")
    assert done.code == -signal.Signals[name]
    assert f"callout: {name} in the callback 'hook', {how}\n" in done.err


def test_a_crash_elsewhere_names_nothing(tmp_path):
    program = command.Program(tmp_path, taps, jax.ShapeDtypeStruct((), jnp.float32))
    arguments = [str(command.COMMAND), "run", str(program.path), "--arg", "-", "--plugin", command.c_api.plugin_path()]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.send_signal(signal.SIGSEGV)  # the callback waits for its argument
        _, err = process.communicate()
    assert process.returncode == -signal.SIGSEGV
    assert "in the callback" not in err
