# SPDX-License-Identifier: Apache-2.0
"""This module replaces `jax.experimental.host_callback`, which JAX removed, with its names, arguments and meaning.

`id_tap` and `id_print` send values to the host while the program goes on; `call` waits for a result. All are ordered:
on each device in the program's order, over loops and successive programs. docs/host_callback.md lists the differences
from the original.
"""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable
from typing import Any

import jax
from jax import experimental

from .. import _ext
from .._base import barrier, errors, lifetime, programs
from .._base.arguments import check_index
from .._base.config import config
from .._base.public_modules import publish
from .._measuring.host_callback_additions import LOG_SOURCE, logger
from .._primitives.eager import perform
from .._primitives.site import Site
from .._primitives.tap import no_transforms, tap_p
from .._primitives.varying import stated
from .._targets.function_targets import TapKeywords, tap_target
from .._targets.print_target import print_target, printer
from .._targets.target import AnyTarget
from . import _flavors, _host_call
from ._flavors import CallbackFlavor
from ._host_call import host_call_p, host_call_target

__all__ = [
    "CallbackException",
    "CallbackFlavor",
    "TapFunctionException",
    "barrier_wait",
    "call",
    "id_print",
    "id_tap",
    "install",
    "stop_outfeed_receiver",
]
publish(__name__)


class CallbackException(errors.CallbackError):
    """Reports that taps or calls failed since the last `barrier_wait`. `__cause__` is the last exception."""

    cause_is_the_users = True


TapFunctionException = CallbackException

_THREAD_FOR_EACH_DEVICE = 64  # an upper limit; a thread starts with the first tap of its device


@functools.cache
def _deliver_by_device() -> None:
    """Gives each device a delivery thread of its own, like JAX's module did, unless the user chose a number."""
    config.replace_default("delivery_threads", _THREAD_FOR_EACH_DEVICE)


def _tap(target: AnyTarget, flat: list[Any], leaves: list[Any], device_index: int) -> list[Any]:
    """Taps `leaves`, the part of `flat` that is sent, and returns them as JAX's arrays."""
    _deliver_by_device()
    site = Site(
        label="",
        leaves=("",) * len(leaves),
        ordered=True,
        device_index=check_index("device_index", device_index),
        inline=config.host_callback_inline,
        whole_batch=True,
    )
    params = {"target": target, "site": site, "transforms": no_transforms}
    out = perform(tap_p, "callout.host_callback", leaves, None, params)
    return [_host_call.as_given(old, new) for old, new in zip(flat, out, strict=True)]


def id_tap(
    tap_func: Callable[..., Any],
    arg: Any,
    *,
    result: Any = None,
    tap_with_device: bool = False,
    device_index: int = 0,
    callback_flavor: CallbackFlavor = CallbackFlavor.IO_CALLBACK,
    **kwargs: Any,
) -> Any:
    """Returns `arg`, and also calls `tap_func(arg, transforms)` on the host.

    The program copies the value into a bounded queue and goes on. The tap is kept even if the result of `id_tap` is
    unused. The tap gets the primal values under `grad`, the whole batch under `vmap`, and the values again under remat.

    Args:
        tap_func: gets NumPy arrays that it owns, in the structure of `arg`, and the tuple of the transformations that
            were applied, innermost first: `("batch", {"batch_dims": ...})` with one entry for each array (None: not
            batched), and `("transpose", {})`. Runs on the delivery thread; its result is ignored. Its exceptions are
            logged, and raised by the next `barrier_wait()`; the program goes on.
        arg: a pytree of arrays. PRNG keys are sent as the integers that they are made of.
        result: the value to return instead of `arg`, which is still the value that is sent.
        tap_with_device: pass the `jax.Device` that ran the tap as keyword `device`.
        device_index: in a jit over several devices, the one of the program's devices that taps, with the whole value.
            Inside `pmap` and `shard_map` every device taps its own part.
        callback_flavor: how to call with `host_callback_legacy` off; see `CallbackFlavor`.
        **kwargs: rejected; the error names the replacement.

    Returns:
        `arg`, or `result`.

    Raises:
        TypeError: `tap_func` is not callable, or a leaf of `arg` or `result` cannot be in a program.
        ValueError: `device_index` is no integer of at least 0.

    Example:
        >>> from callout import host_callback as hcb
        >>> def show(value, transforms):
        ...     print(value, transforms)
        >>> y = jax.jit(jax.vmap(lambda x: hcb.id_tap(show, x)))(jnp.arange(2.0)); hcb.barrier_wait()
        [0. 1.] (('batch', {'batch_dims': (0,)}),)
    """
    if kwargs:
        raise TypeError(
            "Support for **kwargs in ``id_tap`` has been removed. Instead, pre-apply keyword arguments, either by using a "
            "closure or by passing ``functools.partial(tap_func, **kwargs)``."
        )
    _host_call.check_callable(tap_func)
    _host_call.check_leaves(jax.tree.leaves(result))
    flat, tree = jax.tree.flatten(arg)
    leaves = _host_call.operands(flat)
    if config.host_callback_legacy:
        keywords = TapKeywords(
            device=bool(tap_with_device), transforms=True, transforms_by_position=True, log_source=LOG_SOURCE
        )
        target = tap_target(tap_func, tree, keywords)
        arg = jax.tree.unflatten(tree, _tap(target, flat, leaves, device_index))
    else:
        _flavors.refuse_device(tap_with_device)
        _flavors.tap(tap_func, arg, check_index("device_index", device_index), callback_flavor)
    return arg if result is None else result


