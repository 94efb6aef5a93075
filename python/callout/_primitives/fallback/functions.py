# SPDX-License-Identifier: Apache-2.0
"""What JAX calls in the place of our custom calls: the same callbacks, queues and checks, over NumPy arrays."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ... import _ext, _jax_compat
from ..._base import errors
from ..._custom_calls import target_attributes
from ..site import TARGET as TAP

CALL = "callout.v1.call"

Specs = Sequence[tuple[Sequence[int], Any]]


class HostFunction:
    """One call of a program. JAX hands over the operands as NumPy arrays and takes the results as such.

    `ordinals`: those of the program's devices, if the last operand is the number of the device among them. `is_deferred`: a
    failure is the next barrier's. A program over several devices must not fail on one: the others would wait for that.
    """

    def __init__(
        self,
        where: str,
        platform: str,
        attributes: Mapping[str, Any],
        threaded: bool,
        ordinals: Sequence[int] | None,
        is_deferred: bool,
    ):
        self._where = where
        self._platform = platform
        self._name: str = attributes["callback"]
        self._attributes = attributes
        self._threaded = threaded
        self._ordinals = ordinals
        self._is_deferred = is_deferred
        self._callback: _ext.Callback | None = None
        with contextlib.suppress(errors.UnboundNameError):  # then when it is called: who lowers need not have it
            self._callback = _ext.find(self._name)

    def __call__(self, *arrays: np.ndarray) -> Sequence[np.ndarray]:
        token, operands = arrays[: self._threaded], arrays[self._threaded :]
        ordinal = self._first
        if self._ordinals is not None:
            ordinal, operands = self._ordinals[int(operands[-1])], operands[:-1]
        try:
            if self._callback is None:
                self._callback = _ext.find(self._name)
            return (*token, *self.run(self._callback, operands, ordinal))
        except BaseException as error:  # noqa: BLE001 - Ctrl-C comes back, too
            _leave_out_own_frames(error)
            label = self._name if self._callback is None else self._callback.label
            text = None
            if self._is_deferred:
                tell_barrier(self._where, error, ordinal)
            else:
                text = f"callout: callback '{label}' failed on device {ordinal}: {errors.keep(error)}"
            del self  # the user's frames lead to this one
        if text is None:
            return token
        raise errors.CallbackError(text)

    def run(self, callback: _ext.Callback, operands: Sequence[np.ndarray], ordinal: int) -> Sequence[np.ndarray]:
        """The results."""
        raise NotImplementedError

    @functools.cached_property
    def _first(self) -> int:
        """What stands for the device where the program does not tell: the platform's first."""
        return _jax_compat.first_ordinal(self._platform)


class Call(HostFunction):
    """A callback whose results the program waits for."""

    def __init__(self, *told: Any, results: Specs):
        super().__init__(*told)
        self._results = list(results)[self._threaded :]
        self._ordered = bool(self._attributes["ordered"])

    def run(self, callback: _ext.Callback, operands: Sequence[np.ndarray], ordinal: int) -> Sequence[np.ndarray]:
        """Calls it here, in the thread in which JAX calls."""
        with self._beside_device():
            results: Sequence[np.ndarray] = _ext.call_eager(callback, operands, self._results, ordinal, self._ordered)
        return results

    def _beside_device(self) -> contextlib.AbstractContextManager[Any]:
        """JAX in the callback computes on the CPU, as in JAX's own: the device waits for it."""
        if self._platform == "cpu":
            return contextlib.nullcontext()
        context: contextlib.AbstractContextManager[Any] = jax.default_device(_jax_compat.cpu_device())
        return context


class Tap(HostFunction):
    """A tap: its value goes to the queue, and the program goes on."""

    def __init__(self, *told: Any):
        super().__init__(*told)
        self._tap: _ext.EagerTap | None = None
        self._has_step = bool(self._attributes["step"])

    def run(self, callback: _ext.Callback, operands: Sequence[np.ndarray], ordinal: int) -> Sequence[np.ndarray]:
        """Sends a record, if one is due."""
        tap = self._tap
        if tap is None:
            tap = self._tap = _ext.EagerTap(callback, target_attributes.encode(self._where, TAP, self._attributes))
        step = int(operands[-1].flat[0]) if self._has_step else None
        if tap.admit(ordinal, step):
            tap.send(callback, operands[: len(operands) - self._has_step], ordinal, step)
        return ()


def _leave_out_own_frames(error: BaseException) -> None:
    """They would keep the callback for as long as anybody keeps the error."""
    trace = error.__traceback__
    own: list[Any] = []
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        own.append(trace.tb_frame)
        trace = trace.tb_next
    error.__traceback__ = trace
    for frame in own[1:]:  # the first is the caller's, which is still running
        frame.clear()


def tell_barrier(where: str, error: BaseException, ordinal: int) -> None:
    """Has the next barrier raise an error, as that of a tap's function: it becomes one."""

    def fail(_: Any) -> None:
        raise error

    callback = _ext.make_python_callback(
        label=where,
        function=fail,
        unflatten=None,
        unflatten_value=None,
        flatten=None,
        single_result=True,
        device_lookup=None,
        index_lookup=None,
        transforms=None,
        zero_copy=False,
        numpy_only=True,
        canonicalize=False,
    )
    site = {"callback": where, "label": where, "leaves": "", "step": False}
    tap = _ext.EagerTap(callback, target_attributes.encode(where, TAP, site))
    tap.send(callback, [np.zeros((), np.bool_)], ordinal, None)


def function_for(target: str, *told: Any, results: Specs) -> HostFunction:
    """What JAX calls for a custom call of ours.

    Raises:
        NotImplementedError: it is one that JAX's callbacks cannot stand for.
    """
    if target == TAP:
        return Tap(*told)
    where, platform, attributes, *_ = told
    if target == CALL and attributes.keys() <= {"callback", "ordered"}:  # a native function is told more
        return Call(*told, results=results)
    raise NotImplementedError(
        f"{where}: '{attributes.get('callback')}' needs callout's native path, which platform {platform} does not have, and "
        "JAX has no callback like it. callout.pure_callback and callout.io_callback of a Python function run there, and "
        f"jax.lax.platform_dependent({platform}=..., default=...) chooses between the two"
    )
