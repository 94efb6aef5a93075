# SPDX-License-Identifier: Apache-2.0
"""The functions that JAX calls in the place of custom calls: they run callbacks, queues and checks over NumPy arrays."""

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
_OWN = (__file__, str(Path(__file__).parents[2] / "_ext"))  # the core in Python has frames, too

Specs = Sequence[tuple[np.dtype[Any], tuple[int, ...]]]

Packed = tuple[int, Specs]
"""The bytes of a word, and the types of the arrays that are packed into words, one element in each."""


@dataclasses.dataclass(frozen=True)
class FallbackCall:
    """Describes one custom call, as the lowering rule emits it.

    `ordinals`: the ordinals of the program's devices, if the last operand is the index of the calling device.
    `is_deferred`: the next barrier raises a failure. `first`: the FFI ordinal to use if the program does not pass its
    device; None for the platform's first device. `packed`, `answer`: for taps, see `tap`. `owner`: the target, if the
    name has no meaning in another process.
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
        """Returns the callback's name."""
        return str(self.attributes["callback"])

    @property
    def label(self) -> str:
        """Returns the callback's label for messages, or its name if it is not bound."""
        callback = self.bound()
        return self.name if callback is None else callback.label

    @property
    def is_tap(self) -> bool:
        """Returns whether the call is a tap, without results for the program."""
        return self.target == TAP

    @property
    def never_fails(self) -> bool:
        """Returns whether the call is a tap that never fails the program."""
        of = self.attributes
        may_fail = of.get("can_fail") or target_attributes.may_fail_when_full(of.get("on_full"))
        return self.is_tap and not may_fail

    def bound(self) -> _ext.Callback | None:
        """Returns the callback, or None if the name is not bound, which is allowed while a program is lowered."""
        with contextlib.suppress(errors.UnboundNameError):
            return _ext.find(self.name)
        return None

    def first_ordinal(self) -> int:
        """Returns the FFI ordinal to use if the program does not pass its device."""
        return _jax_compat.first_ordinal(self.platform) if self.first is None else self.first

    def fail(self, error: BaseException, ordinal: int) -> None:
        """Raises the error for JAX to report, or defers it to the next barrier."""
        if self.is_deferred:
            tell_barrier(self.where, error, max(ordinal, 0))
            return
        # jaxlib crashes the process for a text that cannot be encoded as UTF-8.
        text = errors.printable(f"callout: callback '{self.label}' failed on device {ordinal}: {errors.keep(error)}")
        raise errors.CallbackError(text)


class Call:
    """A callback whose results the program waits for. JAX passes NumPy arrays and takes NumPy arrays.

    A program over several devices must not fail on one device, because the others would wait for it.
    """

    def __init__(self, call: FallbackCall, callback: _ext.Callback | None = None):
        self.call = call
        self._ordered = bool(call.attributes["ordered"])
        self._results = [(shape, dtype) for dtype, shape in call.results[call.threaded :]]
        self._callback = call.bound() if callback is None else callback

    def __call__(self, *arrays: np.ndarray) -> Sequence[np.ndarray]:
        threaded, ordinals = self.call.threaded, self.call.ordinals
        token, operands, ordinal = arrays[:threaded], arrays[threaded:], self._first
        if ordinals is not None:
            ordinal, operands = ordinals[int(operands[-1])], operands[:-1]
        failed: BaseException | None = None
        try:
            return (*token, *self._run(operands, ordinal))
        except BaseException as error:  # noqa: BLE001 - KeyboardInterrupt is reported, too
            _leave_out_own_frames(error)
            failed = error
        call = self.call
        del self  # the user's traceback refers to this frame
        try:
            call.fail(failed, ordinal)
        finally:
            del failed
        return token

    def _run(self, operands: Sequence[np.ndarray], ordinal: int) -> Sequence[np.ndarray]:
        """Runs the callback in the thread in which JAX calls."""
        if self._callback is None:
            self._callback = _ext.find(self.call.name)
        with self._beside_device():
            results: Sequence[np.ndarray] = _ext.call_eager(
                self._callback, operands, self._results, ordinal, self._ordered
            )
        return results

    def _beside_device(self) -> contextlib.AbstractContextManager[Any]:
        """Makes JAX in the callback compute on the CPU, like JAX's own callbacks, because the device waits for it."""
        if self.call.platform == "cpu":
            return contextlib.nullcontext()
        context: contextlib.AbstractContextManager[Any] = jax.default_device(_jax_compat.cpu_device())
        return context

    @functools.cached_property
    def _first(self) -> int:
        return self.call.first_ordinal()


def tap(call: FallbackCall, callback: _ext.Callback | None = None) -> _ext.HostTap:
    """Returns the function of a tap: the value goes to the queue, and the program goes on.

    `call.packed`: the types of the arrays in a packed operand. `call.answer`: the results for JAX. `callback`: by
    default the one that the name is bound to.
    """
    attributes = dict(call.attributes)
    has_rows = bool(attributes.pop("rows", False))
    encoded = target_attributes.encode(call.where, TAP, attributes)
    has_step, ordinals = bool(attributes["step"]), list(call.ordinals or ())
    found = call.bound() if callback is None else callback
    described = (call, found, call.name, encoded, has_step, has_rows, ordinals)
    return _ext.HostTap(*described, call.packed, call.answer, call.threaded)


def can_carry(call: FallbackCall) -> bool:
    """Returns whether JAX's callbacks can run the call."""
    if call.is_tap:
        return not call.attributes.get("deferred")
    return call.target == CALL and call.attributes.keys() <= {"callback", "ordered"}


def check(call: FallbackCall) -> None:
    """Raises an error for a call that JAX's callbacks cannot run, such as a native function, which needs a call frame."""
    if can_carry(call):
        return
    label = f"'{call.label}'"
    what = call.where if label in call.where else f"{call.where}: {label}"
    if call.platform in PLATFORMS:
        raise NotImplementedError(
            f"{what} needs callout's native path, and callout.config.fallback = {config.fallback!r} has "
            f"programs for {call.platform} go by JAX's callbacks, of which none is like it. With 'auto' they go by the "
            "native path; callout.pure_callback and callout.io_callback of a Python function run on both"
        )
    raise NotImplementedError(
        f"{what} needs callout's native path, which platform {call.platform} does not have, and JAX "
        "has no callback like it. callout.pure_callback and callout.io_callback of a Python function run there, and "
        f"jax.lax.platform_dependent({call.platform}=..., default=...) chooses between the two"
    )


def function_for(call: FallbackCall, callback: _ext.Callback | None = None) -> Callable[..., Sequence[Any]]:
    """Returns the function that JAX calls. `callback`: by default the one that the name is bound to."""
    return tap(call, callback) if call.is_tap else Call(call, callback)


def _leave_out_own_frames(error: BaseException) -> None:
    """Removes Callout's frames from a traceback, which would keep the callback alive with the error."""
    trace = traceback_of(error)
    own: list[Any] = []
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OWN):
        own.append(trace.tb_frame)
        trace = trace.tb_next
    BaseException.with_traceback(error, trace)  # not by the method of the user's class
    for frame in own[1:]:  # the first frame is the caller's, which still runs
        with contextlib.suppress(RuntimeError):  # another thread may just run the frame, with this exception
            frame.clear()


def tell_barrier(where: str, error: BaseException, ordinal: int) -> None:
    """Makes the next barrier raise an error, by delivering a tap whose function raises it."""

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
