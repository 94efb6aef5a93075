# SPDX-License-Identifier: Apache-2.0
"""Receivers of taps. All but `Function` are native: they run on a C++ thread of their own and never take the GIL.

A sink is a tap's target: `callout.tap(sink, {"loss": loss}, name="train")`. It may serve many taps at once.
"""

from ._sinks.csv import Csv
from ._sinks.file_sink import close
from ._sinks.function import Function
from ._sinks.histogram import Histogram
from ._sinks.json_lines import JsonLines
from ._sinks.null import Null
from ._sinks.print import Print
from ._sinks.statistics import Statistics
from ._sinks.summary import Summary
from ._sinks.tee import Tee
from ._sinks.tensorboard import TensorBoard

__all__ = [
    "Csv",
    "Function",
    "Histogram",
    "JsonLines",
    "Null",
    "Print",
    "Statistics",
    "Summary",
    "Tee",
    "TensorBoard",
    "close",
]
