# SPDX-License-Identifier: Apache-2.0
"""`callout.StopFlag` stops a running program from outside."""

from __future__ import annotations

import signal
import threading
import types
from collections.abc import Iterable
from typing import Any, NoReturn, Self

import jax
import jax.numpy as jnp
import numpy as np

from .. import _ext, _jax_compat
from .handles import HostObject

# The kernel sends most of these for a fault of a thread, which cannot continue; the others cannot be caught.
_OF_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGKILL, signal.SIGSTOP}


class StopFlag(HostObject, tag="stop_flag"):
    """Asks a running program to stop: another thread, a signal or a time limit sets the flag, and the program reads it.

    A flag is a pytree, so that a jitted function takes it as an argument, and one compiled program serves any number of
    flags. All devices of a program read the same value in the same step, so they leave a loop together. Keep the flag
    for as long as programs read it: when nothing in Python refers to the flag any more, the next read in a program
    fails.

    Args:
        timeout: seconds after which the flag is set, from now on, and again from each `with` and each `clear()`.
        signals: `signal.SIGINT` for Ctrl-C, `signal.SIGTERM`, which clusters send before they kill. Inside `with flag:`
            the first signal only sets the flag; while the flag is set, a further signal has its usual effect. The main
            thread must enter the `with`.

    Raises:
        ValueError: the timeout is no duration, or a signal cannot be caught. TypeError: `signals` are no numbers.

    Example:
        >>> import signal
        >>> @jax.jit
        ... def train(stop, w):
        ...     def go_on(state):
        ...         return (state[0] < 1000) & ~stop.is_set()
        ...     return jax.lax.while_loop(go_on, lambda state: (state[0] + 1, state[1] + 0.5), (0, w))
        >>> with callout.StopFlag(timeout=3600, signals=[signal.SIGINT]) as stop:
        ...     steps, w = train(stop, jnp.float32(0))
        >>> int(steps), float(w)
        (1000, 500.0)
        >>> stop.set()  # as Ctrl-C and the timeout do
        >>> steps, w = train(stop, w)
        >>> int(steps), float(w)
        (0, 500.0)
    """

    def __init__(self, *, timeout: float | None = None, signals: Iterable[int] | int = ()) -> None:
        is_number = isinstance(timeout, (int, float, np.number)) and not isinstance(timeout, bool)
        if timeout is not None and not (is_number and timeout >= 0):
            raise ValueError(f"callout.StopFlag: timeout must be None or 0 or more seconds, got {timeout!r}")
        self._signals = _checked(signals)
        self._caught: list[Any] = []
        self._own(_ext.StopFlagOwner(-1.0 if timeout is None else float(timeout)))

    def is_set(self, *, axis_name: Any = None) -> Any:
        """Returns whether the flag is set: a bool, or inside a program a boolean scalar.

        Args:
            axis_name: inside `jax.shard_map` over several processes, the axes of the mesh: all devices read True if one
                does. Within one process all devices read the same value without it.
        """
        if axis_name is None and self._happens_now():
            return _ext.stop_flag_is_set(self._words("is_set()"))
        (value,) = self._read(jax.core.ShapedArray((), np.bool_))
        return value if axis_name is None else _any(value, axis_name)

    def set(self) -> None:
        """Sets the flag, even while programs run. Thread-safe."""
        _ext.set_stop_flag(self._words("set()"), True)

    def clear(self) -> None:
        """Clears the flag, and restarts the timeout."""
        _ext.set_stop_flag(self._words("clear()"), False)

    def __enter__(self) -> Self:
        """Restarts the timeout, and catches the signals."""
        if self._owner is None:
            raise TypeError(
                "callout.StopFlag: only the flag that was made can be entered, not one of a program or a copy"
            )
        if self._signals and threading.current_thread() is not threading.main_thread():
            raise ValueError(
                "callout.StopFlag: `with` on a flag with signals has to be entered in the main thread, where Python's own "
                f"handlers of signals run, got thread {threading.current_thread().name!r}. Enter it there, and pass the flag"
            )
        self._caught.append(_ext.CaughtSignals(self._owner.owner, self._signals))
        self._owner.owner.start_timer()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: types.TracebackType | None
    ) -> None:
        """Restores the previous handlers of the signals."""
        self._caught.pop().close()

    def __reduce_ex__(self, _: Any) -> NoReturn:
        raise TypeError(
            "callout.StopFlag cannot be copied or pickled: nobody would set the copy. Make a callout.StopFlag where it is "
            "needed, or leave it out of what is copied or saved"
        )

    def __repr__(self) -> str:
        """Shows whether the flag is set, if it can be read here."""
        if self._owner is None:
            return f"StopFlag({self._leaf!r})"
        return f"<StopFlag: {'set' if _ext.stop_flag_is_set(self._owner.owner.words) else 'not set'}>"


def _checked(signals: Any) -> list[int]:
    if isinstance(signals, str) or not isinstance(signals, (int, Iterable)):
        raise TypeError(
            f"callout.StopFlag: signals must be numbers of signals, such as signal.SIGTERM, got {signals!r}"
        )
    numbers = [signals] if isinstance(signals, int) else list(signals)
    for number in numbers:
        if number not in signal.valid_signals() or number in _OF_FAULTS:
            raise ValueError(f"callout.StopFlag: signals must be numbers of signals that can be caught, got {number!r}")
    return [int(number) for number in dict.fromkeys(numbers)]


def _any(value: Any, axis_name: Any) -> Any:
    """Returns whether the value is true on any device along the axes."""
    names = axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,)
    missing = tuple(name for name in names if name not in _jax_compat.varying_axes(jax.typeof(value)))
    if missing and _jax_compat.checked_axes():
        value = jax.lax.pcast(value, missing, to="varying")
    return jax.lax.pmax(value.astype(jnp.int32), axis_name) > 0


def _flatten(flag: StopFlag) -> tuple[tuple[Any], None]:
    return (flag._leaf,), None


def _unflatten(_: None, leaves: tuple[Any]) -> StopFlag:
    flag = object.__new__(StopFlag)
    flag._signals, flag._caught = [], []
    flag._take(leaves[0])
    return flag


jax.tree_util.register_pytree_node(StopFlag, _flatten, _unflatten)
