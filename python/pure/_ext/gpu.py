# SPDX-License-Identifier: Apache-2.0
"""CUDA: there is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from .refusal import CORE, REASON, refuse


def expect_image(image: bytes) -> NoReturn:
    """Refused."""
    del image
    refuse("a GPU kernel was asked for", CORE)


def image_counts() -> tuple[int, int]:
    """(launches that were queued or recorded, images that were loaded): none."""
    return (0, 0)


def recorded_call_counts() -> tuple[int, int]:
    """(calls that were recorded for graph=True, launches of recordings): none."""
    return (0, 0)


def store_on_device(
    values: list[Any], results: tuple[Any, ...], arguments: tuple[Any, ...], canonicalize: bool
) -> NoReturn:
    """Refused."""
    del values, results, arguments, canonicalize
    refuse('options(memory="device") was asked for', CORE)


def cuda_driver() -> tuple[str, int, list[Any], str]:
    """(path, version, devices, why there are none)."""
    return ("", 0, [], REASON)


def find_nvrtc(candidates: Sequence[str]) -> tuple[str, int, list[int], str]:
    """(path, version, compute capabilities, why there is none)."""
    del candidates
    return ("", 0, [], REASON)


def compile_cuda(
    nvrtc: str,
    code: str,
    name: str,
    options: Sequence[str],
    kernels: Sequence[str],
    headers: Sequence[tuple[str, str]],
) -> NoReturn:
    """Refused."""
    del nvrtc, code, options, kernels, headers
    refuse(f"'{name}' is CUDA C++", CORE)