def id_print(
    arg: Any,
    *,
    result: Any = None,
    tap_with_device: bool = False,
    device_index: int = 0,
    output_stream: Any = None,
    threshold: float | None = None,
    callback_flavor: CallbackFlavor = CallbackFlavor.IO_CALLBACK,
    **kwargs: Any,
) -> Any:
    """Returns `arg`, and prints it on the host: an `id_tap` with a function that prints.

    A line above the value shows `kwargs`, the transformations and the device, if there are any, as "name: value" sorted
    by name. Arrays are written like `numpy.array2string` does, with the print options of the tracing thread.
    `callout.stats()["prints"]` counts the values that were written, separately for those formatted by the core
    ("native") and by NumPy.

    Args:
        arg: a pytree of arrays.
        result: the value to return instead of `arg`.
        tap_with_device: print the device that ran the tap, too.
        device_index: as in `id_tap`.
        output_stream: an object whose method `write` gets each of the two texts with its end of line; None for `print`.
        threshold: arrays of more elements are summarised; None for NumPy's own threshold (1000).
        callback_flavor: as in `id_tap`.
        **kwargs: names and values to print above the value.

    Returns:
        `arg`, or `result`.

    Raises:
        TypeError: a leaf of `arg` or `result` cannot be in a program.
        ValueError: `device_index` is no integer of at least 0.

    Example:
        >>> from callout import host_callback as hcb
        >>> y = jax.jit(lambda x: hcb.id_print(x, what="x"))(jnp.float32(2)); hcb.barrier_wait()
        what: x
        2.
    """
    _host_call.check_leaves(jax.tree.leaves(result))
    flat, tree = jax.tree.flatten(arg)
    leaves = _host_call.operands(flat)
    write = printer(tree, kwargs, output_stream, threshold)
    if config.host_callback_legacy:
        target = print_target(write, len(leaves), bool(tap_with_device))
        arg = jax.tree.unflatten(tree, _tap(target, flat, leaves, device_index))
    else:
        _flavors.refuse_device(tap_with_device)
        _flavors.tap(write, tuple(leaves), check_index("device_index", device_index), callback_flavor)
    return arg if result is None else result


