# SPDX-License-Identifier: Apache-2.0
"""The targets of calls and of taps, made of functions, names and sinks, and how functions are called."""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from .. import _ext, _jax_compat
from .._base import errors, lifetime, options
from . import named_results
from .sink import branches_of, callback_of, function_of, is_sink
from .target import DeviceCall, NamedTarget, Target, Transforms, interned

_NAMING = ("__module__", "__qualname__", "__name__", "__self__")
_UNKNOWN = "<unknown module>"  # how JAX calls that of a jitted ufunc
_MODULES_OF_UFUNCS = ("numpy", "scipy.special")


def _attribute(inner: Any, name: str) -> Any:
    try:
        return getattr(inner, name, None)
    except Exception:  # noqa: BLE001 - of a `__getattr__` of the user's
        return None


def _ufunc_name(ufunc: np.ufunc) -> str:
    """Returns a ufunc's name, with the module where it is known by that: all are of one class, and do not know theirs."""
    name = ufunc.__name__
    homes = (each for each in _MODULES_OF_UFUNCS if getattr(sys.modules.get(each), name, None) is ufunc)
    home = next(homes, None)
    return name if home is None else f"{home}.{name}"


def function_name(fn: Callable[..., Any]) -> str:
    """Returns the name of a function that is the same in every process: "module.qualname", with the line for a lambda."""
    if type(fn) is types.FunctionType and not fn.__dict__ and fn.__module__ and "<lambda>" not in fn.__qualname__:
        return f"{fn.__module__}.{fn.__qualname__}"
    inner: Any = fn
    while issubclass(type(inner), functools.partial):
        inner = inner.func
    kind = type(inner)
    module, name, own_name, holder = (_attribute(inner, each) for each in _NAMING)
    if kind is np.ufunc:
        return _ufunc_name(inner)
    if kind is types.BuiltinFunctionType and type(holder) is np.ufunc:  # a method of one
        return f"{_ufunc_name(holder)}.{own_name}"
    if module == _UNKNOWN and (wrapped := _attribute(inner, "__wrapped__")) is not None:
        return function_name(wrapped)
    if not module or not isinstance(module, str):  # a mock's may be anything
        module = kind.__module__
    if not name or not isinstance(name, str):
        name = f"{kind.__qualname__}({own_name})" if isinstance(own_name, str) else kind.__qualname__
    if "<lambda>" in name and isinstance(code := getattr(inner, "__code__", None), types.CodeType):
        name += f":{code.co_firstlineno}"
    return f"{module}.{name}"


def with_jax_arrays(fn: Callable[..., Any], x64: bool, *, ignore_result: bool = False) -> Callable[..., Any]:
    """Returns `fn` with `jax.Array`s. `jax_enable_x64` is as it was traced: what a thread sets does not hold in others.

    No guard of transfers stops them on their way to `fn`, nor those that it returns on their way back.
    """

    def convert(leaf: Any) -> Any:
        # Besides arrays, the functions of taps get devices, slices, and names and numbers of what `vmap` did.
        return _jax_compat.unguarded(jax.numpy.asarray, leaf) if hasattr(leaf, "dtype") else leaf

    def call_with_jax_arrays(*args: Any, **kwargs: Any) -> Any:
        with jax.enable_x64(x64):
            args, kwargs = jax.tree.map(convert, (args, kwargs))
            result = fn(*args, **kwargs)
        return None if ignore_result else _on_host(result)

    return call_with_jax_arrays


def flatten_result(result: Any, is_leaf: Callable[[Any], bool] = _ext.is_iterator) -> tuple[list[Any], PyTreeDef]:
    """Returns what a function returned as its leaves and their structure. `is_leaf` runs no Python code.

    JAX reads a list by borrowed references, which go where another thread, or code that runs meanwhile, changes it: a list
    is copied first, and what is in it is read while nothing else runs (with a GIL). JAX warns of iterators if it is not
    told that they are leaves.
    """
    return jax.tree.flatten(list(result) if type(result) is list else result, is_leaf=is_leaf)


def _on_host(result: Any) -> Any:
    try:
        leaves, tree = flatten_result(result)
        return tree.unflatten(map(_array_on_host, leaves))
    except (TypeError, ValueError):  # no structure of JAX's: whoever takes it says what is wrong with it
        return result


def _array_on_host(leaf: Any) -> Any:
    is_array = isinstance(leaf, jax.Array) and not jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended)
    return _jax_compat.unguarded(np.asarray, leaf) if is_array else leaf


