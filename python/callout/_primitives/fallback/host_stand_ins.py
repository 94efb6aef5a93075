# SPDX-License-Identifier: Apache-2.0
"""What JAX calls in the place of our custom calls: the same callbacks, queues and checks, over NumPy arrays."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ... import _ext, _jax_compat
from ..._base import errors
from ..._base.config import config
from ..._base.error_classes import traceback_of
from ..._base.native_platforms import PLATFORMS
from ..._targets import target_attributes
from ..._targets.target import Target, Transforms
from ..site import TARGET as TAP

CALL = "callout.v1.call"
_OWN = (__file__, str(Path(__file__).parents[2] / "_ext"))  # a core in Python has frames, too

Specs = Sequence[tuple[np.dtype[Any], tuple[int, ...]]]

Packed = tuple[int, Specs]
"""The bytes of a word, and the arrays that lie in an array of them, each element in one."""


@dataclasses.dataclass(frozen=True)
class Told:
    """Holds what the lowering rule told of one custom call.

    `ordinals`: those of the program's devices, if the last operand is the number of the device among them. `is_deferred`: a
    failure is the next barrier's. `first`: the FFI ordinal that stands for the device where the program does not tell; None
    for the platform's first. `packed`, `answer`: of taps, see `tap`. `owner`: what the name
    is of, if it means nothing in another process.
    """

    target: str
    where: str
    platform: str
    attributes: Mapping[str, Any]
    threaded: bool
    results: Specs
    ordinals: tuple[int, ...] | None = None
    is_deferred: bool = False
    first: int | None = None
    packed: Packed | None = None
    answer: tuple[np.ndarray, ...] = ()
    owner: tuple[Target, Transforms] | None = None

    @property
    def name(self) -> str:
        """Returns the callback's."""
        return str(self.attributes["callback"])

    @property
    def label(self) -> str:
        """Returns what the callback is called in messages; its name, if nobody has bound that."""
        callback = self.bound()
        return self.name if callback is None else callback.label

    @property
    def is_tap(self) -> bool:
        """Tells whether the program gets nothing back."""
        return self.target == TAP

    @property
    def never_fails(self) -> bool:
        """Tells whether it is a tap that fails no program."""
        of = self.attributes
        may_fail = of.get("can_fail") or target_attributes.may_fail_when_full(of.get("on_full"))
        return self.is_tap and not may_fail

    def bound(self) -> _ext.Callback | None:
        """Returns the callback, if the name is bound by now: who lowers a program need not have it."""
        with contextlib.suppress(errors.UnboundNameError):
            return _ext.find(self.name)
        return None

    def first_ordinal(self) -> int:
        """Returns what stands for the device where the program does not tell."""
        return _jax_compat.first_ordinal(self.platform) if self.first is None else self.first

    def fail(self, error: BaseException, ordinal: int) -> None:
        """Raises what JAX is to report, or leaves the error to the next barrier."""
        if self.is_deferred:
            tell_barrier(self.where, error, max(ordinal, 0))
            return
        # jaxlib ends the process for a text that UTF-8 does not have.
        text = errors.printable(f"callout: callback '{self.label}' failed on device {ordinal}: {errors.keep(error)}")
        raise errors.CallbackError(text)


