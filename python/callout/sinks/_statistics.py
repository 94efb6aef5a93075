# SPDX-License-Identifier: Apache-2.0
"""`callout.sinks.Statistics`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .. import _ext
from ._native_sink import NativeSink
from ._summary import DEFAULT_BINS, Summary, summary_of


def _keys(leaves: Sequence[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Returns the key of each (tap, leaf). One that another leaf has already is written as ("a", "b.c")."""
    keys: dict[str, tuple[str, str]] = {}
    for tap, leaf in leaves:
        key = f"{tap}.{leaf}" if leaf else tap
        keys[str((tap, leaf)) if key in keys else key] = (tap, leaf)
    return keys


class Statistics(NativeSink):
    """Counts what taps send, and says at any time what it has counted: mean, variance, extremes, NaNs, infinities, zeros.

    Each leaf of each tap is counted for itself, under the tap's name, and the leaf's behind a "." if the value has several:
    `stats["loss"]`, `stats["train.loss"]`. Reading never stops the program, and what is read is of whole records; call
    `callout.barrier_wait()` before to have everything that was sent until then. Thread-safe.

    Args:
        name: what errors and counters call it.

    Raises:
        KeyError: (from `[]`) nothing was counted under that name.

    Example:
        >>> sink = callout.sinks.Statistics()
        >>> y = jax.jit(lambda x: callout.tap(sink, x, name="x"))(jnp.arange(4.0)); callout.barrier_wait()
        >>> sink["x"].mean, sink["x"].max
        (1.5, 3.0)
    """

    def __init__(self, *, name: str = "statistics"):
        """Makes a sink. `name`: what `callout.stats()` calls it, and the key of taps without a name."""
        self._name = name
        self._bins = DEFAULT_BINS
        self._make("statistics", name)

    def snapshot(self) -> dict[str, Summary]:
        """Returns everything, at one moment."""
        leaves = dict(_ext.statistics_snapshot(self._callout_callback))
        return {key: summary_of(leaves[leaf], self._bins) for key, leaf in _keys(list(leaves)).items()}

    def __getitem__(self, key: str) -> Summary:
        """Returns one leaf's summary. KeyError, with the keys that there are, if nothing came of it."""
        found = _keys(_ext.statistics_keys(self._callout_callback))
        leaf = _ext.statistics_of(self._callout_callback, *found[key]) if key in found else None
        if leaf is None:
            raise KeyError(f"callout: nothing was counted under {key!r}; there is {sorted(found)}")
        return summary_of(leaf, self._bins)

    def __contains__(self, key: object) -> bool:
        return key in list(self)

    def __iter__(self) -> Iterator[str]:
        return iter(_keys(_ext.statistics_keys(self._callout_callback)))

    def reset(self) -> None:
        """Forgets everything."""
        _ext.reset_statistics_sink(self._callout_callback)

    def __repr__(self) -> str:
        head = f"{type(self).__name__}(name={self._name!r})"
        found = self.snapshot()
        width = max(map(len, found), default=0)
        return "\n".join([head, *(f"  {key:<{width}}  {summary!r}" for key, summary in found.items())])
