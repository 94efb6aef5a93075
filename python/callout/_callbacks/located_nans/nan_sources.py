# SPDX-License-Identifier: Apache-2.0
"""Which operations can make NaN and infinities, and which only pass them on."""

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


# Their results are elements of their operands, or follow from comparisons.
_MOVING = _words(
    "reshape transpose broadcast_in_dim squeeze expand_dims slice dynamic_slice dynamic_update_slice concatenate pad rev "
    "select_n copy copy_p neg abs max min clamp reduce_max reduce_min cummax cummin argmax argmin sign floor ceil round "
    "stop_gradient iota sort real imag conj device_put sharding_constraint optimization_barrier split tile scatter top_k "
    "reduce_window_max reduce_window_min select_and_gather_add get swap ref_get while scan cond jit pjit closed_call "
    "custom_jvp_call custom_vjp_call remat checkpoint shard_map pvary pcast layout_constraint is_finite empty "
    "name reshard mesh_cast select_and_scatter complex callout_saved "
)
# What comes out of them was made on other devices, too.
_COLLECTIVE = _words(
    "psum psum2 psum_invariant pmax pmin ppermute pshuffle pbroadcast all_gather all_gather_invariant all_gather_reduced "
    "all_to_all ragged_all_to_all reduce_scatter psum_scatter unreduced_psum unreduced_reduce_scatter preduced axis_index "
    "vary_unreduced_cast reduced_vary_cast "
)
# The result is finite where the operand is.
_SAME = _words("reshape transpose broadcast_in_dim squeeze expand_dims rev copy copy_p neg abs callout_saved")


def is_inexact(value: Any) -> bool:
    """Tells whether an array, or the variable of one, can have NaN; not of one whose devices have summands of it."""
    aval = getattr(value, "aval", value)
    dtype = None if _jax_compat.is_ref_type(aval) else getattr(aval, "dtype", None)
    return dtype is not None and jax.dtypes.issubdtype(dtype, np.inexact) and not _jax_compat.summed_over(aval)


def is_collective(eqn: Any) -> bool:
    """Tells whether it brings values of other devices."""
    return eqn.primitive.name in _COLLECTIVE


def passes_on(eqn: Any) -> bool:
    """Tells whether its only result is finite exactly where its only operand of floats is."""
    return eqn.primitive.name in _SAME and len(eqn.invars) == 1


def is_folded(eqn: Any, product: Any) -> bool:
    """Tells whether XLA makes one product of a transposed product, which costs nothing if nobody reads what is between."""
    return eqn.primitive.name == "transpose" and product is not None and product.primitive.name == "dot_general"


def is_batched_while(eqn: Any) -> bool:
    """Tells whether a `vmap` has made it a loop of many lanes, of which some end before others: it is one operation."""
    return eqn.primitive.name == "while" and bool(eqn.params["cond_jaxpr"].out_avals[0].shape)


def has_mutable_arrays(eqn: Any) -> bool:
    """Tells whether it reads or writes one (`jax.new_ref`)."""
    return any(map(_jax_compat.is_state_effect, eqn.effects))


mutable_arrays = jaxprs.Search(has_mutable_arrays)


def can_make(eqn: Any) -> bool:
    """Tells whether NaN or infinities can come out where none went in."""
    name = eqn.primitive.name
    if is_batched_while(eqn):
        return makes_any(eqn)
    if name == "gather":
        return "FILL" in str(eqn.params.get("mode", "FILL"))  # out of bounds is NaN
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
    """Tells whether a constant is written into the program, as an operand or inside, with an element that is such.

    `operands`: constants that a function around was given for its arguments.
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
    """Tells whether an operation inside of one, at any depth, can make NaN or infinities."""
    return _makers.inside(eqn)
