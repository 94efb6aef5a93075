# SPDX-License-Identifier: Apache-2.0
"""What reads a tapped value reads the tap's result, so that the value is computed once.

XLA:CPU fuses an operation of one array into all that reads it, and computes it anew in each. A tap takes part in no fusion:
its value is computed for it and, with all that leads to it, again in what reads the value, which may be tapped as well, so
a chain of n tapped values took n * n / 2 steps, and XLA as much code. The result of a tap, which XLA makes in the place of
its operand, is computed by nobody. An optimization barrier would do where XLA keeps it up to its fusions, which it does from
JAX 0.12 on, and does not reach what reads the value if nobody uses the tap's result.

The uses are there once a module is lowered, so that is when they are changed. Programs for several devices or several
platforms, and taps on GPUs, stay as they are. What is exported for one device and called in a program for several gives its
values back there as well, whole, and XLA sees through that (`partitioner`).
"""

from __future__ import annotations

import threading
from typing import Any

from jax.extend.mlir import ir

from .._targets.operation_attributes import alias, config_of, create_before, is_call_of, operations, row_major
from .site import TARGET

# An operation that costs as much is not computed twice, nor are more cheap ones together. What is cheaper stays fused: to
# compute it again costs nothing beside the tap, and the program rounds as it does without.
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
_COSTS["func.call"] = _MOST_REPEATED  # it is taken for what it calls

_lowering = threading.local()


def note_tap() -> None:
    """Notes that the module that this thread is lowering has a tap."""
    _lowering.has_taps = True


def _cost(op: Any) -> int | None:
    """Returns what it costs to compute an operation again; None if XLA does not."""
    return _MOST_REPEATED if op.name.startswith("chlo.") else _COSTS.get(op.name)


def _definer(value: Any) -> Any:
    """Returns the operation whose result a value is; None for an argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def _is_expensive(value: Any) -> bool:
    """Tells whether XLA might compute a value again, and it costs something."""
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
    """Tells whether what computes an operand of `user` may be fused into it, or into what follows."""
    if user.name == "func.return":  # of an inner function
        return bool(ir.StringAttr(user.parent.attributes["sym_name"]).value != "main")
    return _cost(user) is not None


def _inside(block: Any, op: Any) -> Any:
    """Returns the operation of `block` that `op` is or lies in."""
    while op.block != block:
        op = op.parent.operation
    return op


class _Tap:
    """A custom call in a module, and which of its operands are read again."""

    def __init__(self, op: Any):
        self.op = op
        config: Any = ir.DictAttr(op.attributes["mhlo.backend_config"])
        self.config = {entry.name: entry.attr for entry in config}
        self.num_tokens = len(op.results)  # first among the operands, too, and no operands for the core
        places = range(self.num_tokens, len(op.operands))
        again = [place for place in places if self._is_read_again(place)] if self._is_on_one_device() else []
        self.early = [place for place in again if self._is_read_early(place)]
        self.late = [place for place in again if place not in self.early]

    def _is_on_one_device(self) -> bool:
        """Tells whether the program is for one device, which an exported one says. It may be called on several yet.

        A sharding does not get past what gives values back, and `sharding="local"` sends what it is.
        """
        mode, count = (self.config.get(name) for name in ("sharding", "num_devices"))
        if mode is None:
            return True
        is_gathered = ir.StringAttr(mode).value == "gather"
        return is_gathered and count is not None and ir.IntegerAttr(count).value == 1

    def _is_read_again(self, place: int) -> bool:
        value = self.op.operands[place]
        if not ir.ShapedType(value.type).has_static_shape:
            return False  # JAX refines the shapes of exported programs, and not those of such a result
        readers = [user for user in self._users(value) if user != self.op]
        return _definer(value) is not None and any(map(_computes_again, readers)) and _is_expensive(value)

    def _is_read_early(self, place: int) -> bool:
        """Tells whether the tap comes too late for a reader, or is only reached sometimes."""
        value, block = self.op.operands[place], self.op.block
        if _definer(value).block != block or list(self.op.operands).count(value) > 1:
            return True
        return any(_inside(block, user).is_before_in_block(self.op) for user in self._users(value))

    @staticmethod
    def _users(value: Any) -> list[Any]:
        return [use.owner.operation for use in value.uses]

    def hold(self) -> None:
        """Puts a call that returns its operand behind what computes a value that is read early, for all who read it."""
        for place in self.early:
            value = self.op.operands[place]
            definer = _definer(value)
            if definer.name == "stablehlo.custom_call":
                continue  # of the same value, a moment ago
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
        """Replaces the custom call by one that returns values that are read later, for those who read them."""
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
        """Returns what a call of `target` carries that has the same callback."""
        callback: Any = ir.StringAttr(self.config["callback"])
        return config_of("callout.tap", target, {"callback": callback.value_bytes, **more})

    def _attributes(self) -> dict[str, Any]:
        return {name: self.op.attributes[name] for name in self.op.attributes}

    def _layouts(self, of: str) -> list[Any]:
        return list(ir.ArrayAttr(self.op.attributes[f"{of}_layouts"]))


def read_from_taps(module: Any) -> None:
    """Has what reads a tapped value read it from the tap. In the module's context."""
    for op in [op for op in operations(module.operation) if is_call_of(op, TARGET)]:
        tap = _Tap(op)
        tap.hold()
        tap.give_back()


def take_note() -> bool:
    """Tells whether a tap was noted since the last time."""
    noted = getattr(_lowering, "has_taps", False)
    _lowering.has_taps = False
    return noted
