# SPDX-License-Identifier: Apache-2.0
"""Native functions, buffers and code of C++: refused by name."""

from __future__ import annotations

from typing import Any, NoReturn

from .refusal import CORE, PYTHON_FUNCTION, refuse


class Buffer:
    """XLA's own memory."""

    def __init__(self, *_: Any) -> None:
        refuse("a Buffer is XLA's own memory", PYTHON_FUNCTION)


class ExecutionContext:
    """What a callback on buffers learns of its call."""

    def __init__(self, *_: Any) -> None:
        refuse("an ExecutionContext is of callout.buffer_callback", PYTHON_FUNCTION)


def ffi_targets() -> list[Any]:
    """There are no FFI targets."""
    return []


def buffer_types() -> tuple[type, type]:
    """(Buffer, ExecutionContext)."""
    return Buffer, ExecutionContext


def make_buffer_callback(
    label: str, function: object, unflatten_out: object | None, unflatten: object | None, numpy_only: bool
) -> NoReturn:
    """Refused."""
    del function, unflatten_out, unflatten, numpy_only
    refuse(f"'{label}' was passed to callout.buffer_callback", PYTHON_FUNCTION)


def closure_capsule(callback: Any) -> NoReturn:
    """Refused."""
    refuse(f"'{callback.label}' was asked for as a C closure", CORE)


def make_jit_function(label: str, address: int, pointers: bool, owner: object, one_at_a_time: bool) -> NoReturn:
    """Refused."""
    del address, pointers, owner, one_at_a_time
    refuse(f"'{label}' is machine code of Numba's", PYTHON_FUNCTION)


def jit_symbols() -> NoReturn:
    """Refused."""
    refuse("Numba kernels call functions of the core", PYTHON_FUNCTION)


def call_layout() -> NoReturn:
    """Refused."""
    refuse("callout.numba compiles native callbacks", PYTHON_FUNCTION)


def native_platform() -> NoReturn:
    """Refused."""
    refuse("native code was asked for", PYTHON_FUNCTION)


def allow_embedded_code(allow: bool) -> None:
    """No program's code is run, whatever this says."""
    del allow


def load_native(label: str, spec: str) -> NoReturn:
    """Refused."""
    refuse(f"'{label}' is the native function {spec}", PYTHON_FUNCTION)


def native_parameters(callback: Any) -> NoReturn:
    """Refused."""
    refuse(f"'{callback.label}' was asked for the parameters of a native function", CORE)


def native_from_capsule(label: str, capsule: object) -> NoReturn:
    """Refused."""
    del capsule
    refuse(f"'{label}' is a native function in a capsule", PYTHON_FUNCTION)
