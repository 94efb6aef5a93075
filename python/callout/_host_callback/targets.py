# SPDX-License-Identifier: Apache-2.0
"""The targets of `call` and `id_tap`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
from jax.tree_util import PyTreeDef

from .. import _ext, _jax_compat
from .._base import options
from .._runtime import lifetime
from .._targets.function_targets import (
    TapKeywords,
    function_name,
    is_flat_call,
    is_leaf,
    tap_target,
    with_jax_arrays,
)
from .._targets.target import Target, Transforms, interned
from . import arguments
from .additions import LOG_SOURCE
from .carried import PREFIX, CarriedPrint
from .printing import Printer


def id_tap_target(tap_func: Callable[..., Any], tree: PyTreeDef, with_device: bool) -> Target:
    """Makes the target of `tap_func(value, transforms, [device=])`."""
    return tap_target(
        tap_func,
        tree,
        TapKeywords(device=with_device, transforms=True, transforms_by_position=True, log_source=LOG_SOURCE),
    )


class PrintTarget(Target):
    """Prints. Its name in a program is all that there is to know of it, wherever text says that."""

    __slots__ = ("_names", "_with_device", "_write")

    def __init__(self, key: Hashable, write: Printer, num_leaves: int, with_device: bool):
        make = functools.partial(_print_callback, write, with_device)
        super().__init__(key, _PRINT, False, make, ("print", num_leaves, with_device))
        self._write = write
        self._with_device = with_device
        self._names: dict[str, str] = {}

    def bind(self, transforms: Transforms = ()) -> str:
        """Returns the name that goes into the program."""
        if self._write.refusal() is not None or not self._write.has_fixed_text():
            return super().bind(transforms)
        key = repr(transforms)
        if key not in self._names:
            try:
                self._names[key] = self._write.carried_name(transforms, self._with_device)
            except UnicodeEncodeError:
                self._names[key] = super().bind(transforms)
        return self._names[key]

    def is_held_by_programs(self, name: str) -> bool:
        """Returns False for a name that says all: whoever loads the program makes the print of it."""
        return not name.startswith(PREFIX)

    def exported_name(self, where: str, transforms: Transforms = ()) -> str:
        """Returns the name that goes into an exported program. ValueError if text cannot say it all."""
        del where
        refusal = self._write.refusal()
        if refusal is None:
            try:
                return self._write.carried_name(transforms, self._with_device)
            except UnicodeEncodeError:
                refusal = "its keywords have text that is not Unicode"
        raise ValueError(
            f"callout.host_callback.id_print: an exported program carries a print as text, and this one is more: {refusal}"
        )


_PRINT = "id_print"  # as the core calls those that come with a program


def _print_callback(write: Printer | CarriedPrint, with_device: bool, transforms: Transforms) -> _ext.Callback:
    return _ext.make_python_callback(
        label=_PRINT,
        function=write,
        unflatten_value=tuple,
        device_lookup=lifetime.device_of if with_device else None,
        transforms=transforms,
        transforms_by_position=True,
        log_source=LOG_SOURCE,
    )


def print_target(write: Printer, num_leaves: int, with_device: bool) -> Target:
    """Makes the target of a printer, which takes the leaves in a tuple."""
    return interned(
        "print", write, (num_leaves, with_device), lambda key: PrintTarget(key, write, num_leaves, with_device)
    )


def carried_print(payload: str) -> _ext.Callback:
    """Makes the callback of a print that came with a program. The core calls it, with what stands behind "id_print:"."""
    write = CarriedPrint(payload)
    return _print_callback(write, write.with_device, ())


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
    check = arguments.ResultCheck(fn, out_tree, avals, x64)

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
