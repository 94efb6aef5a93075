# SPDX-License-Identifier: Apache-2.0
"""What XLA's partitioner asks of custom calls."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator, Sequence
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


def programs_around() -> Iterator[Any]:
    """Yields the lowering contexts of the programs that XLA is partitioning in this thread.

    XLA's partitioner asks the rules of `custom_partitioning` for the function of each shard, which JAX lowers as a module of
    its own. Only the whole program's executable lives on, with what the whole program's context keeps alive.
    """
    frame = sys._getframe() if _partition_code is not None else None
    while frame is not None:
        if frame.f_code is _partition_code and "info" in frame.f_locals:
            yield frame.f_locals["info"].module_context
        frame = frame.f_back


def is_partitioning() -> bool:
    """Tells whether XLA is partitioning a program in this thread, and asks for the function of a shard."""
    return any(True for _ in programs_around())


_partition_code: Any = None
try:
    from jax._src import custom_partitioning as _custom_partitioning

    _partition_code = _custom_partitioning._custom_partitioning_partition.__code__
except (ImportError, AttributeError):
    MISSING.append("jax._src.custom_partitioning._custom_partitioning_partition")
