# SPDX-License-Identifier: Apache-2.0
"""Makes the targets of calls and taps from functions, names and sinks, and wraps the functions that targets call."""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from .. import _ext, _jax_compat
from .._base import errors, lifetime, options
from . import named_results
from .sink import branches_of, callback_of, function_of, is_sink
from .target import AnyTarget, DeviceCall, NamedTarget, SourceTarget, Transforms

_NAMING = ("__module__", "__qualname__", "__name__", "__self__")
_UNKNOWN = "<unknown module>"  # JAX's module name of a jitted ufunc
_MODULES_OF_UFUNCS = ("numpy", "scipy.special")


def _attribute(inner: Any, name: str) -> Any:
    try:
        return getattr(inner, name, None)
    except Exception:  # noqa: BLE001 - a user's `__getattr__` may raise anything
        return None


def _ufunc_name(ufunc: np.ufunc) -> str:
    """Returns a ufunc's name, with the module that has it under this name: ufuncs do not store their module."""
    name = ufunc.__name__
    homes = (each for each in _MODULES_OF_UFUNCS if getattr(sys.modules.get(each), name, None) is ufunc)
    home = next(homes, None)
    return name if home is None else f"{home}.{name}"


def function_name(fn: Callable[..., Any]) -> str:
    """Returns a function's name, equal in every process: "module.qualname", with the line for a lambda."""
    if type(fn) is types.FunctionType and not fn.__dict__ and fn.__module__ and "<lambda>" not in fn.__qualname__:
        return f"{fn.__module__}.{fn.__qualname__}"
    inner: Any = fn
    while issubclass(type(inner), functools.partial):
        inner = inner.func
    kind = type(inner)
    module, name, own_name, holder = (_attribute(inner, each) for each in _NAMING)
    if kind is np.ufunc:
        return _ufunc_name(inner)
    if kind is types.BuiltinFunctionType and type(holder) is np.ufunc:  # a method of a ufunc
        return f"{_ufunc_name(holder)}.{own_name}"
    if module == _UNKNOWN and (wrapped := _attribute(inner, "__wrapped__")) is not None:
        return function_name(wrapped)
    if not module or not isinstance(module, str):  # a mock may have any `__module__`
        module = kind.__module__
    if not name or not isinstance(name, str):
        name = f"{kind.__qualname__}({own_name})" if isinstance(own_name, str) else kind.__qualname__
    if "<lambda>" in name and isinstance(code := getattr(inner, "__code__", None), types.CodeType):
        name += f":{code.co_firstlineno}"
    return f"{module}.{name}"


def with_jax_arrays(fn: Callable[..., Any], x64: bool, *, ignore_result: bool = False) -> Callable[..., Any]:
    """Wraps `fn` to get `jax.Array`s, with `jax_enable_x64` as at tracing, and without a mesh: both depend on the thread.

    JAX's transfer guards do not affect the arguments and results.
    """

    def convert(leaf: Any) -> Any:
        # The arguments of a tap's function may contain devices, slices and transformations besides arrays.
        return _jax_compat.unguarded(jax.numpy.asarray, leaf) if hasattr(leaf, "dtype") else leaf

    def call_with_jax_arrays(*args: Any, **kwargs: Any) -> Any:
        with jax.enable_x64(x64), _jax_compat.without_mesh():
            args, kwargs = jax.tree.map(convert, (args, kwargs))
            result = fn(*args, **kwargs)
        return None if ignore_result else _on_host(result)

    return call_with_jax_arrays


def flatten_result(result: Any, is_leaf: Callable[[Any], bool] = _ext.is_iterator) -> tuple[list[Any], PyTreeDef]:
    """Flattens a function's result. Returns leaves and structure. `is_leaf` must not run Python code.

    JAX reads a list by borrowed references, which become invalid if another thread, or code that runs meanwhile,
    changes the list. So a list is copied first, and its contents are read while nothing else runs (with a GIL). JAX
    would warn of iterators that are not declared leaves.
    """
    return jax.tree.flatten(list(result) if type(result) is list else result, is_leaf=is_leaf)


def _on_host(result: Any) -> Any:
    try:
        leaves, tree = flatten_result(result)
        return tree.unflatten(map(_array_on_host, leaves))
    except (TypeError, ValueError):  # the result is no pytree; the caller raises the error
        return result


def _array_on_host(leaf: Any) -> Any:
    is_array = isinstance(leaf, jax.Array) and not jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended)
    return _jax_compat.unguarded(np.asarray, leaf) if is_array else leaf


def flattener(tree: PyTreeDef, label: str) -> Callable[[Any], Sequence[Any]]:
    """Returns a function that flattens results to the declared number of leaves, matched by name if they have names."""
    return functools.partial(_flatten, tree, label, [])


