# SPDX-License-Identifier: Apache-2.0
"""Tells XLA's SPMD partitioner how to partition Callout's custom calls in a jit over several devices.

XLA calls this once for each custom call, when shardings are known, and gets the call's per-device program as StableHLO
text:

* inside shard_map (manual sharding): the unchanged call; every device calls with its shard.
* "gather" on CPUs of one process: a rendezvous of the devices in the call (see src/core/ffi/gathering.h).
* "gather" elsewhere: the operands are collected everywhere, one device runs the call, and its results are summed with the
  zeros of the others. A failure travels with the results (see src/core/callbacks/failures.h) and is raised on every
  device at once.
* "local": every device calls with its shard, and with the shard's offset in the whole value.
* A read of a host object: every device reads, and src/core/handles/agreement.h makes all read one value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import _jax_compat
from ..._base.native_platforms import PLATFORMS
from .. import target_attributes
from .shards import Call, call_of, known

READ = "callout.v1.read"
TARGETS = ("callout.v1.buffer", "callout.v1.buffer_capturable", "callout.v1.call", READ, "callout.v1.tap")


def register() -> None:
    """Registers the partitioners with XLA, if JAX accepted Callout's targets.

    Without the private entry point, `attributes` raises an error in jits over several devices.
    """
    for target in TARGETS if PLATFORMS else ():
        _jax_compat.register_partitioner(
            target, _partitioner(target, meeting=True), _partitioner(target, meeting=False)
        )


def check_device_index(where: str, num_devices: int, device_index: int) -> None:
    """Raises ValueError for an index beyond the program's devices."""
    if num_devices > 0 and not 0 <= device_index < num_devices:
        raise ValueError(f"{where}: device_index={device_index} is not one of the program's {num_devices} device(s)")


def attributes(where: str, num_devices: int, sharding: str, device_index: int, exporting: bool) -> dict[str, Any]:
    """Returns the attributes for the partitioner; none if the compiler does not partition the program.

    An exported program for one device gets them, because a program for several devices may call it.
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

    if call.target == READ:
        return partitioned_calls.on_each(call)
    call = partitioned_calls.returning_itself(call)
    if call.attribute("sharding") == "local":
        return partitioned_calls.on_shards(call)
    gathered = partitioned_calls.in_meeting(call) if meeting else None
    # A tap fails the program only with a policy that allows it.
    may_fail = not call.target.endswith(".tap") or target_attributes.may_fail_when_full(call.attribute("on_full"))
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
            if not call.attribute("sharding") or call.is_manual():
                return partitioned_calls.as_it_is(call), list(map(known, arg_shardings)), result_sharding
            return answer(_spread(call, meeting), result_shape, result_sharding)

    return partition


def answer(found: tuple[bytes, list[Any], list[Any]], result_shape: Any, sharding: Any) -> tuple[bytes, list[Any], Any]:
    """Returns XLA's answer: the function, the shardings of its operands, and the sharding of its results."""
    body, shardings, spread = found
    return body, shardings, _jax_compat.tuple_sharding(result_shape, spread) if spread else sharding
