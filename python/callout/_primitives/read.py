# SPDX-License-Identifier: Apache-2.0
"""The primitive by which a program reads host objects by their handles.

A handle is four numbers, u32[4]; a batch of handles is u32[...,4]. The primitive has an effect, so that JAX and XLA
neither move a read out of its loop nor merge two reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex_core
from jax.interpreters import ad, batching, mlir, xla

from .. import _ext, _jax_compat
from .._base import patches
from .._base.native_platforms import PLATFORMS
from .._base.options import FunctionWithOptions, Options
from .._targets import target_attributes
from .._targets.function_targets import call_target
from .._targets.partitioning import partitioner
from . import context, effects, lowering
from .batching import batched_aval
from .call import Avals, dispatch_asynchronously, lower_call
from .eager import check_usable
from .varying import result_types

read_p = jex_core.Primitive("callout_read")
read_p.multiple_results = True


@read_p.def_effectful_abstract_eval
def _abstract_eval(words: Any, *, result_avals: Avals, **_: Any) -> tuple[Avals, set[Any]]:
    # The devices of one process read equal values, but devices of another process may read others.
    types = result_types((words,), result_avals, of_host=jax.process_count() > 1)
    return types, effects.observing(ordered=False)


@read_p.def_impl
def _eager(words: Any, **params: Any) -> Any:
    return xla.apply_primitive(read_p, words, **params)


def _batch(args: Sequence[Any], dims: Sequence[Any], *, result_avals: Avals, **params: Any) -> tuple[Any, Any]:
    words = jnp.moveaxis(args[0], dims[0], 0)
    avals = tuple(batched_aval(aval, words.shape[0]) for aval in result_avals)
    outs = read_p.bind(words, result_avals=avals, **params)
    return [_jax_compat.spread_like(out, 0, words, 0) for out in outs], [0] * len(outs)


batching.primitive_batchers[read_p] = _batch


def _jvp(primals: Sequence[Any], _: Any, **params: Any) -> tuple[Any, list[Any]]:
    outs = read_p.bind(*primals, **params)
    zero: Any = ad.Zero
    return outs, list(map(zero.from_primal_value, outs))


ad.primitive_jvps[read_p] = _jvp


def _lower(ctx: mlir.LoweringRuleContext, words: Any, *, kind: str, **_: Any) -> Sequence[Any]:
    where = f"callout.{kind}"
    check_usable()
    patches.ensure("errors")
    if lowering.platform_of_fallback(ctx) is not None:
        return _lower_by_jax(ctx, words, where, kind)
    _refuse_others(ctx, where)
    lowering.refuse_automatic_axes(ctx, where)
    num_devices = context.num_devices(ctx)
    if num_devices > 1 and jax.process_count() > 1:
        raise NotImplementedError(
            f"{where}: a jit over the devices of several processes cannot read it, because each process has its own; "
            "read it inside jax.shard_map, where callout.StopFlag.is_set(axis_name=...) asks all processes"
        )
    placement = partitioner.attributes(where, num_devices, "gather", 0, exporting=False)
    devices = num_devices or _jax_compat.manual_devices(ctx)
    attributes = target_attributes.encode(where, partitioner.READ, {"kind": kind, "devices": devices, **placement})
    dispatch_asynchronously(ctx)
    results: Sequence[Any] = jax.ffi.ffi_lowering(partitioner.READ, has_side_effect=True)(ctx, words, **attributes)
    return results


def _lower_by_jax(ctx: mlir.LoweringRuleContext, words: Any, where: str, kind: str) -> Sequence[Any]:
    """Lowers to JAX's callback of a Python function that reads, for platforms without a native path."""
    if _jax_compat.manual_devices(ctx) > 1:
        raise NotImplementedError(
            f"{where}: inside a shard_map over several devices, where all have to get the same answer, it needs callout's "
            "native path, and this program goes by JAX's callbacks (config.fallback)"
        )
    args, results = jax.tree.structure(((0,), {})), jax.tree.structure((0,) * len(ctx.avals_out))
    target = call_target(_READERS[kind], args, results).for_programs()
    return lower_call(ctx, [words], where, target, ordered=False, has_side_effect=True)


def _read_flags(words: np.ndarray) -> tuple[np.ndarray]:
    answers = [_ext.stop_flag_is_set(one.tolist()) for one in words.reshape(-1, 4)]
    return (np.array(answers, np.bool_).reshape(words.shape[:-1]),)


def _read_values(words: np.ndarray) -> tuple[np.ndarray, ...]:
    values = [_ext.get_host_value(one.tolist()) for one in words.reshape(-1, 4)]
    return tuple(
        np.stack(arrays).reshape((*words.shape[:-1], *arrays[0].shape)) for arrays in zip(*values, strict=True)
    )


_READERS = {
    kind: FunctionWithOptions(read, Options(numpy_only=True, args="numpy"))
    for kind, read in (("StopFlag", _read_flags), ("HostValue", _read_values))
}


def _refuse_others(ctx: mlir.LoweringRuleContext, where: str) -> None:
    if others := [platform for platform in context.platforms(ctx) if platform not in PLATFORMS]:
        raise NotImplementedError(
            f"{where}: programs for {', '.join(others)} cannot read it; supported: {', '.join(PLATFORMS)}"
        )


lowering.register(read_p, _lower)
