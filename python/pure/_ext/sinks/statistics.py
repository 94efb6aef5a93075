# SPDX-License-Identifier: Apache-2.0
"""Statistics of leaves: refused by name. A Python function over NumPy counts what is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from ..calls.callback import Callback
from ..refusal import CORE, refuse


def _refuse(what: str) -> NoReturn:
    refuse(what, f"A Python function that counts is a tap's target, too. {CORE}")


class LeafStatistics:
    """What was counted of a leaf, at one moment."""

    def __init__(self) -> None:
        _refuse("statistics of a leaf were asked for")

    def numbers(self) -> dict[str, Any]:
        """Refused."""
        _refuse("statistics of a leaf were asked for")

    @property
    def has_quantiles(self) -> bool:
        """None."""
        return False

    @property
    def relative_error(self) -> float:
        """The relative error of quantiles."""
        return 0.0

    def quantile(self, q: float) -> float:
        """Refused."""
        _refuse(f"the quantile {q} was asked for")

    def counts_between(self, edges: Sequence[float]) -> list[int]:
        """Refused."""
        _refuse(f"counts between {len(edges)} edges were asked for")

    @property
    def bin_counts(self) -> list[int] | None:
        """None."""
        return None

    @property
    def bin_edges(self) -> list[float] | None:
        """None."""
        return None

    def merged(self, other: LeafStatistics) -> LeafStatistics:
        """Refused."""
        del other
        _refuse("statistics were to be merged")


def statistics_snapshot(sink: Callback) -> list[tuple[tuple[str, str], LeafStatistics]]:
    """Refused."""
    _refuse(f"the statistics of '{sink.label}' were asked for")


def statistics_of(sink: Callback, tap: str, leaf: str) -> LeafStatistics | None:
    """Refused."""
    _refuse(f"the statistics of '{sink.label}', {tap} {leaf}, were asked for")


def statistics_keys(sink: Callback) -> list[tuple[str, str]]:
    """Refused."""
    _refuse(f"the statistics of '{sink.label}' were asked for")


def reset_statistics_sink(sink: Callback) -> None:
    """Refused."""
    _refuse(f"the statistics of '{sink.label}' were to be reset")
