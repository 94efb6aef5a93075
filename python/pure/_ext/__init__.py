# SPDX-License-Identifier: Apache-2.0
"""The core in Python, for where there is no C++ core: what JAX's own callbacks carry. Private: use the callout package."""

from __future__ import annotations

from typing import Any

from .calls import counters as _counters
from .calls import program_kinds as _kinds
from .calls.callback import Callback as Callback
from .calls.counters import callback_statistics as callback_statistics
from .calls.eager import call_eager as call_eager
from .calls.eager import tap_inline as tap_inline
from .calls.python_callback import make_python_callback as make_python_callback
from .calls.registry import Binding as Binding
from .calls.registry import find as find
from .calls.registry import register_callback as register_callback
from .calls.registry import registered_names as registered_names
from .calls.registry import unregister as unregister
from .calls.results import is_iterator as is_iterator
from .calls.results import is_iterator_or_none as is_iterator_or_none
from .delivery.delivery import delivery as _delivery
from .delivery.delivery_thread import on_delivery_thread as on_delivery_thread
from .delivery.eager_tap import EagerTap as EagerTap
from .delivery.errors import take_delivery_errors as take_delivery_errors
from .delivery.host_tap import HostTap as HostTap
from .gpu import compile_cuda as compile_cuda
from .gpu import cuda_driver as cuda_driver
from .gpu import expect_image as expect_image
from .gpu import find_nvrtc as find_nvrtc
from .gpu import image_counts as image_counts
from .gpu import recorded_call_counts as recorded_call_counts
from .gpu import store_on_device as store_on_device
from .inspectors.watch import reset_watches as reset_watches
from .inspectors.watch import watch_statistics as watch_statistics
from .jax_side.hook import Hook as Hook
from .jax_side.program_end import EndMarker as EndMarker
from .jax_side.program_end import ProgramEnd as ProgramEnd
from .jax_side.program_end import host_callback as host_callback
from .jax_side.program_end import lend_host_callback_handler as lend_host_callback_handler
from .jax_side.program_end import mark_end as mark_end
from .jax_side.program_end import translate_errors_of as translate_errors_of
from .jax_side.program_end import translate_errors_of_all as translate_errors_of_all
from .live import callbacks as _live_callbacks
from .live import sites as _live_sites
from .log import set_log_level as set_log_level
from .native import allow_embedded_code as allow_embedded_code
from .native import buffer_types as buffer_types
from .native import call_layout as call_layout
from .native import closure_capsule as closure_capsule
from .native import ffi_targets as ffi_targets
from .native import jit_symbols as jit_symbols
from .native import load_native as load_native
from .native import make_buffer_callback as make_buffer_callback
from .native import make_jit_function as make_jit_function
from .native import native_from_capsule as native_from_capsule
from .native import native_parameters as native_parameters
from .native import native_platform as native_platform
from .process.exit import begin_exit as begin_exit
from .process.exit import close_interpreter as close_interpreter
from .process.exit import pooled_bytes as pooled_bytes
from .process.exit import set_process_index as set_process_index
from .process.exit import trim_memory as trim_memory
from .process.forks import is_forked_child as is_forked_child
from .process.forks import note_process_is_used as note_process_is_used
from .process.in_flight import inside_call as inside_call
from .process.threads import call_with_timeout as call_with_timeout
from .process.watchdog import set_hang_report_seconds as set_hang_report_seconds
from .process.watchdog import stop_watchdog as stop_watchdog
from .recording import Recording as Recording
from .recording import is_recording as is_recording
from .recording import set_annotation as set_annotation
from .recording import start_recording as start_recording
from .recording import stop_recording as stop_recording
from .sinks.file_sink import close_file as close_file
from .sinks.file_sink import close_files_at as close_files_at
from .sinks.locks import is_written_here as is_written_here
from .sinks.make import make_sink as make_sink
from .sinks.sink import make_tee_sink as make_tee_sink
from .sinks.statistics import LeafStatistics as LeafStatistics
from .sinks.statistics import reset_statistics_sink as reset_statistics_sink
from .sinks.statistics import statistics_keys as statistics_keys
from .sinks.statistics import statistics_of as statistics_of
from .sinks.statistics import statistics_snapshot as statistics_snapshot
from .tables import DTYPE_NAMES as DTYPE_NAMES
from .tables import SUB_BYTE_BITS as SUB_BYTE_BITS
from .tables import callback_metrics as callback_metrics
from .tables import queue_metrics as queue_metrics
from .tables import target_attributes as target_attributes
from .text.record_format import check_print_format as check_print_format
from .text.value_layout import ValueLayout as ValueLayout
from .text.value_print import parse_value_print as parse_value_print

check_prefix = f"{_kinds.CHECK}:"
located_nans_prefix = f"{_kinds.LOCATED_NANS}:"
watch_prefix = f"{_kinds.WATCH}:"
print_prefix = f"{_kinds.PRINT}:"
progress_bar_prefix = f"{_kinds.BAR}:"
progress_clock_name = f"{_kinds.CLOCK}:"


def configure_delivery(queue_bytes: int, python_threads: int) -> None:
    """What `callout.config` has checked."""
    _delivery.configure(queue_bytes, python_threads)


def drain(seconds: float) -> list[str]:
    """What is outstanding after `seconds` (< 0: wait for ever)."""
    return _delivery.drain(seconds)


def shutdown(seconds: float) -> int:
    """Number of records that were not delivered."""
    return _delivery.shutdown(seconds)


def park_delivery_threads() -> None:
    """Ends the delivery threads until a tap has something for them."""
    _delivery.park()


def queue_statistics() -> list[dict[str, Any]]:
    """The counters of each queue."""
    return _delivery.queue_statistics()


def reset_statistics() -> None:
    """Begins the counters of callbacks and watches anew."""
    _counters.reset()
    reset_watches(None)


def live_counts() -> dict[str, int]:
    """Objects that exist now. There are no blocks of memory."""
    return {
        "callbacks": len(_live_callbacks),
        "sites": len(_live_sites),
        "blocks": 0,
        "threads": _delivery.running_threads(),
    }
