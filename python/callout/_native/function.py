# SPDX-License-Identifier: Apache-2.0
"""Makes native functions JAX functions, by a primitive that `callout.cpp`, `callout.cuda` and `callout.numba` share.

The primitive is a call with constants, which runs without Python.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

import jax
from jax.extend import core as jex_core
from jax.interpreters import ad, batching, mlir, xla

from .._base import patches
from .._base.arguments import as_leaves
from .._callbacks.derivatives import call_with_rules, inherited_vmap_method
from .._callbacks.pure_callback import result_avals
from .._primitives import lowering
from .._primitives.aliases import Aliases, check_aliases, own_operands
from .._primitives.batching import INSIDE_RULES, VMAP_METHODS, batch_call, batched_aval, check_vmap_method, in_front
from .._primitives.call import Avals, lower_call, refuse
from .._primitives.context import check_sharding, named_device
from .._primitives.varying import result_types
from .._targets.foreign_attributes import Constant
from .native_target import NativeTarget

function_p = jex_core.Primitive("callout_function")
function_p.multiple_results = True

PARALLEL = "parallel"
# GPU kernels are launched for the traced shapes, so for them these methods mean one launch for each lane, too.
_WHOLE_BATCH = ("expand_dims", "broadcast_all", "legacy_vectorized")

# The extents of a batch, outermost first, and for each operand a mask: bit i tells whether it has the i-th extent.
Lanes = tuple[tuple[int, ...], tuple[int, ...]]

Constants = tuple[tuple[str, Constant], ...]


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a native function; see `NativeFunction.options`."""

    out: Any = None
    vmap_method: str | None = None
    jvp: Callable[..., Any] | None = None
    vjp: tuple[Callable[..., Any], Callable[..., Any]] | None = None
    sharding: jax.sharding.SingleDeviceSharding | None = None
    input_output_aliases: Mapping[int, int] | None = None


_Self = TypeVar("_Self", bound="NativeFunction")


