# SPDX-License-Identifier: Apache-2.0
"""Emits calls on TPUs as operations that send operands to the host and receive results from the host.

Each op takes the token of the previous one. JAX's own rules need the platform's backend and a single platform; this
file does not. Without a backend, the function is not attached, and the program can be inspected but not run.

A tap that never fails the program is a single send, so that the device does not wait for the host. XLA pairs the values
of several sends by counting them, and guarantees no order among the sends of a loop that does not wait, so a tap must
not use several sends.

Clients of remote servers pickle the host functions of a program. Python functions are pickled by value, registered
names by name. Objects that belong to this process, such as sinks, cannot be pickled. In the other process, which must
be able to import callout, records go to its own queues, and failures to its own barriers.
"""

from __future__ import annotations

import copyreg
import dataclasses
import pickle
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir

from ... import _ext, _jax_compat
from ..._targets.function_targets import restored_target
from ..._targets.operation_attributes import DEVICE_TO_HOST, HOST_TO_DEVICE, is_token, transfer_attributes
from ..._targets.target import Transforms, bound_target
from . import host_functions
from .host_functions import FallbackCall, Specs
from .jax_operations import Placement, annotate

_DUMMY = (np.dtype(np.float32), ())  # sent or received if there is no array
_WIDEST = 4  # bytes of a word; TPUs store 64-bit elements as pairs
_SUB_BYTE = re.compile(r"(u?int|float)[1-7](_|$)")  # dtypes whose NumPy arrays use a byte for each element
_ANSWER = (np.zeros(_DUMMY[1], _DUMMY[0]),)


class _Transfers:
    """Emits the sends and receives of one callback in order."""

    def __init__(self, module: Any, token: Any, placement: Placement | None):
        self._module = module
        self._placement = placement
        self.token = stablehlo.create_token() if token is None else token
        self.sent: list[int] = []
        self.received: list[int] = []

    def send(self, value: Any) -> None:
        """Sends a value to the host."""
        channel = self._module.new_channel()
        op = stablehlo.SendOp([value], self.token, **transfer_attributes(channel, DEVICE_TO_HOST))
        self.token = self._finish(op, channel, [mlir.token_type()])[0]
        self.sent.append(channel)

    def receive(self, kind: Any) -> Any:
        """Returns a value of this type from the host."""
        channel = self._module.new_channel()
        kinds = [kind, mlir.token_type()]
        op = stablehlo.RecvOp(kinds, self.token, **transfer_attributes(channel, HOST_TO_DEVICE))
        value, self.token = self._finish(op, channel, kinds)
        self.received.append(channel)
        return value

    def _finish(self, op: Any, channel: int, kinds: Sequence[Any]) -> list[Any]:
        op.operation.attributes["mhlo.frontend_attributes"] = ir.DictAttr.get(
            {
                "_xla_host_transfer_handler_name": ir.StringAttr.get("pjrt_rendezvous"),
                "_xla_host_transfer_rendezvous": ir.StringAttr.get(str(channel)),
            }
        )
        annotate(op, kinds, self._placement)
        return list(op.operation.results)


def _bytes_of_word(specs: Specs) -> int | None:
    """Returns the bytes of a word that can hold any element of these arrays; None if one is too wide."""
    fits = all(
        dtype.itemsize <= _WIDEST and dtype.kind != "c" and not _SUB_BYTE.match(dtype.name) for dtype, _ in specs
    )
    return max(dtype.itemsize for dtype, _ in specs) if fits else None


def _pack(values: Sequence[Any], specs: Specs, word_bytes: int) -> Any:
    """Packs arrays into one array of words, one element in each word."""
    word = ir.IntegerType.get_unsigned(8 * word_bytes)
    parts = []
    for value, (dtype, shape) in zip(values, specs, strict=True):
        if 0 in shape:
            continue
        bits = ir.IntegerType.get_unsigned(8 * dtype.itemsize)
        if dtype == np.bool_:
            same: Any = stablehlo.ConvertOp(ir.RankedTensorType.get(shape, bits), value)
        else:
            same = stablehlo.BitcastConvertOp(ir.RankedTensorType.get(shape, bits), value)
        if dtype.itemsize < word_bytes:
            same = stablehlo.ConvertOp(ir.RankedTensorType.get(shape, word), same)
        parts.append(stablehlo.ReshapeOp(ir.RankedTensorType.get((int(np.prod(shape)),), word), same).result)
    if not parts:
        return mlir.ir_constant(np.zeros(1, f"u{word_bytes}"))
    return stablehlo.ConcatenateOp(parts, ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)).result


def _is_one_message(call: FallbackCall, specs: Specs) -> bool:
    kept = [spec for spec in specs if 0 not in spec[1]]
    return len(kept) < 2 or (call.is_tap and not call.threaded and _bytes_of_word(specs) is not None)


@dataclasses.dataclass(frozen=True)
class _Message:
    """The values to send, and the host function that receives them."""

    operands: Sequence[Any]
    specs: Specs
    function: Any


