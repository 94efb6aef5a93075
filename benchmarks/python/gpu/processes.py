# SPDX-License-Identifier: Apache-2.0
"""Checks that need their own processes: loading of code, allocators, exit, forks, faults, hangs."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import programs
from own_process import NotOverError, flags, run_alone
from rows import ON_SOFTWARE, Group, NotRunError, WrongError, expect, gpu

GROUP = Group("processes")
_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
_AUTOTUNES = "--xla_gpu_autotune_level=4"


@GROUP.row("CUDA_MODULE_LOADING: lazy and eager")
def loading() -> str:
    gpu()
    texts = [run_alone(programs.everything, {"CUDA_MODULE_LOADING": mode})[0] for mode in ("LAZY", "EAGER")]
    return ", ".join(texts)


def _allocator(name: str) -> str:
    gpu()
    return run_alone(programs.everything, {"XLA_PYTHON_CLIENT_ALLOCATOR": name})[0]


@GROUP.row("XLA_PYTHON_CLIENT_ALLOCATOR=platform")
def platform() -> str:
    return _allocator("platform")


@GROUP.row("XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async")
def cuda_async() -> str:
    return _allocator("cuda_async")


@GROUP.row("XLA_PYTHON_CLIENT_ALLOCATOR=vmm")
def vmm() -> str:
    return _allocator("vmm")


@GROUP.row("JAX's profiler records meanwhile")
def profiler() -> str:
    gpu()
    return run_alone(programs.profiled)[0]


@GROUP.row("exit with taps in flight: all are delivered")
def exit_with_taps() -> str:
    gpu()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "taps.jsonl"
        run_alone(programs.exit_with_taps, {"CALLOUT_CHECK_FILE": str(file)})
        lines = [json.loads(line) for line in file.read_text().splitlines()]
    expect("records", 500, len(lines))
    return f"{len(lines)} records"


@GROUP.row("fork after use")
def fork() -> str:
    gpu()
    return run_alone(programs.fork_after_use)[0]


@GROUP.row("taps and calls after a fault of the device")
def after_a_fault() -> str:
    gpu()
    # XLA may fail at exit with a broken device, but the process must end.
    return run_alone(programs.taps_after_a_fault, may_end_badly=True)[0]


@GROUP.row("a callback that compiles a product on its own device, without autotuning")
def nested_product() -> str:
    gpu()
    return run_alone(programs.nested_product, flags("--xla_gpu_autotune_level=0"))[0]


@GROUP.row("the same with autotuning, compiled before")
def nested_product_before() -> str:
    gpu()
    if ON_SOFTWARE:
        raise NotRunError("XLA measures products by kernels of machine code: needs hardware")
    return run_alone(programs.nested_product_compiled_before, flags(_AUTOTUNES))[0]


@GROUP.row("the same with autotuning, compiled in the callback: ends, or hangs and says what helps")
def nested_product_autotuned() -> str:
    gpu()
    environment = {**flags(_AUTOTUNES), "CALLOUT_HANG_REPORT_S": "3"}
    try:
        return run_alone(programs.nested_product, environment, timeout_s=30)[0]
    except NotOverError as hang:
        if "--xla_gpu_autotune_level=0" not in hang.err:
            raise WrongError(f"it hangs, and no report names --xla_gpu_autotune_level=0; {hang}") from hang
        return "hangs, as the manual says, and the report names what helps"


@GROUP.row("compute-sanitizer finds nothing")
def sanitizer() -> str:
    gpu()
    if ON_SOFTWARE:
        raise NotRunError("it looks at machine code: needs hardware")
    if shutil.which("compute-sanitizer") is None:
        raise NotRunError("needs compute-sanitizer of the CUDA toolkit, beside the hardware")
    # A finding ends the process with this exit code, which has no other use. Errors that the driver's functions return
    # are no findings, because the query for a kernel's parameters ends with one.
    under = ("compute-sanitizer", "--error-exitcode", "86", "--report-api-errors", "no", "--tool")
    for tool in _TOOLS:
        text = run_alone(programs.everything, timeout_s=120, under=(*under, tool))[0]
    return f"{', '.join(_TOOLS)}: {text} each"
