# SPDX-License-Identifier: Apache-2.0
"""Replaces the calls of exported programs by JAX's own callbacks on platforms without a native path.

JAX's callbacks belong to a process, so an exported program has Callout's calls, by name, for every platform. A process
that compiles the program for a platform without a native path replaces them by its own callbacks. The attributes of a
call or tap contain everything that is needed.
"""

from __future__ import annotations

import functools
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir

from ... import _jax_compat
from ..._base.errors import CallbackError
from ..._base.native_platforms import PLATFORMS
from ..._targets.operation_attributes import OURS, is_call_of, is_token, operations, own_calls, spec_of
from ..._targets.reachable import Spread, reached
from ..._targets.read_attributes import misfit_of_call, read_call
from ..._targets.target_attributes import tables
from ..site import TARGET as TAP
from . import emit, exported_checks, host_functions
from .jax_operations import Placement


class _Module:
    """Imitates the lowering context of a module that is already lowered, for functions that emit JAX's callbacks."""

    def __init__(self, lowered: Any, platform: str, backend: Any):
        self.host_callbacks = lowered.host_callbacks
        # A program may be lowered for another platform than the backend's.
        self._backend = backend if backend is not None and backend.platform == platform else None
        self._module = lowered.module

    def add_host_callback(self, function: Any) -> None:
        self.host_callbacks.append(function)

    def get_backend(self, *, optional: bool) -> Any:
        assert optional
        return self._backend

    @functools.cached_property
    def _channels(self) -> Iterator[int]:
        return itertools.count(1 + max((_channel(op) for op in operations(self._module.operation)), default=1))

    def new_channel(self) -> int:
        return next(self._channels)


def _channel(operation: Any) -> int:
    if "channel_handle" not in operation.attributes:
        return 1  # JAX uses channel 1 for collectives
    handle: Any = stablehlo.ChannelHandle(operation.attributes["channel_handle"])
    return int(handle.handle)


def carry(lowered: Any, platform: str, backend: Any, devices: Sequence[jax.Device], num_partitions: int) -> None:
    """Replaces the calls in a module by JAX's callbacks. Requires the module's context.

    Args:
        lowered: JAX's module and its host callbacks, which are changed in place.
        platform: the module's platform.
        backend: the backend that will compile the program, or None.
        devices: the program's devices, or none if they are unknown.
        num_partitions: the number of devices that the program is partitioned for.

    Raises:
        NotImplementedError: a call needs a native path, which the platform does not have.
    """
    if not any(own_calls(lowered.module)):
        return
    if lowered.shape_poly_state.uses_dim_vars:  # the program has symbolic shapes
        _refine(lowered.module)
    found = calls_of(lowered.module)
    _refuse_gspmd(lowered.module, num_partitions)
    if platform not in PLATFORMS:
        _drop([op for op in own_calls(lowered.module) if op not in found])
    module = _Module(lowered, platform, backend)
    ordinals = tuple(map(_jax_compat.ordinal_of, devices)) if len(devices) == num_partitions > 1 else ()
    for op, spreads in found.items():
        with ir.InsertionPoint(op), op.location:
            ExportedCall(op, platform, num_partitions, spreads).carry(module, ordinals)


def calls_of(module: Any) -> dict[Any, set[Spread]]:
    """Returns Callout's calls that a module can reach. Requires the module's context."""
    return reached(module, lambda op: is_call_of(op, OURS))


def _refuse_gspmd(module: Any, num_partitions: int) -> None:
    """Rejects a shard_map outside of Shardy's dialect, where a call on one device makes XLA crash the process."""
    if num_partitions == 1 or _jax_compat.uses_shardy():
        return
    if any(is_call_of(op, "SPMDFullToShardShape") for op in operations(module.operation)):
        raise NotImplementedError(
            "callout: an exported program with callbacks in a shard_map, by JAX's callbacks (config.fallback), needs "
            "jax_use_shardy_partitioner=True"
        )


