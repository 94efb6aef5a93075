# SPDX-License-Identifier: Apache-2.0
"""Makes readers of a tapped value read the tap's result, so that the value is computed once.

XLA:CPU fuses an operation into each of its readers, and computes it again in each. A tap cannot be fused: its value is
computed for the tap and, with everything that leads to it, again for the value's other readers. If these are tapped,
too, a chain of n tapped values takes n * n / 2 steps and as much code. The result of a tap shares memory with its
operand, and is not computed again. An optimization barrier would work only if XLA kept it up to its fusions, which it
does since JAX 0.12, and would not help if the tap's result is unused.

All uses of a value exist once a module is lowered, so they are changed then. Programs for several devices or several
platforms, and taps on GPUs, stay unchanged. A program that is exported for one device and called in a program for
several devices still returns whole values from its taps, and XLA can partition this (`partitioner`).
"""

from __future__ import annotations

import threading
from typing import Any

from jax.extend.mlir import ir

from .._targets.operation_attributes import alias, config_of, create_before, is_call_of, operations, row_major
from .site import TARGET

# A value is read from the tap if computing it again costs at least this much, in one operation or in several cheap
# ones. Cheaper values stay fused: computing them again is cheap compared to the tap, and keeps the program's rounding.
_MOST_REPEATED = 16
_CHECK = "callout.v1.check"

_CHEAP = """
    abs add and bitcast_convert broadcast_in_dim ceil clamp compare complex concatenate convert count_leading_zeros
    dynamic_slice dynamic_update_slice floor gather imag is_finite maximum minimum multiply negate not
    optimization_barrier or pad popcnt real reduce_precision reshape reverse round_nearest_afz round_nearest_even select
    shift_left shift_right_arithmetic shift_right_logical sign slice subtract transpose xor
"""
_EXPENSIVE = """
    atan2 cbrt composite cosine divide exponential exponential_minus_one log log_plus_one logistic power reduce remainder
    rsqrt sine sqrt tan tanh
"""
_COSTS = {f"stablehlo.{name}": 1 for name in _CHEAP.split()}
_COSTS |= {f"stablehlo.{name}": _MOST_REPEATED for name in _EXPENSIVE.split()}
_COSTS["func.call"] = _MOST_REPEATED  # assume that the function is expensive

_lowering = threading.local()


def note_tap() -> None:
    """Notes that the module that this thread lowers has a tap."""
    _lowering.has_taps = True


def _cost(op: Any) -> int | None:
    """Returns the cost of computing an operation again; None if XLA never does so."""
    return _MOST_REPEATED if op.name.startswith("chlo.") else _COSTS.get(op.name)


