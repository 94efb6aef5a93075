# SPDX-License-Identifier: Apache-2.0
"""`Statistics` and `Histogram` of `callout.sinks` count what taps send, and a `Summary` has the counts of one leaf."""

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
    """What a sink has counted of one leaf of a tap's value, at one moment.

    All numbers are of the finite elements, except the counters that name others. Complex numbers count with their magnitude,
    booleans as 0 and 1, integers of 64 bits rounded to float64.
    """

    records: int  #: How often the tap sent the leaf.
    count: int  #: Finite elements.
    mean: float  #: NaN without elements; so are `std`, `variance`, `min` and `max`.
    std: float  #: Of the population (`ddof=0`), as `numpy.std`.
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
        """A quantile is off by at most this part of itself. ValueError if no quantiles are kept."""
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
            bins: how many, between the least and the largest element; or their edges. By default those that the sink was
                told, which were counted exactly as the elements came; others are estimated from the quantiles: an element
                that is closer to an edge than twice the relative error may count on the other side of it.

        Raises:
            ValueError: bad bins, or bins that the sink was not told where no quantiles are kept.
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
        """Returns both together, as if one sink had counted them.

        Raises:
            ValueError: they are of sinks that keep different things.
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
    """Returns the edges of `bins` equal bins in `limits`, or `bins` itself if it is edges. ValueError for other bins."""
    if np.ndim(bins) == 0:
        if isinstance(bins, bool) or not hasattr(bins, "__index__") or bins < 1:
            raise ValueError(f"callout.sinks: bins must be a number of at least 1, or edges, got {bins!r}")
        return np.linspace(limits[0], limits[1], int(bins) + 1)
    edges = np.asarray(bins, np.float64)
    if edges.ndim != 1 or edges.size < 2 or not np.all(np.isfinite(edges)) or np.any(edges[1:] < edges[:-1]):
        raise ValueError(f"callout.sinks: the edges of bins must be two or more ascending numbers, got {bins!r}")
    return edges


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


class Histogram(Statistics):
    """Counts as `Statistics` does, and keeps quantiles and a histogram of each leaf, in at most 64 KB and its bins.

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
        range: tuple[float, float] | None = None,  # noqa: A002 - as numpy.histogram has it
        quantiles: bool = True,
        name: str = "histogram",
    ):
        """Makes a sink; the arguments say what it keeps.

        Args:
            bins: edges, or a number of equal bins in `range`: counted exactly, as `numpy.histogram` does. A number
                without `range` is what `Summary.histogram()` makes of the quantiles by default, between the least and the
                largest element.
            range: (lower, upper) end of the bins; elements outside are in none.
            quantiles: keep the sketch. Without, only given bins can be had.
            name: what `callout.stats()` calls it, and the key of taps without a name.

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
