# SPDX-License-Identifier: Apache-2.0
"""Runs callbacks and taps outside of programs, on NumPy arrays, without XLA.

The public functions make equal targets and parameters for eager and traced calls and taps; `perform` evaluates the
operation or gives it to JAX. An eager tap has a site like a tap in a program: one for its target and its options. A
site lives as long as its owner (the function, the object of a method, or the sink) without keeping the owner alive. A
few owners without weak references, such as the list of a tapped `append`, are kept alive instead.
"""

from __future__ import annotations

import collections
import contextlib
import sys
import types
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from .. import _ext, _jax_compat
from .._base import lifetime, programs
from .._base.arguments import as_leaves
from .._base.options import FunctionWithOptions
from .._targets import target_attributes
from .._targets.target import AnyTarget, EmbeddedTarget, NamedTarget, Transforms
from .effects import ordered_effect
from .site import TARGET, Site, check_step_number

Evaluation = Callable[[Sequence[Any], Mapping[str, Any]], list[Any]]

_evaluations: dict[Any, Evaluation] = {}


def def_eager(primitive: Any, evaluate: Evaluation) -> None:
    """Makes `evaluate(args, params)` the evaluation of a primitive outside of programs."""
    _evaluations[primitive] = evaluate
    primitive.def_impl(lambda *args, **params: _evaluations[primitive](args, params))


def perform(
    primitive: Any,
    where: str,
    values: Sequence[Any],
    tree: PyTreeDef | None,
    params: dict[str, Any],
    *,
    is_call: bool = False,
) -> list[Any]:
    """Returns the results of an operation on `values`. `where`, `tree` and `is_call` are for `as_leaves`.

    If JAX would evaluate the operation at once, it is evaluated here. Otherwise it is bound, and may become part of a
    program.
    """
    if _jax_compat.happens_now(values):
        return _evaluations[primitive](values, params)
    params["target"] = params["target"].for_programs()
    results: list[Any] = primitive.bind(*as_leaves(where, values, tree, is_call=is_call), **params)
    return results


def to_hosts(values: Sequence[Any]) -> list[np.ndarray]:
    """Waits for the values and returns them as NumPy arrays. Python's numbers get JAX's dtypes; float0 becomes bool.

    JAX's transfer guards have no effect here, as in a program that passes values to a callback.
    """
    try:
        return [np.asarray(each) if getattr(each, "committed", None) is False else _to_host(each) for each in values]
    except jax.errors.JaxRuntimeError:  # perhaps a transfer guard's
        return [_jax_compat.unguarded(_to_host, each) for each in values]


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
    """Returns the devices in the order in which a program over them numbers them."""
    mesh = getattr(sharding, "mesh", None)
    if mesh is not None:
        return list(mesh.devices.flat)
    return sorted(sharding.device_set, key=lambda device: device.id)


def placement(values: Sequence[Any], device_index: int = 0, label: str = "") -> tuple[jax.Device, int, bool]:
    """Returns where an eager operation on `values` runs: device, FFI ordinal, and whether its results are committed.

    Raises ValueError, with the `label`, for the index of a device that the values are not on, like a program.
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
    return *_jax_compat.default_place(), False


def check_device_index(label: str, devices: Sequence[Any], device_index: int) -> None:
    """Raises ValueError for an index beyond the devices."""
    if device_index >= len(devices):
        raise ValueError(
            f"callout: device_index={device_index} of '{label}' is not one of the {len(devices)} device(s) of its value"
        )


def check_together(label: str, values: Sequence[Any]) -> None:
    """Raises ValueError for values that are committed to different devices, like a program."""
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
    """Raises FloatingPointError for NaN with `jax_debug_nans`, and for infinities with `jax_debug_infs`.

    JAX evaluates a program with such a result again, operation by operation, to find the origin.
    """
    for kind in _jax_compat.refused_values():
        for result in results:
            if jax.dtypes.issubdtype(result.dtype, np.inexact) and _TESTS[kind](result).any():
                raise FloatingPointError(f"invalid value ({kind}) encountered in a result of callback '{label}'")


def place(
    results: Sequence[np.ndarray], avals: Sequence[Any], values: Sequence[Any], device: jax.Device, committed: bool
) -> list[jax.Array]:
    """Returns the results of an eager operation on `values`: on the device that ran it, or on all devices of `values`.

    The results of a jit are on all devices, too, so that JAX can combine them with the values.
    """
    if committed:
        sharding = next(value.sharding for value in values if isinstance(value, jax.Array) and value.committed)
        if sharding.num_devices > 1:
            everywhere = _replicated(sharding)
            return [_jax_compat.unguarded(jax.device_put, result, everywhere) for result in results]
    placed = []
    for result, aval in zip(results, avals, strict=True):  # a comprehension takes 1.5 times as long for one result
        placed.append(_jax_compat.put_on_device(result, aval, device, committed))
    return placed


def _replicated(sharding: jax.sharding.Sharding) -> jax.sharding.NamedSharding:
    mesh = getattr(sharding, "mesh", None)
    if mesh is None:
        mesh = jax.sharding.Mesh(np.array(_devices_in_order(sharding)), ("devices",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())


def shards(values: Sequence[Any]) -> Iterator[tuple[int, list[Any], np.ndarray]]:
    """Yields each device's part of `values`: FFI ordinal, shards, and their offsets in all dimensions, concatenated."""
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
    """Waits for the ordered programs that this thread has dispatched, because an eager callback runs after them."""
    _jax_compat.wait_for_order(ordered_effect)
    if _threaded_programs_exist:
        programs.wait_on_each_device()


