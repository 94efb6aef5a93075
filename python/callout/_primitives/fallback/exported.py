# SPDX-License-Identifier: Apache-2.0
"""Programs that were exported, where JAX's own callbacks carry calls and taps.

JAX's callbacks belong to a process, so no exported program has them: it has calls of ours, by name, for every platform. Who
compiles it for a platform without a native path puts JAX's callbacks there, of this process.
"""

from __future__ import annotations

import functools
import io
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir

from ... import _jax_compat
from ..._base.native_platforms import PLATFORMS
from ..._targets.operation_attributes import OURS, is_call_of, is_token, operations, own_calls, spec_of
from ..._targets.reached import Spread, reached
from .exported_call import ExportedCall


class _Module:
    """Stands for the context of a module that is lowered already, as far as what writes JAX's callbacks asks it."""

    def __init__(self, lowered: Any, platform: str, backend: Any):
        self.host_callbacks = lowered.host_callbacks
        # A program may be lowered for another platform than the one that is there.
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
        return 1  # JAX's own for collectives
    handle: Any = stablehlo.ChannelHandle(operation.attributes["channel_handle"])
    return int(handle.handle)


def carry(lowered: Any, platform: str, backend: Any, devices: Sequence[jax.Device], num_partitions: int) -> None:
    """Puts JAX's callbacks in the place of the calls that a module has. In the module's context.

    Args:
        lowered: what JAX made: the module and its host callbacks, which are changed.
        platform: the one that the module is for.
        backend: what the program will be compiled by, or None.
        devices: the program's, or none where they are not known.
        num_partitions: over how many devices it is spread.

    Raises:
        NotImplementedError: a call that only a native path can carry, which the platform does not have.
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
    """Returns the calls of ours that a module comes to. In the module's context."""
    return reached(module, lambda op: is_call_of(op, OURS))


def _refuse_gspmd(module: Any, num_partitions: int) -> None:
    """Refuses a shard_map that is not written in Shardy's dialect: XLA ends the process for a call on one device there."""
    if num_partitions == 1 or _jax_compat.uses_shardy():
        return
    if any(is_call_of(op, "SPMDFullToShardShape") for op in operations(module.operation)):
        raise NotImplementedError(
            "callout: an exported program with callbacks in a shard_map, by JAX's callbacks (config.fallback), needs "
            "jax_use_shardy_partitioner=True"
        )


def _drop(calls: Sequence[Any]) -> None:
    """Takes out calls that the program does not come to, and that nobody could compile."""
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
    """Gives the module, of known shapes of arguments, known shapes throughout, as JAX does before it compiles."""
    written = io.BytesIO()
    _jax_compat.refined(module).operation.write_bytecode(written)
    refined = ir.Module.parse(written.getvalue())
    for op in list(module.body.operations):
        op.operation.erase()
    for op in list(refined.body.operations):
        module.body.append(op)
