# SPDX-License-Identifier: Apache-2.0
"""Sets how often threads take the GIL from each other."""

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def switching_after(seconds: float) -> Iterator[None]:
    """Makes a thread that waits for the GIL ask for it after `seconds`, within the block.

    Without a GIL nothing changes.
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
