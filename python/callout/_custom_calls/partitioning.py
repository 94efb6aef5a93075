# SPDX-License-Identifier: Apache-2.0
"""What XLA's SPMD partitioner does with our custom calls in a jit over several devices.

XLA asks once a call, when shardings are known, and gets the call's per-device program as StableHLO text:

* inside shard_map (manual sharding): the same call; every device calls with its shard.
* "gather" on CPUs of one process: the devices come together in the call (see src/ffi/gathering.h).
* "gather" elsewhere: the operands are collected everywhere, one device runs the call, and its results are summed with the
  zeros of the others. A failure travels with the results (see src/callbacks/failures.h) and is raised on every device at
  once.
* "local": every device calls with its shard, and with where in the whole value that begins.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.interpreters import mlir

from .. import _jax_compat
from .._base.loggers import logger
from . import target_attributes
from .stablehlo import STATUS, Value, Writer, value_of

TARGETS = ("callout.v1.buffer", "callout.v1.buffer_capturable", "callout.v1.call", "callout.v1.tap")
_GATHERED = dict.fromkeys(TARGETS[:-1], "callout.v1.gathered_call") | {TARGETS[-1]: "callout.v1.gathered_tap"}
_LARGE_BYTES = 64_000_000
_NARROW = ("i1", "i2", "i4", "ui2", "ui4")
_WIDENED = 16384  # elements that are summed in 32 bits
_warned: set[str] = set()


def register() -> None:
    """Tells XLA. Without the private entry point, `attributes` refuses jits over several devices."""
    for target in TARGETS:
        _jax_compat.register_partitioner(
            target, _partitioner(target, meeting=True), _partitioner(target, meeting=False)
        )


def check_device_index(where: str, num_devices: int, device_index: int) -> None:
    """Raises ValueError for a place that the program does not have."""
    if num_devices > 0 and not 0 <= device_index < num_devices:
        raise ValueError(f"{where}: device_index={device_index} is not one of the program's {num_devices} device(s)")


def attributes(where: str, num_devices: int, sharding: str, device_index: int, exporting: bool) -> dict[str, Any]:
    """The attributes that tell the partitioner what to do; none where the compiler does not spread the program.

    What is exported for one device can be called in a program for several.
    """
    check_device_index(where, num_devices, device_index)
    if num_devices < (1 if exporting else 2):
        return {}
    if num_devices > 1 and not _jax_compat.has_partitioner():
        raise NotImplementedError(
            f"{where}: a callback in a jit over several devices needs an entry point that this jaxlib does not have; "
            "use it inside jax.shard_map"
        )
    return {"sharding": sharding, "device_index": device_index, "num_devices": num_devices}


@dataclasses.dataclass
class Call:
    """A custom call as XLA shows it: global shapes, and the shardings that it has settled on."""

    target: str
    config: str
    entries: Mapping[str, str | int]
    arg_shapes: Sequence[Any]
    arg_shardings: Sequence[Any]
    result_shapes: Sequence[Any]
    result_shardings: Sequence[Any]
    returned: Sequence[int] = ()  # operands that are results, too, behind those in `result_shapes`

    def and_returned(self, results: Sequence[Any], of_operands: Sequence[Any]) -> list[Any]:
        """What belongs to the results, and then to those operands; tokens come first among both."""
        return [*results, *(of_operands[len(self.result_shapes) + place] for place in self.returned)]

    def said(self, name: str) -> str | int | None:
        """An attribute, or its default; None where the target does not have it."""
        return target_attributes.read(self.target, self.entries, name)

    def is_manual(self) -> bool:
        """True inside shard_map, where an exported program may be called.

        A token does not tell: after a manual region it is still called manual.
        """
        skipped = 1 if self.said("threaded") else 0  # a token that is an array
        values = [
            *list(zip(self.arg_shapes, self.arg_shardings, strict=True))[skipped:],
            *list(zip(self.result_shapes, self.result_shardings, strict=True))[skipped:],
        ]
        return any(_is_manual(sharding) for shape, sharding in values if shape.is_array())

    def config_with(self, **more: int) -> str:
        """The attributes and more of them."""
        return f"{self.config.strip()[:-1]}, {target_attributes.text(self.target, **more)}}}"


def entries(config: str) -> dict[str, str | int]:
    """The strings and integers among the attributes of a call, not those inside of others."""
    from jax.extend.mlir import ir  # which imports Pallas

    found: dict[str, str | int] = {}
    with mlir.make_ir_context():
        parsed: Any = ir.DictAttr(ir.Attribute.parse(config))
        for entry in parsed:
            if isinstance(entry.attr, ir.StringAttr):
                found[entry.name] = ir.StringAttr(entry.attr).value
            elif isinstance(entry.attr, ir.IntegerAttr):
                found[entry.name] = ir.IntegerAttr(entry.attr).value
    return found


def call_of(
    target: str,
    config: str,
    of_ours: Mapping[str, str | int],
    arg_shapes: Sequence[Any],
    arg_shardings: Sequence[Any],
    result_shape: Any,
    sharding: Any,
) -> Call:
    """The call that XLA asks about. `of_ours`: what the partitioner may read of its attributes."""
    results = list(result_shape.tuple_shapes()) if result_shape.is_tuple() else [result_shape]
    elements = list(sharding.tuple_elements() or []) if result_shape.is_tuple() else [sharding]
    if len(elements) != len(results):
        elements = [sharding] * len(results)
    return Call(target, config, of_ours, arg_shapes, arg_shardings, results, elements)


def _returning_itself(call: Call) -> Call:
    """The call without results that are operands (`tapped_values`): what the program reads there is what each device has."""
    from jax.extend.mlir import ir

    with mlir.make_ir_context():
        told: Any = ir.DictAttr(ir.Attribute.parse(call.config))
        if "returned" not in told:
            return call
        places: Any = ir.DenseIntElementsAttr(told["returned"])
        kept = ir.DictAttr.get({entry.name: entry.attr for entry in told if entry.name != "returned"})
        returned, config = [int(place) for place in places], str(kept)
    count = len(call.result_shapes) - len(returned)
    return dataclasses.replace(
        call,
        config=config,
        result_shapes=call.result_shapes[:count],
        result_shardings=call.result_shardings[:count],
        returned=returned,
    )


def _partitioner(target: str, *, meeting: bool) -> Callable[..., tuple[bytes, Sequence[Any], Any]]:
    def partition(
        arg_shapes: Sequence[Any], arg_shardings: Sequence[Any], result_shape: Any, result_sharding: Any, config: bytes
    ) -> tuple[bytes, Sequence[Any], Any]:
        text = config.decode()
        call = call_of(target, text, entries(text), arg_shapes, arg_shardings, result_shape, result_sharding)
        mode = call.said("sharding")
        if not mode or call.is_manual():
            return as_it_is(call), [known(sharding) for sharding in arg_shardings], result_sharding
        call = _returning_itself(call)
        if mode == "local":
            body, shardings, spread = on_shards(call)
        elif meeting and (gathered := in_meeting(call)) is not None:
            body, shardings, spread = gathered
        else:
            # A tap fails only where it was told to.
            may_fail = target_attributes.may_fail_when_full(call.said("on_full"))
            body, shardings, spread = on_one(call, deferred=not target.endswith(".tap") or may_fail)
        if not spread:
            return body, shardings, result_sharding
        return body, shardings, _jax_compat.tuple_sharding(result_shape, spread)

    return partition


def _replicated() -> Any:
    return _jax_compat.replicated_sharding()


def _is_manual(sharding: Any) -> bool:
    return sharding is not None and (sharding.is_manual() or bool(sharding.subgroup_types()))


def known(sharding: Any) -> Any:
    """The sharding, or replication where there is none."""
    return _replicated() if sharding is None else sharding


def _tiles(shapes: Sequence[Any], shardings: Sequence[Any], prefix: str) -> list[Value]:
    """What one device has of each."""
    return [
        value_of(sharding.tile(shape) if shape.is_array() and sharding is not None else shape, f"{prefix}{i}")
        for i, (shape, sharding) in enumerate(zip(shapes, shardings, strict=True))
    ]


def as_it_is(call: Call) -> bytes:
    """The same call, of what a device has."""
    writer = Writer()
    args = _tiles(call.arg_shapes, call.arg_shardings, "%a")
    results = _tiles(call.result_shapes, call.result_shardings, "")
    return writer.module(args, writer.custom_call(call.target, call.config, args, results))


def _even(shape: Any, sharding: Any) -> Any:
    """The sharding, or replication where it does not divide the value: a shard with padding is nobody's value."""
    if sharding is None or not shape.is_array() or not sharding.is_tiled():
        return _replicated()
    tiles = sharding.tile_assignment_dimensions()
    divides = all(extent % count == 0 for extent, count in zip(shape.dimensions(), tiles, strict=False))
    return sharding if divides else _replicated()


