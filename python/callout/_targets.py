# SPDX-License-Identifier: Apache-2.0
"""What a primitive's `target` parameter is: a function with the structure of its arguments, or a name.

A target is the strong reference that keeps a callback alive while JAX's caches know the traced program. JAX holds equation
parameters weakly only if they are callable and can be weakly referenced, so targets are both.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pickle
import types
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NoReturn, TypeVar, cast

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from . import _errors, _ext, _jax_compat, _options, _runtime

# Where callbacks run.
PLATFORMS = ("cpu", "cuda")

# ("batch", {"batch_dims": (...)}) or ("transpose", {}): inner transformation first.
Transforms = tuple[tuple[str, Any], ...]


@dataclasses.dataclass(frozen=True)
class DeviceCall:
    """What `options(memory="device")` needs besides the target, for devices whose memory is not the host's."""

    function: Callable[..., Any]
    in_tree: PyTreeDef
    out_tree: PyTreeDef
    x64: bool
    wants_jax: bool
    ignore_result: bool


class Target:
    """One function (or sink, or name) as one kind of callback. Equal targets are one object while they live."""

    __slots__ = (
        "__weakref__",
        "_bindings",
        "_callbacks",
        "_key",
        "device_call",
        "device_index",
        "label",
        "make",
        "may_run_in_caller",
        "numpy_only",
        "signature",
        "source",
        "structure",
    )

    def __init__(
        self,
        key: Hashable,
        label: str,
        numpy_only: bool,
        make: Callable[[Any], _ext.Callback],
        signature: tuple[Any, ...] = (),
        device_index: int = 0,
        device_call: DeviceCall | None = None,
        *,
        may_run_in_caller: bool = False,
    ):
        self._key = key
        self.label = label
        self.numpy_only = numpy_only
        self.may_run_in_caller = may_run_in_caller
        self.device_index = device_index
        self.device_call = device_call
        self.make = make
        self.signature = signature
        self.source: Any = None  # what it was made of, with `structure`: see `interned`
        self.structure: Hashable = None
        self._callbacks: dict[str, _ext.Callback] = {}
        self._bindings: dict[str, _ext.Binding] = {}

    def __call__(self, *_: Any) -> None:
        raise NotImplementedError("a target is called by the compiled program")

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and self._key == other._key

    def __repr__(self) -> str:
        return self.label

    def __reduce__(self) -> NoReturn:
        raise pickle.PicklingError(
            f"callout: '{self.label}' belongs to this process, and so does a compiled program that calls it. Bind it by "
            "callout.register(name, fn), here and in the process that loads the program, and pass the name"
        )

    def callback(self, transforms: Transforms = ()) -> _ext.Callback:
        """The core's object, made when it is first needed. A target lives as long as any program that uses it."""
        key = repr(transforms)
        if key not in self._callbacks:
            self._callbacks[key] = self.make(transforms)
        return self._callbacks[key]

    def bind(self, transforms: Transforms = ()) -> str:
        """The name that goes into the program: the function's, and a digest of how it is called.

        It is this target's until it dies, and then free.
        """
        key = repr(transforms)
        if key not in self._bindings:
            digest = hashlib.sha256(repr(self.signature).encode()).hexdigest()[:8]
            self._bindings[key] = _ext.Binding(f"{self.label}/{digest}", self.callback(transforms))
        return self._bindings[key].name

    def exported_name(self, where: str, transforms: Transforms = ()) -> str:
        """As `bind`, for a program that other processes load. ValueError if it would not mean the same there."""
        del transforms
        raise ValueError(
            f"{where}: an exported program carries names, and '{self.label}' was not passed as one: bind it by "
            "callout.register(name, fn), in the process that loads the program, and pass the name here"
        )

    def is_held_by_programs(self) -> bool:
        """True if the name that `bind` returned is good only while this lives."""
        return True

    def is_python(self) -> bool:
        """True if running it takes the GIL."""
        return not self.callback().is_native


# Names registered with options(numpy_only=True).
numpy_only_names: set[str] = set()


class NamedTarget(Target):
    """A registered name: looked up when the program is compiled, and again by whoever loads it elsewhere."""

    __slots__ = ()

    def __init__(self, name: str):
        super().__init__(("name", name), name, name in numpy_only_names, make=lambda _: _ext.find(name))

    def callback(self, _: Transforms = ()) -> _ext.Callback:
        return _ext.find(self.label)

    def bind(self, _: Transforms = ()) -> str:
        return self.label

    def exported_name(self, where: str, transforms: Transforms = ()) -> str:
        del where
        return self.bind(transforms)

    def is_held_by_programs(self) -> bool:
        return False  # but by the registry

    def is_python(self) -> bool:
        # A program may be traced before the name is bound; compiling it then fails with the name in the text.
        return self.label in _ext.registered_names() and super().is_python()


