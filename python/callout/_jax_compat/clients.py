# SPDX-License-Identifier: Apache-2.0
"""These functions ask jaxlib for arrays on devices, and for what XLA's clients lend.

`unguarded` makes transfers in which `jax.transfer_guard` has no say, because a program makes none in their place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import numpy as np

from .versions import JAX_VERSION, MISSING

T = TypeVar("T")


def unguarded(function: Callable[..., T], *args: Any) -> T:
    """Returns `function(*args)`, which may move arrays from and to the host whatever the guard says.

    Where the guard refuses it is called again, since to ask the guard first takes as long as half of an eager call.
    """
    try:
        return function(*args)
    except jax.errors.JaxRuntimeError as error:
        if not str(error).startswith("INVALID_ARGUMENT: Disallowed"):
            raise
    with jax.transfer_guard("allow"):
        return function(*args)


@functools.lru_cache(maxsize=1)  # as `local_devices` keeps them
def _sharding_of(device: jax.Device) -> jax.sharding.Sharding:
    return jax.sharding.SingleDeviceSharding(device)


_aval_of = functools.lru_cache(maxsize=1024)(jax.core.ShapedArray)


def put_on_device(value: np.ndarray, device: jax.Device, committed: bool) -> jax.Array:
    """Returns a jax.Array of a NumPy array: 2.5 us where `jax.device_put` takes 20."""
    result: jax.Array
    if _batched_device_put is None:
        result = unguarded(jax.device_put, value, device)
        return result
    aval = _aval_of(value.shape, value.dtype)
    result = unguarded(_batched_device_put, aval, _sharding_of(device), [value], [device], committed)
    return result


try:
    from jaxlib import xla_client as _xla_client

    xla_client: Any = _xla_client
except ImportError:
    xla_client = None
    MISSING.append("jaxlib.xla_client")

_batched_device_put: Any = getattr(xla_client, "batched_device_put", None)
if _batched_device_put is None:
    MISSING.append("jaxlib.xla_client.batched_device_put")


def host_callback_handler() -> Any:
    """Returns a capsule of jaxlib's handler that calls a host callback in XLA's scope, or None where that helps nobody.

    The scope lets a callback dispatch JAX computations beyond the limit in flight; JAX before 0.12 does not look at it.
    """
    if JAX_VERSION < (0, 12):
        return None
    try:
        return xla_client.custom_call_targets("cpu")["xla_buffer_python_cpu_callback"]["execute"]
    except (AttributeError, KeyError, TypeError):
        MISSING.append("jaxlib's xla_buffer_python_cpu_callback")
        return None


def attach_transfers(
    module_context: Any,
    platform: str,
    function: Any,
    operands: Sequence[tuple[Any, Sequence[int]]],
    results: Sequence[tuple[Any, Sequence[int]]],
    sent: Sequence[int],
    received: Sequence[int],
) -> None:
    """Tells the platform's backend what to call for sends to the host and receives; nothing if there is no backend.

    What JAX has for it, `emit_python_callback`, refuses to write a program for a platform without one.
    """
    import jax.extend.backend

    try:
        backend: Any = module_context.get_backend(optional=True) or jax.extend.backend.get_backend(platform)
    except RuntimeError:
        return
    shape = xla_client.Shape.array_shape
    module_context.add_host_callback(
        backend.make_python_callback_from_host_send_and_recv(
            function, [shape(*of) for of in operands], [shape(*of) for of in results], sent, received, dumps
        )
    )


def dumps(value: Any) -> bytes:
    """Returns what a client asks for that sends the function to another process: JAX's own, which takes cloudpickle."""
    from jax._src import pickle_util

    dumped: bytes = pickle_util.dumps(value)
    return dumped


# A program of its own: jaxlib tells a plugin's attributes through a client, which takes the devices.
PRINT_PLUGIN_VERSION = """
import sys
from jaxlib import xla_client
xla_client.load_pjrt_plugin_dynamically("callout_probe", sys.argv[1])
xla_client.initialize_pjrt_plugin("callout_probe")
client = xla_client.make_c_api_client("callout_probe", {}, None)
print("StableHLO", *client.stablehlo_current_version)
"""
