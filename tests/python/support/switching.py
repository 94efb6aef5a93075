# SPDX-License-Identifier: Apache-2.0
"""How often threads take the GIL from each other."""

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def switching_after(seconds: float) -> Iterator[None]:
    """Within it, a thread that waits for the GIL asks for it after so long. Without a GIL nothing changes."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