class Call:
    """A callback whose results the program waits for. JAX hands over NumPy arrays and takes the results as such.

    A program over several devices must not fail on one: the others would wait for that.
    """

    def __init__(self, told: Told, callback: _ext.Callback | None = None):
        self.told = told
        self._ordered = bool(told.attributes["ordered"])
        self._results = [(shape, dtype) for dtype, shape in told.results[told.threaded :]]
        self._callback = told.bound() if callback is None else callback

    def __call__(self, *arrays: np.ndarray) -> Sequence[np.ndarray]:
        threaded, ordinals = self.told.threaded, self.told.ordinals
        token, operands, ordinal = arrays[:threaded], arrays[threaded:], self._first
        if ordinals is not None:
            ordinal, operands = ordinals[int(operands[-1])], operands[:-1]
        failed: BaseException | None = None
        try:
            return (*token, *self._run(operands, ordinal))
        except BaseException as error:  # noqa: BLE001 - Ctrl-C comes back, too
            _leave_out_own_frames(error)
            failed = error
        told = self.told
        del self  # the user's frames lead to this one
        try:
            told.fail(failed, ordinal)
        finally:
            del failed
        return token

    def _run(self, operands: Sequence[np.ndarray], ordinal: int) -> Sequence[np.ndarray]:
        """Calls it here, in the thread in which JAX calls."""
        if self._callback is None:
            self._callback = _ext.find(self.told.name)
        with self._beside_device():
            results: Sequence[np.ndarray] = _ext.call_eager(
                self._callback, operands, self._results, ordinal, self._ordered
            )
        return results

    def _beside_device(self) -> contextlib.AbstractContextManager[Any]:
        """JAX in the callback computes on the CPU, as in JAX's own: the device waits for it."""
        if self.told.platform == "cpu":
            return contextlib.nullcontext()
        context: contextlib.AbstractContextManager[Any] = jax.default_device(_jax_compat.cpu_device())
        return context

    @functools.cached_property
    def _first(self) -> int:
        return self.told.first_ordinal()


def tap(told: Told, callback: _ext.Callback | None = None) -> _ext.HostTap:
    """A tap: its value goes to the queue, and the program goes on.

    `told.packed`: what comes is one array of these. `told.answer`: what JAX gets back. `callback`: the name's by default.
    """
    encoded = target_attributes.encode(told.where, TAP, told.attributes)
    has_step, ordinals = bool(told.attributes["step"]), list(told.ordinals or ())
    found = told.bound() if callback is None else callback
    return _ext.HostTap(*(told, found, told.name, encoded, has_step, ordinals), told.packed, told.answer, told.threaded)


def can_carry(told: Told) -> bool:
    """Tells whether JAX's callbacks can stand for the call."""
    if told.is_tap:
        return not told.attributes.get("deferred")
    return told.target == CALL and told.attributes.keys() <= {"callback", "ordered"}


def check(told: Told) -> None:
    """Refuses what JAX's callbacks cannot stand for, such as a native function, which is told more."""
    if can_carry(told):
        return
    label = f"'{told.label}'"
    what = told.where if label in told.where else f"{told.where}: {label}"
    if told.platform in PLATFORMS:
        raise NotImplementedError(
            f"{what} needs callout's native path, and callout.config.fallback = {config.fallback!r} has "
            f"programs for {told.platform} go by JAX's callbacks, of which none is like it. With 'auto' they go by the "
            "native path; callout.pure_callback and callout.io_callback of a Python function run on both"
        )
    raise NotImplementedError(
        f"{what} needs callout's native path, which platform {told.platform} does not have, and JAX "
        "has no callback like it. callout.pure_callback and callout.io_callback of a Python function run there, and "
        f"jax.lax.platform_dependent({told.platform}=..., default=...) chooses between the two"
    )


def function_for(told: Told, callback: _ext.Callback | None = None) -> Callable[..., Sequence[Any]]:
    """Returns what JAX calls for a custom call of ours. `callback`: the name's by default."""
    return tap(told, callback) if told.is_tap else Call(told, callback)


def _leave_out_own_frames(error: BaseException) -> None:
    """They would keep the callback for as long as anybody keeps the error."""
    trace = traceback_of(error)
    own: list[Any] = []
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OWN):
        own.append(trace.tb_frame)
        trace = trace.tb_next
    BaseException.with_traceback(error, trace)  # whatever a class of the user's says to that
    for frame in own[1:]:  # the first is the caller's, which is still running
        with contextlib.suppress(RuntimeError):  # and so is another's, who raises the same exception just now
            frame.clear()


def tell_barrier(where: str, error: BaseException, ordinal: int) -> None:
    """Has the next barrier raise an error, as that of a tap's function: it becomes one."""

    def fail(_: Any) -> None:
        raise error

    callback = _ext.make_python_callback(
        label=where,
        function=fail,
        numpy_only=True,
    )
    site = {"callback": where, "label": where, "leaves": "", "step": False}
    tap = _ext.EagerTap(callback, target_attributes.encode(where, TAP, site))
    tap.send(callback, [np.zeros((), np.bool_)], ordinal, None)
