# SPDX-License-Identifier: Apache-2.0
"""What was found of late: what follows from it is not where it began."""

from __future__ import annotations

import dataclasses
from collections import deque

from ..process.forks import fork_lock

_MOST_KEPT = 256
_lock = fork_lock()
_latest: deque[RunFinding] = deque(maxlen=_MOST_KEPT)


@dataclasses.dataclass(frozen=True)
class RunFinding:
    """`order`: of its place in the program. `is_shard`: the device has a shard, whose inputs may come from others."""

    run: int
    ordinal: int
    order: int
    is_nan: bool
    backward: bool
    is_shard: bool


def _follows(found: RunFinding, from_infinite: bool, earlier: RunFinding) -> bool:
    if earlier.run != found.run:
        return False
    if from_infinite and not earlier.is_nan and earlier.backward == found.backward:
        return True
    is_elsewhere = found.is_shard and earlier.ordinal != found.ordinal
    return is_elsewhere and (earlier.backward, earlier.order) < (found.backward, found.order)


def add_run_finding(found: RunFinding, from_infinite: bool) -> bool:
    """False if it follows from another finding of its run. Run 0 is any run: nobody tells."""
    with _lock:
        if found.run != 0 and any(_follows(found, from_infinite, earlier) for earlier in list(_latest)):
            return False
        if found not in _latest:
            _latest.append(found)
    return True
