# SPDX-License-Identifier: Apache-2.0
"""Tests Callout in the main interpreter of a process that once created a second interpreter."""

import pytest

ANOTHER_INTERPRETER = """
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        import _interpreters as interpreters

    def make_another_interpreter():  # from then on PyGILState_Check says that every thread holds the GIL
        other = interpreters.create()
        interpreters.run_string(other, "x = 1")
        interpreters.destroy(other)
"""


@pytest.mark.parametrize(
    "use",
    [
        # A delivery thread reports that a sink fails.
        """
    sink = callout.sinks.JsonLines("/dev/full")
    jax.jit(lambda x: callout.tap(sink, x))(1.0)
    try:
        callout.barrier_wait()
    except callout.TapError:
        pass
        """,
        # A thread of XLA's warns.
        """
    import warnings
    warnings.simplefilter("ignore")
    def warn(x):
        callout.warn_if(x, x.sum() > 0, "{0}", 1)
        return (x @ x) @ x
    jax.block_until_ready(jax.jit(warn)(jnp.ones((600, 600))))
        """,
        # A thread of the core drops the function that it called.
        """
    for _ in range(200):
        program(1.0)
        callout.barrier_wait(timeout=50)
        """,
    ],
    ids=["log", "warning", "barrier"],
)
def test_threads_hold_the_gil_after_another_interpreter_was_made(run, use):
    done = run(
        ANOTHER_INTERPRETER
        + """
    program = jax.jit(lambda x: callout.pure_callback(lambda v: v, F32, callout.tap(lambda v: None, x) + 1))
    program(0.0)
    make_another_interpreter()
"""
        + use
        + """
    program(1.0)
    callout.barrier_wait()
    print("held", flush=True)
"""
    )
    assert (done.code, done.out) == (0, "held\n"), done.err
