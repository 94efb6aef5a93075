# SPDX-License-Identifier: Apache-2.0
"""Classifies operations: which can make NaN and infinities, and which only pass them on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import _jax_compat
from ..._primitives import jaxprs


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The results of these primitives are elements of their operands, or results of comparisons.
_MOVING = _words(
    "reshape transpose broadcast_in_dim squeeze expand_dims slice dynamic_slice dynamic_update_slice concatenate pad rev "
    "select_n copy copy_p neg abs max min clamp reduce_max reduce_min cummax cummin argmax argmin sign floor ceil round "
    "stop_gradient iota sort real imag conj device_put sharding_constraint optimization_barrier split tile scatter top_k "
    "reduce_window_max reduce_window_min select_and_gather_add get swap ref_get while scan cond jit pjit closed_call "
    "call_hi_primitive eval_jaxpr program_order xla_metadata_call "
    "custom_jvp_call custom_vjp_call remat checkpoint shard_map pvary pcast layout_constraint is_finite empty "
    "name reshard mesh_cast select_and_scatter complex callout_saved "
)
# The results of these primitives depend on values of other devices.
_COLLECTIVE = _words(
    "psum psum2 psum_invariant pmax pmin ppermute pshuffle pbroadcast all_gather all_gather_invariant all_gather_reduced "
    "all_to_all ragged_all_to_all reduce_scatter psum_scatter unreduced_psum unreduced_reduce_scatter preduced axis_index "
    "vary_unreduced_cast reduced_vary_cast "
)
# The result of these primitives is finite exactly if the operand is.
_SAME = _words("reshape transpose broadcast_in_dim squeeze expand_dims rev copy copy_p neg abs callout_saved")


def is_inexact(value: Any) -> bool:
    """Returns whether an array, or the variable of one, can have NaN. False if devices hold summands of the array."""
    aval = getattr(value, "aval", value)
    dtype = None if _jax_compat.is_ref_type(aval) else getattr(aval, "dtype", None)
    return dtype is not None and jax.dtypes.issubdtype(dtype, np.inexact) and not _jax_compat.summed_over(aval)


def is_collective(eqn: Any) -> bool:
    """Returns whether the equation reads values of other devices."""
    return eqn.primitive.name in _COLLECTIVE


def passes_on(eqn: Any) -> bool:
    """Returns whether the equation's only result is finite exactly where its only float operand is."""
    return eqn.primitive.name in _SAME and len(eqn.invars) == 1


def is_folded(eqn: Any, product: Any) -> bool:
    """Returns whether the equation transposes `product`. XLA folds both into one product, if nothing inspects `product`."""
    return eqn.primitive.name == "transpose" and product is not None and product.primitive.name == "dot_general"


def is_batched_while(eqn: Any) -> bool:
    """Returns whether the equation is a while loop whose lanes end at different steps, due to `vmap`: one operation."""
    return eqn.primitive.name == "while" and bool(eqn.params["cond_jaxpr"].out_avals[0].shape)


def has_mutable_arrays(eqn: Any) -> bool:
    """Returns whether the equation reads or writes a mutable array (`jax.new_ref`)."""
    return any(map(_jax_compat.is_state_effect, eqn.effects))


mutable_arrays = jaxprs.Search(has_mutable_arrays)


def can_make(eqn: Any) -> bool:
    """Returns whether the equation can make NaN or infinities out of finite operands."""
    name = eqn.primitive.name
    if is_batched_while(eqn):
        return makes_any(eqn)
    if name == "gather":
        return "FILL" in str(eqn.params.get("mode", "FILL"))  # an index out of bounds reads NaN
    if name == "convert_element_type":
        return _is_narrowing(eqn)
    return name not in _MOVING and name not in _COLLECTIVE and any(map(is_inexact, eqn.outvars))


def _largest(dtype: Any) -> float:
    info: Any = jnp.finfo if jax.dtypes.issubdtype(dtype, np.inexact) else jnp.iinfo
    return float(info(dtype).max)


def _is_narrowing(eqn: Any) -> bool:
    before, after = eqn.invars[0].aval.dtype, eqn.outvars[0].aval.dtype
    if not jax.dtypes.issubdtype(after, np.inexact) or before == np.bool_:
        return False
    return _largest(before) > _largest(after)


def has_constant(eqn: Any, test: Any, operands: Iterable[Any] = ()) -> bool:
    """Returns whether the equation has a constant, as an operand or inside, with an element for which `test` is true.

    `operands`: constants that the equation gets as arguments of an enclosing function.
    """
    values = [*operands, *(atom.val for atom in eqn.invars if not _jax_compat.is_variable(atom))]
    for jaxpr in jaxprs.inner_jaxprs(eqn):
        values += jaxprs.consts_of(jaxpr)
        if any(has_constant(each, test) for each in jaxprs.opened(jaxpr).eqns):
            return True
    return any(_has(value, test) for value in values)


def _has(value: Any, test: Any) -> bool:
    if isinstance(value, jax.core.Tracer) or not is_inexact(jax.typeof(value)):
        return False
    return bool(np.any(test(np.asarray(value))))


_makers = jaxprs.Search(can_make)


def makes_any(eqn: Any) -> bool:
    """Returns whether an operation inside of the equation, at any depth, can make NaN or infinities."""
    return _makers.inside(eqn)
