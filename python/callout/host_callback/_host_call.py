# SPDX-License-Identifier: Apache-2.0
"""`host_callback.call` makes ordered calls, which work in control flow and under remat, but not under transformations.

This file also checks the arguments of `id_tap`, `id_print` and `call`. The error texts are those of JAX's module,
because programs match them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import jax
import numpy as np
from jax.extend import core as jex_core
from jax.interpreters import ad, batching, mlir
from jax.tree_util import PyTreeDef

from .. import _ext, _jax_compat
from .._base import errors, lifetime, options
from .._base.arguments import as_leaves, goes_on, is_array_like
from .._measuring.host_callback_additions import LOG_SOURCE
from .._primitives import call_kinds, effects, lowering
from .._primitives.call import Avals, call_now, lower_call
from .._primitives.eager import def_eager, placement
from .._primitives.varying import result_types
from .._targets.function_targets import function_name, is_flat_call, is_leaf, with_jax_arrays
from .._targets.target import Target, Transforms, interned

host_call_p = jex_core.Primitive("callout_host_call")
host_call_p.multiple_results = True

_WHERE = "callout.host_callback.call"


@host_call_p.def_effectful_abstract_eval
def _abstract_eval(*avals: Any, result_avals: Avals, **_: Any) -> tuple[Avals, set[Any]]:
    return result_types(avals, result_avals, of_host=True), effects.observing(ordered=True)


def _eager(args: Sequence[Any], params: Mapping[str, Any]) -> list[jax.Array]:
    target = params["target"]
    placement(args, target.device_index, target.label)  # raises for a bad index, before errors count as the callback's
    try:
        return call_now(args, target, params["result_avals"], ordered=True)
    except errors.CallbackError:
        raise
    except Exception as exception:
        # Like a compiled program, raise a RuntimeError that is an instance of the exception's class, too.
        error = errors.CallbackError(f"{_WHERE}: callback '{target.label}' failed: {errors.describe(exception)}")
        errors.adopt(error, exception)
        raise error from exception


def_eager(host_call_p, _eager)


def _refuse(what: str, *_: Any, **__: Any) -> NoReturn:
    raise NotImplementedError(f"{what} implemented only for id_tap, not for call.")


_refuse_batch = functools.partial(_refuse, "batching rules are")
_refuse_jvp = functools.partial(_refuse, "JVP rule is")
_refuse_transpose = functools.partial(_refuse, "differentiation rules are")

batching.primitive_batchers[host_call_p] = _refuse_batch
ad.primitive_jvps[host_call_p] = _refuse_jvp
ad.primitive_transposes[host_call_p] = _refuse_transpose


def _lower(ctx: mlir.LoweringRuleContext, *args: Any, target: Target, result_avals: Avals) -> list[Any]:
    del result_avals
    lowering.refuse_automatic_axes(ctx, _WHERE)
    return lower_call(ctx, args, _WHERE, target, ordered=True)


lowering.register(host_call_p, _lower)

call_kinds.add(
    host_call_p,
    call_kinds.CallKind(
        _WHERE,
        threaded={"partitioned": False, "sharding": None, "ordered": True},
        of_host=True,
        has_lanes=False,
        check_batch=_refuse_batch,
        check_jvp=_refuse_jvp,
        check_transpose=_refuse_transpose,
    ),
)


def host_call_target(
    callback_func: Callable[..., Any],
    in_tree: PyTreeDef,
    out_tree: PyTreeDef,
    avals: Sequence[jax.core.ShapedArray],
    with_device: bool,
    device_index: int,
) -> Target:
    """Makes the target of `callback_func(arg, [device=])`, whose result must fit exactly. `in_tree` is ((arg,), {})'s."""
    fn, chosen = options.split(callback_func)
    x64 = _jax_compat.x64_enabled()
    label = chosen.name or function_name(fn)
    unflatten: Any = functools.partial(jax.tree.unflatten, in_tree)
    flat_call = is_flat_call(in_tree) and not with_device
    check = ResultCheck(fn, out_tree, avals, x64)

    def make(_: Transforms) -> _ext.Callback:
        return _ext.make_python_callback(
            label=label,
            function=with_jax_arrays(fn, x64) if chosen.args == "jax" else fn,
            unflatten=None if flat_call else unflatten,
            flatten=check.leaves,
            single_result=is_leaf(out_tree),
            device_lookup=lifetime.device_of if with_device else None,
            zero_copy=chosen.zero_copy,
            numpy_only=chosen.numpy_only,
            canonicalize=not x64,
            barrier_raises=True,
            log_source=LOG_SOURCE,
            explain=check.refuse,
        )

    what = (in_tree, out_tree, tuple(avals), x64, with_device, device_index, chosen.args)
    signature = (str(in_tree), str(out_tree), str(avals), x64, with_device, chosen)
    return interned(
        "host_call",
        callback_func,
        what,
        lambda key: Target(key, label, chosen.numpy_only, make, signature, device_index),
    )


