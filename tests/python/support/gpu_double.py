# SPDX-License-Identifier: Apache-2.0
"""Runs programs for CUDA on this machine's CPU: the handlers run on the double of the CUDA driver.

The double is the driver of software_gpu/, from the C++ build; `CALLOUT_SOFTWARE_GPU` may name another one. The arrays
of XLA:CPU are its device memory, so the C++ tests check that copies have the right direction; these tests run whole
programs, transformations and errors.

XLA:CPU knows one handler for each name. Targets that exist only for CUDA are registered when they are first needed
(`gpu_double`). Targets for both platforms, such as callout.v1.call, need a process of their own, in which the handlers
for CUDA are registered for platform cpu instead of those for a CPU: a pytest process with CALLOUT_TEST_ON_GPU_DOUBLE=1,
with any test file, or a program that calls `import_callout_on_the_double` before it imports callout.
"""

import contextlib
import ctypes
import functools
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import limited
import pytest

_BUILD = Path(__file__).parents[3] / "build" / "gpu"
DRIVER = Path(os.environ.get("CALLOUT_SOFTWARE_GPU", _BUILD / "software_gpu" / "driver" / "libcuda.so.1"))
IMAGE = DRIVER.with_name("kernels.image")
_ADAPTER = DRIVER.parents[2] / "src" / "testing" / "gpu_on_cpu.so"

_ON_PLUGIN = os.environ.get("CALLOUT_TEST_PLATFORM") == "cuda"  # programs without pytest import this module, too
_ENVIRONMENT = {
    "CALLOUT_CUDA_DRIVER": str(DRIVER),
    "CALLOUT_SOFTWARE_GPU_DEVICES": "8",
    "CALLOUT_SOFTWARE_GPU_HOST_MEMORY": "1",
}


class _Control(ctypes.Structure):
    """SoftwareGpuControl of software_gpu.h."""

    _fields_ = [
        ("reset", ctypes.CFUNCTYPE(None)),
        ("fail", ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int, ctypes.c_int)),
        ("calls", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)),
        ("log", ctypes.CFUNCTYPE(ctypes.c_char_p)),
        ("hold", ctypes.CFUNCTYPE(None)),
        ("release", ctypes.CFUNCTYPE(None)),
        ("live", ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int)),
        ("set_devices", ctypes.CFUNCTYPE(None, ctypes.c_int)),
        ("bind", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("bind_global", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    ]


@functools.cache
def library() -> ctypes.CDLL:
    """Loads the double; on the plugin, the driver that the plugin has loaded."""
    return ctypes.CDLL("libcuda.so.1" if _ON_PLUGIN else str(DRIVER))


@functools.cache
def control() -> _Control:
    """Returns the double's controls."""
    find = library().software_gpu_control
    find.restype = ctypes.POINTER(_Control)
    return find().contents


def calls(function: str) -> int:
    """Returns the number of calls of a driver function."""
    return control().calls(function.encode())


def fail(function: str, nth: int, code: int) -> None:
    """Makes the nth call of a driver function from now on fail with a CUDA error."""
    control().fail(function.encode(), nth, code)


def _address(capsule: object) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, b"xla._CUSTOM_CALL_TARGET")


def environment_without() -> dict[str, str]:
    """Returns the environment of a process without the double, which earlier tests may have put into this process's."""
    return {name: value for name, value in os.environ.items() if value != _ENVIRONMENT.get(name)}


@functools.cache
def _adapter() -> Any:
    """Returns an adapter from handlers for CUDA to handlers for cpu.

    The environment is set before the double is loaded.
    """
    os.environ.update(_ENVIRONMENT)
    adapt = ctypes.CDLL(str(_ADAPTER)).callout_gpu_on_cpu
    adapt.restype, adapt.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

    def on_cpu_of(handlers: dict[str, object]) -> dict[str, object]:
        return {stage: jax.ffi.pycapsule(adapt(_address(handler))) for stage, handler in handlers.items()}

    return on_cpu_of


@functools.cache
def _register() -> None:
    """Registers targets that exist only for CUDA for platform cpu."""
    from callout import _ext

    taken = _taken | {name for name, platform, _ in _ext.ffi_targets() if platform == "cpu"}
    for name, platform, handlers in _ext.ffi_targets():
        if platform == "cuda" and name not in taken:
            jax.ffi.register_ffi_target(name, _adapter()(handlers), platform="cpu")


