# SPDX-License-Identifier: Apache-2.0
"""The places where CUDA's compilers and headers may be on this machine."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

_TOOLKITS = ("CUDA_PATH", "CUDA_HOME")


def packaged(*patterns: str) -> Iterator[Path]:
    """Files of NVIDIA's packages."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        spec = None
    for root in (spec and spec.submodule_search_locations) or ():
        for pattern in patterns:
            yield from sorted(Path(root).glob(pattern), reverse=True)


def toolkits() -> list[Path]:
    """Folders where a CUDA toolkit may be, what the environment names first."""
    named = [os.environ[variable] for variable in _TOOLKITS if os.environ.get(variable)]
    return [Path(root) for root in (*named, "/usr/local/cuda")]