def check_callable(function: Any) -> None:
    """Raises TypeError if `function` is not callable."""
    if not callable(function):
        raise TypeError(f"Expected a callable value, got {function}")


def check_leaves(leaves: Sequence[Any]) -> None:
    """Raises TypeError if a leaf cannot be in a program."""
    for leaf in leaves:
        if not is_array_like(leaf):
            raise TypeError(f"Argument '{leaf}' of type {type(leaf)} is not a valid JAX type.")


def operands(leaves: Sequence[Any]) -> list[Any]:
    """Returns the operands of the primitives: arrays of JAX's dtypes, and PRNG keys as their integers."""
    lifetime.check_usable()
    check_leaves(leaves)
    values = [np.zeros(leaf.shape, bool) if is_float0(leaf) else leaf for leaf in leaves]
    return [
        leaf if isinstance(leaf, jax.Array) else _jax_compat.unguarded(jax.numpy.asarray, leaf)
        for leaf in as_leaves("callout.host_callback", values)
    ]


def is_float0(leaf: Any) -> bool:
    """Returns True for the tangent of an integer, which inside programs is an array of False."""
    return getattr(leaf, "dtype", None) == jax.dtypes.float0


def as_given(leaf: Any, sent: Any) -> Any:
    """Returns a tap's result for `leaf`: `sent`, or the leaf itself if `sent` cannot be converted back to its type."""
    return leaf if is_float0(leaf) or goes_on(leaf) else sent


def result_avals(result_shape: Any) -> tuple[tuple[jax.core.ShapedArray, ...], PyTreeDef]:
    """Returns the flat result types of `call`, in JAX's dtypes, and their tree."""
    flat, tree = jax.tree.flatten(result_shape)
    try:
        return tuple(map(_aval, flat)), tree
    except Exception:  # noqa: BLE001 - attributes of a user's value may raise anything
        raise ValueError(
            "result_shape should be a pytree of values with structure matching the expected result of the callback "
            "function. The values must be either numeric scalars, or must have 'shape' and 'dtype' attributes. "
            f"Got {result_shape}"
        ) from None


def _aval(value: Any) -> jax.core.ShapedArray:
    dtype = value.dtype if hasattr(value, "dtype") else jax.dtypes.result_type(value)
    return jax.core.ShapedArray(np.shape(value), jax.dtypes.canonicalize_dtype(np.dtype(dtype)))


class ResultCheck:
    """Checks results of `function`, with `jax_enable_x64` as at tracing, because each thread has its own setting."""

    def __init__(self, function: Callable[..., Any], tree: PyTreeDef, avals: Sequence[jax.core.ShapedArray], x64: bool):
        self._function = function
        self._tree = tree
        self._avals = tuple(avals)
        self._x64 = x64

    def _begin(self) -> str:
        return f"Callback func {self._function} should have returned a result with"

    def leaves(self, result: Any) -> list[Any]:
        """Returns the leaves, with Python's numbers in JAX's dtypes. Raises TypeError for another tree."""
        leaves, got = jax.tree.flatten(result)
        if got != self._tree:
            raise TypeError(f"{self._begin()} pytree {self._tree} but returned {got}")
        with jax.enable_x64(self._x64):
            return [
                leaf if hasattr(leaf, "dtype") else np.asarray(leaf, jax.dtypes.result_type(leaf)) for leaf in leaves
            ]

    def refuse(self, result: Any) -> None:
        """Raises TypeError for a result of other shapes or dtypes."""
        leaves, tree = jax.tree.flatten(result)
        with jax.enable_x64(self._x64):
            got = tuple(map(_aval, leaves))
        if got != self._avals:
            expected = jax.tree.unflatten(self._tree, self._avals)
            raise TypeError(f"{self._begin()} abstract values {expected} but returned {jax.tree.unflatten(tree, got)}")
