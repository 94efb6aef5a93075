# SPDX-License-Identifier: Apache-2.0
"""A call or a tap of a program that was exported, and what its attributes say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jax.extend.mlir import ir

from ..._custom_calls.operation_attributes import is_token, spec_of
from ..._custom_calls.reached import Spread
from ..._custom_calls.read_attributes import read_call
from ..._custom_calls.target_attributes import tables
from ..._runtime.native_platforms import PLATFORMS
from ..site import TARGET as TAP
from . import emit, host_stand_ins
from .jax_operations import Placement

_HELD = "callout.v1.check"  # of a value that is computed once (`tapped_values`): its second operand, as it is
_NOT_TOLD = {"names", "threaded", "sharding", "device_index", "num_devices", "returned", "host_callback"}


class ExportedCall:
    """Holds a call or a tap of a module."""

    def __init__(self, op: Any, platform: str, num_partitions: int, spreads: set[Spread]):
        self.op = op
        self._spreads = spreads
        self.platform = platform
        self.num_partitions = num_partitions
        self.target = ir.StringAttr(op.attributes["call_target_name"]).value
        self.carried: Mapping[str, Any] = read_call(op)

    def carry(self, module: Any, ordinals: tuple[int, ...]) -> None:
        """Replaces it, unless the platform has a native path, which alone can run it."""
        if self.target == _HELD:
            self._replace_by([self.op.operands[1]])
            return
        told = self._told(ordinals)
        if self.platform in PLATFORMS and not host_stand_ins.can_carry(told):
            return
        operands, place = list(self.op.operands), _token_place(self.op.operands)
        token = None if place is None else operands.pop(place)
        results = emit.write(
            *(module, told, operands, [spec_of(value.type) for value in operands], self._kinds()),
            token=token,
            has_side_effect=self._has_side_effect(),
            placement=self._placement(bool(told.results)),
        )
        if (place := _token_place(self.op.results)) is not None:
            results.insert(place, results.pop(0))
        first = 1 if told.threaded else 0
        self._replace_by([*results, *(operands[place + first] for place in self._returned())])

    def _replace_by(self, values: Sequence[Any]) -> None:
        for old, new in zip(self.op.results, values, strict=True):
            old.replace_all_uses_with(new)
        self.op.erase()

    def _told(self, ordinals: tuple[int, ...]) -> host_stand_ins.Told:
        threaded = bool(self.carried.get("threaded"))
        attributes = {name: value for name, value in self.carried.items() if name not in _NOT_TOLD}
        if self.target == TAP:  # programs of earlier versions say more
            known = tables()[TAP]
            attributes = {"step": 0, **{name: value for name, value in attributes.items() if name in known}}
        else:
            attributes = {"ordered": 0, **attributes}
        results = [spec_of(kind) for kind in self._kinds()]
        name = attributes.get("label") or attributes["callback"]
        return host_stand_ins.Told(
            *(self.target, f"callout: '{name}' of an exported program", self.platform, attributes, threaded, results),
            ordinals=ordinals if ordinals and self._spread() is Spread.MANUAL else None,
            is_deferred=self.num_partitions > 1 and len(results) == threaded,
        )

    def _returned(self) -> list[int]:
        """Returns which arrays of a tap it gives back, behind its own results, which are tokens."""
        return [int(place) for place in self.carried.get("returned", ())]

    def _kinds(self) -> list[Any]:
        """Returns the types of its own results, without JAX's token."""
        kinds = [result.type for result in self.op.results]
        return [kind for kind in kinds[: len(kinds) - len(self._returned())] if not is_token(kind)]

    def _has_side_effect(self) -> bool:
        name = "has_side_effect"  # false is not written
        return name in self.op.attributes and bool(ir.BoolAttr(self.op.attributes[name]).value)

    def _is_ordered(self) -> bool:
        """Tells whether it takes and returns JAX's token."""
        return _token_place(self.op.operands) is not None

    def _spread(self) -> Spread:
        """Returns who spreads it."""
        if len(self._spreads) > 1:
            raise NotImplementedError(
                f"callout: '{self.carried['callback']}' of an exported program is in a function that is called inside and "
                "outside of a shard_map, which needs callout's native path"
            )
        (spread,) = self._spreads
        if spread is not Spread.AUTOMATIC or "sharding" in self.carried:
            return spread
        return Spread.MANUAL  # by GSPMD's operations, which have no region

    def _placement(self, has_results: bool) -> Placement | None:
        if self.num_partitions == 1:
            return None
        spread = self._spread()
        if spread is Spread.MANUAL:
            return Placement(None)
        mode = self.carried.get("sharding", "local" if spread is Spread.PARTLY_MANUAL else "gather")
        if spread is Spread.PARTLY_MANUAL and self._is_ordered():
            raise NotImplementedError(
                f"callout: '{self.carried['callback']}' of an exported program is ordered, inside a shard_map that leaves "
                "axes to the compiler, which needs callout's native path"
            )
        on_shards = (
            mode == "local"
            and not (has_results or self._is_ordered())
            and not (spread is Spread.AUTOMATIC and self.carried["callback"].startswith(emit.INSPECTED))
        )
        return Placement(0 if has_results else self.carried.get("device_index", 0), on_shards)


def _token_place(values: Sequence[Any]) -> int | None:
    """Returns where JAX's token is, if there is one: first, or last where it stood for sends and receives."""
    return next((place for place, value in enumerate(values) if is_token(value.type)), None)
