# SPDX-License-Identifier: Apache-2.0
"""A call or a tap of a program that was exported, and what its attributes say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jax.extend.mlir import ir

from ..._base.errors import CallbackError
from ..._base.native_platforms import PLATFORMS
from ..._targets.operation_attributes import is_token, spec_of
from ..._targets.reached import Spread
from ..._targets.read_attributes import misfit_of_call, read_call
from ..._targets.target_attributes import tables
from ..site import TARGET as TAP
from . import emit, exported_checks, host_stand_ins
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
        # Whom a check is about is asked only where it fails, and by JAX's callbacks none does.
        if self.target != _HELD and (misfit := misfit_of_call(op)):
            raise CallbackError(misfit)
        self.carried: Mapping[str, Any] = {name: _text(value) for name, value in read_call(op).items()}

    def carry(self, module: Any, ordinals: tuple[int, ...]) -> None:
        """Replaces it, unless the platform has a native path, which alone can run it."""
        if self.target == _HELD:
            exported_checks.check_held(self._specs(self.op.operands), self._specs(self.op.results))
            self._replace_by(list(self.op.operands)[1:])
            return
        told = self._told(ordinals)
        if self.platform in PLATFORMS and not host_stand_ins.can_carry(told):
            return
        self._check(told)
        arrays, place = _arrays(self.op.operands), _token_place(self.op.operands)
        operands = self._with_step_last(arrays)
        results = emit.write(
            *(module, told, operands, self._specs(operands), [value.type for value in self._own_results()]),
            token=None if place is None else self.op.operands[place],
            has_side_effect=self._has_side_effect(),
            placement=self._placement(bool(told.results)),
        )
        if (place := _token_place(self.op.results)) is not None:
            results.insert(place, results.pop(0))
        first = 1 if told.threaded else 0
        self._replace_by([*results, *(arrays[place + first] for place in self._returned())])

    def _check(self, told: host_stand_ins.Told) -> None:
        """Refuses operands and results that the core would refuse."""
        places = [_token_place(values) for values in (self.op.operands, self.op.results)]
        if (places[0] is None) != (places[1] is None):
            raise CallbackError(f"{told.where}: expected a token of XLA's among operands and results, or in neither")
        operands, results = (self._specs(_arrays(values)) for values in (self.op.operands, self.op.results))
        if told.is_tap:
            label = told.attributes.get("label") or told.label
            exported_checks.check_tap(label, self.carried, operands, results)
        else:
            exported_checks.check_call(self.carried, operands, results)

    def _specs(self, values: Sequence[Any]) -> list[exported_checks.Spec]:
        try:
            return [spec_of(value.type) for value in values]
        except (KeyError, ValueError):
            name = self.carried.get("callback", self.target)
            kinds = ", ".join(str(value.type) for value in values)
            raise CallbackError(
                f"callout: '{name}' of an exported program: expected arrays of JAX's dtypes as operands and results, "
                f"got {kinds}"
            ) from None

    def _with_step_last(self, arrays: list[Any]) -> list[Any]:
        """Returns a tap's operands with its step as the last: in the program its offsets stand behind that."""
        if self.target == TAP and self.carried.get("step") and self.carried.get("offsets"):
            return [*arrays[:-2], arrays[-1], arrays[-2]]
        return arrays

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
            if not isinstance(attributes.get("can_fail", 0), int):  # a program may say anything there
                del attributes["can_fail"]
        else:
            attributes = {"ordered": 0, **attributes}
        results = self._specs(self._own_results())
        name = attributes.get("label") or attributes["callback"]
        return host_stand_ins.Told(
            *(self.target, f"callout: '{name}' of an exported program", self.platform, attributes, threaded, results),
            ordinals=ordinals if ordinals and self._spread() is Spread.MANUAL else None,
            is_deferred=self.num_partitions > 1 and len(results) == threaded,
        )

    def _returned(self) -> list[int]:
        """Returns which arrays of a tap it gives back, behind its own results, which are tokens."""
        return [int(place) for place in self.carried.get("returned", ())]

    def _own_results(self) -> list[Any]:
        """Returns its results but JAX's token, and but those that are its operands."""
        results = list(self.op.results)
        return [
            result for result in results[: max(0, len(results) - len(self._returned()))] if not is_token(result.type)
        ]

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
        index = self.carried.get("device_index", 0)
        if not isinstance(index, int) or not 0 <= index < self.num_partitions:
            raise CallbackError(
                f"callout: '{self.carried['callback']}' of an exported program: attribute 'device_index' must be one of the "
                f"program's {self.num_partitions} devices, got {index!r}"
            )
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
        return Placement(0 if has_results else index, on_shards)


def _text(value: Any) -> Any:
    """Returns a text of the program, whose bytes need not be UTF-8, as a str; what is no text as it is."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _arrays(values: Sequence[Any]) -> list[Any]:
    """Returns the values without JAX's token, of which there is one at most."""
    place = _token_place(values)
    return [value for number, value in enumerate(values) if number != place]


def _token_place(values: Sequence[Any]) -> int | None:
    """Returns where JAX's token is, if there is one: first, or last where it stood for sends and receives."""
    return next((place for place, value in enumerate(values) if is_token(value.type)), None)
