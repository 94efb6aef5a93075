# SPDX-License-Identifier: Apache-2.0
"""The targets of `call` and `id_tap`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.tree_util import PyTreeDef

from .. import _ext, _jax_compat
from .._base import lifetime, options
from .._measuring.host_callback_additions import LOG_SOURCE
from .._targets.function_targets import (
    TapKeywords,
    function_name,
    is_flat_call,
    is_leaf,
    tap_target,
    with_jax_arrays,
)
from .._targets.target import Target, Transforms, interned
from . import _arguments


def id_tap_target(tap_func: Callable[..., Any], tree: PyTreeDef, with_device: bool) -> Target:
    """Makes the target of `tap_func(value, transforms, [device=])`."""
    return tap_target(
        tap_func,
        tree,
        TapKeywords(device=with_device, transforms=True, transforms_by_position=True, log_source=LOG_SOURCE),
    )


def host_call_target(
    callback_func: Callable[..., Any],
    in_tree: PyTreeDef,
    out_tree: PyTreeDef,
    avals: Sequence[jax.core.ShapedArray],
    with_device: bool,
    device_index: int,
) -> Target:
    """Makes the target of `callback_func(arg, [device=])`, whose result must fit exactly. `in_tree`: of ((arg,), {})."""
    fn, chosen = options.split(callback_func)
    x64 = _jax_compat.x64_enabled()
    label = chosen.name or function_name(fn)
    unflatten: Any = functools.partial(jax.tree.unflatten, in_tree)
    flat_call = is_flat_call(in_tree) and not with_device
    check = _arguments.ResultCheck(fn, out_tree, avals, x64)

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
