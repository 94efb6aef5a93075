# SPDX-License-Identifier: Apache-2.0
"""Uses the lowering for TPUs in programs that run on a CPU, if CALLOUT_TEST_TRANSFERS=1.

A callback becomes sends and receives, as for a TPU, and these become a call as `callout.host` rewrites them. The call
runs the function that JAX would have been given. Only XLA's channels are left out.
"""

import dataclasses
import itertools
import os
import weakref

import callout
import pytest
from callout._base import errors
from callout._export import host_transfers
from callout._primitives.fallback import emit, exported, transfers
from callout._primitives.lowering import host_callback
from callout._targets.operation_attributes import is_call_of
from callout._targets.read_attributes import read_call
from jax.extend.mlir import ir

IS_USED = os.environ.get("CALLOUT_TEST_TRANSFERS") == "1"

LEFT_OUT = {
    "test_equal_prints_share_a_name": "it compares the texts of programs, and the calls in them have numbers",
    "test_options_zero_copy_args_and_name": "the call that stands for the transfers counts, too",
    "test_a_failing_ordered_callback_poisons_nothing": "the call that stands for the transfers fails its program by itself",
}
"""Tests that see the call, with the reasons."""

_write, _emit_transfers, _calls_of = emit.write, transfers.emit, exported.calls_of
_names = itertools.count()
_STANDS_FOR = "tpu_on_cpu."
_made = []


class Backend:
    """A client of a TPU with the one method that programs with callbacks need."""

    def make_python_callback_from_host_send_and_recv(self, function, operands, results, sent, received, _serializer):
        _made.append((function, tuple(sent), tuple(received)))
        return function


class Module:
    """The context of a module that is being written, without a host callback of its own."""

    def __init__(self, module):
        self._module = module

    def __getattr__(self, name):
        return getattr(self._module, name)

    def get_backend(self, **_):
        return Backend()

    def add_host_callback(self, function):
        pass


class KeepingModule(exported._Module):
    """A stand-in for the context of a lowered module, which keeps the same objects alive."""

    def __init__(self, lowered, *args):
        super().__init__(lowered, *args)
        self.add_keepalive = lowered.keepalive.append


class Bound:
    """A name for a function, registered as long as the program that holds this object lives."""

    def __init__(self, function, label):
        self.name = f"{_STANDS_FOR}{next(_names)}"

        def call(*arrays):
            try:
                outs = function(*arrays)
            except callout.CallbackError as error:
                failed = errors.original(error)
            else:
                assert isinstance(outs, tuple)  # JAX rejects anything else
                return outs[0] if len(outs) == 1 else outs or None
            try:
                raise failed  # raised once
            finally:
                del failed

        callout.register(self.name, call if label is None else callout.options(call, name=label))
        weakref.finalize(self, callout.unregister, self.name)


def write_for_tpu(module, told, *args, **kwargs):
    """Writes a program for a CPU as one for a TPU."""
    platform = "tpu" if told.platform == "cpu" else told.platform
    return _write(module, dataclasses.replace(told, platform=platform), *args, **kwargs)


def emit_rewritten(module, told, operands, kinds, specs, placement, waits):
    """Emits the call that replaces the sends and receives, and returns its results."""
    results = list(_emit_transfers(Module(module), told, operands, kinds, specs, placement, waits))
    ((function, sent, received),) = _made
    _made.clear()
    callback = None if told.is_tap else told.bound()  # a tap's label counts its records
    bound = Bound(function, callback and callback.label)
    module.add_keepalive(bound)
    module.add_host_callback(host_callback)  # dispatched synchronously, like JAX's own callbacks
    channels = {*sent, *received}
    block = ir.InsertionPoint.current.block
    found = [
        host_transfers._transfer(op.operation)
        for op in block.operations
        if op.name in ("stablehlo.send", "stablehlo.recv")
    ]
    (group,) = host_transfers._groups([one for one in found if one.channel in channels], dict.fromkeys(channels, ""))
    sends, receives = ([one for one in group if one.is_send is is_send] for is_send in (True, False))
    places = [_place_of(result, group, receives) for result in results]
    host_transfers._replace(group, sends, receives, bound.name)
    (call,) = [
        op for op in block.operations if is_call_of(op, "callout.v1.call") and read_call(op)["callback"] == bound.name
    ]
    return [
        result if place is None else call.results[place % len(call.results)]
        for result, place in zip(results, places, strict=True)
    ]


def calls_of_programs(module):
    """Returns the calls of a program, without those that replace sends and receives."""
    found = _calls_of(module)
    return {op: found[op] for op in found if not read_call(op)["callback"].startswith(_STANDS_FOR)}


def _place_of(result, group, receives):
    """Returns the index of the call's result that replaces `result`; -1 for the token, None if there is none."""
    if result == group[-1].token:
        return -1
    return next((i for i, one in enumerate(receives) if one.operation.results[0] == result), None)


def mark(item):
    """Skips a test of LEFT_OUT."""
    if IS_USED and (reason := LEFT_OUT.get(getattr(item, "originalname", item.name))) is not None:
        pytest.skip(f"not with CALLOUT_TEST_TRANSFERS: {reason}")


def install():
    """Uses this lowering for all programs for a CPU."""
    emit.write = write_for_tpu
    exported.calls_of = calls_of_programs
    exported._Module = KeepingModule
    transfers.emit = emit_rewritten