# Targets for CUDA that are registered for platform cpu instead of those for a CPU.
_taken: set[str] = set()


def import_callout_on_the_double() -> None:
    """Imports callout for the rest of the process, with the handlers for CUDA instead of those for a CPU.

    Raises RuntimeError if the process has imported callout before.
    """
    if "callout" in sys.modules:
        raise RuntimeError("callout was imported before: its handlers for a CPU are registered")
    asked: list[tuple[str, Any, str]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            jax.ffi, "register_ffi_target", lambda name, handlers, platform: asked.append((name, handlers, platform))
        )
        from callout import _ext
    cuda = {name: handlers for name, platform, handlers in _ext.ffi_targets() if platform == "cuda"}
    for name, handlers, platform in asked:
        if platform == "cpu" and name in cuda:
            handlers = _adapter()(cuda[name])
            _taken.add(name)
        jax.ffi.register_ffi_target(name, handlers, platform=platform)
    from callout._targets.partitioning import partitioned_calls

    partitioned_calls.in_meeting = lambda call: None  # XLA gathers values of several GPUs


ON_DOUBLE = os.environ.get("CALLOUT_TEST_ON_GPU_DOUBLE") == "1"
"""True if this process's callbacks run as on CUDA."""

if ON_DOUBLE and "callout" not in sys.modules:
    import_callout_on_the_double()


def _require_software_gpu() -> None:
    """Skips a test that counts the driver's calls or makes them fail, if the plugin's driver has no controls."""
    import platforms

    if not platforms.on_software_gpu():
        pytest.skip("counts the driver's calls and makes them fail, which takes the software GPU's driver")


@contextlib.contextmanager
def on_cpu() -> Iterator[None]:
    """Runs kernels for CUDA on platform cpu by the double until the block ends; on the plugin, runs them unchanged."""
    if _ON_PLUGIN:
        _require_software_gpu()
        try:
            yield
        finally:
            jax.clear_caches()
        return
    for file in (DRIVER, _ADAPTER):
        if not file.is_file():
            pytest.skip(f"needs the software GPU (make gpu-test): {file.name} is missing")
    _register()
    from callout._native.gpu.callable import CallableTarget
    from callout._native.gpu.kernel_function import GpuTarget

    patch = pytest.MonkeyPatch()
    for target in (GpuTarget, CallableTarget):
        patch.setattr(target, "platforms", ("cpu",))
    try:
        yield
    finally:
        patch.undo()
        jax.clear_caches()


@pytest.fixture
def gpu_double() -> Iterator[_Control]:
    """Applies `on_cpu` to one test, and returns the double's controls."""
    with on_cpu():
        yield control()


def run_suites(*arguments: str, timeout: float = 500) -> dict[str, int]:
    """Runs pytest with these arguments where callbacks run as on CUDA; returns the number of tests by outcome.

    Files are found by their names, in all folders of the Python tests. The tests run in a process of their own; on the
    plugin, this process runs on the plugin, too. Fails with the other process's report if a test fails.
    """
    if _ON_PLUGIN:
        _require_software_gpu()
        if files := [each for each in arguments if each.startswith("test_")]:
            pytest.skip(f"the plugin runs {', '.join(files)} by itself, not in a process of this test")
    if not (DRIVER.is_file() and _ADAPTER.is_file()):
        pytest.skip(f"needs the software GPU (make gpu-test): {DRIVER.name} is missing")
    tests = Path(__file__).parents[1]
    found = [str(next(tests.rglob(each))) if each.endswith(".py") else each for each in arguments]
    done = limited.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *found],
        cwd=tests,
        env=os.environ if _ON_PLUGIN else {**os.environ, "CALLOUT_TEST_ON_GPU_DOUBLE": "1"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return {outcome: int(count) for count, outcome in re.findall(r"(\d+) (\w+)", done.stdout.splitlines()[-1])}


def passed(outcomes: dict[str, int]) -> None:
    """Checks the outcomes of `run_suites`. On the plugin, tests that need more devices or host memory are skipped."""
    assert outcomes["passed"] > 0
    assert set(outcomes) <= ({"passed", "skipped"} if _ON_PLUGIN else {"passed"})
