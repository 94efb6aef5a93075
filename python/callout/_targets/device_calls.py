# SPDX-License-Identifier: Apache-2.0
"""Implements `options(memory="device")` for callbacks with results on CUDA: they get arrays in the device's memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from .. import _ext
from .._base import errors
from .function_targets import flattener, is_single_result
from .target import DeviceCall, Target, Transforms, interned


def _on_device(call: DeviceCall, label: str) -> Callable[..., None]:
    """Makes a buffer callback that gets Buffers, and whose result is copied on the device."""
    flatten = flattener(call.out_tree, label)
    is_single = call.out_tree.num_leaves == 1 and is_single_result(call.out_tree)

    def leaves_of(result: Any) -> list[Any]:
        """Returns a result's leaves like on the host: if one array is expected, a list counts as an array."""
        if call.ignore_result:
            return []
        if is_single and not isinstance(result, tuple | dict):
            return [result]
        return list(flatten(result))

    def run(_: Any, out: tuple[Any, ...], *leaves: Any) -> None:
        args, kwargs = call.in_tree.unflatten(leaves)
        misfit = _ext.store_on_device(leaves_of(call.function(*args, **kwargs)), out, leaves, not call.x64)
        if misfit is not None:
            raise errors.ResultError(f"callback '{label}': its result does not fit: {misfit}")

    return run


def device_call_target(where: str, target: Target) -> Target:
    """Returns the target of the call for devices whose memory is not the host's.

    Raises:
        NotImplementedError: the callback's option is `args="jax"`.
    """
    call = target.device_call
    assert call is not None
    if call.wants_jax:
        raise NotImplementedError(
            f'{where}: \'{target.label}\' has options(memory="device", args="jax"), which is for cpu only. Without '
            "args it gets the device's memory, of which jax.dlpack.from_dlpack(x, copy=True) makes a jax.Array"
        )

    def make(_: Transforms) -> _ext.Callback:
        return _ext.make_buffer_callback(
            label=target.label,
            function=_on_device(call, target.label),
            unflatten_out=tuple,
            unflatten=None,
            numpy_only=target.numpy_only,
        )

    def made(key: Hashable) -> Target:
        signature = ("device call", *target.signature)
        return Target(key, target.label, target.numpy_only, make, signature, target.device_index)

    structure = (call.in_tree, call.out_tree, call.x64, call.ignore_result, target.label, target.numpy_only)
    return interned("device call", call.function, (*structure, target.device_index), made)
