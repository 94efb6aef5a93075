# SPDX-License-Identifier: Apache-2.0
"""`callout.pure_callback`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .._base.arguments import as_leaves
from .._primitives.batching import VMAP_METHODS, check_vmap_method
from .._primitives.call import call_p
from .._primitives.devices import knowing_devices
from .._primitives.varying import stated
from .._targets.functions import call_target
from .derivatives import inherited_vmap_method


def result_avals(where: str, result_shape_dtypes: Any) -> tuple[tuple[jax.core.ShapedArray, ...], Any]:
    """The flat result types and their tree."""
    flat, tree = jax.tree.flatten(result_shape_dtypes)
    avals = []
    for leaf in flat:
        if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
            raise TypeError(f"{where}: result_shape_dtypes must have leaves with `shape` and `dtype`, got {leaf!r}")
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended) or np.dtype(leaf.dtype).kind in "OSUMm":
            raise TypeError(f"{where}: a callback cannot return arrays of dtype {leaf.dtype}")
        dtype = np.dtype(leaf.dtype)
        if jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise ValueError(
                f"{where}: result_shape_dtypes cannot specify 64-bit types when `jax_enable_x64` is disabled, got {dtype}"
            )
        avals.append(jax.core.ShapedArray(leaf.shape, dtype))
    return stated(flat, avals), tree


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
    avals, out_tree = result_avals("callout.pure_callback", result_shape_dtypes)
    flat_args, in_tree = jax.tree.flatten((args, kwargs))
    target = call_target(callback, in_tree, out_tree)
    out = call_p.bind(
        *knowing_devices(as_leaves("callout.pure_callback", flat_args, in_tree), sharding),
        target=target,
        result_avals=avals,
        sharding=sharding,
        vmap_method=inherited_vmap_method(vmap_method, VMAP_METHODS),
    )
    return jax.tree.unflatten(out_tree, out)
