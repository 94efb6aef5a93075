# SPDX-License-Identifier: Apache-2.0
"""Eager values to NumPy and back, around callbacks that do not enter XLA."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from .. import _jax_compat
from .._base import lifetime, programs
from .effects import ordered_effect


def to_hosts(values: Sequence[Any]) -> list[np.ndarray]:
    """Returns the values as NumPy sees them, once they are there. Python's numbers get JAX's dtypes; float0 is boolean.

    No guard of transfers stops that: there is none in a program that passes them to a callback.
    """
    return _jax_compat.unguarded(_to_hosts, values)


def _to_hosts(values: Sequence[Any]) -> list[np.ndarray]:
    return [np.asarray(each) if getattr(each, "committed", None) is False else _to_host(each) for each in values]


def _to_host(value: Any) -> np.ndarray:
    if isinstance(value, jax.Array):
        if not value.is_fully_addressable:
            raise ValueError(
                "callout: an array that spans several processes cannot reach a callback outside of jit. Call the callback "
                'inside jax.jit, in every process; or tap the array with sharding="local", which sends this process\'s '
                "shards"
            )
    elif getattr(value, "dtype", None) == jax.dtypes.float0:
        return np.zeros(value.shape, np.bool_)
    elif not isinstance(value, np.ndarray):
        value = jax.numpy.asarray(value)
    return np.asarray(value)


def _devices_in_order(sharding: jax.sharding.Sharding) -> list[jax.Device]:
    """Returns the devices as a program over them would number them."""
    mesh = getattr(sharding, "mesh", None)
    if mesh is not None:
        return list(mesh.devices.flat)
    return sorted(sharding.device_set, key=lambda device: device.id)


def placement(values: Sequence[Any], device_index: int = 0, label: str = "") -> tuple[jax.Device, int, bool]:
    """Finds where an eager operation on `values` runs: device, FFI ordinal, and whether its results are committed there.

    ValueError, with the `label`, for an index of a device that the values do not have: a program refuses that, too.
    """
    for value in values:
        if getattr(value, "committed", False):  # a jax.Array
            candidates = _devices_in_order(value.sharding)
            if device_index:
                check_device_index(label, candidates, device_index)
            device = candidates[device_index]
            return device, _jax_compat.ordinal_of(device), True
    if device_index:
        check_device_index(label, (None,), device_index)
    default = _jax_compat.default_device()
    device = default if default is not None and isinstance(default, jax.Device) else _jax_compat.local_devices()[0]
    return device, _jax_compat.ordinal_of(device), False


def check_device_index(label: str, devices: Sequence[Any], device_index: int) -> None:
    """Raises ValueError for a place that there is not among the devices."""
    if device_index >= len(devices):
        raise ValueError(
            f"callout: device_index={device_index} of '{label}' is not one of the {len(devices)} device(s) of its value"
        )


def check_together(label: str, values: Sequence[Any]) -> None:
    """Raises ValueError for values that are committed to different devices, which no program takes together."""
    shardings = [value.sharding for value in values if getattr(value, "committed", False)]
    for other in shardings[1:]:
        if other is not shardings[0] and other.device_set != shardings[0].device_set:
            one, another = (sorted(device.id for device in each.device_set) for each in (shardings[0], other))
            raise ValueError(
                f"callout: the arguments of '{label}' are committed to different devices, {one} and {another}, which no "
                "program takes; jax.device_put moves them"
            )


_TESTS = {"nan": np.isnan, "inf": np.isinf}


def check_special(label: str, results: Sequence[np.ndarray]) -> None:
    """Raises FloatingPointError for a NaN or an infinity that `jax_debug_nans` or `jax_debug_infs` looks for.

    JAX runs a program that returned one again outside of a program, to find out which operation made it.
    """
    for kind in _jax_compat.refused_values():
        for result in results:
            if jax.dtypes.issubdtype(result.dtype, np.inexact) and _TESTS[kind](result).any():
                raise FloatingPointError(f"invalid value ({kind}) encountered in a result of callback '{label}'")


def place(results: Sequence[np.ndarray], values: Sequence[Any], device: jax.Device, committed: bool) -> list[jax.Array]:
    """Returns the results of an eager operation on `values`: on the device that ran it, or on all of theirs.

    Those of a jit are, too: JAX computes with them and the values.
    """
    if committed:
        sharding = next(value.sharding for value in values if isinstance(value, jax.Array) and value.committed)
        if sharding.num_devices > 1:
            everywhere = _replicated(sharding)
            return [_jax_compat.unguarded(jax.device_put, result, everywhere) for result in results]
    return [_jax_compat.put_on_device(result, device, committed) for result in results]


def _replicated(sharding: jax.sharding.Sharding) -> jax.sharding.NamedSharding:
    mesh = getattr(sharding, "mesh", None)
    if mesh is None:
        mesh = jax.sharding.Mesh(np.array(_devices_in_order(sharding)), ("devices",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())


def shards(values: Sequence[Any]) -> Iterator[tuple[int, list[Any], np.ndarray]]:
    """Yields each device's part of `values`: FFI ordinal, the shards, and where they begin in all dimensions in turn."""
    held = [
        {shard.device: shard for shard in value.addressable_shards} if isinstance(value, jax.Array) else {}
        for value in values
    ]
    used = {device for parts in held for device in parts} or {placement(values)[0]}
    for device in sorted(used, key=lambda candidate: candidate.id):
        parts: list[Any] = []
        begins: list[int] = []
        for value, shard in zip(values, (parts.get(device) for parts in held), strict=True):
            parts.append(value if shard is None else shard.data)
            begins += [0] * np.ndim(parts[-1]) if shard is None else [dim.start or 0 for dim in shard.index]
        yield _jax_compat.ordinal_of(device), parts, np.asarray(begins, np.int64)


def wait_for_ordered() -> None:
    """Waits for the ordered programs that this thread has dispatched: what runs outside of a program comes after them."""
    _jax_compat.wait_for_order(ordered_effect)
    if _threaded_programs_exist:
        programs.wait_on_each_device()


_threaded_programs_exist = False


def note_threaded_program() -> None:
    """Makes eager ordered callbacks wait for programs without effects, too: those of `callout.threaded` have none."""
    global _threaded_programs_exist
    _threaded_programs_exist = True


check_usable = lifetime.check_usable
