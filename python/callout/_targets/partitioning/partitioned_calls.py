# SPDX-License-Identifier: Apache-2.0
"""Builds the functions that replace a custom call in a program over several devices, as StableHLO.

Each builder returns the function and the shardings of operands and results. partitioner.py chooses the builder.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo as ops
from jax.interpreters import mlir

from ..._base.loggers import logger
from .. import target_attributes
from . import stablehlo
from .shards import Call, alike, even, like_operands, offsets, replicated, tile

_GATHERED_CALL, _GATHERED_TAP = "callout.v1.gathered_call", "callout.v1.gathered_tap"
_LARGE_BYTES = 64_000_000
_NARROW = ("i1", "i2", "i4", "ui2", "ui4")
_LESS_THAN_A_BYTE = (*_NARROW, "f4E2M1FN")
_WIDENED = 16384  # at most so many elements are summed in 32 bits
_warned: set[str] = set()

Partitioned = tuple[bytes, list[Any], list[Any]]


def entries(config: Any) -> dict[str, str | int]:
    """Returns the strings and integers among the attributes of a call, without nested ones."""
    found: dict[str, str | int] = {}
    for entry in config:
        if isinstance(entry.attr, ir.StringAttr):
            found[entry.name] = ir.StringAttr(entry.attr).value
        elif isinstance(entry.attr, ir.IntegerAttr):
            found[entry.name] = ir.IntegerAttr(entry.attr).value
    return found


def without(config: Any, is_left_out: Callable[[str], bool]) -> Any:
    """Returns the attributes of a call without those for whose names `is_left_out` is true."""
    return ir.DictAttr.get({entry.name: entry.attr for entry in config if not is_left_out(entry.name)})


def returning_itself(call: Call) -> Call:
    """Returns the call without results that are operands (`tapped_values`); each device uses its own operand instead."""
    if "returned" not in call.config:
        return call
    places: Any = ir.DenseIntElementsAttr(call.config["returned"])
    returned = [int(place) for place in places]
    count = len(call.result_shapes) - len(returned)
    return dataclasses.replace(
        call,
        config=without(call.config, lambda name: name == "returned"),
        result_shapes=call.result_shapes[:count],
        result_shardings=call.result_shardings[:count],
        returned=returned,
    )


def _config(call: Call, more: Mapping[str, Any], target: str = "") -> dict[str, Any]:
    """Returns the call's attributes and `more` of them, for `target`, by default the call's own."""
    added = target_attributes.numbers(target or call.target, more)
    return {
        **{entry.name: entry.attr for entry in call.config},
        **{name: mlir.ir_attribute(value) for name, value in added.items()},
    }


def _tiles(shapes: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
    """Returns the types of one device's shards."""
    return [stablehlo.type_of(tile(shape, sharding)) for shape, sharding in zip(shapes, shardings, strict=True)]


def as_it_is(call: Call) -> bytes:
    """Builds the unchanged call, with each device's shards."""
    results = _tiles(call.result_shapes, call.result_shardings)
    return stablehlo.module_text(
        _tiles(call.arg_shapes, call.arg_shardings),
        lambda args: stablehlo.custom_call(call.target, _config(call, {}), args, results),
    )


def on_each(call: Call) -> Partitioned:
    """Builds a call by every device, with whole operands."""
    shardings, spread = ([replicated()] * len(shapes) for shapes in (call.arg_shapes, call.result_shapes))
    results = _tiles(call.result_shapes, spread)
    text = stablehlo.module_text(
        _tiles(call.arg_shapes, shardings),
        lambda args: stablehlo.custom_call(call.target, _config(call, {}), args, results),
    )
    return text, shardings, spread


def in_meeting(call: Call) -> Partitioned | None:
    """Builds a rendezvous: all devices pass their shards, and the last one calls.

    Returns None if the devices are not all in this process, or their number is unknown. XLA gathers operands whose
    elements have less than a byte.
    """
    shardings = [
        replicated()
        if shape.is_array() and stablehlo.element_of(stablehlo.type_of(shape)) in _LESS_THAN_A_BYTE
        else even(shape, sharding)
        for shape, sharding in zip(call.arg_shapes, call.arg_shardings, strict=True)
    ]
    counts = {sharding.num_devices() for sharding in shardings if sharding.is_tiled()}
    attribute = int(call.attribute("num_devices") or 0)
    devices = max(counts, default=attribute)
    if len(counts | ({attribute} if attribute > 1 else set())) != 1 or devices < 2 or jax.process_count() > 1:
        return None
    _warn_if_large(call)
    skipped = 1 if call.attribute("threaded") else 0
    begins = offsets(call.arg_shapes[skipped:], shardings[skipped:])
    target = _GATHERED_TAP if call.target.endswith(".tap") else _GATHERED_CALL
    shards = {"shards": begins} if begins.any() else {}
    config = _config(call, {"devices": devices, "caller": call.attribute("device_index") or 0, **shards}, target)
    spread = [replicated()] * len(call.result_shapes)
    results = _tiles(call.result_shapes, spread)
    text = stablehlo.module_text(
        _tiles(call.arg_shapes, shardings),
        lambda args: call.and_returned(
            stablehlo.custom_call(target, config, [*args, ops.partition_id()], results), args
        ),
    )
    return text, shardings, call.and_returned(spread, shardings)


