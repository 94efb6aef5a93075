# SPDX-License-Identifier: Apache-2.0
"""What XLA's partitioner asks of custom calls."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import Any

import jax

from .clients import xla_client
from .versions import MISSING


def has_partitioner() -> bool:
    """Tells whether custom calls can tell XLA how they are spread over devices."""
    return hasattr(xla_client, "register_custom_call_partitioner") and hasattr(xla_client, "HloSharding")


def register_partitioner(target: str, partition: Any, partition_of_plugins: Any = None) -> None:
    """Registers `partition(arg_shapes, arg_shardings, result_shape, result_sharding, config) -> (module, shardings, ...)`.

    `partition_of_plugins`: for platforms that come as plugins, if they need another one. CPUs never do.

    The public `custom_partitioning` puts a pointer into the module, which neither the compilation cache nor an exported
    program survives, and does not know side effects.
    """
    if not has_partitioner():
        MISSING.append("jaxlib.xla_client.register_custom_call_partitioner")
        return

    def registering(partition: Any) -> Any:
        return functools.partial(
            xla_client.register_custom_call_partitioner,
            target,
            lambda sharding, *_: sharding,
            partition,
            lambda *_: None,
            can_side_effecting_have_replicated_sharding=True,
        )

    registering(partition)()
    _with_each_plugin(registering(partition_of_plugins or partition))


def _with_each_plugin(register: Any) -> None:
    """Calls `register(c_api=)` for each PJRT plugin, now or once JAX finds it. CUDA comes as a plugin."""
    try:
        from jax._src.xla_bridge import register_plugin_callbacks
    except ImportError:
        MISSING.append("jax._src.xla_bridge.register_plugin_callbacks")
        return

    def register_if_it_can(c_api: Any) -> None:
        with contextlib.suppress(jax.errors.JaxRuntimeError):  # a plugin without partitioners
            register(c_api=c_api)

    register_plugin_callbacks(register_if_it_can)


def replicated_sharding() -> Any:
    """Every device has the whole value."""
    return xla_client.HloSharding.replicate()


def tuple_sharding(shape: Any, elements: Sequence[Any]) -> Any:
    """Returns the sharding of a call's results: a tuple's, or the one element."""
    return xla_client.HloSharding.tuple_sharding(shape, list(elements)) if shape.is_tuple() else elements[0]
