# SPDX-License-Identifier: Apache-2.0
"""The driver table and the image handlers on a real driver."""

from __future__ import annotations

from conformance import cpp_build, gtest
from rows import Group, NotRunError, gpu

GROUP = Group("driver")
_TESTS = cpp_build() / "src/transport/cuda"


def _conformance(suite: str) -> str:
    gpu()
    binary = _TESTS / f"cuda_{suite}_conformance_test"
    if not binary.is_file():
        raise NotRunError(f"{binary.name} is not built (make test-cpp)")
    return gtest(binary, "*Real*", {"CALLOUT_TEST_CUDA_DRIVER": "libcuda.so.1"})


@GROUP.row("conformance: launches")
def launches() -> str:
    return _conformance("launch")


@GROUP.row("conformance: memory")
def memory() -> str:
    return _conformance("memory")


@GROUP.row("conformance: streams and events")
def streams() -> str:
    return _conformance("stream")


@GROUP.row("conformance: captures and graphs")
def captures() -> str:
    return _conformance("capture")