def flattener(tree: PyTreeDef, label: str) -> Callable[[Any], Sequence[Any]]:
    """Returns the leaves of a result, in any structure that has as many as were declared; those with names by name."""
    declared = named_results.Declared(tree)

    def flatten(result: Any) -> Sequence[Any]:
        count = tree.num_leaves
        leaves, got = flatten_result(result)
        if len(leaves) == count:
            if named_results.is_same(tree, got) or named_results.is_flat(tree):
                return leaves
            places = declared.places_by_name(got)
            if places is not None:
                return [leaves[place] for place in places]
            raise errors.ResultError(
                f"callback '{label}': its result does not fit: expected structure {tree}, got {got}; names are matched, in "
                "any order, and these differ"
            )
        if count > 1 and named_results.is_flat(tree) and isinstance(result, tuple | list) and len(result) == count:
            return list(result)  # lists of numbers among them are arrays
        if is_leaf(tree):
            return [result]  # the core knows best why it is none
        got = jax.tree.structure(result) if result is not None else "None: did the function forget to return it?"
        raise errors.ResultError(f"callback '{label}': its result does not fit: expected structure {tree}, got {got}")

    return flatten


@functools.lru_cache(maxsize=64)
def _flat_call(count: int) -> PyTreeDef:
    return jax.tree.structure(((0,) * count, {}))


# None of these is cached: a cache would compare what the user's classes hold, which may be arrays, and keep it alive.


def is_flat_call(in_tree: PyTreeDef) -> bool:
    """Returns True if the leaves are the positional arguments."""
    count = in_tree.num_leaves
    return bool(in_tree.num_nodes == count + 3 and in_tree == _flat_call(count))


def is_leaf(tree: PyTreeDef) -> bool:
    """Returns True for a single leaf, in nothing."""
    return bool(tree.num_leaves == 1 and tree.num_nodes == 1)


def is_single_result(out_tree: PyTreeDef) -> bool:
    """Returns True if one array or nothing is expected."""
    return bool(out_tree.num_leaves == 0) or is_leaf(out_tree)


@dataclasses.dataclass(frozen=True)
class TapKeywords:
    """Says which keywords a tap's function wants besides the value."""

    device: bool = False
    transforms: bool = False
    index: bool = False
    transforms_by_position: bool = False  # they are its second argument
    log_source: int = 0  # its logger's number, see `_base.loggers`

    def refuse(self) -> None:
        """Raises TypeError for targets that take none."""
        if self != TapKeywords():
            raise TypeError(
                "callout.tap: with_device, with_transforms and with_index are for Python functions, not for names and sinks"
            )


NO_KEYWORDS = TapKeywords()


def _is_function(target: Any) -> bool:
    return not isinstance(target, str) and callback_of(target) is None


def receivers(target: Any, wanted: TapKeywords) -> list[tuple[Any, TapKeywords]]:
    """Returns the targets that are tapped one after the other, and which keywords each gets: of a tee, its functions do."""
    branches = branches_of(target)
    if branches is None:
        return [(target, wanted)]
    if not any(map(_is_function, branches)):
        wanted.refuse()
    return [(branch, wanted if _is_function(branch) else TapKeywords()) for branch in branches]


def _called(
    fn: Callable[..., Any],
    chosen: options.Options,
    in_tree: PyTreeDef,
    out_tree: PyTreeDef,
    label: str,
    x64: bool,
    ignore_result: bool,
) -> _ext.Callback:
    return _ext.make_python_callback(
        label=label,
        function=with_jax_arrays(fn, x64, ignore_result=ignore_result) if chosen.args == "jax" else fn,
        unflatten=None if is_flat_call(in_tree) else in_tree.unflatten,
        flatten=None if ignore_result else flattener(out_tree, label),
        single_result=is_single_result(out_tree),
        zero_copy=chosen.zero_copy,
        numpy_only=chosen.numpy_only,
        canonicalize=not x64,
    )


def callback_for_one_call(
    callback: Any, in_tree: PyTreeDef, out_tree: PyTreeDef, x64: bool, *, ignore_result: bool = False
) -> tuple[_ext.Callback, int] | None:
    """Returns what a target of `call_target` would call, for one call outside of programs, and its device's index.

    A target is made for programs, which find it again; that costs more than such a call. None for what needs one.
    """
    fn, chosen = options.split(callback)
    if not callable(fn) or is_sink(callback) or chosen.memory == "device":
        return None
    label = chosen.name or function_name(fn)
    return _called(fn, chosen, in_tree, out_tree, label, x64, ignore_result), chosen.device_index or 0


def call_target(
    callback: Callable[..., Any] | str, in_tree: PyTreeDef, out_tree: PyTreeDef, *, ignore_result: bool = False
) -> Target:
    """Returns the target of a call. `in_tree`: of (args, kwargs). `out_tree`: of the declared results."""
    if isinstance(callback, str):
        _require_positional(callback, in_tree)
        return NamedTarget(callback)
    if is_sink(callback):
        raise TypeError(f"callout: {callback!r} is a sink, which takes taps; it has no result to return")
    if not callable(callback):
        raise TypeError(f"callout: expected a callable or the name of a registered callback, got {callback!r}")
    fn, chosen = options.split(callback)
    x64 = _jax_compat.x64_enabled()
    label = chosen.name or function_name(fn)

    def make(_: Transforms) -> _ext.Callback:
        return _called(fn, chosen, in_tree, out_tree, label, x64, ignore_result)

    return interned(
        "call",
        callback,
        (in_tree, out_tree, x64, ignore_result, *_args_in_structure(chosen)),
        lambda key: Target(
            key,
            label,
            chosen.numpy_only,
            make,
            (str(in_tree), str(out_tree), x64, chosen),
            chosen.device_index or 0,
            DeviceCall(fn, in_tree, out_tree, x64, chosen.args == "jax", ignore_result)
            if chosen.memory == "device"
            else None,
            may_run_in_caller=chosen.may_run_in_caller,
        ),
    )


