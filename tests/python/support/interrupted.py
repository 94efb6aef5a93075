# SPDX-License-Identifier: Apache-2.0
"""A program that is interrupted at random instructions of the package, as by signal handlers and destructors.

Interruptions come between any two instructions, whichever locks their thread holds, and use callbacks and barriers
themselves. Usage: interrupted.py SEED ROUNDS. The program prints errors; a hang ends with the stacks of all threads.
"""

import contextlib
import faulthandler
import io
import random
import sys
import tempfile
import threading
from pathlib import Path

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np

HANGS_AFTER_S = 120
F32 = jax.ShapeDtypeStruct((), jnp.float32)
PACKAGE = str(Path(callout.__file__).parent)


def refuse(x):
    raise ValueError("refused")


class Interruptions:
    """Interrupts with taps, calls and barriers. A thread is not interrupted again before its interruption is over."""

    def __init__(self, seed):
        self._dice = random.Random(seed)
        self._late = []
        self._tap = jax.jit(lambda x: callout.tap(self._late.append, x))
        self._fails = jax.jit(lambda x: callout.pure_callback(refuse, F32, x))
        self.sent, self.barrier_errors, self.wrong = [], [], set()  # lists: delivery threads append, too
        self.come(waits=True)  # traces and compiles first
        self.are_on = False

    def come(self, *, waits):
        self.sent.append(None)
        self._tap(np.float32(1))
        try:
            self._fails(np.float32(1)).block_until_ready()
            self.wrong.add("a call that fails inside of an interruption does not raise")
        except ValueError:
            pass
        callout.last_error()
        callout.stats()
        if waits:
            self.wait()

    def wait(self):
        try:
            callout.barrier_wait()
        except callout.CallbackError as error:
            if "since the last barrier" in str(error):
                self.barrier_errors.append(error)
            elif "inside a callback" not in str(error):
                self.wrong.add(str(error))

    def trace(self, frame, event, arg):
        """Starts tracing a frame of the package, for `sys.settrace`."""
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes = True
        return self._at

    def _at(self, frame, event, arg):
        is_main = threading.current_thread() is threading.main_thread()
        # The delivery of each interruption may be interrupted, too: fewer than one of its instructions on average, so
        # that the chain ends.
        if event == "opcode" and self.are_on and self._dice.random() < (1 / 40 if is_main else 1 / 2000):
            self.come(waits=is_main)
        return self._at

    def lost(self):
        return len(self.sent) - len(self._late)


class Work:
    """The work that is interrupted."""

    def __init__(self, folder):
        self.seen, self.printed = [], io.StringIO()
        self._sink = callout.sinks.JsonLines(folder / "records.jsonl")
        self._tap = jax.jit(lambda x: callout.tap(self.seen.append, x))
        self._thinned = jax.jit(lambda x: callout.tap(self._sink, x, every=2))
        self._ordered = jax.jit(lambda x: callout.io_callback(lambda v: v, F32, x, ordered=True))
        self._fails = jax.jit(lambda x: callout.pure_callback(refuse, F32, x))
        self._watched = jax.jit(lambda x: callout.watch(x, "interrupted"))

    def do(self, wrong):
        x = np.float32(2)
        self._tap(x)
        self._thinned(x)
        callout.tap(self.seen.append, x)
        hcb.id_print(x, output_stream=self.printed)
        for call in (self._ordered, lambda x: callout.pure_callback(lambda v: v, F32, x), self._watched):
            if float(call(x)) != 2:
                wrong.add("a result is not what the callback returned")
        for fails in (self._fails, lambda x: callout.pure_callback(refuse, F32, x)):
            try:
                jax.block_until_ready(fails(x))
                wrong.add("a call that fails does not raise")
            except ValueError as error:
                if "ValueError: refused" not in str(error) and str(error) != "refused":
                    wrong.add(f"another error: {error}")
        callout.tap(refuse, x)


def main(seed, rounds):
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        work, between = Work(Path(folder)), Interruptions(seed)
        for _ in range(3):  # JAX's fast path begins with the third call
            work.do(between.wrong)
        between.wait()
        hcb.stop_outfeed_receiver()  # ends the thread, so that the next one is traced
        work.seen.clear()
        between.barrier_errors.clear()
        sys._getframe().f_trace_opcodes = True  # Python 3.12 needs a frame with this flag when it begins to trace
        # Python 3.12 crashes if one thread ends its tracing while another one traces instructions.
        if sys.version_info[:2] != (3, 12):
            threading.settrace(between.trace)
        sys.settrace(between.trace)
        between.are_on = True
        for _ in range(rounds):
            work.do(between.wrong)
            between.wait()
        between.are_on = False
        sys.settrace(None)
        threading.settrace(None)
        hcb.stop_outfeed_receiver()
    expected = {
        "interruptions": len(between.sent) > 10 * rounds,
        "records of interruptions": between.lost() == 0,
        "records": work.seen == [2] * 2 * rounds,
        "errors of taps": len(between.barrier_errors) >= rounds,
    }
    for text in [*sorted(between.wrong), *(name for name, holds in expected.items() if not holds)]:
        print(text)
    print(f"{len(between.sent)} interruptions", file=sys.stderr)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(HANGS_AFTER_S, exit=True)
    main(int(sys.argv[1]), int(sys.argv[2]))
