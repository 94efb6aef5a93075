# SPDX-License-Identifier: Apache-2.0
# Generated: python -m nanobind.stubgen -m callout._ext -o python/callout/_ext.pyi
"""The C++ core. Private: use the callout package."""

from collections.abc import Sequence


def ffi_targets() -> list:
    """(name, platform, {stage: capsule}) of each FFI target."""

def host_callback() -> object:
    """What every program with Python calls carries."""

def lend_host_callback_handler(capsule: object) -> None:
    """
    A handler of jaxlib's that calls a program's host callback in XLA's scope.
    """

class Callback:
    """A callback, kept alive by this object."""

    @property
    def label(self) -> str: ...

    @property
    def is_native(self) -> bool: ...

def make_python_callback(label: str, function: object, unflatten: object | None, unflatten_value: object | None, flatten: object | None, single_result: bool, device_lookup: object | None, index_lookup: object | None, transforms: object | None, zero_copy: bool, numpy_only: bool, canonicalize: bool, host_callback: bool = False, explain: object | None = None) -> Callback: ...

def buffer_types() -> tuple:
    """(Buffer, ExecutionContext)"""

def make_buffer_callback(label: str, function: object, unflatten_out: object | None, unflatten: object | None, numpy_only: bool) -> Callback: ...

def make_null_sink(label: str) -> Callback: ...

def make_print_sink(label: str, fd: int) -> Callback: ...

def make_json_lines_sink(label: str, path: str, append: bool, fields: bool) -> Callback: ...

def closure_capsule(callback: Callback) -> object:
    """
    A capsule "callout_closure" over a closure of its own, which keeps the callback.
    """

def make_jit_function(label: str, address: int, pointers: bool, owner: object, one_at_a_time: bool) -> Callback:
    """A callback over machine code that `owner` keeps."""

def jit_symbols() -> dict[str, int]:
    """Addresses of the functions that generated code calls."""

def call_layout() -> dict[str, int]:
    """Offsets and sizes in the structs of callout/abi.h."""

def native_platform() -> str: ...

def allow_embedded_libraries(allow: bool) -> None: ...

def load_native(label: str, spec: str) -> Callback: ...

def native_parameters(callback: Callback) -> object:
    """(kind, dtype, rank, name) of each parameter."""

def native_from_capsule(label: str, capsule: object) -> Callback: ...

class Binding:
    """A name under which a callback is found while both live."""

    def __init__(self, base: str, callback: Callback) -> None: ...

    @property
    def name(self) -> str: ...

def register_callback(name: str, callback: Callback, replace: bool) -> None: ...

def unregister(name: str) -> None: ...

def find(name: str) -> Callback: ...

def registered_names() -> list[str]: ...

class Throttle:
    """A tap's `every` and `min_interval`."""

    def __init__(self, every: int, min_interval_ns: int) -> None: ...

    def admit(self) -> bool: ...

def call_eager(callback: Callback, arrays: Sequence, result_specs: Sequence, device_ordinal: int, ordered: bool) -> list: ...

def count_skip(callback: Callback) -> None:
    """Counts an eager tap that its throttle left out."""

def tap_eager(callback: Callback, arrays: Sequence, label: str, leaf_names: Sequence[str], on_full: int, device_ordinal: int, has_offsets: bool) -> None:
    """
    The last array is where the value begins in a larger one, if `has_offsets`.
    """

def tap_inline(callback: Callback, arrays: Sequence, label: str, leaf_names: Sequence[str], device_ordinal: int) -> None:
    """Calls the tap's function in this thread."""

def configure_delivery(queue_bytes: int, python_threads: int) -> None: ...

def drain(seconds: float) -> list[str]:
    """What is outstanding after `seconds` (< 0: wait for ever)."""

def shutdown(seconds: float) -> int:
    """Number of records that were not delivered."""

def park_delivery_threads() -> None:
    """Ends the delivery threads until a tap has something for them."""

def on_delivery_thread() -> bool: ...

def inside_call() -> bool: ...

def take_delivery_errors() -> tuple:
    """(count, texts of the first few, text of the last)"""

def callback_statistics() -> dict: ...

def queue_statistics() -> list: ...

def reset_statistics() -> None: ...

def live_counts() -> dict: ...

def set_log_level(level: int) -> None: ...

def set_hang_report_seconds(seconds: float) -> None: ...

def stop_watchdog() -> None: ...

def call_with_timeout(function: object, seconds: float) -> bool:
    """
    Calls function() on another thread; False if it is not back after `seconds`.
    """

def is_forked_child() -> bool: ...

def begin_exit() -> None: ...

def close_interpreter(seconds: float) -> int:
    """Number of threads still inside Python."""

def trim_memory() -> None: ...

def pooled_bytes() -> int: ...

class ValueLayout:
    """(kind, text, number) pieces, see src/sinks/value_layout.h."""

    def __init__(self, pieces: Sequence[tuple[int, str, int]]) -> None: ...

    def join(self, leaves: Sequence[str]) -> str:
        """The text, from those of the leaves."""

    def text(self, arrays: Sequence, threshold: int, float32_exponents_from: float) -> str | None:
        """
        The text, from the leaves' arrays; None if one of them is left to NumPy.
        """

print_prefix: str = 'id_print:'

def parse_value_print(payload: str) -> tuple:
    """
    (head, what follows the device or None, pieces, number of leaves, threshold, exponents from)
    """