class NativeFunction(abc.ABC):
    """The base of native functions, which take arrays or pytrees by position, and constants by keyword."""

    _MORE_VMAP_METHODS: tuple[str, ...] = (PARALLEL,)

    def __init__(self, where: str, name: str, settings: Settings):
        self._where = where
        self._settings = settings
        self.__name__ = name
        check_vmap_method(where, settings.vmap_method, self._MORE_VMAP_METHODS)
        check_sharding(where, settings.sharding)

    def __copy__(self) -> Self:
        return self  # like a function

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    @abc.abstractmethod
    def _with(self: _Self, settings: Settings) -> _Self:
        """Returns a copy with these settings."""

    @abc.abstractmethod
    def _prepare(self, constants: Mapping[str, Any]) -> tuple[NativeTarget, Constants]:
        """Returns the target, and the constants that the program carries."""

    @abc.abstractmethod
    def _results(self, args: Sequence[Any], avals: Sequence[Any], constants: Mapping[str, Any]) -> Any:
        """Returns shapes and dtypes of the results if there is no `out`."""

    def _typed(self, index: int, arg: Any) -> Any:
        """Converts a Python number to an array."""
        del index
        return jax.numpy.asarray(arg) if isinstance(arg, (bool, int, float, complex)) else arg

    def _scratch(self, args: Sequence[Any], avals: Sequence[Any], constants: Mapping[str, Any]) -> tuple[Any, ...]:
        """Returns shapes and dtypes of scratch memory: results behind the others, which are dropped."""
        del args, avals, constants
        return ()

    def _check(self, args: Sequence[Any], results: Sequence[Any]) -> None:
        """Raises TypeError if arguments or results do not fit. The default checks nothing, because compilation will."""
        del args, results

    def options(self, **settings: Any) -> Self:
        """Returns a copy with other settings.

        Args:
            **settings: any of these:

                - `out`: the results: a pytree of `jax.ShapeDtypeStruct`s, or a function of the arguments (with `shape` and
                  `dtype`) and the constants that returns one.
                - `vmap_method`: as in `jax.pure_callback`, or "parallel": `vmap` then calls the function once for each
                   lane, on several of XLA's threads at once.
                - `jvp`: `jvp(primals, tangents, **constants)` returns (results, their tangents).
                - `vjp`: (`forward(*args, **constants)` returns (results, residuals), `backward(residuals, cotangents)`
                   returns one cotangent for each argument).
                - `sharding`: `SingleDeviceSharding` of the device that calls, in a jit over several devices.
                - `input_output_aliases`: {argument: result}, both flat indices. Such a result holds its argument's
                   value at the start, and the function updates it in place.
        """
        return self._with(dataclasses.replace(self._settings, **settings))

    def __call__(self, *args: Any, **constants: Any) -> Any:
        def call(*values: Any) -> Any:
            return self._bind(values, constants)

        settings = self._settings
        return call_with_rules(
            call, args, constants, jvp=settings.jvp, vjp=settings.vjp, vmap_method=settings.vmap_method
        )

    def _error(self, text: str) -> TypeError:
        return TypeError(f"{self._where}: {text}")

    def _bind(self, args: Sequence[Any], constants: Mapping[str, Any]) -> Any:
        target, attributes = self._prepare(constants)
        leaves = [self._typed(i, arg) for i, arg in enumerate(jax.tree.leaves(args))]
        flat = as_leaves(self._where, leaves, jax.tree.structure((tuple(args), {})), is_call=True)
        avals = [jax.ShapeDtypeStruct(leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype)) for leaf in flat]
        results, tree = result_avals(self._where, self._declared(args, avals, constants))
        aliases = check_aliases(self._where, self._settings.input_output_aliases or {}, avals, results)
        filled = (*results, *self._scratch(args, avals, constants))
        self._check(avals, filled)
        out = self._call(flat, avals, target, filled, attributes=attributes, aliases=aliases)
        return jax.tree.unflatten(tree, out[: len(results)])

    def _call(
        self, flat: Sequence[Any], avals: Sequence[Any], target: NativeTarget, results: Sequence[Any], **params: Any
    ) -> Sequence[Any]:
        """Binds the call, and returns the flat results. `avals` are the types of `flat`."""
        del avals
        called: Sequence[Any] = function_p.bind(
            *flat,
            target=target,
            result_avals=results,
            vmap_method=self._vmap_method(),
            sharding=named_device(self._where, self._settings.sharding),
            lanes=None,
            **params,
        )
        return called

    def _vmap_method(self) -> str | None:
        return inherited_vmap_method(self._settings.vmap_method, (*self._MORE_VMAP_METHODS, *VMAP_METHODS))

    def _declared(self, args: Sequence[Any], avals: Sequence[Any], constants: Mapping[str, Any]) -> Any:
        out = self._settings.out
        return self._results(args, avals, constants) if out is None else shapes_of(out, args, avals, constants)


def shapes_of(wanted: Any, args: Sequence[Any], avals: Sequence[Any], constants: Mapping[str, Any]) -> Any:
    """Returns `wanted`, or its result for arguments of these shapes and the constants if it is a function."""
    if not callable(wanted):
        return wanted
    return wanted(*jax.tree.unflatten(jax.tree.structure(tuple(args)), avals), **constants)


