# SPDX-License-Identifier: Apache-2.0
"""The core in Python, for systems without the C++ core. Private: use the callout package.

Programs reach it by JAX's own callbacks. Its modules define a part of the extension's functions and classes. Some of
the other functions return an empty answer; all others raise an error with their names when they are called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import calls, handles, inspectors, process, records, sinks, tables, taps

for _module in (calls, handles, inspectors, process, records, sinks, taps):
    _own = {name: value for name, value in vars(_module).items() if getattr(value, "__module__", 0) == _module.__name__}
    globals().update({name: value for name, value in _own.items() if name[0] != "_"})

make_python_callback = calls.PythonCallback
FORK_TEXT, DTYPE_NAMES, SUB_BYTE_BITS = process.FORK_TEXT, tables.DTYPE_NAMES, tables.SUB_BYTE_BITS

_ANSWERS: dict[str, Any] = {
    "ffi_targets": [],
    "host_callback": lambda *_: None,
    "target_attributes": tables.TARGET_ATTRIBUTES,
    "program_kinds": tables.PROGRAM_KINDS,
    "callback_metrics": tables.CALLBACK_METRICS,
    "queue_metrics": tables.QUEUE_METRICS,
    "cuda_driver": ("", 0, [], process.REASON),
    "find_nvrtc": ("", 0, [], process.REASON),
    "image_counts": (0, 0),
    "recorded_call_counts": (0, 0),
    "buffer_types": (type("Buffer", (), {}), type("ExecutionContext", (), {})),
    "close_interpreter": 0,
    **dict.fromkeys(["is_recording", "translate_errors_of"], False),
    **dict.fromkeys(
        ["translate_errors_of_all", "provide_host_callback_handler", "set_process_index", "set_annotation"]
    ),
    **dict.fromkeys(["allow_embedded_code", "begin_exit", "stop_watchdog", "set_log_level"]),
}
_hang_report_s: list[float] = []
ProgramEnd = type("ProgramEnd", (), {})  # never made, because only programs of the C++ core have one


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def refuse(*given: Any, **_: Any) -> Any:
        label = f" of '{given[0]}'" if given and isinstance(given[0], str) else ""
        process.refuse(f"'{name}'{label}")

    return (lambda *_, **__: _ANSWERS[name]) if name in _ANSWERS else refuse


def set_hang_report_seconds(seconds: float) -> None:
    """Accepts the initial setting, and raises an error for others, because this core cannot report hangs."""
    if _hang_report_s and seconds not in (0, *_hang_report_s):
        process.refuse(f"callout.config.hang_report_s = {seconds}")
    _hang_report_s.append(seconds)


def reset_statistics() -> None:
    """Resets the counters of callbacks and watches."""
    calls.reset_counters()
    inspectors.reset_watches(None)


def live_counts() -> dict[str, int]:
    """Returns the numbers of existing objects."""
    live = {"callbacks": len(calls.live_callbacks), "sites": len(taps.live_sites)}
    return {**live, "blocks": 0, "threads": int(taps.the_queue.is_running())}
