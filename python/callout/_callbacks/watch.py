# SPDX-License-Identifier: Apache-2.0
"""`callout.watch` finds where values stop being finite."""

from __future__ import annotations

import functools
from typing import Any, TypeVar

import jax
import numpy as np

from .. import _ext
from .._base.arguments import goes_on, is_high, passed_on, read, refuse_tracers
from .._base.barrier import drain
from .._base.resettable import with_reset
from .._primitives.site import check_step, leaf_names, make_site
from .._primitives.tap import no_transforms, tap_p
from .._targets.target import embedded_target
from .._targets.target_attributes import payload

T = TypeVar("T")


def _reset(name: str | None = None) -> None:
    """Resets the counts of the watches of `name`, or of all: the next bad value is the first again, and is logged.

    This is for a cell of a notebook that is run again. Blocks until the records of earlier programs are counted.
    """
    drain()
    _ext.reset_watches(name)


@with_reset(_reset)
def watch(
    x: T,
    name: str = "watch",
    *,
    nan: bool = True,
    inf: bool = True,
    stop: bool = False,
    gradient: bool = False,
    every: int = 1,
    step: Any = None,
) -> T:
    """Returns `x`, and looks for NaN and infinities in it while the program runs.

    The values are read in place, at the speed of memory, without a copy, a queue or Python.
    `callout.stats()["watches"][name]` has the counts at any time, and the step, device, shard and index of the first
    bad element. The first one under a name is logged as a warning; `callout.watch.reset(name)` resets the counts. In a
    jit over several devices each device reads its own shard; under vmap the index begins with the batch. On a GPU the
    values are copied to the host and read there, while the program goes on.

    Args:
        x: a pytree. Leaves of integers and booleans are ignored.
        name: the key of the counts. Several watches may share a name.
        nan: look for NaN.
        inf: look for infinities.
        stop: fail the program at the first bad value, with `NonFiniteError`. Inside `shard_map` on several devices, the
            others then wait for the failed one in their next collective, which XLA ends after its own timeout. On a GPU the
            next tap or watch on the device fails instead, or the next `barrier_wait()`.
        gradient: watch the tangents of `x`, or in reverse mode its cotangents, too, under `name + ".gradient"`.
        every: look only the 1st, (every+1)th, ... time; with `step`, if it is a multiple of `every`.
        step: an integer scalar, the step that is reported. By default the number of earlier runs of the watch.

    Returns:
        `x` itself.

    Raises:
        ValueError: neither `nan` nor `inf` is true, or `every` is out of range. TypeError: `step` is no integer.
        NonFiniteError: (from the running program) `stop` is true, and a value is bad.

    Example:
        >>> y = jax.jit(lambda x: callout.watch(jnp.log(x), "logs"))(jnp.array([1.0, 0.0])).block_until_ready()
        >>> found = callout.stats()["watches"]["logs"]
        >>> found["calls"], found["inf"], found["first"]["index"]
        (1, 1, (1,))
    """
    if not nan and not inf:
        raise ValueError("callout.watch: nan=False and inf=False leave nothing to look for")
    if not isinstance(name, str) or not name or "\n" in name:
        raise ValueError(f"callout.watch: name must be a text of one line, got {name!r}")
    refuse_tracers("callout.watch", "the name", name, "watch the value that it shows")
    inspection = _Inspection(nan, inf, stop, every)
    given, tree = jax.tree.flatten(x)
    leaves = list(given)
    if gradient:
        if any(map(is_high, leaves)):
            raise TypeError(
                "callout.watch: gradient=True needs arrays, got a value of a high-level type: pass the array that it "
                "stands for"
            )
        leaves = [
            _tangents_watched(leaf, step, name, inspection) if _is_inexact(leaf) and not goes_on(leaf) else leaf
            for leaf in leaves
        ]
    held = [read(leaf) if is_high(leaf) else leaf for leaf in leaves]
    watched = [i for i, leaf in enumerate(held) if _is_inexact(leaf)]
    names = leaf_names(x)
    if watched:
        outs = inspection.at([read(held[i]) for i in watched], name, step, tuple(names[i] for i in watched))
        for i, out in zip(watched, outs, strict=True):
            leaves[i] = out
    result: T = jax.tree.unflatten(tree, list(map(passed_on, given, leaves)))
    return result


def _is_inexact(leaf: Any) -> bool:
    if isinstance(leaf, (float, complex)):
        return True
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and jax.dtypes.issubdtype(dtype, np.inexact)


class _Inspection:
    """The settings of a watch: which values are bad, and whether they fail the program."""

    def __init__(self, nan: bool, inf: bool, stop: bool, every: int):
        kinds = ("n" if nan else "") + ("i" if inf else "")
        self.text = payload("watch:", kinds=kinds, action="stop" if stop else "report")
        self.stop = bool(stop)
        self.every = every

    def _key(self) -> tuple[str, int]:
        return self.text, self.every

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Inspection) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def at(self, leaves: list[Any], name: str, step: Any, names: tuple[str, ...]) -> list[Any]:
        site = make_site(
            names=names,
            name=name,
            on_full="drop_newest",  # the site only sends notices
            every=self.every,
            sharding="local",
            has_step=step is not None,
            can_fail=self.stop,
        )
        outs = tap_p.bind(
            *leaves,
            *([] if step is None else [check_step(step)]),
            target=embedded_target(self.text),
            site=site,
            transforms=no_transforms,
        )
        return list(outs[: len(leaves)])


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _tangents_watched(x: Any, step: Any, name: str, inspection: _Inspection) -> Any:
    del step, name, inspection
    return x


@_tangents_watched.defjvp
def _tangents_watched_jvp(name: str, inspection: _Inspection, primals: Any, tangents: Any) -> Any:
    x, step = primals
    return x, inspection.at([tangents[0]], f"{name}.gradient", step, ("",))[0]
