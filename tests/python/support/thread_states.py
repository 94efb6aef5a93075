# SPDX-License-Identifier: Apache-2.0
"""Counts the threads that the interpreter knows, whoever started them."""

import ctypes
from collections.abc import Callable
from typing import Any


def thread_states() -> int:
    """Returns the number of threads that the interpreter knows, which includes other tests' threads."""
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
    """Returns the mean number of threads that a step leaves known to the interpreter: about 1 if each step leaves one.

    A few threads of other tests may start and end meanwhile, so the mean is taken over many steps.
    """
    before = thread_states()
    for _ in range(times):
        step()
    return (thread_states() - before) / times