def _offsets(call: Call, shardings: Sequence[Any]) -> np.ndarray:
    """[device, dimension of an operand]: where the device's shard begins."""
    num_devices = max([1, *(sharding.num_devices() for sharding in shardings if sharding.is_tiled())])
    columns = [np.zeros((num_devices, 0), np.int64)]
    for shape, sharding in zip(call.arg_shapes, shardings, strict=True):
        if not shape.is_array():
            continue
        begin = np.zeros((num_devices, len(shape.dimensions())), np.int64)
        if sharding.is_tiled():
            tiles = np.asarray(sharding.tile_assignment_devices()).reshape(sharding.tile_assignment_dimensions())
            extents = sharding.tile(shape).dimensions()
            for index, device in np.ndenumerate(tiles):
                begin[device] = np.asarray(index[: len(extents)]) * extents
        columns.append(begin)
    return np.concatenate(columns, axis=1)


def _row(writer: Writer, table: np.ndarray) -> Value:
    """The row of this device."""
    devices, width = table.shape
    whole = writer.constant(Value("", (devices, width), "i64"), str(table.tolist()))
    zero = writer.constant(Value("", (), "ui32"), "0")
    row = writer.op(
        Value("", (1, width), "i64"),
        f"stablehlo.dynamic_slice {whole.name}, {writer.device_index().name}, {zero.name}, sizes = [1, {width}] : "
        f"({whole.type}, tensor<ui32>, tensor<ui32>) -> tensor<1x{width}xi64>",
    )
    return writer.op(Value("", (width,), "i64"), f"stablehlo.reshape {row.name} : ({row.type}) -> tensor<{width}xi64>")


