# SPDX-License-Identifier: Apache-2.0
"""`callout.sinks.Summary`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from .. import _ext

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
