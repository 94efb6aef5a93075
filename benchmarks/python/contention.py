# SPDX-License-Identifier: Apache-2.0
"""Calls and taps while another Python thread keeps the interpreter busy."""

import contextlib
import threading
from collections.abc import Iterator

from loop import Loop
from measure import Contender, Row, compare
from methods import EMPTY, FLOOR, Method, call_methods, tap_methods

KEPT = {"callout, C++ function", "callout, Python", "callout.tap, Python", "callout.tap, native sink"}


@contextlib.contextmanager
def busy_python() -> Iterator[None]:
    """A thread that runs Python code for as long as the block lasts."""
    stop = threading.Event()

    def burn() -> None:
        while not stop.is_set():
            sum(range(1000))

    thread = threading.Thread(target=burn, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _contender(method: Method) -> Contender:
    takes_gil = method.role not in (EMPTY, FLOOR) and method.label != "callout, C++ function" and not method.received
    # A call that waits for the interpreter takes milliseconds; a queue of taps is to be long enough to show its rate.
    n = 50 if takes_gil or method.slow else 20_000
    return Contender(method.label, method.role, Loop(method, (), n, False).play)


def run(rounds: int, out, missing: dict[str, str]) -> list[Row]:
    def chosen(methods: list[Method]) -> list[Contender]:
        return [_contender(m) for m in methods if m.role != "callout" or m.label in KEPT]

    calls, taps = chosen(call_methods(False, missing)), chosen(tap_methods(False, out))
    with busy_python():
        return [
            compare("busy/call", "call, f32 scalar, another Python thread busy", "us", calls, rounds),
            compare("busy/tap", "tap, f32 scalar, another Python thread busy", "us", taps, rounds),
        ]
