# SPDX-License-Identifier: Apache-2.0
"""`callout.tap` sends a value to a function or a sink."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, TypedDict, TypeVar, Unpack, overload

import jax
from jax.tree_util import tree_flatten

from .._base.arguments import passed_on
from .._base.config import config
from .._primitives import chunked_taps
from .._primitives.eager import perform
from .._primitives.site import check_step, flush_seconds, site_of
from .._primitives.tap import check_sink, no_transforms, tap_p
from .._targets.function_targets import NO_KEYWORDS, TapKeywords, receivers, tap_target
from .._targets.sink_arguments import routed_target, sink_in_program, with_handle

T = TypeVar("T")
R = TypeVar("R")
_SAME: Any = object()
OnFull = Literal["block", "drop_newest", "fail"]


class _Options(TypedDict, total=False):
    """The parameters that the overloads of `tap` share."""

    ordered: bool
    name: str | None
    on_full: OnFull
    every: int
    min_interval: float | None
    sample: float | None
    step: Any
    only_process: int | None
    only_device: int | None
    sharding: Literal["gather", "local"]
    device_index: int
    with_device: bool
    with_transforms: bool
    with_index: bool
    flush_interval: float | None


@overload
def tap(target: Callable[..., Any] | Any, value: T, **options: Unpack[_Options]) -> T: ...
@overload
def tap(target: Callable[..., Any] | Any, value: Any, *, result: R, **options: Unpack[_Options]) -> R: ...
def tap(
    target: Callable[..., Any] | Any,
    value: Any,
    *,
    result: Any = _SAME,
    ordered: bool = False,
    name: str | None = None,
    on_full: OnFull = "block",
    every: int = 1,
    min_interval: float | None = None,
    sample: float | None = None,
    step: Any = None,
    only_process: int | None = None,
    only_device: int | None = None,
    sharding: Literal["gather", "local"] = "gather",
    device_index: int = 0,
    with_device: bool = False,
    with_transforms: bool = False,
    with_index: bool = False,
    flush_interval: float | None = None,
) -> Any:
    """Sends `value` to `target` while the program runs, and returns it.

    The program copies the value into a bounded queue and goes on; a delivery thread calls the target. `barrier_wait()`
    waits until all records have been delivered. The tap is the identity, and is kept even if its result is unused. It
    sends the whole batch once under vmap, the primal values under grad, and the values again under remat.

    Args:
        target: `f(value, [transforms=], [device=], [index=])`, which gets NumPy arrays that it owns in the structure of
            `value`; a sink (`callout.sinks`); or the name of a registered callback. Its result is ignored. Its
            exceptions are counted, logged once, and raised by the next `barrier_wait()`; the program goes on.
        value: a pytree of arrays.
        result: the value to return instead of `value`, which is still the value that is sent.
        ordered: deliver in program order, together with other ordered taps and callbacks, over successive programs,
            too. JAX then waits for the previous ordered program before it dispatches the next; `callout.threaded` does
            not.
        name: the tap's name, which sinks write; by default the registered name of `target`, or the sink's name.
        on_full: when the queue is full: "block" waits, "drop_newest" counts the record as dropped, "fail" fails the
            program.
        every: send only the 1st, (every+1)th, ... time that the program reaches this tap; with `step`, if it is a
            multiple of `every`.
        min_interval: seconds that must pass before this tap sends again.
        sample: the probability with which the value is sent, above 0 and up to 1.
        step: an integer scalar, the number of the training step or iteration. Sinks write it; functions do not get it. Under
            vmap the first one counts.
        only_process: send from the process with this `jax.process_index()` alone.
        only_device: of the devices that would send, only the one with this id does.
        sharding: in a jit over several devices, "gather" sends the whole value once; "local" sends each device's shard,
            from its device. Inside shard_map every device sends its own part.
        device_index: the index, among the program's devices, of the one that sends a gathered value.
        with_device: pass the jax.Device as keyword `device`.
        with_index: pass the position of the arrays in the whole value as keyword `index`: a tuple of slices for each.
        with_transforms: pass the transformations as keyword `transforms`: a tuple of
            ("batch", {"batch_dims": (...)}), innermost first.
        flush_interval: seconds for which a loop of a compiled program may collect records before it sends them
            together, which makes a tap cost a few nanoseconds; see docs/chunks.md. 0 sends each record at once. The
            default is `callout.config.tap_flush_interval`.

    Returns:
        `value` itself, or `result`.

    Raises:
        TypeError: `target` is neither callable, nor a sink, nor a name; a name or a step has a wrong type.
        ValueError: an option has a value that it cannot have.
        OverflowError: a step has more than 32 bits without `jax_enable_x64`, or does not fit in an int64.

    Example:
        >>> losses = []
        >>> @jax.jit
        ... def step(x):
        ...     x = 0.5 * x
        ...     return callout.tap(losses.append, x, name="loss")
        >>> x = jnp.float32(8)
        >>> for _ in range(3):
        ...     x = step(x)
        >>> callout.barrier_wait()
        >>> [float(loss) for loss in losses]
        [4.0, 2.0, 1.0]
    """
    flat, tree = tree_flatten(value)
    returned = value if result is _SAME else result
    if not flat:
        return returned  # nothing to send
    out = flat
    steps = [] if step is None else [check_step(step)]
    if flush_interval is None:
        flush_interval = config.tap_flush_interval or 0.0
    if flush_interval := flush_seconds(flush_interval):
        chunked_taps.ensure()
    some = with_device or with_transforms or with_index
    keywords = TapKeywords(with_device, with_transforms, with_index) if some else NO_KEYWORDS
    for each, wanted in receivers(target, keywords):
        sink = sink_in_program(each)
        handle: list[Any] = []
        if sink is None:
            chosen = tap_target(each, tree, wanted)
        else:
            chosen, words = routed_target(sink, tree, wanted)
            handle = [words]
        site = site_of(
            value,
            tree,
            name=name if name is not None else _default_name(each) if sink is None else sink._default_name(),
            on_full=on_full,
            every=every,
            min_interval=min_interval,
            sample=sample,
            only_process=only_process,
            only_device=only_device,
            ordered=ordered,
            sharding=sharding,
            device_index=device_index or chosen.device_index,
            has_step=step is not None,
            flush_interval=flush_interval,
        )
        sent = tree
        if sink is not None:
            check_sink(sink, flat, site)
            site, sent = dataclasses.replace(site, leaves=("", *site.leaves), has_handle=True), with_handle(tree)
        params = {"target": chosen, "site": site, "transforms": no_transforms}
        out = perform(tap_p, "callout.tap", [*handle, *out[: len(flat)], *steps], sent, params)[len(handle) :]
    if result is not _SAME:
        return returned
    pairs = zip(flat, out[: len(flat)], strict=True)
    return jax.tree.unflatten(tree, [old if new is old else passed_on(old, new) for old, new in pairs])


def _default_name(target: Any) -> str | None:
    """Returns the default name of a tap whose target is a name; None for texts such as "print:{}", which are no names."""
    return target if isinstance(target, str) and ":" not in target else None