def _index_lookup(tree: PyTreeDef) -> Callable[[Sequence[np.ndarray], Sequence[int]], Any]:
    """Returns (arrays, where they begin) -> their slices of the whole value, in the structure of the value."""

    def look_up(arrays: Sequence[np.ndarray], begins: Sequence[int]) -> Any:
        rest = iter(begins)
        slices = [tuple(slice(b := next(rest, 0), b + extent) for extent in array.shape) for array in arrays]
        return jax.tree.unflatten(tree, slices)

    return look_up


def _tapped(
    fn: Callable[..., Any],
    chosen: options.Options,
    tree: PyTreeDef,
    wanted: TapKeywords,
    *,
    label: str,
    x64: bool,
    transforms: Transforms,
) -> _ext.Callback:
    return _ext.make_python_callback(
        label=label,
        function=with_jax_arrays(fn, x64, ignore_result=True) if chosen.args == "jax" else fn,
        unflatten_value=None if is_leaf(tree) else tree.unflatten,
        device_lookup=lifetime.device_of if wanted.device else None,
        index_lookup=_index_lookup(tree) if wanted.index else None,
        transforms=transforms if wanted.transforms else None,
        numpy_only=chosen.numpy_only,
        transforms_by_position=wanted.transforms_by_position,
        log_source=wanted.log_source,
    )


class OneTap(NamedTuple):
    """What `_primitives.eager` needs of a target."""

    source: Any
    structure: Hashable
    callback: _ext.Callback
    device_index: int = 0


def receiver_of_one_tap(target: Any, tree: PyTreeDef, wanted: TapKeywords) -> OneTap | None:
    """Returns what a target of `tap_target` would be for one tap outside of programs. None for what needs a target."""
    if is_sink(target):
        if (sink := target._callout_callback) is not None:
            return OneTap(target, None, sink) if wanted == NO_KEYWORDS else None
        target = function_of(target)
    if not callable(target):
        return None
    fn, chosen = options.split(target)
    x64 = _jax_compat.x64_enabled()
    label = chosen.name or function_name(fn)
    made = _tapped(fn, chosen, tree, wanted, label=label, x64=x64, transforms=())
    return OneTap(target, (tree, wanted, x64, *_args_in_structure(chosen)), made, chosen.device_index or 0)


def tap_target(target: Any, tree: PyTreeDef, wanted: TapKeywords) -> Target:
    """Returns the target of a tap. `tree`: of its value."""
    target = function_of(target)
    sink = callback_of(target)
    if isinstance(target, str) or sink is not None:
        wanted.refuse()
    if isinstance(target, str):
        return NamedTarget(target)
    if sink is not None:
        return interned("sink", target, None, lambda key: Target(key, sink.label, True, lambda _: sink))
    if not callable(target):
        raise TypeError(f"callout.tap: expected a callable, a sink or the name of a callback, got {target!r}")
    fn, chosen = options.split(target)
    label = chosen.name or function_name(fn)
    x64 = _jax_compat.x64_enabled()

    def make(transforms: Transforms) -> _ext.Callback:
        return _tapped(fn, chosen, tree, wanted, label=label, x64=x64, transforms=transforms)

    return interned(
        "tap",
        target,
        (tree, wanted, x64, *_args_in_structure(chosen)),
        lambda key: Target(
            key, label, chosen.numpy_only, make, ("tap", str(tree), wanted, x64, chosen), chosen.device_index or 0
        ),
    )


def _args_in_structure(chosen: options.Options) -> tuple[str, ...]:
    """Returns what tells a function's targets apart where `config.args` has changed. Exported files hold it: see below."""
    return () if chosen.args == "numpy" else ("jax",)


def _require_positional(name: str, in_tree: PyTreeDef) -> None:
    _, kwargs = in_tree.children()
    if kwargs.num_leaves:
        raise TypeError(
            f"callout: the callback registered as '{name}' takes positional arguments only; "
            "keyword arguments have no place in the program"
        )


def restored_target(kind: str, source: Any, structure: Any) -> Target:
    """Returns the target of a `source` and a `structure` that another process took from its "call" or "tap" target."""
    if kind == "tap":
        tree, wanted, x64, *args = structure
        with jax.enable_x64(x64):
            return tap_target(options.with_args(source, *args or ("numpy",)), tree, wanted)
    in_tree, out_tree, x64, ignore_result, *args = structure
    with jax.enable_x64(x64):
        source = options.with_args(source, *args or ("numpy",))
        return call_target(source, in_tree, out_tree, ignore_result=ignore_result)