def _drop(calls: Sequence[Any]) -> None:
    """Removes calls that the program cannot reach, which XLA could not compile."""
    for op in calls:
        with ir.InsertionPoint(op), op.location:
            tokens = [value for value in op.operands if is_token(value.type)]
            values = [tokens[0] if is_token(result.type) else _zeros(result.type) for result in op.results]
        for old, new in zip(op.results, values, strict=True):
            old.replace_all_uses_with(new)
        op.erase()


def _zeros(kind: Any) -> Any:
    dtype, shape = spec_of(kind)
    return mlir.ir_constant(np.broadcast_to(np.zeros((), dtype), shape))


def _refine(module: Any) -> None:
    """Makes all shapes in a module with static argument shapes static, like JAX before it compiles."""
    written = io.BytesIO()
    _jax_compat.refined(module).operation.write_bytecode(written)
    refined = ir.Module.parse(written.getvalue())
    for op in list(module.body.operations):
        op.operation.erase()
    for op in list(refined.body.operations):
        module.body.append(op)


_HELD = "callout.v1.check"  # returns its second operand, so that it is computed once (`tapped_values`)
_NOT_TOLD = {"names", "threaded", "sharding", "device_index", "num_devices", "returned", "host_callback"}


class ExportedCall:
    """A call or tap in a module."""

    def __init__(self, op: Any, platform: str, num_partitions: int, spreads: set[Spread]):
        self.op = op
        self._spreads = spreads
        self.platform = platform
        self.num_partitions = num_partitions
        self.target = ir.StringAttr(op.attributes["call_target_name"]).value
        # A check names its callback only in errors, and never fails by JAX's callbacks.
        if self.target != _HELD and (misfit := misfit_of_call(op)):
            raise CallbackError(misfit)
        self.attributes: Mapping[str, Any] = {name: _text(value) for name, value in read_call(op).items()}

    def carry(self, module: Any, ordinals: tuple[int, ...]) -> None:
        """Replaces the call, unless only the platform's native path can run it."""
        if self.target == _HELD:
            exported_checks.check_held(self._specs(self.op.operands), self._specs(self.op.results))
            self._replace_by(list(self.op.operands)[1:])
            return
        call = self._call(ordinals)
        if self.platform in PLATFORMS and not host_functions.can_carry(call):
            return
        self._check(call)
        arrays, place = _arrays(self.op.operands), _token_place(self.op.operands)
        operands = self._with_step_last(arrays)
        results = emit.write(
            *(module, call, operands, self._specs(operands), [value.type for value in self._own_results()]),
            token=None if place is None else self.op.operands[place],
            has_side_effect=self._has_side_effect(),
            placement=self._placement(bool(call.results)),
        )
        if (place := _token_place(self.op.results)) is not None:
            results.insert(place, results.pop(0))
        first = 1 if call.threaded else 0
        self._replace_by([*results, *(arrays[place + first] for place in self._returned())])

    def _check(self, call: host_functions.FallbackCall) -> None:
        """Raises an error for operands and results that the core would reject."""
        places = [_token_place(values) for values in (self.op.operands, self.op.results)]
        if (places[0] is None) != (places[1] is None):
            raise CallbackError(f"{call.where}: expected a token of XLA's among operands and results, or in neither")
        operands, results = (self._specs(_arrays(values)) for values in (self.op.operands, self.op.results))
        if call.is_tap:
            label = call.attributes.get("label") or call.label
            exported_checks.check_tap(label, self.attributes, operands, results)
        else:
            exported_checks.check_call(self.attributes, operands, results)

    def _specs(self, values: Sequence[Any]) -> list[exported_checks.Spec]:
        try:
            return [spec_of(value.type) for value in values]
        except (KeyError, ValueError):
            name = self.attributes.get("callback", self.target)
            kinds = ", ".join(str(value.type) for value in values)
            raise CallbackError(
                f"callout: '{name}' of an exported program: expected arrays of JAX's dtypes as operands and results, "
                f"got {kinds}"
            ) from None

    def _with_step_last(self, arrays: list[Any]) -> list[Any]:
        """Returns a tap's operands with its step last. In the program, the offsets are behind the step."""
        if self.target == TAP and self.attributes.get("step") and self.attributes.get("offsets"):
            return [*arrays[:-2], arrays[-1], arrays[-2]]
        return arrays

    def _replace_by(self, values: Sequence[Any]) -> None:
        for old, new in zip(self.op.results, values, strict=True):
            old.replace_all_uses_with(new)
        self.op.erase()

    def _call(self, ordinals: tuple[int, ...]) -> host_functions.FallbackCall:
        threaded = bool(self.attributes.get("threaded"))
        attributes = {name: value for name, value in self.attributes.items() if name not in _NOT_TOLD}
        if self.target == TAP:  # programs of earlier versions have more attributes
            known = tables()[TAP]
            attributes = {"step": 0, **{name: value for name, value in attributes.items() if name in known}}
            if not isinstance(attributes.get("can_fail", 0), int):  # a program may have any value there
                del attributes["can_fail"]
        else:
            attributes = {"ordered": 0, "callback": self.target, **attributes}  # reads have no callback
        results = self._specs(self._own_results())
        name = attributes.get("label") or attributes["callback"]
        return host_functions.FallbackCall(
            *(self.target, f"callout: '{name}' of an exported program", self.platform, attributes, threaded, results),
            ordinals=ordinals if ordinals and self._spread() is Spread.MANUAL else None,
            is_deferred=self.num_partitions > 1 and len(results) == threaded,
        )

    def _returned(self) -> list[int]:
        """Returns the indices of the arrays that a tap returns, behind its own results, which are tokens."""
        return [int(place) for place in self.attributes.get("returned", ())]

    def _own_results(self) -> list[Any]:
        """Returns the results without JAX's token and without those that are operands."""
        results = list(self.op.results)
        return [
            result for result in results[: max(0, len(results) - len(self._returned()))] if not is_token(result.type)
        ]

    def _has_side_effect(self) -> bool:
        name = "has_side_effect"  # absent if false
        return name in self.op.attributes and bool(ir.BoolAttr(self.op.attributes[name]).value)

    def _is_ordered(self) -> bool:
        """Returns whether the call takes and returns JAX's token."""
        return _token_place(self.op.operands) is not None

    def _spread(self) -> Spread:
        """Returns whether the compiler or the user partitions the call."""
        if len(self._spreads) > 1:
            raise NotImplementedError(
                f"callout: '{self.attributes['callback']}' of an exported program is in a function that is called "
                "inside and outside of a shard_map, which needs callout's native path"
            )
        (spread,) = self._spreads
        if spread is not Spread.AUTOMATIC or "sharding" in self.attributes:
            return spread
        return Spread.MANUAL  # GSPMD's operations for a shard_map have no region

    def _placement(self, has_results: bool) -> Placement | None:
        if self.num_partitions == 1:
            return None
        spread = self._spread()
        if spread is Spread.MANUAL:
            return Placement(None)
        index = self.attributes.get("device_index", 0)
        if not isinstance(index, int) or not 0 <= index < self.num_partitions:
            raise CallbackError(
                f"callout: '{self.attributes['callback']}' of an exported program: attribute 'device_index' must be "
                f"one of the program's {self.num_partitions} devices, got {index!r}"
            )
        mode = self.attributes.get("sharding", "local" if spread is Spread.PARTLY_MANUAL else "gather")
        if spread is Spread.PARTLY_MANUAL and self._is_ordered():
            raise NotImplementedError(
                f"callout: '{self.attributes['callback']}' of an exported program is ordered, inside a shard_map "
                "that leaves axes to the compiler, which needs callout's native path"
            )
        on_shards = (
            mode == "local"
            and not (has_results or self._is_ordered())
            and not (spread is Spread.AUTOMATIC and self.attributes["callback"].startswith(emit.INSPECTED))
        )
        return Placement(0 if has_results else index, on_shards)


def _text(value: Any) -> Any:
    """Converts a text of the program, whose bytes need not be UTF-8, to a str. Returns other values unchanged."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _arrays(values: Sequence[Any]) -> list[Any]:
    """Returns the values without JAX's token, if there is one."""
    place = _token_place(values)
    return [value for number, value in enumerate(values) if number != place]


def _token_place(values: Sequence[Any]) -> int | None:
    """Returns the index of JAX's token, if there is one: first, or last for former sends and receives."""
    return next((place for place, value in enumerate(values) if is_token(value.type)), None)