def _flatten(tree: PyTreeDef, label: str, known: list[named_results.Declared], result: Any) -> Sequence[Any]:
    """Returns the leaves of a result. `known` caches the declared names, which most callbacks do not need."""
    count = tree.num_leaves
    leaves, got = flatten_result(result)
    if len(leaves) == count:
        if named_results.is_same(tree, got) or named_results.is_flat(tree):
            return leaves
        if not known:
            known.append(named_results.Declared(tree))
        places = known[0].places_by_name(got)
        if places is not None:
            return [leaves[place] for place in places]
        raise errors.ResultError(
            f"callback '{label}': its result does not fit: expected structure {tree}, got {got}; names are matched, in "
            "any order, and these differ"
        )
    if count > 1 and named_results.is_flat(tree) and isinstance(result, tuple | list) and len(result) == count:
        return list(result)  # an item may be a list of numbers, which is an array
    if is_leaf(tree):
        return [result]  # the core raises the best error if it is no array
    got = jax.tree.structure(result) if result is not None else "None: did the function forget to return it?"
    raise errors.ResultError(f"callback '{label}': its result does not fit: expected structure {tree}, got {got}")


@functools.lru_cache(maxsize=64)
def _flat_call(count: int) -> PyTreeDef:
    return jax.tree.structure(((0,) * count, {}))


# These functions are not cached: a cache would compare and keep alive the contents of the user's classes, which may be
# arrays.


def is_flat_call(in_tree: PyTreeDef) -> bool:
    """Returns True if the leaves are the positional arguments."""
    return bool(in_tree == _flat_call(in_tree.num_leaves))


def is_leaf(tree: PyTreeDef) -> bool:
    """Returns True for a single leaf without a container."""
    return bool(tree.num_leaves == 1 and tree.num_nodes == 1)


def is_single_result(out_tree: PyTreeDef) -> bool:
    """Returns True if the expected result is one array, or none."""
    count = out_tree.num_leaves
    return bool(count == 0 or count == out_tree.num_nodes == 1)


@dataclasses.dataclass(frozen=True)
class TapKeywords:
    """The keywords that a tap's function gets besides the value."""

    device: bool = False
    transforms: bool = False
    index: bool = False
    transforms_by_position: bool = False  # the transforms are the second argument
    log_source: int = 0  # the logger's number, see `_base.loggers`

    def refuse(self) -> None:
        """Raises TypeError if any keyword is set, for targets that take none."""
        if self is not NO_KEYWORDS and self != NO_KEYWORDS:
            raise TypeError(
                "callout.tap: with_device, with_transforms and with_index are for Python functions, not for names and sinks"
            )


NO_KEYWORDS = TapKeywords()


def _is_function(target: Any) -> bool:
    return not isinstance(target, str) and callback_of(target) is None


def receivers(target: Any, wanted: TapKeywords) -> list[tuple[Any, TapKeywords]]:
    """Returns the targets to tap in order, with the keywords of each. In a tee, only functions get keywords."""
    branches = branches_of(target)
    if branches is None:
        return [(target, wanted)]
    if not any(map(_is_function, branches)):
        wanted.refuse()
    return [(branch, wanted if _is_function(branch) else NO_KEYWORDS) for branch in branches]


class CallTarget(SourceTarget):
    """Calls a Python function. `structure` begins with the trees of (args, kwargs) and of the declared results."""

    __slots__ = ()

    kind = "call"

    @property
    def signature(self) -> tuple[Any, ...]:
        in_tree, out_tree, x64 = self.structure[:3]
        return (str(in_tree), str(out_tree), x64, self.options)

    def callback(self, _: Transforms = ()) -> _ext.Callback:
        in_tree, out_tree, x64, ignore_result = self.structure[:4]
        fn, chosen = self.plain, self.options
        return _ext.make_python_callback(
            label=self.label,
            function=with_jax_arrays(fn, x64, ignore_result=ignore_result) if chosen.args == "jax" else fn,
            unflatten=None if is_flat_call(in_tree) else in_tree.unflatten,
            flatten=None if ignore_result else flattener(out_tree, self.label),
            single_result=is_single_result(out_tree),
            zero_copy=chosen.zero_copy,
            numpy_only=chosen.numpy_only,
            canonicalize=not x64,
        )


def call_target(
    callback: Callable[..., Any] | str, in_tree: PyTreeDef, out_tree: PyTreeDef, *, ignore_result: bool = False
) -> AnyTarget:
    """Returns the target of a call. `in_tree`: tree of (args, kwargs). `out_tree`: tree of the declared results."""
    if isinstance(callback, str):
        _require_positional(callback, in_tree)
        return NamedTarget(callback)
    if is_sink(callback):
        raise TypeError(f"callout: {callback!r} is a sink, which takes taps; it has no result to return")
    if not callable(callback):
        raise TypeError(f"callout: expected a callable or the name of a registered callback, got {callback!r}")
    fn, chosen = options.split(callback)
    x64 = _jax_compat.x64_enabled()
    structure = (in_tree, out_tree, x64, ignore_result) + _ARGS_IN_STRUCTURE[chosen.args]
    target = CallTarget(callback, structure, chosen.name or function_name(fn), fn, chosen)
    if chosen.memory == "device":
        target.device_call = DeviceCall(fn, in_tree, out_tree, x64, chosen.args == "jax", ignore_result)
    return target


