# SPDX-License-Identifier: Apache-2.0
"""How many threads the interpreter knows, whoever started them."""

import ctypes
from collections.abc import Callable
from typing import Any


def thread_states() -> int:
    """The number of threads that the interpreter knows; those of other tests come and go."""
    api = ctypes.pythonapi
    names = "PyInterpreterState_Get", "PyInterpreterState_ThreadHead", "PyThreadState_Next"
    interpreter, first, following = (getattr(api, name) for name in names)
    interpreter.restype = first.restype = following.restype = ctypes.c_void_p
    first.argtypes = following.argtypes = [ctypes.c_void_p]
    state, count = first(interpreter()), 0
    while state:
        state, count = following(state), count + 1
    return count


def left_by(step: Callable[[], Any], times: int = 50) -> float:
    """How many threads a step leaves known to the interpreter: about 1 if each does.

    Other tests' threads may start and end meanwhile, a few of them: hence the mean over many steps.
    """
    before = thread_states()
    for _ in range(times):
        step()
    return (thread_states() - before) / times
