# SPDX-License-Identifier: Apache-2.0
"""The identity on a value that `jax.checkpoint` keeps for the backward pass if something there needs the value.

`jax.checkpoint` does not repeat a function with effects. In the backward pass the function's results then exist only where
an equation asks for them, and the rule of JAX's own debug callbacks does not ask. Results that pass through here exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.extend.core
from jax.interpreters import ad, batching, mlir

from .. import _jax_compat

saved_p = jax.extend.core.Primitive("callout_saved")


def saved(value: Any) -> Any:
    """Returns `value`."""
    return saved_p.bind(value)


def _same(value: Any) -> Any:
    return value


saved_p.def_impl(_same)
saved_p.def_abstract_eval(_same)
mlir.register_lowering(saved_p, lambda _ctx, value: [value])
batching.primitive_batchers[saved_p] = lambda args, dims: (saved_p.bind(*args), dims[0])
ad.primitive_jvps[saved_p] = lambda primals, tangents: (saved_p.bind(*primals), tangents[0])
ad.primitive_transposes[saved_p] = lambda cotangent, _: [cotangent]


def _split(_: Any, unknown_in: Sequence[bool], instantiated_in: Sequence[bool], eqn: Any) -> Any:
    if unknown_in[0]:
        return None, eqn, [True], [True], [] if instantiated_in[0] else list(eqn.invars)
    return eqn, None, [False], [True], [var for var in eqn.outvars if _jax_compat.is_used(var)]


_jax_compat.register_remat_rule(saved_p, _split)
