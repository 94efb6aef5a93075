# SPDX-License-Identifier: Apache-2.0
# Generated: python -m nanobind.stubgen -m callout._ext -o python/callout/_ext.pyi
"""The C++ core. Private: use the callout package."""

from collections.abc import Callable, Sequence


def ffi_targets() -> list:
    """(name, platform, {stage: capsule}) of each FFI target."""

def target_attributes() -> dict:
    """The rows of each FFI target's table of attributes."""

def program_kinds() -> dict:
    """
    The fields of names that say what their callback does, by how they begin: "check:". None without a table.
    """

def host_callback() -> object:
    """What every program with Python calls carries."""

def provide_host_callback_handler(capsule: object) -> None:
    """
    A handler of jaxlib's that calls a program's host callback in XLA's scope.
    """

class Callback:
    """A callback, kept alive by this object."""

    @property
    def label(self) -> str: ...

    @property
    def id(self) -> int:
        """A number that no other callback ever has."""

    @property
    def is_native(self) -> bool: ...

    @property
    def takes_buffers(self) -> bool:
        """Whether it works on XLA's own memory."""

def make_python_callback(label: str, function: object | None, unflatten: object | None = None, unflatten_value: object | None = None, flatten: object | None = None, single_result: bool = True, device_lookup: object | None = None, index_lookup: object | None = None, transforms: object | None = None, zero_copy: bool = False, numpy_only: bool = False, canonicalize: bool = False, transforms_by_position: bool = False, barrier_raises: bool = False, log_source: int = 0, explain: object | None = None) -> Callback: ...

def is_iterator(value: object | None) -> bool:
    """Runs no Python code."""

def is_iterator_or_none(value: object | None) -> bool:
    """Runs no Python code."""

def buffer_types() -> tuple:
    """(Buffer, ExecutionContext)"""

def make_buffer_callback(label: str, function: object, unflatten_out: object | None, unflatten: object | None, numpy_only: bool) -> Callback: ...

def closure_capsule(callback: Callback) -> object:
    """
    A capsule "callout_closure" over a closure of its own, which keeps the callback.
    """

def translate_errors_of(jitted: object, *made_of: object) -> bool:
    """
    Makes what a jitted function raises from its second call on what it raises at its first. False if it cannot.
    """

def translate_errors_of_all(kind: type) -> None:
    """
    Does so for all jitted functions there are, of the type that they have.
    """

def make_jit_function(label: str, address: int, pointers: bool, owner: object, one_at_a_time: bool) -> Callback:
    """A callback over machine code that `owner` keeps."""

def jit_symbols() -> dict[str, int]:
    """Addresses of the functions that generated code calls."""

def call_layout() -> dict[str, int]:
    """Offsets and sizes in the structs of callout/abi.h."""

def native_platform() -> str: ...

def allow_embedded_code(allow: bool) -> None: ...

class ProgramEnd:
    """The end of a program, in the place of JAX's token."""

    @property
    def result(self) -> object: ...

    @result.setter
    def result(self, value: object | None) -> None: ...

    def block_until_ready(self) -> None: ...

class EndMarker:
    """What `mark_end` has to know of a program."""

    def __init__(self, devices: tuple, token_set: object, remember: object) -> None: ...

def mark_end(marker: EndMarker, results: tuple) -> object:
    """
    The one result of a program, which stands for the program's end from now on.
    """

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

def set_process_index(index: int) -> None: ...

def call_eager(callback: Callback, arrays: Sequence, result_specs: Sequence, device_ordinal: int, ordered: bool) -> list: ...

def tap_inline(callback: Callback, arrays: Sequence, label: str, leaf_names: Sequence[str], device_ordinal: int) -> None:
    """Calls the tap's function in this thread."""

class EagerTap:
    """The site of a tap outside of programs. It keeps no callback alive."""

    def __init__(self, like: Callback, attributes: dict) -> None:
        """`attributes`: those of callout.v1.tap, encoded."""

    def admit(self, device_ordinal: int, step: int | None) -> bool:
        """
        Whether a record of the device is to be sent. One that is not is counted, as in programs.
        """

    def send(self, callback: Callback, arrays: Sequence, device_ordinal: int, step: int | None) -> None:
        """
        Sends a record that was admitted. The last array is where the value begins in a larger one, if the site has offsets.
        """

