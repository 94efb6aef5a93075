# SPDX-License-Identifier: Apache-2.0
"""A tap's site holds the checked options of `tap`."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from .. import _jax_compat
from .._base.arguments import check_index, read, refuse_tracers
from .._targets import target_attributes

ALL_PPB = 1_000_000_000  # the scale of `sample`: parts in a billion
_LONGEST_S = 1e9  # about 30 years
LONGEST_FLUSH_S = 3600.0  # a clock counts the microseconds in 32 bits
TARGET = "callout.v1.tap"
_STEPS = np.iinfo(np.int64)


@dataclasses.dataclass(frozen=True)
class Site:
    """The options of one `tap` in the user's code, without its target."""

    label: str
    leaves: tuple[str, ...]
    options: tuple[tuple[str, str | int], ...] = ()  # attributes of the target, as docs/abi.md has them
    ordered: bool = False
    sharding: Literal["gather", "local"] = "gather"
    device_index: int = 0
    inline: bool = False  # eager taps run in the caller
    has_step: bool = False  # the last operand is the step, which is not part of the value
    has_handle: bool = False  # the first operand is the sink's handle, which is not part of the value
    flush_interval: float = 0.0  # seconds for which a loop may collect records; 0: none
    has_rows: bool = False  # each row of the operands is a record; behind them comes the number of rows
    has_turns: bool = False  # behind the number of rows come the rows' turns
    hand_over: tuple[int, int] = (0, 0)  # the number of the hand-over, and how many of its taps follow
    whole_batch: bool = False  # send the whole batch under every vmap, even of a cond or a loop

    def attributes(self) -> dict[str, str | int]:
        """Returns the attributes for the target, without the name of the callback."""
        attributes: dict[str, str | int] = {
            "label": self.label,
            "leaves": "\n".join(self.leaves),
            "step": self.has_step,
        }
        if self.has_rows:
            number, following = self.hand_over
            attributes.update(rows=True, turns=self.has_turns, hand_over=number, following=following)
        return {**attributes, **dict(self.options)}

    def is_for_one_process(self) -> bool:
        """Returns True if the core needs to know which process this is."""
        return "only_process" in dict(self.options)


def _interval_ns(seconds: float | None) -> int:
    if seconds is not None and (not isinstance(seconds, (int, float, np.number)) or not seconds >= 0):
        raise ValueError(f"callout.tap: min_interval must be 0 or more seconds, got {seconds!r}")
    return min(int(min(seconds or 0, _LONGEST_S) * 1e9), 2**63 - 1)


def flush_seconds(seconds: float) -> float:
    """Returns a flush interval. Raises ValueError if it is not a number of seconds, 0 or more."""
    is_number = isinstance(seconds, (int, float, np.number)) and not isinstance(seconds, bool)
    if not is_number or not seconds >= 0:
        raise ValueError(f"callout.tap: flush_interval must be 0 or more seconds, got {seconds!r}")
    return float(min(seconds, LONGEST_FLUSH_S))


def _sample_ppb(sample: float | None) -> int:
    if sample is None:
        return ALL_PPB
    if isinstance(sample, bool) or not isinstance(sample, (int, float, np.number)) or not 0 < sample <= 1:
        raise ValueError(f"callout.tap: sample must be a probability, above 0 and up to 1, got {sample!r}")
    return max(1, round(sample * ALL_PPB))


def leaf_names(value: Any) -> tuple[str, ...]:
    """Returns the leaves' paths, "a.b" or "0"; "" for a single array."""
    paths, _ = jax.tree_util.tree_flatten_with_path(value)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths]
    if len(set(names)) < len(names):  # {"a.b": ..., "a": {"b": ...}}
        names = [
            jax.tree_util.keystr(path) if names.count(name) > 1 else name
            for name, (path, _) in zip(names, paths, strict=True)
        ]
    return tuple(name.replace("\n", "\\n") for name in names)


def check_step_number(step: int | np.integer) -> None:
    """Raises OverflowError if a record cannot store the step."""
    if not _STEPS.min <= step <= _STEPS.max:
        raise OverflowError(f"callout.tap: step must be from -2**63 to 2**63 - 1, got {step}")