class CarriedTarget(NamedTarget):
    """A name that says itself what it does: nobody binds it, and programs carry it anywhere."""

    __slots__ = ()

    def is_python(self) -> bool:
        return False


_T = TypeVar("_T", bound=Target)
_targets: weakref.WeakValueDictionary[Hashable, Target] = weakref.WeakValueDictionary()


def _identity(fn: Any) -> Hashable:
    """A key that does not refer to the function: a target may be part of a cycle through it, which must stay collectable.

    An identity is not used again while the target that it leads to holds its function.
    """
    if isinstance(fn, types.MethodType):
        return ("method", id(fn.__self__), id(fn.__func__))
    return id(fn)


def _hashable(fn: Any) -> Any:
    hash(fn)
    return fn


def interned(kind: str, fn: Any, structure: Hashable, make: Callable[[Hashable], _T]) -> _T:
    """The live target of `fn` and `structure`, or what `make` makes of its key."""
    key = (kind, _identity(fn), structure)
    target: Any = _targets.get(key)
    if target is None:
        try:
            target = make((kind, _hashable(fn), structure))
        except TypeError:  # unhashable: equal only to itself
            target = make((kind, id(fn), structure))
        target.source, target.structure = fn, structure
        _targets[key] = target
    return cast("_T", target)


def function_name(fn: Callable[..., Any]) -> str:
    """Name of a function that is the same in every process: "module.qualname", with the line for a lambda."""
    inner = fn
    while hasattr(inner, "func") and hasattr(inner, "keywords"):  # functools.partial
        inner = inner.func
    module = getattr(inner, "__module__", None) or type(inner).__module__
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    code = getattr(inner, "__code__", None)
    if code is not None and "<lambda>" in name:
        name += f":{code.co_firstlineno}"
    return f"{module}.{name}"


def with_jax_arrays(fn: Callable[..., Any], x64: bool) -> Callable[..., Any]:
    """`fn` with `jax.Array`s. With `jax_enable_x64` as it was traced: what a thread set it to does not hold in others."""

    def call_with_jax_arrays(*args: Any, **kwargs: Any) -> Any:
        with jax.enable_x64(x64):
            args, kwargs = jax.tree.map(jax.numpy.asarray, (args, kwargs))
            return fn(*args, **kwargs)

    return call_with_jax_arrays


def _is_iterator(value: Any) -> bool:
    """No array, nor a structure of them; JAX warns of it if it is not told."""
    return isinstance(value, Iterator)


def flattener(tree: PyTreeDef, label: str) -> Callable[[Any], Sequence[Any]]:
    """The leaves of a result, in any structure that has as many as were declared, as with JAX."""
    count = tree.num_leaves
    is_single = tree == jax.tree.structure(0)
    is_flat = count > 1 and tree == jax.tree.structure((0,) * count)

    def flatten(result: Any) -> Sequence[Any]:
        leaves: list[Any] = jax.tree.leaves(result, is_leaf=_is_iterator)
        if len(leaves) == count:
            return leaves
        if is_flat and isinstance(result, tuple | list) and len(result) == count:
            return list(result)  # lists of numbers among them are arrays
        if is_single:
            return [result]  # the core knows best why it is none
        raise _errors.ResultError(
            f"callback '{label}': its result does not fit: expected structure {tree}, got {jax.tree.structure(result)}"
        )

    return flatten


@functools.lru_cache(maxsize=1024)
def is_flat_call(in_tree: PyTreeDef) -> bool:
    """True if the leaves are the positional arguments."""
    return bool(in_tree == jax.tree.structure(((0,) * in_tree.num_leaves, {})))


@functools.lru_cache(maxsize=1024)
def is_single_result(out_tree: PyTreeDef) -> bool:
    """True if one array or nothing is expected."""
    return bool(out_tree.num_leaves == 0 or out_tree == jax.tree.structure(0))


