# SPDX-License-Identifier: Apache-2.0
"""`callout.io_callback` calls functions that have side effects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.tree_util import tree_flatten

from .._primitives.call import io_p
from .._primitives.context import named_device
from .._primitives.eager import perform
from .._targets.function_targets import call_target
from .pure_callback import refuse_missing_shape, result_avals

_WHERE = "callout.io_callback"


def io_callback(
    callback: Callable[..., Any] | str,
    result_shape_dtypes: Any,
    *args: Any,
    sharding: jax.sharding.SingleDeviceSharding | None = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Calls `callback`, which may have side effects, from inside a compiled program; a replacement of JAX's `io_callback`.

    The callback runs exactly once each time that the program reaches the call; the call is never dropped, merged or
    repeated. Arguments, thread and errors are as in `pure_callback`. `jax.effects_barrier()` and
    `callout.barrier_wait()` wait for the call.

    Args:
        callback: a Python function (plain, or from `callout.options`), or the name of a registered callback.
        result_shape_dtypes: the callback's results: a pytree with `shape` and `dtype` leaves. None for no result.
        *args: pytrees of arrays.
        sharding: `SingleDeviceSharding` of the device that calls, in a jit over several devices; by default the first,
            or the one of `callout.options(device_index=)`.
        ordered: call in program order, together with other ordered callbacks and taps, over successive programs, too.
            Taps before the call are delivered before the callback runs. Like JAX's, an ordered call cannot be vmapped.
        **kwargs: pytrees of arrays, passed by keyword. Not for registered names.

    Returns:
        The results, in the structure of `result_shape_dtypes`.

    Raises:
        ResultError: (from the running program) the result has another shape, dtype or structure.
        UnboundNameError: the name is not registered.

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
    if not args and not kwargs:
        refuse_missing_shape(_WHERE, callback, result_shape_dtypes)
    flat_args, in_tree = tree_flatten((args, kwargs))
    avals, out_tree = result_avals(_WHERE, result_shape_dtypes)
    params = {
        "target": call_target(callback, in_tree, out_tree),
        "result_avals": avals,
        "sharding": named_device(_WHERE, sharding),
        "ordered": bool(ordered),
    }
    out = perform(io_p, _WHERE, flat_args, in_tree, params, is_call=True)
    return out_tree.unflatten(out)