def check_step(step: Any) -> Any:
    """Returns the step as an operand. Raises TypeError if it is no integer, OverflowError if JAX would truncate it."""
    step = read(step)
    if isinstance(step, np.ndarray) and step.ndim == 0:
        step = step[()]
    if isinstance(step, (int, np.integer)) and not isinstance(step, bool):
        check_step_number(step)
        for kind in (np.int32, np.uint32, np.int64):
            if np.iinfo(kind).min <= step <= np.iinfo(kind).max and (kind is not np.int64 or _jax_compat.x64_enabled()):
                return kind(step)
        raise OverflowError(f"callout.tap: step {step} has more than 32 bits, which needs jax_enable_x64")
    if jax.export.is_symbolic_dim(step):
        step = jax.numpy.asarray(step)
    dtype = getattr(step, "dtype", None)
    if dtype is None or not jax.dtypes.issubdtype(dtype, np.integer) or np.ndim(step) != 0:
        what = f"{dtype}{list(np.shape(step))}" if dtype is not None else repr(step)
        raise TypeError(f"callout.tap: step must be an integer scalar, got {what}")
    return step


@functools.cache
def _defaults() -> frozenset[tuple[str, Any]]:
    return frozenset((name, row.default) for name, row in target_attributes.tables()[TARGET].items())


def make_site(
    *,
    names: tuple[str, ...],
    name: str | None = None,
    on_full: str = "block",
    min_interval: float | None = None,
    sample: float | None = None,
    only_process: int | None = None,
    only_device: int | None = None,
    ordered: bool = False,
    sharding: Literal["gather", "local"] = "gather",
    device_index: int = 0,
    has_step: bool = False,
    can_fail: bool = False,
    flush_interval: float = 0.0,
    **numbers: int,
) -> Site:
    """Returns the site of a tap of leaves with these names. Raises ValueError for a bad option.

    `numbers`: options that become attributes of the target unchanged.
    """
    if name is not None and not isinstance(name, str):
        raise TypeError(f"callout.tap: name must be a str, got {name!r}")
    refuse_tracers("callout.tap", "the name", name or "", "tap the value that it shows")
    rows = target_attributes.tables()[TARGET]
    policies = rows["on_full"].choices
    if on_full not in policies:
        raise ValueError(f"callout.tap: on_full must be one of {list(policies)}, got {on_full!r}")
    if sharding not in ("gather", "local"):
        raise ValueError(f'callout.tap: sharding must be "gather" or "local", got {sharding!r}')
    options: dict[str, str | int] = {
        **{
            option: check_index(f"callout.tap: {option}", value, rows[option].least)
            for option, value in numbers.items()
        },
        "min_interval_ns": _interval_ns(min_interval),
        "on_full": on_full,
        "sample_ppb": _sample_ppb(sample),
        "only_device": -1 if only_device is None else check_index("callout.tap: only_device", only_device),
        "only_process": -1 if only_process is None else check_index("callout.tap: only_process", only_process),
        "can_fail": can_fail,
    }
    return Site(
        name or "",
        names,
        tuple(pair for pair in options.items() if pair not in _defaults()),
        ordered=bool(ordered),
        sharding=sharding,
        device_index=check_index("callout.tap: device_index", device_index),
        has_step=has_step,
        flush_interval=flush_interval,
    )


def site_of(value: Any, tree: PyTreeDef, **options: Any) -> Site:
    """Returns the site of a tap of `value` with structure `tree` and these options. Equal sites are usually one object."""
    if _is_of_containers(tree):
        try:  # `contextlib.suppress` would take a third of this function's time
            return _known_site(tree, **options)
        except TypeError:  # an option cannot be hashed
            pass
    return make_site(names=leaf_names(value), **options)


@functools.lru_cache(maxsize=1024, typed=True)
def _known_site(tree: PyTreeDef, **options: Any) -> Site:
    return make_site(names=leaf_names(jax.tree.unflatten(tree, [0] * tree.num_leaves)), **options)


def _is_of_containers(tree: PyTreeDef) -> bool:
    """Returns True if equal trees have equal leaf names: the tree has no class of the user's, and not the keys 1 and True.

    The result is not cached, because a cache would compare and keep alive the contents of the user's classes, which may
    be arrays.
    """
    node = tree.node_data()
    if node is None:
        return True
    kind, keys = node
    is_known = kind in (list, tuple, type(None)) or (kind is dict and all(type(key) is str for key in keys))
    return is_known and all(map(_is_of_containers, tree.children()))
