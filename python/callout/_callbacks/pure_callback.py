# SPDX-License-Identifier: Apache-2.0
"""`callout.pure_callback` calls functions for a result."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.tree_util import tree_flatten  # faster than jax.tree's, which is written in Python

from .. import _ext, _jax_compat
from .._base import options
from .._primitives.batching import VMAP_METHODS, check_vmap_method
from .._primitives.call import call_p
from .._primitives.context import named_device
from .._primitives.eager import perform
from .._primitives.varying import stated
from .._targets.function_targets import call_target, function_name
from .derivatives import inherited_vmap_method


def _result_aval(where: str, shape: Any, dtype: Any, x64: bool) -> jax.core.ShapedArray:
    if jax.dtypes.issubdtype(dtype, jax.dtypes.extended) or np.dtype(dtype).name not in _ext.DTYPE_NAMES.values():
        raise TypeError(f"{where}: a callback cannot return arrays of dtype {dtype}")
    given: np.dtype[Any] = np.dtype(dtype)
    if not x64 and jax.dtypes.canonicalize_dtype(given) != given:
        raise ValueError(
            f"{where}: result_shape_dtypes cannot specify 64-bit types when `jax_enable_x64` is disabled, got {given}"
        )
    return jax.core.ShapedArray(shape, given)


_LEAF = jax.tree.structure(0)
_known_aval = functools.lru_cache(maxsize=1024)(_result_aval)


def result_avals(where: str, result_shape_dtypes: Any) -> tuple[tuple[jax.core.ShapedArray, ...], Any]:
    """Returns the flat result types and their tree."""
    # Flattening a single leaf would take a third of this function's time.
    is_leaf = type(result_shape_dtypes) is jax.ShapeDtypeStruct
    flat, tree = ([result_shape_dtypes], _LEAF) if is_leaf else tree_flatten(result_shape_dtypes)
    x64 = _jax_compat.x64_enabled()
    avals = []
    for leaf in flat:
        try:
            shape, dtype = leaf.shape, leaf.dtype
        except AttributeError:
            raise TypeError(
                f"{where}: result_shape_dtypes must have leaves with `shape` and `dtype`, got {leaf!r}"
            ) from None
        # Shapes with other elements than ints are not cached: a cache would confuse 1 with True, and symbolic
        # dimensions of two exports cannot be compared.
        is_plain = type(shape) is tuple and (not shape or {int}.issuperset(map(type, shape)))
        avals.append((_known_aval if is_plain else _result_aval)(where, shape, dtype, x64))
    return stated(flat, avals) if _jax_compat.checked_axes() else tuple(avals), tree


def refuse_missing_shape(where: str, callback: Any, result_shape_dtypes: Any) -> None:
    """Raises TypeError for a call without arguments if the callback needs some and `result_shape_dtypes` looks like them."""
    fn = options.split(callback)[0] if callable(callback) else None
    if fn is None or not _needs_arguments(fn) or not any(map(_is_array, jax.tree.leaves(result_shape_dtypes))):
        return
    name = function_name(fn)
    raise TypeError(
        f"{where}: '{name}' needs arguments, and gets none: what stands behind the callback says what it returns, and the "
        f"arguments come after that: {where}({name.rpartition('.')[2]}, jax.ShapeDtypeStruct(x.shape, x.dtype), x)"
    )


def _needs_arguments(fn: Callable[..., Any]) -> bool:
    if isinstance(fn, np.ufunc):
        return fn.nin > 0
    try:
        inspect.signature(fn, follow_wrapped=False).bind()
    except TypeError:
        return True
    except Exception:  # noqa: BLE001 - no signature, or an error in a class of the user's
        return False
    return False


def _is_array(value: Any) -> bool:
    return isinstance(value, jax.Array | np.ndarray)


def pure_callback(
    callback: Callable[..., Any] | str,
    result_shape_dtypes: Any,
    *args: Any,
    sharding: jax.sharding.SingleDeviceSharding | None = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Calls `callback` on the host from inside a compiled program; a replacement of `jax.pure_callback`.

    The callback gets NumPy arrays that it owns (0-d ones for scalars) in the structure of `args` and `kwargs`, on an
    XLA thread with the GIL held. XLA may drop, merge or repeat the call, because the function is pure. Outside of jit
    the callback runs in the caller's thread, and its exceptions are raised unchanged.

    Args:
        callback: a Python function (plain, or from `callout.options`), or the name of a registered callback.
        result_shape_dtypes: the callback's results: a pytree with `shape` and `dtype` leaves.
        *args: pytrees of arrays.
        sharding: `SingleDeviceSharding` of the device that calls, in a jit over several devices; by default the first,
            or the one of `callout.options(device_index=)`.
        vmap_method: the way of `jax.vmap`: "sequential", "sequential_unrolled", "expand_dims", "broadcast_all",
            "legacy_vectorized"; with None, `vmap` is an error.
        **kwargs: pytrees of arrays, passed by keyword. Not for registered names.

    Returns:
        The results, in the structure of `result_shape_dtypes`.

    Raises:
        ResultError: (from the running program) the result has another shape, dtype or structure.
        UnboundNameError: the name is not registered.

    Example:
        >>> @jax.jit
        ... def sorted_by_numpy(x):
        ...     return callout.pure_callback(np.sort, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        >>> sorted_by_numpy(jnp.array([3.0, 1.0, 2.0]))
        Array([1., 2., 3.], dtype=float32)
    """
    if vmap_method is not None:
        check_vmap_method("callout.pure_callback", vmap_method)
    if not args and not kwargs:
        refuse_missing_shape("callout.pure_callback", callback, result_shape_dtypes)
    flat_args, in_tree = tree_flatten((args, kwargs))
    avals, out_tree = result_avals("callout.pure_callback", result_shape_dtypes)
    params = {
        "target": call_target(callback, in_tree, out_tree),
        "result_avals": avals,
        "sharding": named_device("callout.pure_callback", sharding),
        "vmap_method": inherited_vmap_method(vmap_method, VMAP_METHODS),
    }
    out = perform(call_p, "callout.pure_callback", flat_args, in_tree, params, is_call=True)
    return out_tree.unflatten(out)
