# SPDX-License-Identifier: Apache-2.0
"""Eager values become NumPy arrays and come back, around callbacks and taps that do not enter XLA.

A tap outside of programs has a site, as one of a program has: made once for its target and what `tap` was told. A site lives
as long as the function, the object of a method, or the sink that it is for, and does not keep them alive. What cannot be
referred to weakly is kept alive instead, as a list of whose `append` is tapped: a few of those.
"""

from __future__ import annotations

import collections
import contextlib
import sys
import types
import weakref
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from .. import _ext, _jax_compat
from .._base import lifetime, programs
from .._base.options import FunctionWithOptions
from .._targets import target_attributes
from .._targets.function_targets import OneTap
from .._targets.target import CarriedTarget, NamedTarget, Target, Transforms
from .effects import ordered_effect
from .site import TARGET, Site, check_step_number


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


MOST_OF_ONE = 1024  # of one function: who makes names as the program runs must not fill the memory

MOST_KEPT = 16  # objects without weak references

_NOBODY = 0

# The taps of each owner, by the owner's identity, until the owner dies. Names have no owner.
_taps: dict[int, dict[Hashable, _ext.EagerTap]] = {}

# Owners that cannot be referred to weakly, with their taps, by their identity; the last one that tapped is last.
_kept: collections.OrderedDict[int, tuple[Any, dict[Hashable, _ext.EagerTap]]] = collections.OrderedDict()


def send_tap(args: Sequence[Any], target: Target, site: Site, transforms: Transforms) -> None:
    """Sends a value, or runs the tap here if it is one that runs inline."""
    check_usable()
    callback = target.callback(transforms)
    _send_parts(args, callback, site, (target.structure, transforms), *_taps_for(target, callback))


def send_one_tap(args: Sequence[Any], one: OneTap, site: Site, transforms: Transforms) -> None:
    """Sends a value to the tap of one call, which has no target; see `send_tap`."""
    check_usable()
    _send_parts(args, one.callback, site, (one.structure, transforms), *_taps_of_source(one.source))


def _send_parts(
    args: Sequence[Any],
    callback: _ext.Callback,
    site: Site,
    structure: Hashable,
    part: Hashable,
    taps: dict[Hashable, _ext.EagerTap],
) -> None:
    """Sends a value. `structure` and `part`: which of the taps in `taps`, with the site."""
    if site.ordered:
        wait_for_ordered()
    value, step = (args[:-1], _step_of(args[-1])) if site.has_step else (args, None)
    if site.inline:
        ordinal = placement(value, site.device_index, callback.label)[1]
        _ext.tap_inline(callback, to_hosts(value), site.label, list(site.leaves), ordinal)
        return
    if site.is_for_one_process():
        _ext.set_process_index(jax.process_index())
    parts = list(_parts(value, site, site.label or callback.label))
    tap = _tap(callback, site, taps, (part, structure, site, len(parts) > 1))
    for ordinal, values, begins in parts:
        if tap.admit(ordinal, step):  # before the values are waited for
            arrays = to_hosts(values)
            tap.send(callback, arrays if begins is None else [*arrays, begins], ordinal, step)


def _step_of(operand: Any) -> int:
    """Returns the step; of lanes that have their own, the first one's."""
    step = int(to_hosts([operand])[0].flat[0])
    check_step_number(step)
    return step


def _parts(value: Sequence[Any], site: Site, label: str) -> Iterator[tuple[int, Sequence[Any], Any]]:
    """Yields what is sent from which device: its FFI ordinal, the arrays, and where they begin if they are not all."""
    if site.sharding == "gather":
        yield placement(value, site.device_index, label)[1], value, None
        return
    of_devices = list(shards(value))
    for ordinal, parts, begins in of_devices:
        yield ordinal, parts, begins if len(of_devices) > 1 else None


def _tap(
    callback: _ext.Callback, site: Site, taps: dict[Hashable, _ext.EagerTap], key: tuple[Any, ...]
) -> _ext.EagerTap:
    """Returns the site for records of `callback`. The key ends with whether records have offsets."""
    tap = taps.get(key)
    if tap is None:
        has_offsets = key[-1]
        while len(taps) >= MOST_OF_ONE:
            taps.pop(next(iter(taps.copy())), None)
        said = {"callback": callback.label, "offsets": has_offsets, **site.attributes()}
        made = _ext.EagerTap(callback, target_attributes.encode("callout.tap", TARGET, said))
        tap = taps.setdefault(key, made)  # another thread may have been faster
    return tap


def _taps_for(target: Target, callback: _ext.Callback) -> tuple[Hashable, dict[Hashable, _ext.EagerTap]]:
    """Returns which of its owner's functions the target is, and the owner's taps."""
    if isinstance(target, NamedTarget):  # a name that is bound anew is another target
        bound = None if isinstance(target, CarriedTarget) else callback.id
        return (target.label, bound), _taps.setdefault(_NOBODY, {})
    return _taps_of_source(target.source)


def _taps_of_source(source: Any) -> tuple[Hashable, dict[Hashable, _ext.EagerTap]]:
    if isinstance(source, FunctionWithOptions):  # it may be made for each tap
        part, taps = _taps_of_source(source.function)
        return (part, source.options), taps
    # An object that makes up its attributes (a mock) has a `__self__`, too, but is no method.
    owner = source.__self__ if hasattr(type(source), "__self__") else None
    if owner is None or isinstance(owner, types.ModuleType):
        return None, _taps_of(source)
    return getattr(source, "__func__", source.__name__), _taps_of(owner)


def _taps_of(owner: Any) -> dict[Hashable, _ext.EagerTap]:
    if id(owner) not in _taps:
        if id(owner) in _kept:
            return _taps_of_kept(owner)
        try:
            weakref.finalize(owner, _taps.pop, id(owner), None).atexit = False
        except TypeError:
            _let_go()
            return _taps_of_kept(owner)
    return _taps.setdefault(id(owner), {})


def _taps_of_kept(owner: Any) -> dict[Hashable, _ext.EagerTap]:
    _, taps = _kept.setdefault(id(owner), (owner, {}))
    with contextlib.suppress(KeyError):  # another thread may have let it go
        _kept.move_to_end(id(owner))
    return taps


def _let_go() -> None:
    """Makes room for one more owner. Those go that nobody else refers to, then those that tapped longest ago."""
    for key, entry in list(_kept.items()):
        if _references(entry) <= _OURS:
            _kept.pop(key, None)
    while len(_kept) >= MOST_KEPT:
        with contextlib.suppress(KeyError):
            _kept.popitem(last=False)


def _references(entry: tuple[Any, Any]) -> int:
    owner, _ = entry
    return sys.getrefcount(owner)


_OURS = _references((object(), None))  # not the same in every Python


def forget_taps() -> None:
    """Lets go of all sites: the next tap of each is its first."""
    _taps.clear()
    _kept.clear()