def _definer(value: Any) -> Any:
    """Returns the operation that defines a value; None for an argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def _is_expensive(value: Any) -> bool:
    """Returns whether XLA might compute a value again at a considerable cost."""
    budget, seen, left = _MOST_REPEATED, set(), [value]
    while left and budget > 0:
        op = _definer(left.pop())
        cost = None if op is None or op in seen else _cost(op)
        if cost is not None:
            seen.add(op)
            budget -= cost
            left.extend(op.operands)
    return budget <= 0


def _computes_again(user: Any) -> bool:
    """Returns whether the operation behind an operand of `user` may be fused into `user`, or into later operations."""
    if user.name == "func.return":  # returns from an inner function
        return bool(ir.StringAttr(user.parent.attributes["sym_name"]).value != "main")
    return _cost(user) is not None


def _inside(block: Any, op: Any) -> Any:
    """Returns the operation of `block` that is or contains `op`."""
    while op.block != block:
        op = op.parent.operation
    return op


class _Tap:
    """The custom call of a tap in a module."""

    def __init__(self, op: Any):
        self.op = op
        config: Any = ir.DictAttr(op.attributes["mhlo.backend_config"])
        self.config = {entry.name: entry.attr for entry in config}
        self.num_tokens = len(op.results)  # also the first operands, which the core does not count
        places = range(self.num_tokens, len(op.operands))
        again = [place for place in places if self._is_read_again(place)] if self._is_on_one_device() else []
        self.early = [place for place in again if self._is_read_early(place)]
        self.late = [place for place in again if place not in self.early]

    def _is_on_one_device(self) -> bool:
        """Returns whether the program is for one device. An exported one may still be called in a program for several.

        A tap that returns values stops the propagation of shardings, and would change what `sharding="local"` sends.
        """
        mode, count = (self.config.get(name) for name in ("sharding", "num_devices"))
        if mode is None:
            return True
        is_gathered = ir.StringAttr(mode).value == "gather"
        return is_gathered and count is not None and ir.IntegerAttr(count).value == 1

    def _is_read_again(self, place: int) -> bool:
        value = self.op.operands[place]
        if not ir.ShapedType(value.type).has_static_shape:
            return False  # JAX does not refine the shapes of a tap's results in exported programs
        readers = [user for user in self._users(value) if user != self.op]
        return _definer(value) is not None and any(map(_computes_again, readers)) and _is_expensive(value)

    def _is_read_early(self, place: int) -> bool:
        """Returns whether a reader is before the tap, or the program may not reach the tap."""
        value, block = self.op.operands[place], self.op.block
        if _definer(value).block != block or list(self.op.operands).count(value) > 1:
            return True
        return any(_inside(block, user).is_before_in_block(self.op) for user in self._users(value))

    @staticmethod
    def _users(value: Any) -> list[Any]:
        return [use.owner.operation for use in value.uses]

    def hold(self) -> None:
        """Inserts a call that returns its operand behind each value with early readers, which then read the result."""
        for place in self.early:
            value = self.op.operands[place]
            definer = _definer(value)
            if definer.name == "stablehlo.custom_call":
                continue  # already inserted for this value
            int32 = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
            zero = create_before(
                "stablehlo.constant", [], {"value": ir.Attribute.parse("dense<0> : tensor<i32>")}, [int32], self.op
            )
            changed = {
                "call_target_name": ir.StringAttr.get(_CHECK),
                "has_side_effect": ir.BoolAttr.get(False),
                "mhlo.backend_config": ir.DictAttr.get(self._config(_CHECK)),
                "operand_layouts": ir.ArrayAttr.get([row_major(0), self._layouts("operand")[place]]),
                "result_layouts": ir.ArrayAttr.get([self._layouts("operand")[place]]),
                "output_operand_aliases": ir.ArrayAttr.get([alias(None, 1)]),
            }
            held = create_before(
                self.op.name, [zero.result, value], {**self._attributes(), **changed}, [value.type], self.op
            )
            zero.move_after(definer)
            held.move_after(zero)
            value.replace_all_uses_except(held.result, held)

    def give_back(self) -> None:
        """Replaces the custom call by one that also returns the values with later readers, which then read the results."""
        if not self.late:
            return
        first, layouts = self.num_tokens, self._layouts("operand")
        values = [self.op.operands[place] for place in self.late]
        results = [*self.op.results, *values]
        returned = self._config(TARGET, returned=[place - first for place in self.late])
        changed = {
            "mhlo.backend_config": ir.DictAttr.get({**self.config, **returned}),
            "result_layouts": ir.ArrayAttr.get([*self._layouts("result"), *(layouts[place] for place in self.late)]),
            "output_operand_aliases": ir.ArrayAttr.get(
                [alias(result if len(results) > 1 else None, place) for result, place in enumerate(self.late, first)]
            ),
        }
        types = [result.type for result in results]
        new = create_before(self.op.name, list(self.op.operands), {**self._attributes(), **changed}, types, self.op)
        for old, result in zip(self.op.results, new.results, strict=False):
            old.replace_all_uses_with(result)
        self.op.erase()
        for value, result in zip(values, list(new.results)[first:], strict=True):
            value.replace_all_uses_except(result, new)

    def _config(self, target: str, **more: Any) -> dict[str, Any]:
        """Returns the attributes of a call of `target` with the tap's callback."""
        callback: Any = ir.StringAttr(self.config["callback"])
        return config_of("callout.tap", target, {"callback": callback.value_bytes, **more})

    def _attributes(self) -> dict[str, Any]:
        return {name: self.op.attributes[name] for name in self.op.attributes}

    def _layouts(self, of: str) -> list[Any]:
        return list(ir.ArrayAttr(self.op.attributes[f"{of}_layouts"]))


def read_from_taps(module: Any) -> None:
    """Makes readers of tapped values read the taps' results. Requires the module's context."""
    for op in [op for op in operations(module.operation) if is_call_of(op, TARGET)]:
        tap = _Tap(op)
        tap.hold()
        tap.give_back()


def take_note() -> bool:
    """Returns whether a tap was noted since the last call of `take_note`."""
    noted = getattr(_lowering, "has_taps", False)
    _lowering.has_taps = False
    return noted
