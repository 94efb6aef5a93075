# SPDX-License-Identifier: Apache-2.0
"""Tests a JAX whose XLA rejects our handlers: programs use JAX's own callbacks, and one warning says why."""

import os
import sys
import textwrap

import limited
import pytest

pytestmark = [
    pytest.mark.native_only("the wheel without C++ has no handlers"),
    pytest.mark.cpu_only("it is about the handlers for a CPU"),
]

REFUSING = """
import jax, jax.numpy as jnp
taken = jax.ffi.register_ffi_target
def refuse(name, handlers, platform):
    if platform == "cpu" and name.startswith("callout."):
        raise RuntimeError("XLA FFI API version mismatch. Framework has 7.0 and this handler 0.3")
    taken(name, handlers, platform=platform)
jax.ffi.register_ffi_target = refuse
import callout
F32 = jax.ShapeDtypeStruct((), jnp.float32)
"""


def run(program, **environment):
    source = REFUSING + textwrap.dedent(program)
    return limited.run(
        [sys.executable, "-c", source],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "CALLOUT_FALLBACK": "auto", **environment},
        check=False,
    )


def test_programs_run_with_one_warning():
    done = run("""
        got = []
        @jax.jit
        def f(x):
            x = callout.pure_callback(lambda v: v * 2, F32, x)
            return callout.tap(got.append, x)
        print(f(3.0), f(4.0))
        def fail(v):
            raise KeyError("seven")
        try:
            jax.jit(lambda x: callout.pure_callback(fail, F32, x))(1.0).block_until_ready()
        except KeyError as error:
            print("KeyError", "seven" in str(error))
        print(callout.pure_callback(lambda v: v + 1, F32, 1.0))  # outside of jit
        callout.barrier_wait()
        print([float(value) for value in got])
    """)
    assert done.stdout == "6.0 8.0\nKeyError True\n2.0\n[6.0, 8.0]\n", done.stderr
    assert done.stderr.count("reach callbacks and taps by JAX's own callbacks, because jax ") == 1
    assert "refused callout's handlers (RuntimeError: XLA FFI API version mismatch" in done.stderr


def test_without_the_fallback_the_rejection_has_a_reason():
    done = run(
        """
        try:
            jax.jit(lambda x: callout.tap(print, x))(1.0)
        except NotImplementedError as error:
            print(error)
        """,
        CALLOUT_FALLBACK="off",
    )
    assert "'builtins.print': callbacks are not supported on platform cpu" in done.stdout, done.stderr
    assert "refused callout's handlers (RuntimeError: XLA FFI API version mismatch" in done.stdout


def test_the_doctor_reports_the_fallback():
    done = run("""
        from callout import doctor
        raise SystemExit(doctor.main())
    """)
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("refused for cpu")]
    assert "XLA FFI API version mismatch" in line
    assert "its programs go by JAX's callbacks" in line
    assert [
        line.split()[1] for line in done.stdout.splitlines() if line.startswith(("pure_callback", "tap ", "errors"))
    ] == ["ok:"] * 3
