# SPDX-License-Identifier: Apache-2.0
"""`callout.tap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypedDict, TypeVar, Unpack, overload

import jax

from .. import _jax_compat
from .._base.arguments import as_leaves, passed_on
from .._primitives import eager
from .._primitives.site import check_step, site_of
from .._primitives.tap import no_transforms, tap_p
from .._targets.function_targets import NO_KEYWORDS, TapKeywords, receiver_of_one_tap, receivers, tap_target
from .._targets.sink import check_leaves

T = TypeVar("T")
R = TypeVar("R")
_SAME: Any = object()
OnFull = Literal["block", "drop_newest", "fail"]


class _Options(TypedDict, total=False):
    """What the overloads of `tap` have in common."""

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
) -> Any:
    """Sends `value` to `target` while the program runs, and returns it.

    The program copies the value into a bounded queue and goes on; a delivery thread calls the target. `barrier_wait()`
    waits until everything has arrived. The tap is the identity, is kept when its result is unused, and
    under vmap gets the whole batch once, under grad the primal values, under remat the values again.

    Args:
        target: `f(value, [transforms=], [device=], [index=])`, which gets NumPy arrays that it owns in the structure of
            `value`; a sink (`callout.sinks`); or the name of a registered callback. What it returns is ignored. An
            exception in it is counted, logged once, and raised by the next `barrier_wait()`; the program goes on.
        value: a pytree of arrays.
        result: what to return instead of `value`. It is not sent.
        ordered: deliver in program order, also among ordered taps and callbacks of one program and of successive ones. JAX
            then waits for the previous ordered program before it dispatches the next; `callout.threaded` does not.
        name: the tap's name, which sinks write; by default the registered one of `target`, or the sink's.
        on_full: when the queue is full: "block" waits, "drop_newest" counts the record as dropped, "fail" fails the
            program.
        every: send only the 1st, (every+1)th, ... time that this tap is reached; with `step`, when that is a multiple.
        min_interval: seconds that must pass before this tap sends again.
        sample: the probability with which the value is sent, above 0 and up to 1.
        step: an integer scalar, the number of the training step or iteration. Sinks write it; functions do not get it. Under
            vmap the first one counts.
        only_process: send from the process with this `jax.process_index()` alone.
        only_device: send from the device with this id alone, of those that would send.
        sharding: in a jit over several devices, "gather" sends the whole value once; "local" sends each device's shard, from
            its device. Inside shard_map every device sends what it has.
        device_index: the device, of those that the program runs on, that sends a gathered value.
        with_device: pass the jax.Device as keyword `device`.
        with_index: pass where the arrays lie in the whole value as keyword `index`: a tuple of slices for each.
        with_transforms: pass the transformations as keyword `transforms`: a tuple of
            ("batch", {"batch_dims": (...)}), innermost first.

    Returns:
        `value` itself, or `result`.

    Raises:
        TypeError: `target` is neither callable, nor a sink, nor a name; a name or a step of another type.
        ValueError: an option has a value that it cannot have.
        OverflowError: a step of more than 32 bits without `jax_enable_x64`, or beyond an int64.

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
    flat, tree = jax.tree.flatten(value)
    returned = value if result is _SAME else result
    if not flat:
        return returned  # nothing to send
    now = step is None and _jax_compat.happens_now(flat)
    out: Any = flat if now else as_leaves("callout.tap", flat, tree)
    steps = [] if step is None else [check_step(step)]
    some = with_device or with_transforms or with_index
    keywords = TapKeywords(with_device, with_transforms, with_index) if some else NO_KEYWORDS
    for each, wanted in receivers(target, keywords):
        one = receiver_of_one_tap(each, tree, wanted) if now else None
        chosen = tap_target(each, tree, wanted) if one is None else one
        site = site_of(
            value,
            tree,
            name=name if name is not None else _registered_name(each),
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
        )
        check_leaves(each, site.leaves, out, label=site.label, is_whole=sharding == "gather", is_exact=now)
        if one is not None:
            eager.send_one_tap(out, one, site, no_transforms)
            continue
        out = tap_p.bind(
            *out[: len(flat)],
            *steps,
            target=chosen,
            site=site,
            transforms=no_transforms,
        )
    if result is not _SAME:
        return returned
    if now:
        return jax.tree.unflatten(tree, flat)
    return jax.tree.unflatten(tree, [passed_on(old, new) for old, new in zip(flat, out[: len(flat)], strict=True)])


def _registered_name(target: Any) -> str | None:
    """Returns the name that sinks write for a tap by a name; None for texts such as "print:{}", which are no names."""
    return target if isinstance(target, str) and ":" not in target else None
