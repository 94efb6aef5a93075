# SPDX-License-Identifier: Apache-2.0
"""The primitive behind native functions: a call with constants, and with no Python at run time."""

from __future__ import annotations

import functools
from typing import Any

import jax.extend.core
import numpy as np
from jax.interpreters import ad, batching, mlir, xla

from .. import _jax_compat
from .._targets import Target
from . import lowering
from .batching import batch_call
from .call import Avals, lower_call, refuse

function_p = jax.extend.core.Primitive("callout_function")
function_p.multiple_results = True
_jax_compat.require_devices(function_p)
function_p.def_impl(functools.partial(xla.apply_primitive, function_p))


class Constant:
    """An attribute's value as a parameter of a primitive: compared by its bytes."""

    __slots__ = ("_key", "value")

    def __init__(self, value: str | np.ndarray | np.generic):
        self.value = value
        self._key = value if isinstance(value, str) else (value.dtype.str, value.shape, value.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return repr(self.value)


@function_p.def_abstract_eval
def _abstract_eval(*_: Any, result_avals: Avals, **__: Any) -> Avals:
    return result_avals


def _lower(
    ctx: mlir.LoweringRuleContext,
    *args: Any,
    target: Target,
    attributes: tuple[tuple[str, Constant], ...],
    sharding: Any,
    **_: Any,
) -> list[Any]:
    where = f"callout.cpp '{target.label}'"
    lowering.refuse_automatic_axes(ctx, where)
    constants: dict[str, Any] = {}
    if attributes:
        constants["attributes"] = {key: constant.value for key, constant in attributes}
    return lower_call(ctx, args, where, target, device=sharding, ordered=False, has_side_effect=False, **constants)


lowering.register(function_p, _lower)
batching.primitive_batchers[function_p] = functools.partial(batch_call, function_p)
ad.primitive_jvps[function_p] = functools.partial(refuse, "Native", "JVP", "jvp= or vjp=")
ad.primitive_transposes[function_p] = functools.partial(refuse, "Native", "transpose", "vjp=")
