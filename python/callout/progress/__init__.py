# SPDX-License-Identifier: Apache-2.0
"""Loops in programs have progress bars. tqdm draws them, and a step of the loop costs next to nothing.

`progress` is for every loop; `scan_tqdm`, `loop_tqdm` and `PBar` are jax-tqdm's.
"""

from .._base.public_modules import CallableModule, publish
from ._decorator import PBar, loop_tqdm, progress, scan_tqdm

__all__ = ["PBar", "loop_tqdm", "progress", "scan_tqdm"]
publish(__name__, CallableModule)
