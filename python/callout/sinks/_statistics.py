# SPDX-License-Identifier: Apache-2.0
"""`callout.sinks.Statistics` and `Histogram` compute statistics of tapped values; a `Summary` holds those of one leaf."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

from .. import _ext
from ._native_sink import NativeSink

DEFAULT_BINS = 30


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Summary:
    """Holds the statistics of one leaf of a tap's value at one moment.

    All numbers are computed from the finite elements, except the counters of other elements. Complex numbers enter by
    their magnitude, booleans as 0 and 1, integers of 64 bits rounded to float64.
    """

    records: int  #: How often the tap sent the leaf.
    count: int  #: Finite elements.
    mean: float  #: NaN without elements, like `std`, `variance`, `min` and `max`.
    std: float  #: The population's (`ddof=0`), like `numpy.std`.
    variance: float
    min: float
    max: float
    sum: float
    zeros: int
    nans: int
    pos_infs: int
    neg_infs: int
    _leaf: _ext.LeafStatistics
    _bins: int = DEFAULT_BINS

    @property
    def size(self) -> int:
        """Returns the number of all elements."""
        return self.count + self.nans + self.pos_infs + self.neg_infs

    @property
    def relative_error(self) -> float:
        """Returns the largest relative error of a quantile. Raises ValueError if no quantiles are kept."""
        return self._leaf.relative_error

    @overload
    def quantile(self, q: float) -> float: ...
    @overload
    def quantile(self, q: Sequence[float] | np.ndarray) -> np.ndarray: ...
    def quantile(self, q: Any) -> Any:
        """Computes what `numpy.quantile` does, with an error of at most `relative_error`; NaN without elements.

        Args:
            q: a number, or an array of numbers, from 0 to 1.

        Raises:
            ValueError: `q` is outside, or no quantiles are kept.
        """
        array = np.asarray(q, np.float64)
        if not np.all((array >= 0) & (array <= 1)):
            raise ValueError(f"callout.sinks.Summary.quantile: q must be from 0 to 1, got {q!r}")
        if array.ndim == 0:
            return self._leaf.quantile(float(array))
        return np.asarray([self._leaf.quantile(float(each)) for each in array.ravel()]).reshape(array.shape)

    def histogram(self, bins: int | Sequence[float] | np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Computes what `numpy.histogram` does: (counts, edges).

        Args:
            bins: the number of bins between the least and the largest element; or their edges. By default the sink's
                own bins, whose counts are exact. Counts of other bins are estimated from the quantiles: an element that
                is closer to an edge than twice the relative error may count on the other side of the edge.

        Raises:
            ValueError: bad bins, or bins other than the sink's own while no quantiles are kept.
        """
        counts, edges = self._leaf.bin_counts, self._leaf.bin_edges
        if bins is None and counts is not None:
            return np.asarray(counts, np.int64), np.asarray(edges)
        chosen = edges_of(self._bins if bins is None else bins, self._range())
        return np.asarray(self._leaf.counts_between(chosen.tolist()), np.int64), chosen

    def _range(self) -> tuple[float, float]:
        if self.count == 0:
            return 0.0, 1.0
        if not np.isfinite(self.max - self.min):
            raise ValueError(f"callout: no equal bins between {self.min} and {self.max}; pass their edges")
        return (self.min, self.max) if self.min < self.max else (self.min - 0.5, self.max + 0.5)

    def merge(self, other: Summary) -> Summary:
        """Returns the summary of both, as if one sink had received all of their records.

        Raises:
            ValueError: the sinks of the two keep different statistics.
        """
        return summary_of(self._leaf.merged(other._leaf), self._bins)

    def __repr__(self) -> str:
        texts = [f"count={self.count}"]
        middle = ["p50"] if self._leaf.has_quantiles else []
        for name in ["mean", "std", "min", *middle, "max"]:
            value = self.quantile(0.5) if name == "p50" else getattr(self, name)
            texts.append(f"{name}={value:.4g}")
        texts += [f"{name}={n}" for name in ("zeros", "nans", "pos_infs", "neg_infs") if (n := getattr(self, name))]
        return f"Summary({', '.join(texts)})"


def summary_of(leaf: _ext.LeafStatistics, bins: int) -> Summary:
    return Summary(**leaf.numbers(), _leaf=leaf, _bins=bins)


def edges_of(bins: Any, limits: tuple[float, float]) -> np.ndarray:
    """Returns the edges of `bins` equal bins in `limits`, or `bins` if it holds edges. Raises ValueError for bad bins."""
    if np.ndim(bins) == 0:
        if isinstance(bins, bool) or not hasattr(bins, "__index__") or bins < 1:
            raise ValueError(f"callout.sinks: bins must be a number of at least 1, or edges, got {bins!r}")
        return np.linspace(limits[0], limits[1], int(bins) + 1)
    edges = np.asarray(bins, np.float64)
    if edges.ndim != 1 or edges.size < 2 or not np.all(np.isfinite(edges)) or np.any(edges[1:] < edges[:-1]):
        raise ValueError(f"callout.sinks: the edges of bins must be two or more ascending numbers, got {bins!r}")
    return edges