@dataclasses.dataclass(frozen=True)
class TapKeywords:
    """Which keywords a tap's function wants besides the value."""

    device: bool = False
    transforms: bool = False
    index: bool = False
    transforms_by_position: bool = False  # they are its second argument
    log_source: int = 0  # its logger's number, see `_logging`

    def refuse(self) -> None:
        """For targets that take none."""
        if self != TapKeywords():
            raise TypeError(
                "callout.tap: with_device, with_transforms and with_index are for Python functions, not for names and sinks"
            )


def call_target(
    callback: Callable[..., Any] | str, in_tree: PyTreeDef, out_tree: PyTreeDef, *, ignore_result: bool = False
) -> Target:
    """The target of a call. `in_tree`: of (args, kwargs). `out_tree`: of the declared results."""
    if isinstance(callback, str):
        _require_positional(callback, in_tree)
        return NamedTarget(callback)
    handle = getattr(callback, "_callout_callback", None)
    if handle is not None:
        raise TypeError(f"callout: {callback!r} is a sink, which takes taps; it has no result to return")
    if not callable(callback):
        raise TypeError(f"callout: expected a callable or the name of a registered callback, got {callback!r}")
    fn, chosen = _options.split(callback)
    x64 = _jax_compat.x64_enabled()
    label = chosen.name or function_name(fn)
    flat_args = is_flat_call(in_tree)

    def make(_: Transforms) -> _ext.Callback:
        return _ext.make_python_callback(
            label=label,
            function=with_jax_arrays(fn, x64) if chosen.args == "jax" else fn,
            unflatten=None if flat_args else in_tree.unflatten,
            unflatten_value=None,
            flatten=None if ignore_result else flattener(out_tree, label),
            single_result=is_single_result(out_tree),
            device_lookup=None,
            index_lookup=None,
            transforms=None,
            zero_copy=chosen.zero_copy,
            numpy_only=chosen.numpy_only,
            canonicalize=not x64,
        )

    return interned(
        "call",
        callback,
        (in_tree, out_tree, x64, ignore_result),
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
    """(arrays, where they begin) -> their slices of the whole value, in the structure of the value."""

    def look_up(arrays: Sequence[np.ndarray], begins: Sequence[int]) -> Any:
        rest = iter(begins)
        slices = [tuple(slice(b := next(rest, 0), b + extent) for extent in array.shape) for array in arrays]
        return jax.tree.unflatten(tree, slices)

    return look_up


def tap_target(target: Any, tree: PyTreeDef, wanted: TapKeywords) -> Target:
    """The target of a tap. `tree`: of its value."""
    target = getattr(target, "_callout_function", target)
    if isinstance(target, str) or hasattr(target, "_callout_callback"):
        wanted.refuse()
    if isinstance(target, str):
        return NamedTarget(target)
    handle: _ext.Callback | None = getattr(target, "_callout_callback", None)
    if handle is not None:
        sink = handle
        return interned("sink", target, None, lambda key: Target(key, sink.label, True, lambda _: sink))
    if not callable(target):
        raise TypeError(f"callout.tap: expected a callable, a sink or the name of a callback, got {target!r}")
    fn, chosen = _options.split(target)
    label = chosen.name or function_name(fn)
    x64 = _jax_compat.x64_enabled()

    def make(transforms: Transforms) -> _ext.Callback:
        return _ext.make_python_callback(
            label=label,
            function=with_jax_arrays(fn, x64) if chosen.args == "jax" else fn,
            unflatten=None,
            unflatten_value=None if tree == jax.tree.structure(0) else tree.unflatten,
            flatten=None,
            single_result=True,
            device_lookup=_runtime.device_of if wanted.device else None,
            index_lookup=_index_lookup(tree) if wanted.index else None,
            transforms=transforms if wanted.transforms else None,
            zero_copy=False,
            numpy_only=chosen.numpy_only,
            canonicalize=False,
            transforms_by_position=wanted.transforms_by_position,
            log_source=wanted.log_source,
        )

    return interned(
        "tap",
        target,
        (tree, wanted, x64),
        lambda key: Target(key, label, chosen.numpy_only, make, ("tap", str(tree), wanted, x64, chosen)),
    )


def _require_positional(name: str, in_tree: PyTreeDef) -> None:
    _, kwargs = in_tree.children()
    if kwargs.num_leaves:
        raise TypeError(
            f"callout: the callback registered as '{name}' takes positional arguments only; "
            "keyword arguments have no place in the program"
        )


@functools.lru_cache(maxsize=64)
def carried_target(text: str) -> CarriedTarget:
    """The target of a name that says itself what it does, "kind:payload"."""
    return CarriedTarget(text)
