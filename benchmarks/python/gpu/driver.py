# SPDX-License-Identifier: Apache-2.0
"""Checks the driver table and the image handlers on a real driver."""

from __future__ import annotations

from conformance import cpp_build, gtest
from rows import Group, NotRunError, gpu

GROUP = Group("driver")
_TESTS = cpp_build() / "src/cuda/cuda_driver_test"


def _conformance(suite: str) -> str:
    gpu()
    if not _TESTS.is_file():
        raise NotRunError(f"{_TESTS.name} is not built (make test-cpp)")
    return gtest(_TESTS, f"*{suite}Conformance*Real*", {"CALLOUT_TEST_CUDA_DRIVER": "libcuda.so.1"})


@GROUP.row("conformance: launches")
def launches() -> str:
    return _conformance("Launch")


@GROUP.row("conformance: memory")
def memory() -> str:
    return _conformance("Memory")


@GROUP.row("conformance: streams and events")
def streams() -> str:
    return _conformance("Stream")


@GROUP.row("conformance: captures and graphs")
def captures() -> str:
    return _conformance("Capture")