def in_meeting(call: Call) -> tuple[bytes, list[Any], list[Any]] | None:
    """All devices come together with their shards, and the last one calls. Also the shardings of operands and of results.

    None where they cannot: they are not all in this process, or nobody says how many there are. What is spread over them
    in parts of a byte, XLA collects.
    """
    shardings = [
        _replicated() if shape.is_array() and value_of(shape).element in _NARROW else _even(shape, sharding)
        for shape, sharding in zip(call.arg_shapes, call.arg_shardings, strict=True)
    ]
    counts = {sharding.num_devices() for sharding in shardings if sharding.is_tiled()}
    said = int(call.said("num_devices") or 0)
    devices = max(counts, default=said)
    if len(counts | ({said} if said > 1 else set())) != 1 or devices < 2 or jax.process_count() > 1:
        return None
    _warn_if_large(call)
    writer = Writer()
    args = _tiles(call.arg_shapes, shardings, "%a")
    skipped = 1 if call.said("threaded") else 0
    offsets = _offsets(dataclasses.replace(call, arg_shapes=call.arg_shapes[skipped:]), shardings[skipped:])
    target = _GATHERED[call.target]
    shards = {"shards": offsets} if offsets.any() else {}
    more = target_attributes.text(target, devices=devices, caller=call.said("device_index") or 0, **shards)
    config = f"{call.config.strip()[:-1]}, {more}}}"
    spread = [_replicated()] * len(call.result_shapes)
    results = writer.custom_call(target, config, [*args, writer.device_index()], _tiles(call.result_shapes, spread, ""))
    return writer.module(args, call.and_returned(results, args)), shardings, call.and_returned(spread, shardings)


