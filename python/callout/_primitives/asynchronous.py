# SPDX-License-Identifier: Apache-2.0
"""Programs that XLA:CPU does not run in the thread that dispatches them, however cheap they are.

XLA runs a program over one device in its caller if its inputs are ready and it has fewer than 1000 floating-point
operations (`cheap_computation_` in xla/pjrt/cpu/cpu_client.cc); a custom call counts as -1. No option of JAX's changes that.
So the program gets a branch that is never taken and has hundreds of thousands of them: XLA counts a conditional as its most
expensive branch. What is left of it at run time is one test of a constant.
"""

from __future__ import annotations

from typing import Any

from jax.extend.mlir import ir
from jax.extend.mlir.dialects import func
from jax.interpreters import mlir

from . import context

_NAME = "callout_asynchronous"

# XLA drops the barrier, which hides the constant from its simplifications, after those. What the branch has is in XLA's
# runtime, so there is nothing to generate code for; nobody feeds it, and it feeds nobody.
_FUNCTION = f"""
func.func private @{_NAME}() {{
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
    """Puts the branch where the program that is being lowered begins, once."""
    if tuple(context.platforms(ctx)) != ("cpu",) or context.is_exporting(ctx) or not _has_one_device(ctx):
        return
    symbols = ctx.module_context.symbol_table
    if _NAME in symbols or "main" not in symbols:
        return
    function = func.FuncOp.parse(_FUNCTION)
    ctx.module_context.module.body.append(function)
    symbols.insert(function)
    main: Any = symbols["main"]
    with ir.InsertionPoint.at_block_begin(main.entry_block):
        func.CallOp([], ir.FlatSymbolRefAttr.get(_NAME), [])


def _has_one_device(ctx: mlir.LoweringRuleContext) -> bool:
    """XLA runs programs over several devices on threads of its own."""
    axis_context = ctx.module_context.axis_context
    if isinstance(axis_context, mlir.SPMDAxisContext):
        return bool(axis_context.mesh.size == 1)
    return context.num_devices(ctx) == 1