class HostTap:
    """What JAX calls for a tap of a program."""

    def __init__(self, call: object, callback: object | None, name: str, attributes: dict, has_step: bool, has_rows: bool, ordinals: Sequence[int], packed: tuple[int, Sequence] | None, answer: tuple, threaded: bool) -> None: ...

    def __call__(self, *arrays: object) -> tuple: ...

    @property
    def call(self) -> object:
        """What it was made of."""

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
    """
    (count, exceptions of the first few, (text, exception) of the last or None)
    """

def callback_statistics() -> dict: ...

def queue_statistics() -> list: ...

def callback_metrics() -> list:
    """(key, name, type, help, column) each"""

def queue_metrics() -> list:
    """(key, name, type, help, column) each"""

def reset_statistics() -> None: ...

def reset_watches(name: str | None) -> None:
    """Begins the counts of all names, or of one, anew."""

def live_counts() -> dict: ...

def set_log_level(level: int) -> None: ...

def set_hang_report_seconds(seconds: float) -> None: ...

def stop_watchdog() -> None: ...

def call_with_timeout(function: object, seconds: float) -> bool:
    """Runs function() on a thread; False if it is not back in `seconds`."""

def is_forked_child() -> bool: ...

FORK_TEXT: str = ...

def error_token() -> str:
    """The word of this process in tags of errors."""

def note_process_is_used() -> None: ...

def begin_exit() -> None: ...

def close_interpreter(seconds: float) -> int:
    """Number of threads still inside Python."""

class Recording:
    """A profile's events, which are over."""

    @property
    def events(self) -> bytes:
        """ProfileEvent of src/core/profile/event.h, one after the other."""

    @property
    def row_of(self) -> bytes:
        """Each event's row, uint32; all bits set: none."""

    @property
    def rows(self) -> list:
        """(group, device, thread, number, name) of each row."""

    @property
    def threads(self) -> list:
        """(kernel's id, name, whether it delivers) of each thread."""

    @property
    def labels(self) -> list: ...

    @property
    def left_out(self) -> int: ...

    @property
    def duration_ns(self) -> int: ...

    @property
    def begin_steady_ns(self) -> int: ...

    @property
    def begin_wall_seconds(self) -> float: ...

    def trace(self, process: int, shift_ns: int, whole_file: bool) -> bytes:
        """The Trace Event Format: a file, or the events of its array."""

def start_recording(max_events: int) -> None: ...

def stop_recording() -> Recording: ...

def is_recording() -> bool: ...

def set_annotation(factory: object | None, is_enabled: object | None) -> None:
    """What annotates Python functions while one records."""

def make_sink(label: str, kind: str, options: Sequence[tuple[str, str]]) -> Callback:
    """
    `options`: (name, value) as text, see docs/sinks.md; of lists one for each.
    """

def check_print_format(format: str, leaves: Sequence[str], dtypes: Sequence[str]) -> None:
    """ValueError if it asks for what these leaves do not have."""

def make_tee_sink(label: str, receivers: Sequence[Callback]) -> Callback: ...

def close_files_at(path: str) -> int:
    """
    Closes all sinks that write the path, as `close_file` does, and tells how many.
    """

def close_file(sink: Callback) -> None:
    """Writes what it has got and lets go of the file."""

def is_written_here(path: str) -> bool:
    """Whether a sink of this process writes a file."""

class LeafStatistics:
    """What was counted of a leaf, at one moment."""

    def numbers(self) -> dict: ...

    @property
    def has_quantiles(self) -> bool: ...

    @property
    def relative_error(self) -> float: ...

    def quantile(self, q: float) -> float: ...

    def counts_between(self, edges: Sequence[float]) -> list[int]: ...

    @property
    def bin_counts(self) -> list[int] | None: ...

    @property
    def bin_edges(self) -> list[float] | None: ...

    def merged(self, other: LeafStatistics) -> LeafStatistics: ...

def statistics_snapshot(sink: Callback) -> list[tuple[tuple[str, str], LeafStatistics]]:
    """((tap, leaf), statistics) of every leaf."""

def statistics_of(sink: Callback, tap: str, leaf: str) -> LeafStatistics | None: ...

def statistics_keys(sink: Callback) -> list[tuple[str, str]]:
    """(tap, leaf) of every leaf."""

def reset_statistics_sink(sink: Callback) -> None: ...

DTYPE_NAMES: dict = ...

SUB_BYTE_BITS: dict = ...