def _keys(leaves: Sequence[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Returns the key of each (tap, leaf). A key that another leaf already has is written as ("a", "b.c")."""
    keys: dict[str, tuple[str, str]] = {}
    for tap, leaf in leaves:
        key = f"{tap}.{leaf}" if leaf else tap
        keys[str((tap, leaf)) if key in keys else key] = (tap, leaf)
    return keys


class Statistics(NativeSink):
    """Computes mean, variance, extremes and counts of NaNs, infinities and zeros, readable at any time.

    Each leaf of each tap has statistics of its own, under the tap's name, followed by "." and the leaf's name if the
    value has several leaves: `stats["loss"]`, `stats["train.loss"]`. Reading never stops the program, and sees whole
    records; call `callout.barrier_wait()` first to include everything that was sent before. Thread-safe.

    Args:
        name: the sink's name in errors and counters.

    Raises:
        KeyError: (from `[]`) no record came under this name.

    Example:
        >>> sink = callout.sinks.Statistics()
        >>> y = jax.jit(lambda x: callout.tap(sink, x, name="x"))(jnp.arange(4.0)); callout.barrier_wait()
        >>> sink["x"].mean, sink["x"].max
        (1.5, 3.0)
    """

    def __init__(self, *, name: str = "statistics"):
        """Makes a sink. `name`: the sink's name in `callout.stats()`, and the key of taps without a name."""
        self._name = name
        self._bins = DEFAULT_BINS
        self._make("statistics", name)

    def snapshot(self) -> dict[str, Summary]:
        """Returns all summaries at one moment, by their keys."""
        leaves = dict(_ext.statistics_snapshot(self._core_here("snapshot")))
        return {key: summary_of(leaves[leaf], self._bins) for key, leaf in _keys(list(leaves)).items()}

    def __getitem__(self, key: str) -> Summary:
        """Returns one leaf's summary. Raises KeyError, with the keys that exist, if no record had the leaf."""
        found = _keys(_ext.statistics_keys(self._core_here("keys")))
        leaf = _ext.statistics_of(self._core_here("keys"), *found[key]) if key in found else None
        if leaf is None:
            raise KeyError(f"callout: nothing was counted under {key!r}; there is {sorted(found)}")
        return summary_of(leaf, self._bins)

    def __contains__(self, key: object) -> bool:
        return key in list(self)

    def __iter__(self) -> Iterator[str]:
        return iter(_keys(_ext.statistics_keys(self._core_here("keys"))))

    def reset(self) -> None:
        """Drops all statistics, as if no record had come."""
        _ext.reset_statistics_sink(self._core_here("reset"))

    def __repr__(self) -> str:
        if self._callout_callback is None:
            return super().__repr__()
        head = f"{type(self).__name__}(name={self._name!r})"
        found = self.snapshot()
        width = max(map(len, found), default=0)
        return "\n".join([head, *(f"  {key:<{width}}  {summary!r}" for key, summary in found.items())])


class Histogram(Statistics):
    """Computes what `Statistics` does, and quantiles and a histogram of each leaf, in at most 64 KB besides the bins.

    Quantiles need no range: they come from a sketch whose relative error is as small as the spread of the elements allows
    (`Summary.relative_error`; 0.2 to 0.8 per cent for gradients over 16 to 60 powers of two, none for small integers).

    Example:
        >>> sink = callout.sinks.Histogram(bins=4, range=(0, 4))
        >>> y = jax.jit(lambda x: callout.tap(sink, x, name="x"))(jnp.arange(4.0)); callout.barrier_wait()
        >>> sink["x"].histogram()[0].tolist()
        [1, 1, 1, 1]
    """

    def __init__(
        self,
        *,
        bins: int | Sequence[float] | np.ndarray | None = None,
        range: tuple[float, float] | None = None,  # noqa: A002 - the word of numpy.histogram
        quantiles: bool = True,
        name: str = "histogram",
    ):
        """Makes a sink that keeps a histogram, quantiles, or both.

        Args:
            bins: edges, or a number of equal bins in `range`: counted exactly, as `numpy.histogram` does. A number
                without `range` is the default of `Summary.histogram()`, which estimates the bins from the quantiles,
                between the least and the largest element.
            range: (lower, upper) end of the bins; elements outside are in none.
            quantiles: keep the sketch. Without the sketch, only the given bins can be read.
            name: the sink's name in `callout.stats()`, and the key of taps without a name.

        Raises:
            ValueError: bad bins or range.
        """
        self._name = name
        self._bins = DEFAULT_BINS
        edges = np.asarray([])
        if range is not None:
            low, high = range
            if not (np.isfinite(low) and np.isfinite(high) and low < high):
                raise ValueError(f"callout.sinks.Histogram: range must be two ascending finite numbers, got {range!r}")
            if bins is None or np.ndim(bins) != 0:
                raise ValueError(f"callout.sinks.Histogram: range={range!r} needs a number of bins, got {bins!r}")
            edges = edges_of(bins, (float(low), float(high)))
        elif bins is not None:
            checked = edges_of(bins, (0.0, 1.0))
            if np.ndim(bins) != 0:
                edges = checked
            elif not quantiles:
                raise ValueError("callout.sinks.Histogram: without quantiles, a number of bins needs a range")
            else:
                self._bins = checked.size - 1
        self._make("histogram", name, quantiles=bool(quantiles), edges=edges.tolist())
