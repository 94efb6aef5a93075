# SPDX-License-Identifier: Apache-2.0
"""`callout.pure_callback`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.tree_util import tree_flatten  # without the Python around it that jax.tree has

from .. import _ext, _jax_compat
from .._base import options
from .._base.arguments import as_leaves
from .._primitives.batching import VMAP_METHODS, check_vmap_method
from .._primitives.call import call_one, call_p
from .._primitives.context import named_device
from .._primitives.varying import stated
from .._targets.function_targets import call_target, callback_for_one_call, function_name, is_leaf
from .derivatives import inherited_vmap_method


@functools.lru_cache(maxsize=1024)
def _result_dtype(where: str, dtype: Any, _x64: bool) -> np.dtype[Any]:
    if jax.dtypes.issubdtype(dtype, jax.dtypes.extended) or np.dtype(dtype).name not in _ext.DTYPE_NAMES.values():
        raise TypeError(f"{where}: a callback cannot return arrays of dtype {dtype}")
    given: np.dtype[Any] = np.dtype(dtype)
    if jax.dtypes.canonicalize_dtype(given) != given:
        raise ValueError(
            f"{where}: result_shape_dtypes cannot specify 64-bit types when `jax_enable_x64` is disabled, got {given}"
        )
    return given


def _result_specs(where: str, flat: Sequence[Any], x64: bool) -> list[tuple[Any, np.dtype[Any]]]:
    specs = []
    for leaf in flat:
        try:
            shape, dtype = leaf.shape, leaf.dtype
        except AttributeError:
            raise TypeError(
                f"{where}: result_shape_dtypes must have leaves with `shape` and `dtype`, got {leaf!r}"
            ) from None
        specs.append((shape, _result_dtype(where, dtype, x64)))
    return specs


def result_avals(where: str, result_shape_dtypes: Any) -> tuple[tuple[jax.core.ShapedArray, ...], Any]:
    """Returns the flat result types and their tree."""
    flat, tree = jax.tree.flatten(result_shape_dtypes)
    avals = [
        jax.core.ShapedArray(shape, dtype) for shape, dtype in _result_specs(where, flat, _jax_compat.x64_enabled())
    ]
    return stated(flat, avals), tree


def refuse_missing_shape(where: str, callback: Any, result_shape_dtypes: Any) -> None:
    """Raises TypeError for a call without arguments whose results look like the arguments that the callback needs."""
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
    except Exception:  # noqa: BLE001 - there is no signature, or whatever a class of the user's makes of it
        return False
    return False


def _is_array(value: Any) -> bool:
    return isinstance(value, jax.Array | np.ndarray)


USUAL_WAY: Any = object()


def called_at_once(
    where: str, callback: Any, args: Sequence[Any], in_tree: Any, result_shape_dtypes: Any, *, ordered: bool = False
) -> Any:
    """Returns what a call outside of programs returns, without what only programs need; or USUAL_WAY, if it must go that."""
    if not _jax_compat.happens_now(args):
        return USUAL_WAY
    declared, out_tree = tree_flatten(result_shape_dtypes)
    x64 = _jax_compat.x64_enabled()
    specs = _result_specs(where, declared, x64)
    one = callback_for_one_call(callback, in_tree, out_tree, x64)
    if one is None:
        return USUAL_WAY
    results = call_one(args, *one, specs, ordered=ordered)
    return results[0] if is_leaf(out_tree) else jax.tree.unflatten(out_tree, results)


def check_sharding(where: str, sharding: Any) -> None:
    """Raises NotImplementedError for a sharding that names more than one device."""
    if sharding is not None and not isinstance(sharding, jax.sharding.SingleDeviceSharding):
        raise NotImplementedError(f"{where} supports only SingleDeviceSharding, got {type(sharding).__name__}")


def pure_callback(
    callback: Callable[..., Any] | str,
    result_shape_dtypes: Any,
    *args: Any,
    sharding: jax.sharding.SingleDeviceSharding | None = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Calls `callback` on the host from inside a compiled program; the drop-in for `jax.pure_callback`.

    The callback gets NumPy arrays that it owns (0-d ones for scalars) in the structure of `args` and `kwargs`, on an XLA
    thread with the GIL held. It may be dropped, merged or repeated, as a pure function may. Outside of jit it runs in the
    caller, and what it raises comes out as it is.

    Args:
        callback: a Python function (plain, or from `callout.options`), or the name of a registered callback.
        result_shape_dtypes: a pytree with `shape` and `dtype` leaves: what the callback returns.
        *args: pytrees of arrays.
        sharding: `SingleDeviceSharding` of the device that calls, in a jit over several; by default the first, or that of
            `callout.options(device_index=)`.
        vmap_method: what `jax.vmap` does: "sequential", "sequential_unrolled", "expand_dims", "broadcast_all",
            "legacy_vectorized"; None refuses.
        **kwargs: pytrees of arrays, passed by keyword. Not for registered names.

    Returns:
        The results, in the structure of `result_shape_dtypes`.

    Raises:
        ResultError: (from the running program) the result has another shape, dtype or structure.
        UnboundNameError: nobody registered the name.

    Example:
        >>> @jax.jit
        ... def sorted_by_numpy(x):
        ...     return callout.pure_callback(np.sort, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        >>> sorted_by_numpy(jnp.array([3.0, 1.0, 2.0]))
        Array([1., 2., 3.], dtype=float32)
    """
    check_vmap_method("callout.pure_callback", vmap_method)
    check_sharding("callout.pure_callback", sharding)
    if not args and not kwargs:
        refuse_missing_shape("callout.pure_callback", callback, result_shape_dtypes)
    flat_args, in_tree = tree_flatten((args, kwargs))
    out = called_at_once("callout.pure_callback", callback, flat_args, in_tree, result_shape_dtypes)
    if out is not USUAL_WAY:
        return out
    avals, out_tree = result_avals("callout.pure_callback", result_shape_dtypes)
    out = call_p.bind(
        *as_leaves("callout.pure_callback", flat_args, in_tree, is_call=True),
        target=call_target(callback, in_tree, out_tree),
        result_avals=avals,
        sharding=named_device(sharding),
        vmap_method=inherited_vmap_method(vmap_method, VMAP_METHODS),
    )
    return jax.tree.unflatten(out_tree, out)
