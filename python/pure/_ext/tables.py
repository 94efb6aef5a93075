# SPDX-License-Identifier: Apache-2.0
# Generated: python scripts/write_attributes.py
# ruff: noqa: E501
"""The tables of the FFI targets' attributes, and of dtypes: XLA's short names with those of NumPy, and bits."""

from __future__ import annotations

from typing import Any


def _attribute(name: str, meaning: str, **differs: Any) -> dict[str, Any]:
    """An attribute as src/core/attributes/attribute_rows.h describes it, by what differs from the usual."""
    return {
        "name": name,
        "type": "s64",
        "is_required": False,
        "fallback": 0,
        "least": -(2**63),
        "most": 2**63 - 1,
        "count": 0,
        "group": 1,
        "most_bytes": 2**64 - 1,
        "choices": (),
        "absent": "",
        "since": "0.1",
        "meaning": meaning,
        "entries": [],
        "has_free_entries": False,
        **differs,
    }


DTYPE_NAMES: dict[str, str] = {
    "bool": "bool",
    "s8": "int8",
    "s16": "int16",
    "s32": "int32",
    "s64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "c64": "complex64",
    "bf16": "bfloat16",
    "c128": "complex128",
    "f8e5m2": "float8_e5m2",
    "f8e4m3fn": "float8_e4m3fn",
    "s4": "int4",
    "u4": "uint4",
    "f8e4m3b11fnuz": "float8_e4m3b11fnuz",
    "f8e5m2fnuz": "float8_e5m2fnuz",
    "f8e4m3fnuz": "float8_e4m3fnuz",
    "s2": "int2",
    "u2": "uint2",
    "f8e4m3": "float8_e4m3",
    "f8e3m4": "float8_e3m4",
    "s1": "int1",
    "u1": "uint1",
    "f4e2m1fn": "float4_e2m1fn",
    "f8e8m0fnu": "float8_e8m0fnu",
}

SUB_BYTE_BITS: dict[str, int] = {
    "int4": 4,
    "uint4": 4,
    "int2": 2,
    "uint2": 2,
    "int1": 1,
    "uint1": 1,
    "float4_e2m1fn": 4,
}

CALLBACK_METRICS: list[tuple[str, str, str, str, str]] = [
    ("calls", "calls_total", "counter", "Calls that ended and tap records that were delivered.", "calls"),
    ("bytes", "bytes_total", "counter", "Operands and results of calls, operands of taps.", "bytes"),
    ("host_seconds", "host_seconds_total", "counter", "Time inside the callback.", "time"),
    (
        "drops",
        "dropped_records_total",
        "counter",
        "Tap records that a full or closed queue did not take, or for which there was no memory.",
        "dropped",
    ),
    (
        "skips",
        "skipped_records_total",
        "counter",
        "Tap records that every=, min_interval= or sample= left out.",
        "skipped",
    ),
    ("errors", "errors_total", "counter", "Calls and deliveries that failed.", "errors"),
]

QUEUE_METRICS: list[tuple[str, str, str, str, str]] = [
    ("pending_bytes", "pending_bytes", "gauge", "Bytes that wait for delivery.", "pending"),
    ("high_water_bytes", "high_water_bytes", "gauge", "Most bytes that ever waited for delivery.", "high water"),
    ("capacity_bytes", "capacity_bytes", "gauge", "Bytes that the queue takes.", "capacity"),
    ("blocked", "blocked_total", "counter", "Times that a program waited for room.", "blocked"),
    ("on_device", "on_device", "gauge", "Records that are on their way from a GPU.", "on device"),
    ("pinned_bytes", "pinned_bytes", "gauge", "Bytes of host memory that those take.", ""),
]

