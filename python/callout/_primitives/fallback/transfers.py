# SPDX-License-Identifier: Apache-2.0
"""A program for a TPU calls by operations that send operands to the host and receive results from it.

Each op has the token of the one before. JAX's own rules need the platform's backend for that, and one platform. These do
not: where there is no backend, the function is not attached, and the program can be looked at but not run.

A tap that fails no program is one send and nothing else, so that the device does not wait for the host. One: XLA pairs the
values of several sends by counting them, and promises no order among the sends of a loop that waits for nothing.

Clients of remote servers pickle the host functions that a program sends to and receives from. Python functions travel by
value, registered names by name. What belongs to this process, such as a sink, is refused. In the other process, which must
be able to import callout, records go to the queue there, and failures to its barriers.
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
from . import host_stand_ins
from .host_stand_ins import Specs, Told
from .jax_operations import Placement, annotate

_DUMMY = (np.dtype(np.float32), ())  # sent or received where there is nothing else
_WIDEST = 4  # TPUs have 64 bits as pairs of 32
_SUB_BYTE = re.compile(r"(u?int|float)[1-7](_|$)")  # whose NumPy arrays have a byte for each element
_ANSWER = (np.zeros(_DUMMY[1], _DUMMY[0]),)


class _Transfers:
    """Sends and receives of one callback, one after the other."""

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
    """Finds the bytes of the words that each element of any of these has its place in; None if one does not fit."""
    fits = all(
        dtype.itemsize <= _WIDEST and dtype.kind != "c" and not _SUB_BYTE.match(dtype.name) for dtype, _ in specs
    )
    return max(dtype.itemsize for dtype, _ in specs) if fits else None


def _pack(values: Sequence[Any], specs: Specs, word_bytes: int) -> Any:
    """Returns the arrays as one of words, an element a word."""
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


def _is_one_message(told: Told, specs: Specs) -> bool:
    kept = [spec for spec in specs if 0 not in spec[1]]
    return len(kept) < 2 or (told.is_tap and not told.threaded and _bytes_of_word(specs) is not None)


@dataclasses.dataclass(frozen=True)
class _Message:
    """What is sent, and what takes it."""

    operands: Sequence[Any]
    specs: Specs
    function: Any


def _message(told: Told, operands: Sequence[Any], specs: Specs, answer: tuple[Any, ...]) -> _Message:
    """Makes the message of a tap or a call. `answer`: what is received if there are no results."""
    is_plain = len(specs) == 1 and 0 not in specs[0][1]
    word_bytes = _bytes_of_word(specs) if specs else None
    if told.is_tap and not told.threaded and word_bytes is not None and not is_plain:
        packed = _pack(operands, specs, word_bytes)
        count = max(1, sum(int(np.prod(shape)) for _, shape in specs))
        taken = host_stand_ins.tap(dataclasses.replace(told, packed=(word_bytes, list(specs)), answer=answer))
        return _Message([packed], [(np.dtype(f"u{word_bytes}"), (count,))], taken)
    kept = [i for i, (_, shape) in enumerate(specs) if 0 not in shape]
    function = host_stand_ins.function_for(dataclasses.replace(told, answer=answer) if told.is_tap else told)
    if len(kept) < max(1, len(specs)) or (not told.is_tap and (answer or any(0 in shape for _, shape in told.results))):
        function = Between(function, list(specs), answer)
    if not kept:
        return _Message([mlir.ir_constant(np.zeros(_DUMMY[1], _DUMMY[0]))], [_DUMMY], function)
    return _Message([operands[i] for i in kept], [specs[i] for i in kept], function)


class Between:
    """A call of whose operands and results the empty ones do not travel."""

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
    told: Told,
    operands: Sequence[Any],
    kinds: Sequence[Any],
    specs: Specs,
    placement: Placement | None,
    waits: bool,
) -> Sequence[Any]:
    """Returns the results of a call. `waits`: for the host, if there are none.

    `specs`: dtype and shape of each operand without the token, which is the first of the operands and of `kinds`, the types
    of the results.
    """
    ordered = bool(kinds) and is_token(kinds[0])
    token, operands, kinds = (operands[0], operands[1:], kinds[1:]) if ordered else (None, operands, kinds)
    received = [spec for spec in told.results if 0 not in spec[1]]
    # Several sends of a loop that waits for nothing may be paired wrongly.
    waits = (waits or not _is_one_message(told, specs)) and not received
    told = dataclasses.replace(told, owner=bound_target(told.name))
    message = _message(told, operands, specs, _ANSWER if waits else ())
    transfers = _Transfers(module, token, placement)
    for operand in message.operands:
        transfers.send(operand)
    results = [
        mlir.ir_constant(np.zeros(shape, dtype)) if 0 in shape else transfers.receive(kind)
        for kind, (dtype, shape) in zip(kinds, told.results, strict=True)
    ]
    if waits:
        transfers.receive(ir.RankedTensorType.get((), ir.F32Type.get()))
    _jax_compat.attach_transfers(
        *(module, told.platform, message.function),
        *(message.specs, [_DUMMY] if waits else received),
        *(transfers.sent, transfers.received),
    )
    return [transfers.token, *results] if ordered else results


def _pickled(told: Told) -> bytes | None:
    """Returns the callback, unless its name says what it is in every process. PicklingError if it belongs to this one."""
    if told.owner is None:
        return None
    target, transforms = told.owner
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


def _reduced(told: Told) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    if told.platform != "tpu":  # a compiled program that is serialised: JAX loads it without its callbacks
        raise pickle.PicklingError(
            f"callout: '{told.label}' goes by JAX's own callbacks (config.fallback), which belong to this process, and so "
            "does a compiled program that calls it. Programs of callout.export carry names"
        )
    here = dataclasses.replace(told, first=told.first_ordinal(), owner=None)
    return _restore, ({field.name: getattr(here, field.name) for field in dataclasses.fields(here)}, _pickled(told))


def _restore(fields: dict[str, Any], pickled: bytes | None) -> Any:
    told = Told(**fields)
    callback: _ext.Callback | None = None
    if pickled is not None:
        kind, source, structure, transforms = pickle.loads(pickled)
        callback = _callback(kind, source, structure, transforms)
    return host_stand_ins.function_for(told, callback)


def _callback(kind: str, source: Any, structure: Any, transforms: Transforms) -> _ext.Callback:
    return restored_target(kind, source, structure).callback(transforms)


def _reduced_tap(tap: _ext.HostTap) -> Any:
    told: Any = tap.told
    return _reduced(told)


def _reduced_call(call: host_stand_ins.Call) -> Any:
    return _reduced(call.told)


def _register_pickling() -> None:
    """Tells pickle of the functions."""
    copyreg.pickle(_ext.HostTap, _reduced_tap)
    copyreg.pickle(host_stand_ins.Call, _reduced_call)


_register_pickling()
