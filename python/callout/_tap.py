# SPDX-License-Identifier: Apache-2.0
"""`callout.tap`."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Literal, TypeVar, overload

import jax

from . import _ext
from ._arguments import as_leaves
from ._primitives.tap import Site, no_transforms, tap_p
from ._targets import TapKeywords, tap_target

T = TypeVar("T")
R = TypeVar("R")
_SAME: Any = object()
_ON_FULL = {"block": 0, "drop_newest": 1, "fail": 2}


class _EagerThrottle:
    """Counts an eager tap's calls; one a function and site, for as long as the function lives. All are equal to JAX."""

    def __init__(self, every: int, min_interval_ns: int):
        self.value = _ext.Throttle(every, min_interval_ns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _EagerThrottle)

    def __hash__(self) -> int:
        return 0


_throttles: weakref.WeakKeyDictionary[Any, dict[Site, _EagerThrottle]] = weakref.WeakKeyDictionary()


def _throttle(target: Any, site: Site) -> _EagerThrottle | None:
    if site.admits_all():
        return None
    owner = getattr(target, "__func__", target)
    try:
        sites = _throttles.setdefault(owner, {})
    except TypeError:  # a name, which lives for ever, or something that cannot be remembered
        sites = _named_throttles.setdefault(target, {}) if isinstance(target, str) else {}
    if site not in sites:
        sites[site] = _EagerThrottle(site.every, site.min_interval_ns)
    return sites[site]


_named_throttles: dict[str, dict[Site, _EagerThrottle]] = {}


def _make_site(
    value: Any,
    name: str | None,
    on_full: str,
    every: int,
    min_interval: float | None,
    ordered: bool,
    sharding: Literal["gather", "local"],
    device_index: int,
) -> Site:
    if on_full not in _ON_FULL:
        raise ValueError(f"callout.tap: on_full must be one of {list(_ON_FULL)}, got {on_full!r}")
    if isinstance(every, bool) or not hasattr(every, "__index__") or every < 1:
        raise ValueError(f"callout.tap: every must be an integer of at least 1, got {every!r}")
    if min_interval is not None and not min_interval >= 0:
        raise ValueError(f"callout.tap: min_interval must be 0 or more seconds, got {min_interval!r}")
    if sharding not in ("gather", "local"):
        raise ValueError(f'callout.tap: sharding must be "gather" or "local", got {sharding!r}')
    if isinstance(device_index, bool) or not hasattr(device_index, "__index__") or device_index < 0:
        raise ValueError(f"callout.tap: device_index must be an integer of at least 0, got {device_index!r}")
    paths, _ = jax.tree_util.tree_flatten_with_path(value)
    leaves = tuple(jax.tree_util.keystr(path, simple=True, separator=".").replace("\n", "\\n") for path, _ in paths)
    interval_ns = int((min_interval or 0) * 1e9)
    return Site(
        name or "", leaves, int(every), interval_ns, _ON_FULL[on_full], bool(ordered), sharding, int(device_index)
    )


@overload
def tap(
    target: Callable[..., Any] | Any,
    value: T,
    *,
    ordered: bool = ...,
    name: str | None = ...,
    on_full: Literal["block", "drop_newest", "fail"] = ...,
    every: int = ...,
    min_interval: float | None = ...,
    sharding: Literal["gather", "local"] = ...,
    device_index: int = ...,
    with_device: bool = ...,
    with_transforms: bool = ...,
    with_index: bool = ...,
) -> T: ...
@overload
def tap(
    target: Callable[..., Any] | Any,
    value: Any,
    *,
    result: R,
    ordered: bool = ...,
    name: str | None = ...,
    on_full: Literal["block", "drop_newest", "fail"] = ...,
    every: int = ...,
    min_interval: float | None = ...,
    sharding: Literal["gather", "local"] = ...,
    device_index: int = ...,
    with_device: bool = ...,
    with_transforms: bool = ...,
    with_index: bool = ...,
) -> R: ...
def tap(
    target: Callable[..., Any] | Any,
    value: Any,
    *,
    result: Any = _SAME,
    ordered: bool = False,
    name: str | None = None,
    on_full: Literal["block", "drop_newest", "fail"] = "block",
    every: int = 1,
    min_interval: float | None = None,
    sharding: Literal["gather", "local"] = "gather",
    device_index: int = 0,
    with_device: bool = False,
    with_transforms: bool = False,
    with_index: bool = False,
) -> Any:
    """Sends `value` to `target` while the program runs, and returns it.

    The program copies the value into a bounded queue and goes on; a delivery thread calls the target. `barrier_wait()`
    waits until everything has arrived. The tap changes nothing else of the program, is kept when its result is unused, and
    under vmap gets the whole batch once, under grad the primal values, under remat the values again.

    Args:
        target: `f(value, [transforms=], [device=], [index=])`, which gets NumPy arrays that it owns in the structure of
            `value`; a sink (`callout.sinks`); or the name of a registered callback. What it returns is ignored. An
            exception in it is counted, logged once, and raised by the next `barrier_wait()`; the program goes on.
        value: a pytree of arrays.
        result: what to return instead of `value`. It is not sent.
        ordered: deliver in program order, also among ordered taps and callbacks of one program and of successive ones. JAX
            then waits for the previous ordered program before it dispatches the next; `callout.threaded` does not.
        name: the tap's name, which sinks write; the target's by default.
        on_full: when the queue is full: "block" waits, "drop_newest" counts the record as dropped, "fail" fails the
            program.
        every: send only the 1st, (every+1)th, ... time that this tap is reached.
        min_interval: seconds that must pass before this tap sends again.
        sharding: in a jit over several devices, "gather" sends the whole value once; "local" sends each device's shard, from
            its device. Inside shard_map every device sends what it has.
        device_index: the device, of those that the program runs on, that sends a gathered value.
        with_device: pass the jax.Device as keyword `device`.
        with_index: pass where the arrays lie in the whole value as keyword `index`: a tuple of slices for each.
        with_transforms: pass the transformations as keyword `transforms`: a tuple of
            ("batch", {"batch_dims": (...)}), innermost first.

    Returns:
        `value` itself, or `result`.
    """
    flat, tree = jax.tree.flatten(value)
    returned = value if result is _SAME else result
    if not flat:
        return returned  # nothing to send
    chosen = tap_target(target, tree, TapKeywords(with_device, with_transforms, with_index))
    index = device_index or chosen.device_index
    site = _make_site(value, name, on_full, every, min_interval, ordered, sharding, index)
    out = tap_p.bind(
        *as_leaves("callout.tap", flat),
        target=chosen,
        site=site,
        transforms=no_transforms,
        throttle=_throttle(target, site),
    )
    if result is not _SAME:
        return returned
    # PRNG keys were sent as their data: they themselves go on.
    leaves = [old if _is_key(old) else new for old, new in zip(flat, out, strict=True)]
    return jax.tree.unflatten(tree, leaves)


def _is_key(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)