def _like_operands(call: Call, shardings: Sequence[Any]) -> list[Any]:
    """The shardings of the results: those of an operand of the same shape. A replicated one if no operand is spread."""
    by_shape = {
        tuple(shape.dimensions()): sharding
        for shape, sharding in reversed(list(zip(call.arg_shapes, shardings, strict=True)))
        if shape.is_array()
    }
    spread = any(sharding.is_tiled() for sharding in shardings)
    found = []
    for i, shape in enumerate(call.result_shapes):
        sharding = by_shape.get(tuple(shape.dimensions())) if shape.is_array() else None
        if sharding is None and shape.is_array() and spread:
            raise NotImplementedError(
                f"'{call.said('callback') or call.target}', sharding=\"local\": result {i} has the shape of no argument, so "
                "how it is spread over the devices cannot be told; use jax.shard_map"
            )
        found.append(known(sharding))
    return found


def _alike(shapes: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
    """Operands of one shape are spread alike: as the first of them that is spread."""
    chosen: dict[tuple[int, ...], Any] = {}
    for shape, sharding in zip(shapes, shardings, strict=True):
        if shape.is_array() and sharding.is_tiled():
            chosen.setdefault(tuple(shape.dimensions()), sharding)
    return [
        chosen.get(tuple(shape.dimensions()), sharding) if shape.is_array() else sharding
        for shape, sharding in zip(shapes, shardings, strict=True)
    ]


def on_shards(call: Call) -> tuple[bytes, list[Any], list[Any]]:
    """Every device calls with its shards. Also returns the shardings of operands and of results."""
    shardings = [_even(shape, sharding) for shape, sharding in zip(call.arg_shapes, call.arg_shardings, strict=True)]
    if call.result_shapes:
        shardings = _alike(call.arg_shapes, shardings)
    writer = Writer()
    args = _tiles(call.arg_shapes, shardings, "%a")
    spread = _like_operands(call, shardings)
    results = _tiles(call.result_shapes, spread, "")
    offsets = _offsets(call, shardings)
    operands, more = list(args), {}
    is_whole = all(not sharding.is_tiled() for sharding in shardings)
    if call.target.endswith(".tap") and offsets.shape[1] and not is_whole:
        operands.append(_row(writer, offsets))
        more["offsets"] = True
    if call.said("can_fail") and not call.result_shapes:
        config = call.config_with(**more, deferred=True)
        (status,) = writer.custom_call(call.target, config, operands, [STATUS])
        writer.custom_call("callout.v1.check", call.config, [writer.all_reduce(status, "maximum")], [])
        return writer.module(args, call.and_returned([], args)), shardings, call.and_returned(spread, shardings)
    config = call.config_with(**more) if more else call.config
    results = call.and_returned(writer.custom_call(call.target, config, operands, results), args)
    return writer.module(args, results), shardings, call.and_returned(spread, shardings)


def on_one(call: Call, *, deferred: bool) -> tuple[bytes, list[Any], list[Any]]:
    """One device calls with the whole values. `deferred`: a failure travels with the results.

    Also returns the shardings of operands and of results.
    """
    _warn_if_large(call)
    writer = Writer()
    args = [value_of(shape, f"%a{i}") for i, shape in enumerate(call.arg_shapes)]
    kinds = [value_of(shape) for shape in call.result_shapes]
    config = call.config_with(deferred=True) if deferred else call.config
    all_kinds = [*kinds, STATUS] if deferred else kinds
    chosen = writer.constant(Value("", (), "ui32"), str(call.said("device_index") or 0))
    here = writer.device_index()
    is_chosen = writer.op(
        Value("", (), "i1"),
        f"stablehlo.compare EQ, {here.name}, {chosen.name} : (tensor<ui32>, tensor<ui32>) -> tensor<i1>",
    )
    outs = writer.begin_if(is_chosen, all_kinds)
    writer.next_branch(writer.custom_call(call.target, config, args, all_kinds))
    tokens = iter([arg for arg in args if not arg.element])
    writer.end_if([writer.zeros(kind) if kind.element else next(tokens) for kind in all_kinds])
    outs = _spread(writer, call, outs) if deferred else [_sum(writer, out) if out.element else out for out in outs]
    everywhere = [_replicated()] * len(args)
    spread = call.and_returned([_replicated()] * len(call.result_shapes), everywhere)
    return writer.module(args, call.and_returned(outs, args)), everywhere, spread


def _spread(writer: Writer, call: Call, outs: list[Value]) -> list[Value]:
    """The results on every device, or the failure."""
    *results, status = outs
    data = [_sum(writer, value) for value in results if value.element]
    operands = [_sum(writer, status), *data]
    checked = iter(writer.custom_call("callout.v1.check", call.config, operands, data, in_place=len(data)))
    return [next(checked) if value.element else value for value in results]


def _sum(writer: Writer, value: Value) -> Value:
    """The one device's bits on every device: bits, because adding zero changes a negative zero.

    In 32 bits where it can be: XLA makes one sum of those of a type, and in each the devices' threads meet.
    """
    element = value.element
    if element.startswith("complex"):
        part = element[len("complex<") : -1]
        real, imaginary = (_sum(writer, writer.unary(half, value, part)) for half in ("real", "imag"))
        return writer.op(value, f"stablehlo.complex {real.name}, {imaginary.name} : {value.type}")
    if element in _NARROW:
        return writer.unary("convert", _sum(writer, writer.unary("convert", value, "ui8")), element)
    width = int(re.findall(r"\d+", element)[0])
    if not element.startswith("ui"):
        return writer.unary(
            "bitcast_convert", _sum(writer, writer.unary("bitcast_convert", value, f"ui{width}")), element
        )
    if width == 64:
        pairs = Value("", (*value.dims, 2), "ui32")
        halves = writer.op(pairs, f"stablehlo.bitcast_convert {value.name} : ({value.type}) -> {pairs.type}")
        total = writer.all_reduce(halves, "add")
        return writer.op(value, f"stablehlo.bitcast_convert {total.name} : ({pairs.type}) -> {value.type}")
    if width < 32 and math.prod(value.dims) <= _WIDENED:
        return writer.unary("convert", writer.all_reduce(writer.unary("convert", value, "ui32"), "add"), element)
    return writer.all_reduce(value, "add")


def _warn_if_large(call: Call) -> None:
    size = sum(
        int(np.prod(shape.dimensions(), dtype=np.int64)) * np.dtype(shape.numpy_dtype()).itemsize
        for shape, sharding in zip(call.arg_shapes, call.arg_shardings, strict=True)
        if shape.is_array() and sharding is not None and not sharding.is_replicated()
    )
    name = str(call.said("label") or call.said("callback"))
    if size > _LARGE_BYTES and name not in _warned:
        _warned.add(name)
        logger.warning(
            "callback '%s' collects %d MB from all devices on one each time it is reached; a tap with sharding=\"local\" "
            "(partitioned=True of debug_callback) gets each device's own shard instead",
            name,
            size // 1_000_000,
        )
