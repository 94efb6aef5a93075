# SPDX-License-Identifier: Apache-2.0
"""The versions of JAX and Python that Callout was tested with, and the private names that were not found."""

from __future__ import annotations

import platform
import sys
import warnings

import jax

JAX_VERSION = tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in jax.__version__.split(".")[:3])

OLDEST_TESTED = (0, 10, 2)

NEWEST_TESTED = (0, 12)

TESTED = " to ".join(".".join(map(str, version)) for version in (OLDEST_TESTED, NEWEST_TESTED))

NEWEST_TESTED_PYTHON = (3, 14)

MISSING: list[str] = []


def warn_if_untested() -> None:
    """Warns, once at import, about a JAX or a Python that this release was not tested with."""
    untested = []
    if JAX_VERSION < OLDEST_TESTED or JAX_VERSION[:2] > NEWEST_TESTED:
        untested.append(f"jax {TESTED}; this is {jax.__version__}")
    if sys.version_info[:2] > NEWEST_TESTED_PYTHON:
        newest = ".".join(map(str, NEWEST_TESTED_PYTHON))
        untested.append(f"Python 3.11 to {newest}; this is {platform.python_version()}")
    for what in untested:
        warnings.warn(f"callout was tested with {what}. Please report what does not work.", stacklevel=3)


CALLBACK_PLATFORMS = ("cpu", "cuda", "rocm", "tpu", *(("oneapi",) if JAX_VERSION >= (0, 12) else ()))
"""The platforms of JAX's own callbacks."""
