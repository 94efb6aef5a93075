# SPDX-License-Identifier: Apache-2.0
"""The primitives behind `pure_callback` and `io_callback` call their target and wait for its results.

XLA:CPU must not run programs with `numpy_only` calls in the dispatching thread, even if the programs are cheap. XLA
runs a program over one device in its caller if its inputs are ready and it has fewer than 1000 floating-point
operations (`cheap_computation_` in xla/pjrt/cpu/cpu_client.cc); a custom call counts as -1. No option of JAX changes
this. So the program gets a branch that is never taken and has hundreds of thousands of operations: XLA counts a
conditional as its most expensive branch. At run time the branch costs one test of a constant.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jax.extend import core as jex_core
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import func
from jax.interpreters import ad, batching, mlir, xla

from .. import _ext, _jax_compat
from .._base import errors, patches
from .._targets.device_calls import device_call_target
from .._targets.target import AnyTarget, Target
from . import call_kinds, context, effects, lowering
from .batching import batch_call, loop_over_batch
from .context import NamedDevice
from .eager import check_special, check_together, check_usable, def_eager, place, placement, to_hosts, wait_for_ordered
from .varying import result_types

call_p = jex_core.Primitive("callout_call")
call_p.multiple_results = True
io_p = jex_core.Primitive("callout_io")
io_p.multiple_results = True

Avals = tuple[jax.core.ShapedArray, ...]
_SPEC = operator.attrgetter("shape", "dtype")

_CALL = "callout.v1.call"
_IO = "callout.io_callback"

# Platforms whose devices use the host's memory.
_HOST_PLATFORMS = frozenset({"cpu"})


@call_p.def_abstract_eval
def _abstract_eval(*avals: Any, result_avals: Avals, **_: Any) -> Avals:
    patches.ensure("tapped_values")
    return result_types(avals, result_avals)


@io_p.def_effectful_abstract_eval
def _io_abstract_eval(*avals: Any, result_avals: Avals, ordered: bool, **_: Any) -> tuple[Avals, set[Any]]:
    return result_types(avals, result_avals, of_host=True), effects.acting(ordered)


def call_now(args: Sequence[Any], target: AnyTarget, result_avals: Avals, ordered: bool) -> list[jax.Array]:
    """Runs a callback outside of a program, in the calling thread."""
    check_usable()
    callback = target.callback()
    if ordered:
        wait_for_ordered()
    device, ordinal, committed = placement(args, target.device_index, target.label)
    if committed and result_avals and len(args) > 1:
        check_together(callback.label, args)
    specs = list(map(_SPEC, result_avals))
    try:
        results = _ext.call_eager(callback, to_hosts(args), specs, ordinal, ordered)
    except AttributeError as error:
        errors.explain_numpy(error)
        raise
    if _jax_compat.refused_values():
        check_special(callback.label, results)
    return place(results, result_avals, args, device, committed)


def evaluate(primitive: jex_core.Primitive, args: Sequence[Any], params: Mapping[str, Any]) -> list[jax.Array]:
    """Runs a callback outside of a program, or in a program of its own if it needs the memory of a GPU."""
    target: AnyTarget = params["target"]
    if target.device_call is not None and placement(args)[0].platform not in _HOST_PLATFORMS:
        return list(xla.apply_primitive(primitive, *args, **{**params, "target": target.for_programs()}))
    return call_now(args, target, params.get("result_avals", ()), params.get("ordered", False))


for _primitive in (call_p, io_p):
    def_eager(_primitive, functools.partial(evaluate, _primitive))

batching.primitive_batchers[call_p] = functools.partial(batch_call, call_p)


def check_io_batch(ordered: bool) -> None:
    """Raises ValueError for an ordered call with side effects."""
    if ordered:
        raise ValueError("Cannot `vmap` ordered IO callbacks.")


def _io_batch(args: Sequence[Any], dims: Sequence[Any], *, ordered: bool, **params: Any) -> tuple[Any, Any]:
    check_io_batch(ordered)
    return loop_over_batch(lambda *values: io_p.bind(*values, ordered=False, **params), args, dims)


batching.primitive_batchers[io_p] = _io_batch


def refuse(kind: str, what: str, remedy: str, *_: Any, **__: Any) -> Any:
    raise ValueError(
        f"{kind} callbacks do not support {what}. Please use `{remedy}` to use callbacks while taking gradients."
    )


for _primitive, _kind in ((call_p, "Pure"), (io_p, "IO")):
    ad.primitive_jvps[_primitive] = functools.partial(refuse, _kind, "JVP", "jax.custom_jvp")
    ad.primitive_transposes[_primitive] = functools.partial(refuse, _kind, "transpose", "jax.custom_vjp")

_ASYNCHRONOUS = "callout_asynchronous"

# The barrier hides the constant from XLA's simplifications, and XLA drops the barrier afterwards. The branch's
# operation is a function of XLA's runtime, so XLA generates no code; the branch has neither operands nor used results.
_NEVER_TAKEN = f"""
func.func private @{_ASYNCHRONOUS}() {{
  %false = stablehlo.constant dense<false> : tensor<i1>
  %never = stablehlo.optimization_barrier %false : tensor<i1>
  "stablehlo.if"(%never) ({{
    %start = stablehlo.create_token : !stablehlo.token
    %fed:2 = "stablehlo.infeed"(%start) {{infeed_config = ""}} : (!stablehlo.token) -> (tensor<4096xf32>, !stablehlo.token)
    %many = stablehlo.fft %fed#0, type = RFFT, length = [4096] : (tensor<4096xf32>) -> tensor<2049xcomplex<f32>>
    %end = "stablehlo.outfeed"(%many, %fed#1) {{outfeed_config = ""}}
      : (tensor<2049xcomplex<f32>>, !stablehlo.token) -> !stablehlo.token
    stablehlo.return
  }}, {{
    stablehlo.return
  }}) : (tensor<i1>) -> ()
  return
}}
"""


def dispatch_asynchronously(ctx: mlir.LoweringRuleContext) -> None:
    """Inserts the branch at the begin of the program that is being lowered, once."""
    if tuple(context.platforms(ctx)) != ("cpu",) or context.is_exporting(ctx) or not _has_one_device(ctx):
        return
    symbols = ctx.module_context.symbol_table
    if _ASYNCHRONOUS in symbols or "main" not in symbols:
        return
    function = func.FuncOp.parse(_NEVER_TAKEN)
    ctx.module_context.module.body.append(function)
    symbols.insert(function)
    main: Any = symbols["main"]
    with ir.InsertionPoint.at_block_begin(main.entry_block):
        func.CallOp([], ir.FlatSymbolRefAttr.get(_ASYNCHRONOUS), [])


def _has_one_device(ctx: mlir.LoweringRuleContext) -> bool:
    """Returns whether the program runs on one device. XLA runs other programs on its own threads in any case."""
    axis_context = ctx.module_context.axis_context
    if isinstance(axis_context, mlir.SPMDAxisContext):
        return bool(axis_context.mesh.size == 1)
    return context.num_devices(ctx) == 1


def lower_call(
    ctx: mlir.LoweringRuleContext,
    args: Sequence[Any],
    where: str,
    target: Target,
    *,
    name: str = _CALL,
    device: NamedDevice | None = None,
    attributes: Mapping[str, Any] = types.MappingProxyType({}),
    ordered: bool,
    **more: Any,
) -> list[Any]:
    """Emits the custom call `name` of `target`. `device`: the device that the call names. `more`: for `lowering.emit`.

    `attributes`: further attributes, besides the callback's name and those for JAX's dispatch.
    """
    is_native = lowering.platform_of_fallback(ctx) is None
    if (
        is_native
        and name == _CALL
        and target.device_call is not None
        and not _HOST_PLATFORMS.issuperset(context.platforms(ctx))
    ):
        target, name = _on_device(ctx, where, target, ordered, more.get("threaded", False))
    callback = lowering.bound_name(ctx, target, where)
    of_dispatch = lowering.dispatch_synchronously(ctx, target) if is_native else {}
    if is_native and target.numpy_only and not target.may_run_in_caller:
        dispatch_asynchronously(ctx)
    index = lowering.device_index_of(ctx, where, device)
    return lowering.emit(
        ctx,
        name,
        args,
        {"callback": callback, "ordered": ordered, **of_dispatch, **attributes},
        where=where,
        ordered=ordered,
        device_index=target.device_index if index is None else index,
        **more,
    )


def _on_device(
    ctx: mlir.LoweringRuleContext, where: str, target: Target, ordered: bool, threaded: bool
) -> tuple[Target, str]:
    """Returns the target and the handler of a callback, which depend on whether it needs the device's memory."""
    platforms = context.platforms(ctx)
    if not _HOST_PLATFORMS.isdisjoint(platforms):
        raise NotImplementedError(
            f"{where}: '{target.label}' has options(memory=\"device\"), and the program is for {', '.join(platforms)}: "
            "lower it for each by itself"
        )
    if ordered or threaded:
        what = "ordered calls honour" if ordered else "callout.threaded honours"
        raise NotImplementedError(f"{where}: '{target.label}' has options(memory=\"device\"), which {what} on cpu only")
    return device_call_target(where, target), "callout.v1.buffer"


def _lower(
    where: str,
    has_side_effect: bool,
    ctx: mlir.LoweringRuleContext,
    *args: Any,
    target: Target,
    sharding: Any,
    ordered: bool = False,
    **_: Any,
) -> list[Any]:
    lowering.refuse_automatic_axes(ctx, where)
    return lower_call(ctx, args, where, target, device=sharding, ordered=ordered, has_side_effect=has_side_effect)


lowering.register(call_p, functools.partial(_lower, "callout.pure_callback", False))
lowering.register(io_p, functools.partial(_lower, _IO, True))

call_kinds.add(
    io_p,
    call_kinds.CallKind(
        _IO,
        threaded={"partitioned": False},
        of_host=True,
        check_batch=check_io_batch,
        check_jvp=functools.partial(refuse, "IO", "JVP", "jax.custom_jvp"),
        check_transpose=functools.partial(refuse, "IO", "transpose", "jax.custom_vjp"),
    ),
)
