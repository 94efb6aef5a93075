# SPDX-License-Identifier: Apache-2.0
"""The primitive behind `pure_callback`: calls its target with its operands and waits for the results."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.extend.core
from jax.interpreters import ad, batching, mlir

from .. import _ext, _jax_compat
from .._targets import NamedTarget, Target
from .batching import batch_call
from .eager import check_usable, placement, to_host

call_p = jax.extend.core.Primitive("callout_call")
call_p.multiple_results = True

Avals = tuple[jax.core.ShapedArray, ...]


@call_p.def_abstract_eval
def _abstract_eval(*_: Any, result_avals: Avals, **__: Any) -> Avals:
    return result_avals


@call_p.def_impl
def _eager(*args: Any, target: Target, result_avals: Avals, **_: Any) -> list[jax.Array]:
    check_usable()
    device, ordinal, committed = placement(args)
    specs = [(aval.shape, aval.dtype) for aval in result_avals]
    results = _ext.call_eager(target.callback(), [to_host(arg) for arg in args], specs, ordinal)
    return [_jax_compat.put_on_device(result, device, committed) for result in results]


def keep_alive(ctx: mlir.LoweringRuleContext, target: Target) -> None:
    """Makes what is lowered hold the target. A registered name is held by the registry, and its program can be exported."""
    if not isinstance(target, NamedTarget):
        ctx.module_context.add_keepalive(target)


def _lower(ctx: mlir.LoweringRuleContext, *args: Any, target: Target, **_: Any) -> Any:
    check_usable()
    name = target.bind()
    keep_alive(ctx, target)
    if target.is_python() and not target.numpy_only:
        # Makes PJRT dispatch the program synchronously, as it does for JAX's own callbacks: a callback that uses JAX
        # then does not wait for programs that are queued behind its own. If inputs are not ready, XLA's threads run the
        # program all the same; from JAX 0.12 on they then call this function, which does the call: docs/hangs.md.
        ctx.module_context.add_host_callback(_ext.host_callback())
    return jax.ffi.ffi_lowering("callout.v1.call", has_side_effect=False)(ctx, *args, callback=name)


def refuse_platform(ctx: mlir.LoweringRuleContext, *_: Any, **__: Any) -> Any:
    """Lowering for platforms that have no target of ours."""
    platforms = ", ".join(ctx.module_context.platforms)
    raise NotImplementedError(f"callout: callbacks are not supported on platform {platforms}; supported: cpu")


mlir.register_lowering(call_p, refuse_platform)
mlir.register_lowering(call_p, _lower, platform="cpu")
batching.primitive_batchers[call_p] = functools.partial(batch_call, call_p)


def _no_jvp(*_: Any, **__: Any) -> Any:
    raise ValueError(
        "Pure callbacks do not support JVP. Please use `jax.custom_jvp` to use callbacks while taking gradients."
    )


def _no_transpose(*_: Any, **__: Any) -> Any:
    raise ValueError(
        "Pure callbacks do not support transpose. Please use `jax.custom_vjp` to use callbacks while taking gradients."
    )


ad.primitive_jvps[call_p] = _no_jvp
ad.primitive_transposes[call_p] = _no_transpose
