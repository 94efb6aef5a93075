# SPDX-License-Identifier: Apache-2.0
"""The token of `callout.threaded`: each threaded call takes and returns it, so that their order is a data dependence.

JAX drops equations with unused results, and threaded calls have no effect that would keep them. So the results of a
threaded function are tied to its last token. The tie adds nothing to the compiled program, in which XLA keeps the
calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core as jex_core
from jax.interpreters import ad, batching, mlir

from .. import _jax_compat

TOKEN = jax.core.ShapedArray((), np.dtype(np.uint32))

tie_p = jex_core.Primitive("callout_tie")
once_p = jex_core.Primitive("callout_once")


def first_token() -> Any:
    """Returns the token with which a threaded function begins."""
    return _jax_compat.unguarded(jax.numpy.zeros, (), np.uint32)


def one_token(token: Any, dim: int | None) -> Any:
    """Returns one token of a batch of tokens, which all come from one call."""
    return token if dim is None else jax.lax.index_in_dim(token, 0, dim, keepdims=False)


def no_tangent() -> ad.Zero:
    """Returns the tangent of a token."""
    return ad.Zero(TOKEN.to_tangent_aval())


def tie(token: Any, value: Any) -> Any:
    """Returns `value`, made dependent on `token`. Its tangent and its cotangent depend on `token`, too."""
    return tie_p.bind(token, value)


@tie_p.def_abstract_eval
def _tie_abstract_eval(_: Any, value: Any) -> Any:
    return value


@tie_p.def_impl
def _tie_eager(_: Any, value: Any) -> Any:
    return value


def _tie_batch(args: Sequence[Any], dims: Sequence[Any]) -> tuple[Any, Any]:
    return tie_p.bind(one_token(args[0], dims[0]), args[1]), dims[1]


batching.primitive_batchers[tie_p] = _tie_batch


def _tie_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    token, value = primals
    tangent = tangents[1]
    return tie(token, value), tangent if isinstance(tangent, ad.Zero) else tie(token, tangent)


ad.primitive_jvps[tie_p] = _tie_jvp


def _tie_transpose(cotangent: Any, token: Any, _: Any) -> Sequence[Any]:
    if ad.is_undefined_primal(token):  # the token belongs to callbacks of unknown values
        return [None, cotangent]
    return [None, cotangent if isinstance(cotangent, ad.Zero) else tie(token, cotangent)]


ad.primitive_transposes[tie_p] = _tie_transpose

mlir.register_lowering(tie_p, lambda _ctx, _token, value: [value])


def once(value: Any, what: str) -> Any:
    """Returns `value`, a predicate or a branch index, but raises an error with `what` if `vmap` would batch it."""
    return once_p.bind(value, what=what)


@once_p.def_abstract_eval
def _once_abstract_eval(value: Any, *, what: str) -> Any:  # noqa: ARG001
    return value


@once_p.def_impl
def _once_eager(value: Any, *, what: str) -> Any:  # noqa: ARG001
    return value


def _once_batch(_args: Sequence[Any], _dims: Sequence[Any], *, what: str) -> Any:
    raise NotImplementedError(f"callout.threaded: vmap of {what}; callout.threaded(jax.vmap(f)) may do")


batching.primitive_batchers[once_p] = _once_batch

mlir.register_lowering(once_p, lambda _ctx, value, what: [value])  # noqa: ARG005
