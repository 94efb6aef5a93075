# SPDX-License-Identifier: Apache-2.0
"""What XLA's SPMD partitioner does with our custom calls in a jit over several devices.

XLA asks once a call, when shardings are known, and gets the call's per-device program as StableHLO text:

* inside shard_map (manual sharding): the same call; every device calls with its shard.
* "gather" on CPUs of one process: the devices come together in the call (see src/core/ffi/gathering.h).
* "gather" elsewhere: the operands are collected everywhere, one device runs the call, and its results are summed with the
  zeros of the others. A failure travels with the results (see src/core/callbacks/failures.h) and is raised on every
  device at once.
* "local": every device calls with its shard, and with where in the whole value that begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import _jax_compat
from ..._base.native_platforms import PLATFORMS
from .. import target_attributes
from .shards import Call, call_of, known

TARGETS = ("callout.v1.buffer", "callout.v1.buffer_capturable", "callout.v1.call", "callout.v1.tap")


def register() -> None:
    """Gives XLA the partitioners, if JAX took our targets.

    Without the private entry point, `attributes` refuses jits over several devices.
    """
    for target in TARGETS if PLATFORMS else ():
        _jax_compat.register_partitioner(
            target, _partitioner(target, meeting=True), _partitioner(target, meeting=False)
        )


def check_device_index(where: str, num_devices: int, device_index: int) -> None:
    """Raises ValueError for a place that the program does not have."""
    if num_devices > 0 and not 0 <= device_index < num_devices:
        raise ValueError(f"{where}: device_index={device_index} is not one of the program's {num_devices} device(s)")


def attributes(where: str, num_devices: int, sharding: str, device_index: int, exporting: bool) -> dict[str, Any]:
    """Returns the attributes that tell the partitioner what to do; none where the compiler does not spread the program.

    What is exported for one device can be called in a program for several.
    """
    check_device_index(where, num_devices, device_index)
    if num_devices < (1 if exporting else 2):
        return {}
    if num_devices > 1 and not _jax_compat.has_partitioner():
        raise NotImplementedError(
            f"{where}: a callback in a jit over several devices needs an entry point that this jaxlib does not have; "
            "use it inside jax.shard_map"
        )
    return {"sharding": sharding, "device_index": device_index, "num_devices": num_devices}


def _spread(call: Call, meeting: bool) -> tuple[bytes, list[Any], list[Any]]:
    from . import partitioned_calls

    call = partitioned_calls.returning_itself(call)
    if call.said("sharding") == "local":
        return partitioned_calls.on_shards(call)
    gathered = partitioned_calls.in_meeting(call) if meeting else None
    # A tap fails only where it was told to.
    may_fail = not call.target.endswith(".tap") or target_attributes.may_fail_when_full(call.said("on_full"))
    return gathered or partitioned_calls.on_one(call, deferred=may_fail)


def _partitioner(target: str, *, meeting: bool) -> Callable[..., tuple[bytes, Sequence[Any], Any]]:
    def partition(
        arg_shapes: Sequence[Any], arg_shardings: Sequence[Any], result_shape: Any, result_sharding: Any, config: bytes
    ) -> tuple[bytes, Sequence[Any], Any]:
        from . import partitioned_calls, stablehlo  # which import Pallas

        with stablehlo.writing():
            parsed = stablehlo.dictionary(config)
            of_ours = partitioned_calls.entries(parsed)
            call = call_of(target, parsed, of_ours, arg_shapes, arg_shardings, result_shape, result_sharding)
            if not call.said("sharding") or call.is_manual():
                return partitioned_calls.as_it_is(call), list(map(known, arg_shardings)), result_sharding
            return answer(_spread(call, meeting), result_shape, result_sharding)

    return partition


def answer(found: tuple[bytes, list[Any], list[Any]], result_shape: Any, sharding: Any) -> tuple[bytes, list[Any], Any]:
    """Returns what XLA gets: the function, the shardings of its operands, and that of its results."""
    body, shardings, spread = found
    return body, shardings, _jax_compat.tuple_sharding(result_shape, spread) if spread else sharding
