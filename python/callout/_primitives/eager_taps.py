# SPDX-License-Identifier: Apache-2.0
"""Taps outside of programs. Each has a site, as one of a program has: made once for its target and what `tap` was told.

A site lives as long as the function, the object of a method, or the sink that it is for, and does not keep them alive.
What cannot be referred to weakly is kept alive instead, as a list of whose `append` is tapped: a few of those.
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

from .. import _ext
from .._base.options import FunctionWithOptions
from .._targets import target_attributes
from .._targets.function_targets import OneTap
from .._targets.target import CarriedTarget, NamedTarget, Target, Transforms
from .eager import check_usable, placement, shards, to_hosts, wait_for_ordered
from .site import TARGET, Site, check_step_number

MOST_OF_ONE = 1024  # of one function: who makes names as the program runs must not fill the memory

MOST_KEPT = 16  # objects without weak references

_NOBODY = 0

# Those of each owner, by its identity, until it dies; names have none.
_taps: dict[int, dict[Hashable, _ext.EagerTap]] = {}

# Owners that cannot be referred to weakly, with their taps, by their identity; the last one that tapped is last.
_kept: collections.OrderedDict[int, tuple[Any, dict[Hashable, _ext.EagerTap]]] = collections.OrderedDict()


def send(args: Sequence[Any], target: Target, site: Site, transforms: Transforms) -> None:
    """Sends a value, or runs the tap here if it is one that runs inline."""
    check_usable()
    callback = target.callback(transforms)
    _send(args, callback, site, (target.structure, transforms), *_taps_for(target, callback))


def send_one(args: Sequence[Any], one: OneTap, site: Site, transforms: Transforms) -> None:
    """Does the same without a target."""
    check_usable()
    _send(args, one.callback, site, (one.structure, transforms), *_taps_of_source(one.source))


def _send(
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
    # What makes up its attributes has a `__self__`, too, but is no method.
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


def forget() -> None:
    """Lets go of all sites: the next tap of each is its first."""
    _taps.clear()
    _kept.clear()
