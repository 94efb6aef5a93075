# SPDX-License-Identifier: Apache-2.0
"""Puts arrays on devices by jaxlib, and uses functions of XLA's clients.

`unguarded` makes transfers that ignore `jax.transfer_guard`, because a program would need no transfer in their place.
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
    """Returns `function(*args)`, which may move arrays from and to the host despite `jax.transfer_guard`.

    If the guard raises an error, the function is called again. Reading the guard first would take as long as half of an
    eager call.
    """
    try:
        return function(*args)
    except jax.errors.JaxRuntimeError as error:
        if not str(error).startswith("INVALID_ARGUMENT: Disallowed"):
            raise
    with jax.transfer_guard("allow"):
        return function(*args)


@functools.lru_cache(maxsize=1)  # devices are cached by `local_devices`
def _sharding_of(device: jax.Device) -> jax.sharding.Sharding:
    return jax.sharding.SingleDeviceSharding(device)


def put_on_device(value: np.ndarray, aval: jax.core.ShapedArray, device: jax.Device, committed: bool) -> jax.Array:
    """Returns a jax.Array of type `aval` with a NumPy array's values, in 2.5 us; `jax.device_put` takes 20 us."""
    sharding = _sharding_of(device)
    try:
        result: jax.Array = _batched_device_put(aval, sharding, [value], [device], committed)
    except jax.errors.JaxRuntimeError:  # perhaps a transfer guard's
        result = unguarded(_batched_device_put, aval, sharding, [value], [device], committed)
    return result


def _device_put(_: Any, __: Any, values: Sequence[Any], devices: Sequence[jax.Device], ___: bool) -> Any:
    return jax.device_put(values[0], devices[0])


try:
    from jaxlib import xla_client as _xla_client

    xla_client: Any = _xla_client
except ImportError:
    xla_client = None
    MISSING.append("jaxlib.xla_client")

_batched_device_put: Any = getattr(xla_client, "batched_device_put", _device_put)
if _batched_device_put is _device_put:
    MISSING.append("jaxlib.xla_client.batched_device_put")


def host_callback_handler() -> Any:
    """Returns a capsule of jaxlib's handler that calls a host callback in XLA's scope, or None before JAX 0.12.

    The scope lets a callback dispatch JAX computations beyond the limit in flight. JAX before 0.12 ignores the scope.
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
    """Registers the host function for sends and receives with the platform's backend, if there is a backend.

    JAX's `emit_python_callback` would raise an error for a platform without a backend.
    """
    from jax.extend import backend as jex_backend

    try:
        backend: Any = module_context.get_backend(optional=True) or jex_backend.get_backend(platform)
    except RuntimeError:
        return
    shape = xla_client.Shape.array_shape
    module_context.add_host_callback(
        backend.make_python_callback_from_host_send_and_recv(
            function, [shape(*of) for of in operands], [shape(*of) for of in results], sent, received, dumps
        )
    )


def dumps(value: Any) -> bytes:
    """Pickles a host function for a client that sends it to another process, by JAX's pickler with cloudpickle."""
    from jax._src import pickle_util

    dumped: bytes = pickle_util.dumps(value)
    return dumped


# This runs in a process of its own, because jaxlib reads a plugin's attributes through a client, which occupies the
# devices.
PRINT_PLUGIN_VERSION = """
import sys
from jaxlib import xla_client
xla_client.load_pjrt_plugin_dynamically("callout_probe", sys.argv[1])
xla_client.initialize_pjrt_plugin("callout_probe")
client = xla_client.make_c_api_client("callout_probe", {}, None)
print("StableHLO", *client.stablehlo_current_version)
"""
