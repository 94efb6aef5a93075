# SPDX-License-Identifier: Apache-2.0
"""A mark in programs in which a call names its device (`sharding=`): JAX then tells which devices they are compiled for.

JAX lowers such programs for given devices, and refuses more than one mesh in them ("mesh should be the same across the
entire program"). So it is a primitive of its own, on the operands of just these calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.extend.core
from jax.interpreters import ad, batching, mlir

from .. import _jax_compat
from . import effects

known_devices_p = jax.extend.core.Primitive("callout_known_devices")
known_devices_p.multiple_results = True
_jax_compat.require_devices(known_devices_p)


def knowing_devices(operands: Sequence[Any], sharding: Any) -> Sequence[Any]:
    """Returns the operands of a call with this sharding, or None."""
    if sharding is None:
        return operands
    marked: Sequence[Any] = known_devices_p.bind(*operands)
    return marked


@known_devices_p.def_effectful_abstract_eval
def _abstract_eval(*avals: Any) -> tuple[list[Any], set[Any]]:
    # Without operands nobody uses what it returns, and only an effect keeps it.
    return list(avals), set() if avals else effects.acting(ordered=False)


@known_devices_p.def_impl
def _eager(*args: Any) -> list[Any]:
    return list(args)


mlir.register_lowering(known_devices_p, lambda _, *args: list(args))


def _batch(args: Sequence[Any], dims: Sequence[Any]) -> tuple[Any, Any]:
    return known_devices_p.bind(*args), dims


batching.primitive_batchers[known_devices_p] = _batch


def _jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    return known_devices_p.bind(*primals), list(tangents)


ad.primitive_jvps[known_devices_p] = _jvp