def call(
    callback_func: Callable[..., Any],
    arg: Any,
    *,
    result_shape: Any = None,
    call_with_device: bool = False,
    device_index: int = 0,
    callback_flavor: CallbackFlavor = CallbackFlavor.IO_CALLBACK,
) -> Any:
    """Calls `callback_func(arg)` on the host and returns its result.

    The function runs once each time that the program reaches the call, after earlier taps and calls, on the thread that
    runs the program, with the GIL held. The function may use JAX. The call has no derivative and no batching rule;
    `jax.custom_vjp` and similar wrappers add one.

    Args:
        callback_func: gets NumPy arrays that it owns, in the structure of `arg`.
        arg: a pytree of arrays.
        result_shape: the structure of the result of `callback_func`, with numbers or objects with `shape` and `dtype`
            as leaves; None for no result. The result must have exactly these shapes and dtypes, after conversion to
            JAX's dtypes (without `jax_enable_x64`, a float64 fits where float32 is expected).
        call_with_device: pass the `jax.Device` that calls as keyword `device`.
        device_index: in a jit over several devices, the one that calls, with the whole of `arg` and of the result.
        callback_flavor: how to call with `host_callback_legacy` off; see `CallbackFlavor`.

    Returns:
        The result of `callback_func`, as `jax.Array`s in the structure of `result_shape`.

    Raises:
        TypeError, ValueError: an argument has a value that it cannot have.
        RuntimeError: (from the running program) the callback raised, or its result does not fit. The next `barrier_wait()`
            raises CallbackException, too.
        NotImplementedError: the call is differentiated or vmapped.

    Example:
        >>> from callout import host_callback as hcb
        >>> @jax.jit
        ... def sorted_by_numpy(x):
        ...     return hcb.call(np.sort, x, result_shape=x)
        >>> sorted_by_numpy(jnp.array([3.0, 1.0, 2.0]))
        Array([1., 2., 3.], dtype=float32)
    """
    _host_call.check_callable(callback_func)
    leaves = _host_call.operands(jax.tree.leaves(arg))
    index = check_index("device_index", device_index)
    if not config.host_callback_legacy:
        _flavors.refuse_device(call_with_device)
        return _flavors.call(callback_func, arg, result_shape, index, callback_flavor)
    avals, out_tree = _host_call.result_avals(result_shape)
    in_tree = jax.tree.structure(((arg,), {}))
    target = host_call_target(callback_func, in_tree, out_tree, avals, bool(call_with_device), index)
    avals = stated(jax.tree.leaves(result_shape), avals)
    params = {"target": target, "result_avals": avals}
    return jax.tree.unflatten(out_tree, perform(host_call_p, "callout.host_callback", leaves, None, params))


def barrier_wait(logging_name: str | None = None) -> None:
    """Waits until the programs with taps and calls are done, on all devices, and all their callbacks have run.

    Covers the programs that `callout.barrier_wait()` covers. Thread-safe. Must not be called from a callback.

    Args:
        logging_name: the name of this wait in the log.

    Raises:
        CallbackException: taps or calls failed since the last barrier; `__cause__` is the last exception.

    Example:
        >>> from callout import host_callback as hcb
        >>> seen = []
        >>> y = jax.jit(lambda x: hcb.id_tap(lambda v, transforms: seen.append(float(v)), x))(jnp.float32(2))
        >>> hcb.barrier_wait()
        >>> seen
        [2.0]
    """
    name = logging_name or ""
    logger.debug("barrier_wait[%s]: start", name)
    try:
        barrier.barrier_wait()
    except errors.TapError as error:
        last = error.__cause__
        logger.debug("barrier_wait[%s]: done, with %d failed callbacks", name, error.count)
        text = "".join(traceback.format_exception(last))
        raise CallbackException(f"There were exceptions during callback processing. Last one was: {text}") from last
    logger.debug("barrier_wait[%s]: done", name)


def stop_outfeed_receiver() -> None:
    """Waits until everything is delivered and ends the delivery threads. The next tap of any program starts them again.

    Errors of taps stay for the next `barrier_wait()`. Must not be called from a callback.

    Raises:
        CallbackError: called inside a callback or a tap's function.

    Example:
        >>> from callout import host_callback as hcb
        >>> hcb.stop_outfeed_receiver()
    """
    lifetime.check_usable()
    barrier.refuse_inside_callbacks("callout.host_callback.stop_outfeed_receiver()")
    programs.prepare()
    programs.wait_for_programs(None)
    _ext.drain(-1.0)
    _ext.park_delivery_threads()
    logger.debug("stop_outfeed_receiver: done")


def install() -> None:
    """Makes `jax.experimental.host_callback` this module, for code that imports it from there. Idempotent.

    Example:
        >>> from callout import host_callback
        >>> host_callback.install()
        >>> from jax.experimental import host_callback as hcb
        >>> hcb is host_callback
        True
    """
    module: Any = sys.modules[__name__]
    sys.modules["jax.experimental.host_callback"] = module
    experimental.host_callback = module  # type: ignore[attr-defined]