# fmt: off
TARGET_ATTRIBUTES: dict[str, list[dict[str, Any]]] = {
    'callout.v1.buffer': [
        _attribute('callback', 'the name to look up', type='string', is_required=True),
        _attribute('names', 'all names that the program needs, separated by newlines, for the error where one is not bound. `callout.export` writes it', type='string'),
        _attribute('deferred', '1: one more result at the end, s32[]: 0, or the number of the failure. The call itself then never fails; on failure its other results are zeros', least=0, most=1),
        _attribute('threaded', '1: a token is the first operand and the first result, see below', least=0, most=1),
        _attribute('lane_dims', 'the call is a batch with these extents, outermost first, and the callback is called once a lane, on several threads', type='s64[]'),
        _attribute('lane_masks', 'for each operand, which extents of the batch come first in its shape: bit i for the i-th. Results have all. Required with `lane_dims`', type='s64[]'),
        _attribute('attributes', 'constants that the callback gets by name: numbers, arrays, strings', type='dictionary', has_free_entries=True),
        _attribute('aliases', "pairs of operand and result of one size: the result holds the operand's value when the callback is called (in a batch: a lane's)", type='s64[]', group=2),
        _attribute('library', 'the program carries the function; `callback` is what it is called in errors and statistics', type='dictionary', entries=[
            _attribute('bytes', 'an ELF shared library', type='string', is_required=True),
            _attribute('digest', 'its SHA-256 in lowercase hexadecimal', type='string', is_required=True),
            _attribute('platform', '`linux-x86_64`: lowercase `uname -s` and `uname -m`', type='string', is_required=True),
            _attribute('symbol', 'the library exports `symbol_callout_record` or, as a plain function, `symbol`', type='string', is_required=True),
        ]),
        _attribute('host_callback', "1: the program carries Callout's host callback, which JAX adds when it compiles", least=0, most=1),
        _attribute('ordered', "1: wait for the delivery of the device's earlier taps", least=0, most=1),
        _attribute('sharding', 'for the partitioner, see below: who calls. Not there: nothing is to be partitioned', type='string', choices=('gather', 'local')),
        _attribute('device_index', 'for the partitioner: the device that calls with gathered values', least=0),
        _attribute('num_devices', 'for the partitioner: how many devices the program was traced for', least=0),
        _attribute('graph', '1: what the callback queues is recorded once for each set of buffers, and launched from then on without the callback. The first call on a device is not recorded', least=0, most=1),
    ],
    'callout.v1.buffer_capturable': [
        _attribute('callback', 'the name to look up', type='string', is_required=True),
        _attribute('names', 'all names that the program needs, separated by newlines, for the error where one is not bound. `callout.export` writes it', type='string'),
        _attribute('deferred', '1: one more result at the end, s32[]: 0, or the number of the failure. The call itself then never fails; on failure its other results are zeros', least=0, most=1),
        _attribute('threaded', '1: a token is the first operand and the first result, see below', least=0, most=1),
        _attribute('lane_dims', 'the call is a batch with these extents, outermost first, and the callback is called once a lane, on several threads', type='s64[]'),
        _attribute('lane_masks', 'for each operand, which extents of the batch come first in its shape: bit i for the i-th. Results have all. Required with `lane_dims`', type='s64[]'),
        _attribute('attributes', 'constants that the callback gets by name: numbers, arrays, strings', type='dictionary', has_free_entries=True),
        _attribute('aliases', "pairs of operand and result of one size: the result holds the operand's value when the callback is called (in a batch: a lane's)", type='s64[]', group=2),
        _attribute('library', 'the program carries the function; `callback` is what it is called in errors and statistics', type='dictionary', entries=[
            _attribute('bytes', 'an ELF shared library', type='string', is_required=True),
            _attribute('digest', 'its SHA-256 in lowercase hexadecimal', type='string', is_required=True),
            _attribute('platform', '`linux-x86_64`: lowercase `uname -s` and `uname -m`', type='string', is_required=True),
            _attribute('symbol', 'the library exports `symbol_callout_record` or, as a plain function, `symbol`', type='string', is_required=True),
        ]),
        _attribute('host_callback', "1: the program carries Callout's host callback, which JAX adds when it compiles", least=0, most=1),
        _attribute('ordered', "1: wait for the delivery of the device's earlier taps", least=0, most=1),
        _attribute('sharding', 'for the partitioner, see below: who calls. Not there: nothing is to be partitioned', type='string', choices=('gather', 'local')),
        _attribute('device_index', 'for the partitioner: the device that calls with gathered values', least=0),
        _attribute('num_devices', 'for the partitioner: how many devices the program was traced for', least=0),
        _attribute('graph', '1: what the callback queues is recorded once for each set of buffers, and launched from then on without the callback. The first call on a device is not recorded', least=0, most=1),
    ],
    'callout.v1.call': [
        _attribute('callback', 'the name to look up', type='string', is_required=True),
        _attribute('names', 'all names that the program needs, separated by newlines, for the error where one is not bound. `callout.export` writes it', type='string'),
        _attribute('deferred', '1: one more result at the end, s32[]: 0, or the number of the failure. The call itself then never fails; on failure its other results are zeros', least=0, most=1),
        _attribute('threaded', '1: a token is the first operand and the first result, see below', least=0, most=1),
        _attribute('lane_dims', 'the call is a batch with these extents, outermost first, and the callback is called once a lane, on several threads', type='s64[]'),
        _attribute('lane_masks', 'for each operand, which extents of the batch come first in its shape: bit i for the i-th. Results have all. Required with `lane_dims`', type='s64[]'),
        _attribute('attributes', 'constants that the callback gets by name: numbers, arrays, strings', type='dictionary', has_free_entries=True),
        _attribute('aliases', "pairs of operand and result of one size: the result holds the operand's value when the callback is called (in a batch: a lane's)", type='s64[]', group=2),
        _attribute('library', 'the program carries the function; `callback` is what it is called in errors and statistics', type='dictionary', entries=[
            _attribute('bytes', 'an ELF shared library', type='string', is_required=True),
            _attribute('digest', 'its SHA-256 in lowercase hexadecimal', type='string', is_required=True),
            _attribute('platform', '`linux-x86_64`: lowercase `uname -s` and `uname -m`', type='string', is_required=True),
            _attribute('symbol', 'the library exports `symbol_callout_record` or, as a plain function, `symbol`', type='string', is_required=True),
        ]),
        _attribute('host_callback', "1: the program carries Callout's host callback, which JAX adds when it compiles", least=0, most=1),
        _attribute('ordered', "1: wait for the delivery of the device's earlier taps", least=0, most=1),
        _attribute('sharding', 'for the partitioner, see below: who calls. Not there: nothing is to be partitioned', type='string', choices=('gather', 'local')),
        _attribute('device_index', 'for the partitioner: the device that calls with gathered values', least=0),
        _attribute('num_devices', 'for the partitioner: how many devices the program was traced for', least=0),
    ],
    'callout.v1.check': [
        _attribute('callback', 'the name that failed, for a failure in another process', type='string', is_required=True),
    ],
    'callout.v1.gathered_call': [
        _attribute('callback', 'the name to look up', type='string', is_required=True),
        _attribute('names', 'all names that the program needs, separated by newlines, for the error where one is not bound. `callout.export` writes it', type='string'),
        _attribute('deferred', '1: one more result at the end, s32[]: 0, or the number of the failure. The call itself then never fails; on failure its other results are zeros', least=0, most=1),
        _attribute('threaded', '1: a token is the first operand and the first result, see below', least=0, most=1),
        _attribute('lane_dims', 'the call is a batch with these extents, outermost first, and the callback is called once a lane, on several threads', type='s64[]'),
        _attribute('lane_masks', 'for each operand, which extents of the batch come first in its shape: bit i for the i-th. Results have all. Required with `lane_dims`', type='s64[]'),
        _attribute('attributes', 'constants that the callback gets by name: numbers, arrays, strings', type='dictionary', has_free_entries=True),
        _attribute('aliases', "pairs of operand and result of one size: the result holds the operand's value when the callback is called (in a batch: a lane's)", type='s64[]', group=2),
        _attribute('library', 'the program carries the function; `callback` is what it is called in errors and statistics', type='dictionary', entries=[
            _attribute('bytes', 'an ELF shared library', type='string', is_required=True),
            _attribute('digest', 'its SHA-256 in lowercase hexadecimal', type='string', is_required=True),
            _attribute('platform', '`linux-x86_64`: lowercase `uname -s` and `uname -m`', type='string', is_required=True),
            _attribute('symbol', 'the library exports `symbol_callout_record` or, as a plain function, `symbol`', type='string', is_required=True),
        ]),
        _attribute('host_callback', "1: the program carries Callout's host callback, which JAX adds when it compiles", least=0, most=1),
        _attribute('ordered', "1: wait for the delivery of the device's earlier taps", least=0, most=1),
        _attribute('devices', 'how many devices come together', is_required=True, fallback=1, least=1, most=65536),
        _attribute('caller', 'the device that is said to make the call', least=0),
        _attribute('shards', "for each device in turn, where in the whole value its operand begins, for all dimensions of all operands in turn (not the token, not the device's own place). Not there: each device has all of them whole", type='s64[]', least=0),
    ],
    'callout.v1.gathered_tap': [
        _attribute('callback', 'the name to look up', type='string', is_required=True),
        _attribute('names', 'all names that the program needs, separated by newlines, for the error where one is not bound. `callout.export` writes it', type='string'),
        _attribute('deferred', '1: one more result at the end, s32[]: 0, or the number of the failure. The call itself then never fails; on failure its other results are zeros', least=0, most=1),
        _attribute('threaded', '1: a token is the first operand and the first result, see below', least=0, most=1),
        _attribute('label', "the tap's name, for sinks", type='string', most_bytes=65536, absent="the callback's"),
        _attribute('leaves', 'names of the operands, separated by newlines, as many as operands; the default also for none', type='string', absent='one empty name'),
        _attribute('every', 'send the 1st, (every+1)th, ... time', fallback=1, least=1),
        _attribute('min_interval_ns', 'nanoseconds between records', least=0),
        _attribute('on_full', 'what happens to a record when the queue is full', least=0, most=2, choices=('block', 'drop_newest', 'fail')),
        _attribute('step', "1: one more operand behind the leaves, an integer: the record's step. `every` then means steps that it divides", least=0, most=1),
        _attribute('sample_ppb', 'send with this probability, in parts in a billion', fallback=1000000000, least=1, most=1000000000),
        _attribute('only_device', 'send from the device with this ordinal alone; -1: from all', fallback=-1),
        _attribute('only_process', 'send from the process with this index alone', fallback=-1),
        _attribute('can_fail', 'for the partitioner: 1: the callback may fail the program', least=0, most=1),
        _attribute('offsets', '1: one more operand at the end, s64[n]: where in the whole value this shard begins, for all dimensions of all operands in turn', least=0, most=1),
        _attribute('returned', 'operands that the tap returns: the i-th result is the operand `returned[i]`', type='s64[]', least=0),
        _attribute('devices', 'how many devices come together', is_required=True, fallback=1, least=1, most=65536),
        _attribute('caller', 'the device that is said to make the call', least=0),
        _attribute('shards', "for each device in turn, where in the whole value its operand begins, for all dimensions of all operands in turn (not the token, not the device's own place). Not there: each device has all of them whole", type='s64[]', least=0),
    ],
    'callout.v1.image': [
        _attribute('callback', 'what the kernel is called in errors', type='string', is_required=True),
        _attribute('image', 'the code, and what is launched of it', type='dictionary', is_required=True, entries=[
            _attribute('bytes', 'a cubin, a fat binary or PTX', type='string', is_required=True),
            _attribute('symbol', "the kernel's name in it", type='string', is_required=True),
        ]),
        _attribute('grid', 'blocks along x, y, z', type='s64[]', is_required=True, least=0, most=2147483647, count=3),
        _attribute('block', 'threads of a block along x, y, z', type='s64[]', is_required=True, least=0, most=2147483647, count=3),
        _attribute('shared_bytes', 'dynamic shared memory of a block', least=0, most=2147483647),
        _attribute('cooperative', '1: a cooperative launch', least=0, most=1),
        _attribute('fills_device', '1: instead of `grid`, as many blocks along x as the device runs at once', least=0, most=1),
        _attribute('cluster', 'blocks of a cluster along x, y, z', type='s64[]', least=1, most=2147483647, count=3),
        _attribute('dependent', '1: a programmatic dependent launch', least=0, most=1),
        _attribute('priority', "of the launch, CUDA's number", type='s64[]', least=-2147483647, most=2147483647, count=1),
        _attribute('tensor_maps', 'for each parameter that is a CUtensorMap, 28 numbers: its byte position in `parameter_block`, the operand that it is of, and as cuTensorMapEncodeTiled takes them, arrays filled up to 5 numbers: type, rank, dims, strides, box, element strides, interleave, swizzle, promotion, fill', type='s64[]', least=0, most=1099511627776, group=28),
        _attribute('parameter_bytes', 'the size of each parameter. Compared with the image when it is loaded', type='s64[]', least=0, most=2147483647),
        _attribute('parameter_block', "the parameters' bytes, one after another, without padding", type='string'),
        _attribute('pointers', 'pairs of a byte position in `parameter_block` and an operand, whose address goes there; operands count arguments, then results', type='s64[]', least=0, most=2147483647, group=2),
        _attribute('aliases', "as above; a result that does not lie in its operand's place is filled by a copy on the device", type='s64[]', group=2),
        _attribute('faults', "of callout.v1.image_sync: for kernels that say themselves what went wrong. A key that is a decimal number is a value of `symbol`, and its text the error's", type='dictionary', has_free_entries=True, entries=[
            _attribute('symbol', 'names an s32 of the image that is set to 0 before the launch, and is not 0 after it if a thread raised', type='string', is_required=True),
            _attribute('thread_x', "names an s32 with that thread's place", type='string'),
            _attribute('thread_y', 'as `thread_x`', type='string'),
            _attribute('thread_z', 'as `thread_x`', type='string'),
            _attribute('block_x', "names an s32 with its block's place", type='string'),
            _attribute('block_y', 'as `block_x`', type='string'),
            _attribute('block_z', 'as `block_x`', type='string'),
        ]),
        _attribute('lane_dims', 'the call is a batch with these extents, outermost first, and the callback is called once a lane, on several threads', type='s64[]'),
        _attribute('lane_masks', 'for each operand, which extents of the batch come first in its shape: bit i for the i-th. Results have all. Required with `lane_dims`', type='s64[]'),
    ],
    'callout.v1.image_sync': [
        _attribute('callback', 'what the kernel is called in errors', type='string', is_required=True),
        _attribute('image', 'the code, and what is launched of it', type='dictionary', is_required=True, entries=[
            _attribute('bytes', 'a cubin, a fat binary or PTX', type='string', is_required=True),
            _attribute('symbol', "the kernel's name in it", type='string', is_required=True),
        ]),
        _attribute('grid', 'blocks along x, y, z', type='s64[]', is_required=True, least=0, most=2147483647, count=3),
        _attribute('block', 'threads of a block along x, y, z', type='s64[]', is_required=True, least=0, most=2147483647, count=3),
        _attribute('shared_bytes', 'dynamic shared memory of a block', least=0, most=2147483647),
        _attribute('cooperative', '1: a cooperative launch', least=0, most=1),
        _attribute('fills_device', '1: instead of `grid`, as many blocks along x as the device runs at once', least=0, most=1),
        _attribute('cluster', 'blocks of a cluster along x, y, z', type='s64[]', least=1, most=2147483647, count=3),
        _attribute('dependent', '1: a programmatic dependent launch', least=0, most=1),
        _attribute('priority', "of the launch, CUDA's number", type='s64[]', least=-2147483647, most=2147483647, count=1),
        _attribute('tensor_maps', 'for each parameter that is a CUtensorMap, 28 numbers: its byte position in `parameter_block`, the operand that it is of, and as cuTensorMapEncodeTiled takes them, arrays filled up to 5 numbers: type, rank, dims, strides, box, element strides, interleave, swizzle, promotion, fill', type='s64[]', least=0, most=1099511627776, group=28),
        _attribute('parameter_bytes', 'the size of each parameter. Compared with the image when it is loaded', type='s64[]', least=0, most=2147483647),
        _attribute('parameter_block', "the parameters' bytes, one after another, without padding", type='string'),
        _attribute('pointers', 'pairs of a byte position in `parameter_block` and an operand, whose address goes there; operands count arguments, then results', type='s64[]', least=0, most=2147483647, group=2),
        _attribute('aliases', "as above; a result that does not lie in its operand's place is filled by a copy on the device", type='s64[]', group=2),
        _attribute('faults', "of callout.v1.image_sync: for kernels that say themselves what went wrong. A key that is a decimal number is a value of `symbol`, and its text the error's", type='dictionary', has_free_entries=True, entries=[
            _attribute('symbol', 'names an s32 of the image that is set to 0 before the launch, and is not 0 after it if a thread raised', type='string', is_required=True),
            _attribute('thread_x', "names an s32 with that thread's place", type='string'),
            _attribute('thread_y', 'as `thread_x`', type='string'),
            _attribute('thread_z', 'as `thread_x`', type='string'),
            _attribute('block_x', "names an s32 with its block's place", type='string'),
            _attribute('block_y', 'as `block_x`', type='string'),
            _attribute('block_z', 'as `block_x`', type='string'),
        ]),
        _attribute('lane_dims', 'the call is a batch with these extents, outermost first, and the callback is called once a lane, on several threads', type='s64[]'),
        _attribute('lane_masks', 'for each operand, which extents of the batch come first in its shape: bit i for the i-th. Results have all. Required with `lane_dims`', type='s64[]'),
    ],
    'callout.v1.tap': [
        _attribute('callback', 'the name to look up', type='string', is_required=True),
        _attribute('names', 'all names that the program needs, separated by newlines, for the error where one is not bound. `callout.export` writes it', type='string'),
        _attribute('deferred', '1: one more result at the end, s32[]: 0, or the number of the failure. The call itself then never fails; on failure its other results are zeros', least=0, most=1),
        _attribute('threaded', '1: a token is the first operand and the first result, see below', least=0, most=1),
        _attribute('label', "the tap's name, for sinks", type='string', most_bytes=65536, absent="the callback's"),
        _attribute('leaves', 'names of the operands, separated by newlines, as many as operands; the default also for none', type='string', absent='one empty name'),
        _attribute('every', 'send the 1st, (every+1)th, ... time', fallback=1, least=1),
        _attribute('min_interval_ns', 'nanoseconds between records', least=0),
        _attribute('on_full', 'what happens to a record when the queue is full', least=0, most=2, choices=('block', 'drop_newest', 'fail')),
        _attribute('step', "1: one more operand behind the leaves, an integer: the record's step. `every` then means steps that it divides", least=0, most=1),
        _attribute('sample_ppb', 'send with this probability, in parts in a billion', fallback=1000000000, least=1, most=1000000000),
        _attribute('only_device', 'send from the device with this ordinal alone; -1: from all', fallback=-1),
        _attribute('only_process', 'send from the process with this index alone', fallback=-1),
        _attribute('can_fail', 'for the partitioner: 1: the callback may fail the program', least=0, most=1),
        _attribute('offsets', '1: one more operand at the end, s64[n]: where in the whole value this shard begins, for all dimensions of all operands in turn', least=0, most=1),
        _attribute('returned', 'operands that the tap returns: the i-th result is the operand `returned[i]`', type='s64[]', least=0),
        _attribute('sharding', 'for the partitioner, see below: who calls. Not there: nothing is to be partitioned', type='string', choices=('gather', 'local')),
        _attribute('device_index', 'for the partitioner: the device that calls with gathered values', least=0),
        _attribute('num_devices', 'for the partitioner: how many devices the program was traced for', least=0),
    ],
}
# fmt: on


def target_attributes() -> dict[str, list[dict[str, Any]]]:
    """The rows of each FFI target's table of attributes."""
    return TARGET_ATTRIBUTES


def callback_metrics() -> list[tuple[str, str, str, str, str]]:
    """(key, name, type, help, column) each."""
    return CALLBACK_METRICS


def queue_metrics() -> list[tuple[str, str, str, str, str]]:
    """(key, name, type, help, column) each."""
    return QUEUE_METRICS