def _index_lookup(tree: PyTreeDef) -> Callable[[Sequence[np.ndarray], Sequence[int]], Any]:
    """Returns a function (arrays, offsets) -> slices of the whole value, in the structure of the value."""

    def look_up(arrays: Sequence[np.ndarray], begins: Sequence[int]) -> Any:
        rest = iter(begins)
        slices = [tuple(slice(b := next(rest, 0), b + extent) for extent in array.shape) for array in arrays]
        return jax.tree.unflatten(tree, slices)

    return look_up


class TapTarget(SourceTarget):
    """Calls a Python function with a tapped value. `structure` begins with the tree of the value."""

    __slots__ = ()

    kind = "tap"

    @property
    def signature(self) -> tuple[Any, ...]:
        tree, wanted, x64 = self.structure[:3]
        return ("tap", str(tree), wanted, x64, self.options)

    def callback(self, transforms: Transforms = ()) -> _ext.Callback:
        tree, wanted, x64 = self.structure[:3]
        fn, chosen = self.plain, self.options
        return _ext.make_python_callback(
            label=self.label,
            function=with_jax_arrays(fn, x64, ignore_result=True) if chosen.args == "jax" and fn is not None else fn,
            unflatten_value=None if is_leaf(tree) else tree.unflatten,
            device_lookup=lifetime.device_of if wanted.device else None,
            index_lookup=_index_lookup(tree) if wanted.index else None,
            transforms=transforms if wanted.transforms else None,
            numpy_only=chosen.numpy_only,
            transforms_by_position=wanted.transforms_by_position,
            log_source=wanted.log_source,
        )


class FunctionByHandleTarget(TapTarget):
    """Calls the Python function whose handle a tap sends in front of the value. `plain` is None."""

    __slots__ = ()

    kind = "tap by handle"

    def callback(self, transforms: Transforms = ()) -> _ext.Callback:
        return super().callback(tuple(map(_without_handle, transforms)))


def _without_handle(transform: tuple[str, Any]) -> tuple[str, Any]:
    kind, details = transform
    return (kind, {"batch_dims": details["batch_dims"][1:]}) if kind == "batch" else transform


class SinkTarget(SourceTarget):
    """Sends records to a sink of the core's."""

    __slots__ = ()

    kind = "sink"

    def callback(self, _: Transforms = ()) -> _ext.Callback:
        sink: _ext.Callback = self.plain
        return sink


_OF_SINKS = options.Options(numpy_only=True)


def tap_target(target: Any, tree: PyTreeDef, wanted: TapKeywords) -> AnyTarget:
    """Returns the target of a tap. `tree`: tree of its value."""
    target = function_of(target)
    if (sink := callback_of(target)) is not None:
        wanted.refuse()
        return SinkTarget(target, None, sink.label, sink, _OF_SINKS)
    if isinstance(target, str):
        wanted.refuse()
        return NamedTarget(target)
    if not callable(target):
        raise TypeError(f"callout.tap: expected a callable, a sink or the name of a callback, got {target!r}")
    fn, chosen = options.split(target)
    structure = (tree, wanted, _jax_compat.x64_enabled()) + _ARGS_IN_STRUCTURE[chosen.args]
    return TapTarget(target, structure, chosen.name or function_name(fn), fn, chosen)


# An item of `structure` that distinguishes targets of one function after a change of `config.args`. It is pickled
# (`restored_target`).
_ARGS_IN_STRUCTURE: Mapping[str | None, tuple[str, ...]] = {"numpy": (), "jax": ("jax",)}


def _require_positional(name: str, in_tree: PyTreeDef) -> None:
    _, kwargs = in_tree.children()
    if kwargs.num_leaves:
        raise TypeError(
            f"callout: the callback registered as '{name}' takes positional arguments only; "
            "keyword arguments have no place in the program"
        )


def restored_target(kind: str, source: Any, structure: Any) -> AnyTarget:
    """Rebuilds a target from the `source` and `structure` of a "call" or "tap" target of another process."""
    if kind == "tap":
        tree, wanted, x64, *args = structure
        with jax.enable_x64(x64):
            return tap_target(options.with_args(source, *args or ("numpy",)), tree, wanted)
    in_tree, out_tree, x64, ignore_result, *args = structure
    with jax.enable_x64(x64):
        source = options.with_args(source, *args or ("numpy",))
        return call_target(source, in_tree, out_tree, ignore_result=ignore_result)