class ValueLayout:
    """(kind, text, number) pieces, see the core's numpy_text.h."""

    def __init__(self, pieces: Sequence[tuple[int, str, int]]) -> None: ...

    def join(self, leaves: Sequence[str]) -> str:
        """The text, from those of the leaves."""

    def text(self, arrays: Sequence, threshold: int, float32_exponents_from: float) -> str | None:
        """
        The text, from the leaves' arrays; None if one of them is left to NumPy.
        """

def parse_value_print(payload: str) -> tuple:
    """
    (head, what follows the device or None, pieces, number of leaves, threshold, exponents from)
    """

def watch_statistics() -> dict: ...

class StopFlagOwner:
    """Keeps a flag that programs read."""

    def __init__(self, seconds: float) -> None: ...

    @property
    def words(self) -> list[int]:
        """The numbers of its handle."""

    def start_timer(self) -> None: ...

class CaughtSignals:
    """Signals that set a flag."""

    def __init__(self, flag: StopFlagOwner, signals: Sequence[int]) -> None: ...

    def close(self) -> None: ...

def stop_flag_is_set(words: Sequence[int]) -> bool: ...

def set_stop_flag(words: Sequence[int], value: bool) -> None: ...

class HostValueOwner:
    """Keeps arrays that programs read."""

    def __init__(self, arrays: Sequence) -> None: ...

    @property
    def words(self) -> list[int]:
        """The numbers of its handle."""

def get_host_value(words: Sequence[int]) -> list: ...

def set_host_value(words: Sequence[int], arrays: Sequence) -> None: ...

class SinkOwner:
    """Keeps a sink that programs send to."""

    def __init__(self, sink: Callback) -> None: ...

    @property
    def words(self) -> list[int]:
        """The numbers of its handle."""

class FunctionOwner:
    """Keeps a function that programs send to."""

    def __init__(self, function: object) -> None: ...

    @property
    def words(self) -> list[int]:
        """The numbers of its handle."""

def retired_handles() -> tuple:
    """
    How many objects with handles were ever retired, and how many of these are kept.
    """

def free_handles(count: int) -> None:
    """Destroys the first `count` objects that were ever retired."""

def live_host_objects() -> int: ...

class Hook:
    """
    A function in the place of `original`. An inactive one only calls that.

    before(original, *args): its answer is the result, unless that is NotImplemented. after(result, *args).
    failed(exception, *args): the exception stays unless it raises another.
    place: "module:name" of where the hook is, by which it is pickled; "" pickles the original.
    """

    def __call__(self, /, *args, **kwargs):
        """Call self as a function."""

    def __get__(self, instance, owner=None, /):
        """Return an attribute of instance, which is of type owner."""

    def __init__(self, original: Callable, *, before: object | None = None, after: object | None = None, failed: object | None = None, place: str = '') -> None: ...

    @property
    def active(self) -> bool: ...

    @active.setter
    def active(self, arg: bool, /) -> None: ...

    @property
    def __wrapped__(self) -> object: ...

    @property
    def callout_original(self) -> object: ...

    def __reduce__(self) -> tuple: ...

    def __copy__(self) -> object: ...

    def __deepcopy__(self, memo: object) -> object: ...

    def __getattr__(self, arg: str, /) -> object: ...

def expect_image(image: bytes) -> None:
    """
    This process made the image: it is run also where programs may bring no code along.
    """

def image_counts() -> tuple:
    """
    (launches that were queued or recorded, images that were loaded), since the start.
    """

def recorded_call_counts() -> tuple[int, int]:
    """
    (calls that were recorded for graph=True, launches of recordings), since the start.
    """

def store_on_device(values: list, results: tuple, arguments: tuple, canonicalize: bool) -> object:
    """
    Copies a list of arrays into a tuple of Buffers on a CUDA device. Returns why one does not fit, or None.
    """

def cuda_driver() -> tuple:
    """
    (path, version, [(ordinal, name, major, minor, PCI id)], why there are no devices, or None).
    """

def find_nvrtc(candidates: Sequence[str]) -> tuple:
    """
    (path, version, compute capabilities, why there is none, or None): of CALLOUT_NVRTC if it is set, or of the first candidate that is one.
    """

def compile_cuda(nvrtc: str, code: str, name: str, options: Sequence[str], kernels: Sequence[str], headers: Sequence[tuple[str, str]]) -> tuple:
    """
    (why there is no image, or None, log, cubin, PTX, symbols of `kernels`). The GIL is released.
    """
