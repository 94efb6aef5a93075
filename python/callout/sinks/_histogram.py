# SPDX-License-Identifier: Apache-2.0
"""`callout.sinks.Histogram`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ._statistics import Statistics
from ._summary import DEFAULT_BINS, edges_of


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