def on_shards(call: Call) -> Partitioned:
    """Builds a call by every device, with its shards."""
    shardings = [even(shape, sharding) for shape, sharding in zip(call.arg_shapes, call.arg_shardings, strict=True)]
    if call.result_shapes:
        shardings = alike(call.arg_shapes, shardings)
    spread = like_operands(call, shardings)
    begins = offsets(call.arg_shapes, shardings)
    is_whole = all(not sharding.is_tiled() for sharding in shardings)
    says_where = call.target.endswith(".tap") and begins.shape[1] > 0 and not is_whole
    more = {"offsets": True} if says_where else {}

    def write(args: Sequence[Any]) -> Sequence[Any]:
        operands = [*args, _row(begins)] if says_where else args
        if not (call.attribute("can_fail") and not call.result_shapes):
            return call.and_returned(stablehlo.custom_call(call.target, _config(call, more), operands, results), args)
        (status,) = stablehlo.custom_call(call.target, _config(call, {**more, "deferred": True}), operands, [_status()])
        stablehlo.custom_call("callout.v1.check", _config(call, {}), [stablehlo.all_reduce(status, "maximum")], [])
        return call.and_returned([], args)

    results = _tiles(call.result_shapes, spread)
    text = stablehlo.module_text(_tiles(call.arg_shapes, shardings), write)
    return text, shardings, call.and_returned(spread, shardings)


def on_one(call: Call, *, deferred: bool) -> Partitioned:
    """Builds a call by one device, with whole values. `deferred`: a failure is returned with the results."""
    _warn_if_large(call)
    kinds = [stablehlo.type_of(shape) for shape in call.result_shapes]
    all_kinds = [*kinds, _status()] if deferred else kinds
    more = {"deferred": True} if deferred else {}

    def write(args: Sequence[Any]) -> Sequence[Any]:
        chosen = stablehlo.full(stablehlo.array_type([], "ui32"), str(call.attribute("device_index") or 0))
        is_chosen = ops.compare(ops.partition_id(), chosen, ops.ComparisonDirectionAttr.get("EQ"))
        tokens = iter([arg for arg in args if not stablehlo.element_of(arg.type)])
        outs = stablehlo.choose(
            is_chosen,
            all_kinds,
            lambda: stablehlo.custom_call(call.target, _config(call, more), args, all_kinds),
            lambda: [stablehlo.zeros(kind) if stablehlo.element_of(kind) else next(tokens) for kind in all_kinds],
        )
        if deferred:
            return call.and_returned(_checked(call, outs), args)
        summed = [_sum_of_bits(out) if stablehlo.element_of(out.type) else out for out in outs]
        return call.and_returned(summed, args)

    shardings = [replicated()] * len(call.arg_shapes)
    text = stablehlo.module_text([stablehlo.type_of(shape) for shape in call.arg_shapes], write)
    return text, shardings, call.and_returned([replicated()] * len(kinds), shardings)


def _status() -> Any:
    return stablehlo.array_type([], "i32")


def _row(table: np.ndarray) -> Any:
    """Emits a read of this device's row of `table`."""
    devices, width = table.shape
    whole = stablehlo.full(stablehlo.array_type([devices, width], "i64"), str(table.tolist()))
    zero = stablehlo.full(stablehlo.array_type([], "ui32"), "0")
    row = ops.dynamic_slice(whole, [ops.partition_id(), zero], [1, width])
    return ops.reshape(stablehlo.array_type([width], "i64"), row)


def _checked(call: Call, outs: Sequence[Any]) -> list[Any]:
    """Emits the distribution of the results, or of the failure, to every device."""
    *results, status = outs
    data = [_sum_of_bits(value) for value in results if stablehlo.element_of(value.type)]
    operands = [_sum_of_bits(status), *data]
    kinds = [value.type for value in data]
    checked = iter(stablehlo.custom_call("callout.v1.check", _config(call, {}), operands, kinds, in_place=len(data)))
    return [next(checked) if stablehlo.element_of(value.type) else value for value in results]


def _warn_if_large(call: Call) -> None:
    size = sum(
        int(np.prod(shape.dimensions(), dtype=np.int64)) * np.dtype(shape.numpy_dtype()).itemsize
        for shape, sharding in zip(call.arg_shapes, call.arg_shardings, strict=True)
        if shape.is_array() and sharding is not None and not sharding.is_replicated()
    )
    name = str(call.attribute("label") or call.attribute("callback"))
    if size > _LARGE_BYTES and name not in _warned:
        _warned.add(name)
        logger.warning(
            "callback '%s' collects %d MB from all devices on one each time it is reached; a tap with sharding=\"local\" "
            "(partitioned=True of debug_callback) gets each device's own shard instead",
            name,
            size // 1_000_000,
        )


def _sum_of_bits(value: Any) -> Any:
    """Emits the sum of a value and the zeros of other devices, as bits, because adding zero changes a negative zero.

    Small values are summed in 32 bits: XLA combines sums of one type, and each sum costs a rendezvous of the devices'
    threads.
    """
    kind, element = value.type, stablehlo.element_of(value.type)

    def like(other: str) -> Any:
        return stablehlo.array_type(stablehlo.dims_of(kind), other)

    if element.startswith("complex"):
        return ops.complex(_sum_of_bits(ops.real(value)), _sum_of_bits(ops.imag(value)))
    if element in _NARROW:
        return ops.convert(kind, _sum_of_bits(ops.convert(like("ui8"), value)))
    width = int(re.findall(r"\d+", element)[0])
    if not element.startswith("ui"):
        return ops.bitcast_convert(kind, _sum_of_bits(ops.bitcast_convert(like(f"ui{width}"), value)))
    if width == 64:
        halves = ops.bitcast_convert(stablehlo.array_type([*stablehlo.dims_of(kind), 2], "ui32"), value)
        return ops.bitcast_convert(kind, stablehlo.all_reduce(halves, "add"))
    if width < 32 and math.prod(stablehlo.dims_of(kind)) <= _WIDENED:
        return ops.convert(kind, stablehlo.all_reduce(ops.convert(like("ui32"), value), "add"))
    return stablehlo.all_reduce(value, "add")