def _message(call: FallbackCall, operands: Sequence[Any], specs: Specs, answer: tuple[Any, ...]) -> _Message:
    """Makes the message of a tap or a call. `answer`: the value to receive if there are no results."""
    is_plain = len(specs) == 1 and 0 not in specs[0][1]
    word_bytes = _bytes_of_word(specs) if specs else None
    if call.is_tap and not call.threaded and word_bytes is not None and not is_plain:
        packed = _pack(operands, specs, word_bytes)
        count = max(1, sum(int(np.prod(shape)) for _, shape in specs))
        taken = host_functions.tap(dataclasses.replace(call, packed=(word_bytes, list(specs)), answer=answer))
        return _Message([packed], [(np.dtype(f"u{word_bytes}"), (count,))], taken)
    kept = [i for i, (_, shape) in enumerate(specs) if 0 not in shape]
    function = host_functions.function_for(dataclasses.replace(call, answer=answer) if call.is_tap else call)
    if len(kept) < max(1, len(specs)) or (not call.is_tap and (answer or any(0 in shape for _, shape in call.results))):
        function = Between(function, list(specs), answer)
    if not kept:
        return _Message([mlir.ir_constant(np.zeros(_DUMMY[1], _DUMMY[0]))], [_DUMMY], function)
    return _Message([operands[i] for i in kept], [specs[i] for i in kept], function)


class Between:
    """Wraps a host function, and adds or removes the empty operands and results, which are not transferred."""

    def __init__(self, function: Callable[..., Sequence[Any]], specs: Specs, answer: tuple[Any, ...]):
        self.function = function
        self.specs = specs
        self.answer = answer

    def __call__(self, *arrays: Any) -> Sequence[Any]:
        rest = iter(arrays)
        outs = self.function(*(np.zeros(shape, dtype) if 0 in shape else next(rest) for dtype, shape in self.specs))
        return self.answer or tuple(out for out in outs if 0 not in np.shape(out))


def emit(
    module: Any,
    call: FallbackCall,
    operands: Sequence[Any],
    kinds: Sequence[Any],
    specs: Specs,
    placement: Placement | None,
    waits: bool,
) -> Sequence[Any]:
    """Emits a call and returns its results. `waits`: whether the device waits for the host if there are no results.

    `specs`: dtype and shape of each operand without the token, which is the first of the operands and of `kinds`, the types
    of the results.
    """
    ordered = bool(kinds) and is_token(kinds[0])
    token, operands, kinds = (operands[0], operands[1:], kinds[1:]) if ordered else (None, operands, kinds)
    received = [spec for spec in call.results if 0 not in spec[1]]
    # XLA may pair several sends of a loop that does not wait wrongly, so that the device must wait.
    waits = (waits or not _is_one_message(call, specs)) and not received
    call = dataclasses.replace(call, owner=bound_target(call.name))
    message = _message(call, operands, specs, _ANSWER if waits else ())
    transfers = _Transfers(module, token, placement)
    for operand in message.operands:
        transfers.send(operand)
    results = [
        mlir.ir_constant(np.zeros(shape, dtype)) if 0 in shape else transfers.receive(kind)
        for kind, (dtype, shape) in zip(kinds, call.results, strict=True)
    ]
    if waits:
        transfers.receive(ir.RankedTensorType.get((), ir.F32Type.get()))
    _jax_compat.attach_transfers(
        *(module, call.platform, message.function),
        *(message.specs, [_DUMMY] if waits else received),
        *(transfers.sent, transfers.received),
    )
    return [transfers.token, *results] if ordered else results


def _pickled(call: FallbackCall) -> bytes | None:
    """Returns the pickled callback, or None for a name of any process. Raises PicklingError if it belongs here."""
    if call.owner is None:
        return None
    target, transforms = call.owner
    refusal = (
        f"callout: '{target.label}' cannot be sent to the process that runs the program{{}}. Bind it there by "
        "callout.register(name, fn), and pass the name"
    )
    if target.kind not in ("call", "tap"):
        raise pickle.PicklingError(refusal.format(": it is no Python function, and belongs to this process"))
    try:
        return _jax_compat.dumps((target.kind, target.source, target.structure, transforms))
    except Exception as error:
        raise pickle.PicklingError(refusal.format(f": {type(error).__name__}: {error}")) from error


def _reduced(call: FallbackCall) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    if call.platform != "tpu":  # JAX loads a serialised compiled program without its callbacks
        raise pickle.PicklingError(
            f"callout: '{call.label}' goes by JAX's own callbacks (config.fallback), which belong to this process, and so "
            "does a compiled program that calls it. Programs of callout.export carry names"
        )
    here = dataclasses.replace(call, first=call.first_ordinal(), owner=None)
    return _restore, ({field.name: getattr(here, field.name) for field in dataclasses.fields(here)}, _pickled(call))


def _restore(fields: dict[str, Any], pickled: bytes | None) -> Any:
    call = FallbackCall(**fields)
    callback: _ext.Callback | None = None
    if pickled is not None:
        kind, source, structure, transforms = pickle.loads(pickled)
        callback = _callback(kind, source, structure, transforms)
    return host_functions.function_for(call, callback)


def _callback(kind: str, source: Any, structure: Any, transforms: Transforms) -> _ext.Callback:
    return restored_target(kind, source, structure).callback(transforms)


def _reduced_tap(tap: _ext.HostTap) -> Any:
    call: Any = tap.call
    return _reduced(call)


def _reduced_call(call: host_functions.Call) -> Any:
    return _reduced(call.call)


def _register_pickling() -> None:
    """Registers the reducers of host functions with pickle."""
    copyreg.pickle(_ext.HostTap, _reduced_tap)
    copyreg.pickle(host_functions.Call, _reduced_call)


_register_pickling()