_threaded_programs_exist = False


def note_threaded_program() -> None:
    """Makes eager ordered callbacks wait for programs without effects, too, as those of `callout.threaded` are."""
    global _threaded_programs_exist
    _threaded_programs_exist = True


check_usable = lifetime.check_usable


MOST_OF_ONE = 1024  # of one function, so that generated names do not fill the memory

MOST_KEPT = 16  # objects without weak references

_NOBODY = 0

# The taps of each owner, by the owner's identity, until the owner dies. Names have no owner.
_taps: dict[int, dict[Hashable, _ext.EagerTap]] = {}

# Owners that cannot be referred to weakly, with their taps, by their identity; the last one that tapped is last.
_kept: collections.OrderedDict[int, tuple[Any, dict[Hashable, _ext.EagerTap]]] = collections.OrderedDict()


def send_tap(args: Sequence[Any], target: AnyTarget, site: Site, transforms: Transforms) -> None:
    """Sends a value, or runs the tap in the caller if its site is inline."""
    check_usable()
    callback = target.callback(transforms)
    if site.ordered:
        wait_for_ordered()
    value, step = (args[:-1], _step_of(args[-1])) if site.has_step else (args, None)
    if site.inline:
        ordinal = placement(value, site.device_index, callback.label)[1]
        _ext.tap_inline(callback, to_hosts(value), site.label, list(site.leaves), ordinal)
        return
    parts = _parts(value, site, site.label or callback.label)
    part, taps = _taps_for(target, callback)
    tap = _tap(callback, site, taps, (part, target.structure, transforms, site, len(parts) > 1))
    for ordinal, values, begins in parts:
        if tap.admit(ordinal, step):  # decide before waiting for the values
            arrays = to_hosts(values)
            tap.send(callback, arrays if begins is None else [*arrays, begins], ordinal, step)


def _step_of(operand: Any) -> int:
    """Returns the step, or the first lane's step if each lane has its own."""
    step = int(to_hosts([operand])[0].flat[0])
    check_step_number(step)
    return step


def _parts(value: Sequence[Any], site: Site, label: str) -> Sequence[tuple[int, Sequence[Any], Any]]:
    """Returns what each device sends: its FFI ordinal, the arrays, and the offsets of shards."""
    if site.sharding == "gather":
        return ((placement(value, site.device_index, label)[1], value, None),)
    of_devices = list(shards(value))
    return of_devices if len(of_devices) > 1 else [(ordinal, parts, None) for ordinal, parts, _ in of_devices]


def _tap(
    callback: _ext.Callback, site: Site, taps: dict[Hashable, _ext.EagerTap], key: tuple[Any, ...]
) -> _ext.EagerTap:
    """Returns the site for records of `callback`. The last item of the key tells whether records have offsets."""
    tap = taps.get(key)
    if tap is None:
        has_offsets = key[-1]
        while len(taps) >= MOST_OF_ONE:
            taps.pop(next(iter(taps.copy())), None)
        if site.is_for_one_process():
            _ext.set_process_index(jax.process_index())
        attributes = {"callback": callback.label, "offsets": has_offsets, **site.attributes()}
        made = _ext.EagerTap(callback, target_attributes.encode("callout.tap", TARGET, attributes))
        tap = taps.setdefault(key, made)  # another thread may have made one
    return tap


def _taps_for(target: AnyTarget, callback: _ext.Callback) -> tuple[Hashable, dict[Hashable, _ext.EagerTap]]:
    """Returns the target's key among the taps of its owner, and these taps."""
    if isinstance(target, NamedTarget):  # a name that is bound again is another target
        bound = None if isinstance(target, EmbeddedTarget) else callback.id
        return (target.label, bound), _taps.setdefault(_NOBODY, {})
    return _taps_of_source(target.source)


def _taps_of_source(source: Any) -> tuple[Hashable, dict[Hashable, _ext.EagerTap]]:
    if isinstance(source, FunctionWithOptions):  # every tap may make a new one
        part, taps = _taps_of_source(source.function)
        return (part, source.options), taps
    # Look at the type, because an object that invents its attributes (a mock) has a `__self__`, too, but is no method.
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
    with contextlib.suppress(KeyError):  # another thread may have dropped it
        _kept.move_to_end(id(owner))
    return taps


def _let_go() -> None:
    """Makes room for one more owner: drops owners without other references, then those that tapped longest ago."""
    for key, entry in list(_kept.items()):
        if _references(entry) <= _OURS:
            _kept.pop(key, None)
    while len(_kept) >= MOST_KEPT:
        with contextlib.suppress(KeyError):
            _kept.popitem(last=False)


def _references(entry: tuple[Any, Any]) -> int:
    owner, _ = entry
    return sys.getrefcount(owner)


_OURS = _references((object(), None))  # depends on the Python version


def forget_taps() -> None:
    """Drops all sites. The next tap of each site counts as its first."""
    _taps.clear()
    _kept.clear()