def _of_one_lane(
    args: Sequence[Any], results: Sequence[Any], lanes: Lanes | None
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Returns the shapes and dtypes of one lane's operands and results, without the dimensions of the batch."""
    if lanes is None:
        return args, results
    extents, masks = lanes
    begins = [mask.bit_count() for mask in masks]
    of_args = [jax.ShapeDtypeStruct(a.shape[begin:], a.dtype) for a, begin in zip(args, begins, strict=True)]
    return of_args, [jax.ShapeDtypeStruct(a.shape[len(extents) :], a.dtype) for a in results]


def _specialised(
    target: NativeTarget, args: Sequence[Any], results: Sequence[Any], lanes: Lanes | None
) -> NativeTarget:
    """Returns the target for the shapes and dtypes of one lane."""
    return target.specialise(*_of_one_lane(args, results, lanes))


@function_p.def_abstract_eval
def _abstract_eval(*args: Any, target: NativeTarget, result_avals: Avals, lanes: Lanes | None, **_: Any) -> Avals:
    patches.ensure("tapped_values")
    _specialised(target, args, result_avals, lanes)
    return result_types(args, result_avals)


function_p.def_impl(functools.partial(xla.apply_primitive, function_p))


def _batch_in_parallel(
    args: Sequence[Any], dims: Sequence[Any], size: int, *, result_avals: Avals, lanes: Lanes | None, **params: Any
) -> tuple[list[Any], list[int]]:
    extents, masks = lanes or ((), (0,) * len(args))
    extents = (size, *extents)
    masks = tuple(mask << 1 | (dim is not None) for mask, dim in zip(masks, dims, strict=True))
    avals = tuple(batched_aval(aval, size) for aval in result_avals)
    outs = function_p.bind(*in_front(args, dims), result_avals=avals, lanes=(extents, masks), **params)
    return outs, [0] * len(outs)


def _batch(
    args: Sequence[Any], dims: Sequence[Any], *, vmap_method: str | None, aliases: Aliases, **params: Any
) -> tuple[Any, Any]:
    params.update(vmap_method=vmap_method, aliases=aliases)
    size = next(arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if dim is not None)
    if vmap_method == PARALLEL or (vmap_method in _WHOLE_BATCH and params["target"].is_kernel):
        return _batch_in_parallel(args, dims, size, **params)
    if vmap_method is None:
        more = [PARALLEL] if params["target"].has_parallel_lanes else []
        methods = [*more, *(method for method in VMAP_METHODS if method)]
        raise NotImplementedError(
            f"native function '{params['target'].label}': vmap needs a vmap_method, one of {methods}. {INSIDE_RULES}"
        )
    return batch_call(function_p, *own_operands(aliases, args, dims), **params)


batching.primitive_batchers[function_p] = _batch

ad.primitive_jvps[function_p] = functools.partial(refuse, "Native", "JVP", "jvp= or vjp=")
ad.primitive_transposes[function_p] = functools.partial(refuse, "Native", "transpose", "vjp=")


def _in_lanes(aliases: Aliases, lanes: Lanes | None) -> tuple[dict[str, Any], dict[int, int]]:
    """Returns the attributes of a batch, and the aliases that the compiler may use for memory."""
    if lanes is None:
        return {"aliases": aliases}, dict(aliases)
    extents, masks = lanes
    whole = (1 << len(extents)) - 1
    in_place = {operand: result for operand, result in aliases if masks[operand] == whole}
    return {"lane_dims": extents, "lane_masks": masks, "aliases": aliases}, in_place


def _lower(
    ctx: mlir.LoweringRuleContext,
    *args: Any,
    target: NativeTarget,
    attributes: tuple[tuple[str, Constant], ...],
    sharding: Any,
    lanes: Lanes | None,
    aliases: Aliases,
    **_: Any,
) -> Sequence[Any]:
    lowering.refuse_others(ctx, target.label, target.platforms)
    where = f"native function '{target.label}'"
    target = _specialised(target, ctx.avals_in, ctx.avals_out, lanes)
    more, in_place = _in_lanes(aliases, lanes)
    if target.is_kernel:
        avals = _of_one_lane(ctx.avals_in, ctx.avals_out, lanes)
        return target.lower_launch(ctx, args, *avals, in_place=in_place, **more)
    lowering.refuse_automatic_axes(ctx, where)
    constants: dict[str, Any] = {**target.attributes(), **more}
    if attributes:
        constants["attributes"] = {key: constant.value for key, constant in attributes}
    return lower_call(
        ctx,
        args,
        where,
        target,
        name=target.handler,
        device=sharding,
        ordered=False,
        has_side_effect=False,
        in_place=in_place,
        attributes=constants,
    )


mlir.register_lowering(function_p, _lower)
