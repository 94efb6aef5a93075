# SPDX-License-Identifier: Apache-2.0
"""With `JAX_HOST_CALLBACK_LEGACY=0`, taps and calls become `io_callback`, `pure_callback` and `debug_callback`."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

from .._base import options
from .._callbacks.debug import debug_callback
from .._callbacks.io_callback import io_callback
from .._callbacks.pure_callback import pure_callback


class CallbackFlavor(enum.Enum):
    """Selects what replaces a tap or call when `host_callback_legacy` is off; ignored when it is on.

    IO_CALLBACK: `callout.io_callback`, ordered. PURE: `callout.pure_callback`. DEBUG: `callout.debug_callback`, for taps
    and for calls without a result.
    """

    IO_CALLBACK = 1
    PURE = 2
    DEBUG = 3


def refuse_device(with_device: bool) -> None:
    """Raises NotImplementedError if the callback should get its device."""
    if with_device:
        raise NotImplementedError(
            "When using JAX_HOST_CALLBACK_LEGACY=False, the host_callback APIs do not support `tap_with_device` and "
            "`call_with_device`."
        )


class _TapFunction:
    """Calls `tap_func` with empty transforms. Two objects are equal if their functions are."""

    def __init__(self, tap_func: Callable[..., Any]):
        options.look_like(self, tap_func)
        self._tap_func = tap_func

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _TapFunction) and self._tap_func == other._tap_func

    def __hash__(self) -> int:
        return hash(self._tap_func)

    def __call__(self, value: Any) -> None:
        self._tap_func(value, ())


def _on_device(function: Callable[..., Any], device_index: int) -> Any:
    plain, chosen = options.split(function)
    return options.FunctionWithOptions(plain, dataclasses.replace(chosen, device_index=device_index))


def tap(tap_func: Callable[..., Any], arg: Any, device_index: int, flavor: CallbackFlavor) -> None:
    """Taps `arg` by the callback function of `flavor`."""
    plain, chosen = options.split(tap_func)
    function = _on_device(options.FunctionWithOptions(_TapFunction(plain), chosen), device_index)
    if flavor is CallbackFlavor.DEBUG:
        debug_callback(function, arg)
    elif flavor is CallbackFlavor.PURE:
        pure_callback(function, None, arg, vmap_method="sequential")
    else:
        io_callback(function, None, arg, ordered=True)


def call(
    callback_func: Callable[..., Any], arg: Any, result_shape: Any, device_index: int, flavor: CallbackFlavor
) -> Any:
    """Calls `callback_func` by the callback function of `flavor`."""
    function = _on_device(callback_func, device_index)
    if flavor is CallbackFlavor.DEBUG:
        if result_shape is not None:
            raise NotImplementedError(
                "When using JAX_HOST_CALLBACK_LEGACY=False you can use the `DEBUG` flavor of callback only when the "
                f"`result_shape` is None. Got {result_shape}"
            )
        debug_callback(function, arg)
        return None
    if flavor is CallbackFlavor.PURE:
        return pure_callback(function, result_shape, arg, vmap_method="sequential")
    return io_callback(function, result_shape, arg, ordered=True)
