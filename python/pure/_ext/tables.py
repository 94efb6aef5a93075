# SPDX-License-Identifier: Apache-2.0
# Generated: python scripts/write_attributes.py
# ruff: noqa: E501
# fmt: off
"""The attributes of calls and taps, the fields of payloads, the numbers of stats(), and dtypes: their names and bits."""

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
    'bool': 'bool', 's8': 'int8', 's16': 'int16', 's32': 'int32', 's64': 'int64', 'u8': 'uint8', 'u16': 'uint16', 'u32':
    'uint32', 'u64': 'uint64', 'f16': 'float16', 'f32': 'float32', 'f64': 'float64', 'c64': 'complex64', 'bf16':
    'bfloat16', 'c128': 'complex128', 'f8e5m2': 'float8_e5m2', 'f8e4m3fn': 'float8_e4m3fn', 's4': 'int4', 'u4': 'uint4',
    'f8e4m3b11fnuz': 'float8_e4m3b11fnuz', 'f8e5m2fnuz': 'float8_e5m2fnuz', 'f8e4m3fnuz': 'float8_e4m3fnuz', 's2':
    'int2', 'u2': 'uint2', 'f8e4m3': 'float8_e4m3', 'f8e3m4': 'float8_e3m4', 's1': 'int1', 'u1': 'uint1', 'f4e2m1fn':
    'float4_e2m1fn', 'f8e8m0fnu': 'float8_e8m0fnu'
}

SUB_BYTE_BITS: dict[str, int] = {
    'int4': 4, 'uint4': 4, 'int2': 2, 'uint2': 2, 'int1': 1, 'uint1': 1, 'float4_e2m1fn': 4
}

CALLBACK_METRICS: list[tuple[str, str, str, str, str]] = [
    ('calls', 'calls_total', 'counter', 'Calls that ended and tap records that were delivered.', 'calls'),
    ('bytes', 'bytes_total', 'counter', 'Operands and results of calls, operands of taps.', 'bytes'),
    ('host_seconds', 'host_seconds_total', 'counter', 'Time inside the callback.', 'time'),
    ('drops', 'dropped_records_total', 'counter', 'Tap records that a full or closed queue did not take, or for which there was no memory.', 'dropped'),
    ('skips', 'skipped_records_total', 'counter', 'Tap records that every=, min_interval= or sample= left out.', 'skipped'),
    ('errors', 'errors_total', 'counter', 'Calls and deliveries that failed.', 'errors'),
]

QUEUE_METRICS: list[tuple[str, str, str, str, str]] = [
    ('pending_bytes', 'pending_bytes', 'gauge', 'Bytes that wait for delivery.', 'pending'),
    ('high_water_bytes', 'high_water_bytes', 'gauge', 'Most bytes that ever waited for delivery.', 'high water'),
    ('capacity_bytes', 'capacity_bytes', 'gauge', 'Bytes that the queue takes.', 'capacity'),
    ('blocked', 'blocked_total', 'counter', 'Times that a program waited for room.', 'blocked'),
    ('on_device', 'on_device', 'gauge', 'Records that are on their way from a GPU.', 'on device'),
    ('pinned_bytes', 'pinned_bytes', 'gauge', 'Bytes of host memory that those take.', ''),
]

TARGET_ATTRIBUTES: dict[str, list[dict[str, Any]]] = {
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
        _attribute('rows', '1: each row of the operands and of the step, along their first dimension, is a record; behind the step comes one more operand, u32[]: how many rows to send', least=0, most=1),
        _attribute('turns', "1: behind the number of rows comes one more operand, u32[rows]: for each row a number that grows along the program, by which rows of several taps are merged; by default the rows' indices", least=0, most=1),
        _attribute('hand_over', 'taps with rows that have the same number, not 0, run one after the other, and send their rows together, merged by their turns', least=0),
        _attribute('following', 'how many taps of the same `hand_over` follow; the last one sends the rows of all', least=0),
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

PROGRAM_KINDS: dict[str, list[dict[str, Any]]] = {
    'check:': [
        _attribute('action', '`raise` fails the program, `warn` logs the text', type='string', is_required=True, choices=('raise', 'warn')),
        _attribute('source', "where the check stands in the user's code, `file.py:12 in f`; may be empty", type='string', is_required=True, most_bytes=65536),
        _attribute('extents', 'how many extents the batch has, the outermost first', is_required=True, least=0, most=16),
        _attribute('operands', "one an operand: a number whose bit i says that the operand has the i-th extent of the batch in front, and `e` behind it for a value that has the predicate's shape behind the batch. At most 1024", type='string[]', is_required=True),
        _attribute('text', 'a format string as [sinks](sinks.md) have it, of the operands behind the predicate; the last two names are `lane` and `index`', type='rest', is_required=True, most_bytes=65536),
    ],
    'nans:': [
        _attribute('action', '`raise` fails the program with a text that says what was found; `warn` reports it', type='string', is_required=True, choices=('raise', 'warn')),
        _attribute('kinds', '`n` if infinite results do not count', type='string', is_required=True, choices=('n', 'ni')),
        _attribute('direction', 'whether the line is one of the backward pass', type='string', is_required=True, choices=('forward', 'backward')),
        _attribute('order', 'a number that grows along the program', is_required=True, least=0, most=4611686018427387904),
        _attribute('extents', 'as of [checks](#checks)', is_required=True, least=0, most=16),
        _attribute('masks', 'one an operand: a number whose bit i says that it has the i-th extent of the batch in front', type='s64[]', is_required=True),
        _attribute('live', '1 if the first operand is a `pred` that says which lanes are to be looked at', is_required=True, least=0, most=1),
        _attribute('operations', 'what made each result', type='string[]', is_required=True),
        _attribute('inputs', 'how many inputs the operands have behind the results', is_required=True, least=0, most=16384),
        _attribute('steps', 'how many integers the operands have at the end: the steps of the loops around', is_required=True, least=0, most=16384),
        _attribute('place', '`file.py:12 in f`, or that of a function or module', type='string', is_required=True),
        _attribute('code', 'what stands there', type='string', is_required=True),
        _attribute('scopes', 'the named scopes around; may be empty', type='string', is_required=True),
    ],
    'id_print:': [
    ],
    'progress_bar:': [
    ],
    'progress_clock:': [
    ],
    'sink:': [
    ],
    'watch:': [
        _attribute('kinds', 'what is looked for: NaN, infinities, or both', type='string', is_required=True, choices=('n', 'i', 'ni')),
        _attribute('action', '`stop` fails the program; `report` counts, and logs the first value that is bad under a name', type='string', is_required=True, choices=('report', 'stop')),
    ],
}
