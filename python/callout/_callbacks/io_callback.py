# SPDX-License-Identifier: Apache-2.0
"""`callout.io_callback`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.tree_util import tree_flatten

from .._base.arguments import as_leaves
from .._primitives.call import io_p
from .._primitives.context import named_device
from .._targets.function_targets import call_target
from .pure_callback import USUAL_WAY, called_at_once, check_sharding, refuse_missing_shape, result_avals

_WHERE = "callout.io_callback"


def io_callback(
    callback: Callable[..., Any] | str,
    result_shape_dtypes: Any,
    *args: Any,
    sharding: jax.sharding.SingleDeviceSharding | None = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Calls `callback`, which may have side effects, from inside a compiled program; the drop-in for JAX's `io_callback`.

    It runs exactly once for each time that the program reaches it: never dropped, merged or repeated. Arguments, thread and
    errors are as in `pure_callback`. `jax.effects_barrier()` and `callout.barrier_wait()` wait for it.

    Args:
        callback: a Python function (plain, or from `callout.options`), or the name of a registered callback.
        result_shape_dtypes: a pytree with `shape` and `dtype` leaves: what the callback returns. None for nothing.
        *args: pytrees of arrays.
        sharding: `SingleDeviceSharding` of the device that calls, in a jit over several; by default the first, or that of
            `callout.options(device_index=)`.
        ordered: call in program order, also among other ordered callbacks and taps and over successive programs. Taps that
            come before it are delivered before it runs. Cannot be vmapped, as with JAX.
        **kwargs: pytrees of arrays, passed by keyword. Not for registered names.

    Returns:
        The results, in the structure of `result_shape_dtypes`.

    Raises:
        ResultError: (from the running program) the result has another shape, dtype or structure.
        UnboundNameError: nobody registered the name.

    Example:
        >>> received = []
        >>> @jax.jit
        ... def record(x):
        ...     callout.io_callback(received.append, None, x, ordered=True)
        ...     return x + 1
        >>> y = record(jnp.int32(1)); y = record(jnp.int32(2)); jax.effects_barrier()
        >>> [int(value) for value in received]
        [1, 2]
    """
    check_sharding(_WHERE, sharding)
    if not args and not kwargs:
        refuse_missing_shape(_WHERE, callback, result_shape_dtypes)
    flat_args, in_tree = tree_flatten((args, kwargs))
    out = called_at_once(_WHERE, callback, flat_args, in_tree, result_shape_dtypes, ordered=bool(ordered))
    if out is not USUAL_WAY:
        return out
    avals, out_tree = result_avals(_WHERE, result_shape_dtypes)
    out = io_p.bind(
        *as_leaves(_WHERE, flat_args, in_tree, is_call=True),
        target=call_target(callback, in_tree, out_tree),
        result_avals=avals,
        sharding=named_device(sharding),
        ordered=bool(ordered),
    )
    return jax.tree.unflatten(out_tree, out)
