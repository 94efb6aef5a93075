# SPDX-License-Identifier: Apache-2.0
"""The places where CUDA's compilers and headers may be on this machine."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

_TOOLKITS = ("CUDA_PATH", "CUDA_HOME")


def packaged(*patterns: str) -> Iterator[Path]:
    """Yields the files of NVIDIA's packages."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        spec = None
    for root in (spec and spec.submodule_search_locations) or ():
        for pattern in patterns:
            yield from sorted(Path(root).glob(pattern), reverse=True)


def by_pathfinder(function: str, name: str) -> str | None:
    """Asks NVIDIA's cuda-pathfinder, where it is installed: it also knows conda's environments and the system's folders.

    Args:
        function: of `cuda.pathfinder`. `load_nvidia_dynamic_lib` loads what it finds.
        name: what it looks for, such as "nvrtc".

    Returns:
        A path, or None if there is none.
    """
    try:
        found = getattr(importlib.import_module("cuda.pathfinder"), function)(name)
    except (ImportError, AttributeError, RuntimeError, OSError):  # an older one has fewer functions
        return None
    path = getattr(found, "abs_path", found)
    return path if isinstance(path, str) else None


def toolkits() -> list[Path]:
    """Returns the folders where a CUDA toolkit may be, what the environment names first."""
    named = [os.environ[variable] for variable in _TOOLKITS if os.environ.get(variable)]
    return [Path(root) for root in (*named, "/usr/local/cuda")]
