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
from collections.abc import Callable, Hashable
from typing import Any, NoReturn, TypeVar, cast

from jax.tree_util import PyTreeDef

from .. import _ext

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
    """Makes one function (or sink, or name) one kind of callback. Equal targets are one object while they live."""

    __slots__ = (
        "__weakref__",
        "_bindings",
        "_bound",
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
        self._bound: dict[str, Transforms] = {}  # by the names of the bindings

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
            f"{self._registration()}, here and in the process that loads the program, and pass the name"
        )

    def _registration(self) -> str:
        """Returns how a function of this kind is bound to a name."""
        if self.kind == "buffer":
            return "callout.register(name, callout.buffer_callback(fn, result_shape_dtypes))"
        return "callout.register(name, fn)"

    @property
    def kind(self) -> str:
        """Returns the first of what `interned` was given; another word for a target that it did not make."""
        return str(self._key[0]) if isinstance(self._key, tuple) else ""

    def callback(self, transforms: Transforms = ()) -> _ext.Callback:
        """Returns the core's object, made when it is first needed. A target lives as long as any program that uses it."""
        key = repr(transforms)
        if key not in self._callbacks:
            self._callbacks[key] = self.make(transforms)
        return self._callbacks[key]

    def bind(self, transforms: Transforms = ()) -> str:
        """Returns the name that goes into the program: the function's, and a digest of how it is called.

        It is this target's until it dies, and then free.
        """
        key = repr(transforms)
        if key not in self._bindings:
            digest = hashlib.sha256(repr(self.signature).encode()).hexdigest()[:8]
            self._bindings[key] = _ext.Binding(f"{self.label}/{digest}", self.callback(transforms))
            self._bound[self._bindings[key].name] = transforms
            _by_name[self._bindings[key].name] = self
        return self._bindings[key].name

    def exported_name(self, where: str, transforms: Transforms = ()) -> str:
        """Does what `bind` does, for a program that other processes load. ValueError if it would not mean the same there."""
        del transforms
        raise ValueError(
            f"{where}: an exported program carries names, and '{self.label}' was not passed as one: bind it by "
            f"{self._registration()}, in the process that loads the program, and pass the name here"
        )

    def is_held_by_programs(self, name: str) -> bool:
        """Returns True if `name`, which `bind` returned, is good only while this lives."""
        del name
        return True

    def is_python(self) -> bool:
        """Returns True if running it takes the GIL."""
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

    def is_held_by_programs(self, name: str) -> bool:
        del name
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
_by_name: weakref.WeakValueDictionary[str, Target] = weakref.WeakValueDictionary()


def _identity(fn: Any) -> Hashable:
    """Returns a key that does not refer to the function: a cycle through a target and its function must stay collectable.

    An identity is not used again while the target that it leads to holds its function.
    """
    if isinstance(fn, types.MethodType):
        return ("method", id(fn.__self__), id(fn.__func__))
    return id(fn)


def _hashable(fn: Any) -> Any:
    hash(fn)
    return fn


def _texts_of_trees(structure: Hashable) -> tuple[str, ...]:
    """Returns what tells trees apart that are equal: a callback sees whether a key is 1, True or 1.0."""
    parts = structure if isinstance(structure, tuple) else ()
    return tuple(str(part) for part in parts if isinstance(part, PyTreeDef) and part.num_nodes > 1)


def interned(kind: str, fn: Any, structure: Hashable, make: Callable[[Hashable], _T]) -> _T:
    """Returns the live target of `fn` and `structure`, or what `make` makes of its key."""
    trees = _texts_of_trees(structure)
    key = (kind, _identity(fn), structure, trees)
    target: Any = _targets.get(key)
    if target is None:
        try:
            target = make((kind, _hashable(fn), structure, trees))
        except TypeError:  # unhashable: equal only to itself
            target = make((kind, id(fn), structure, trees))
        target.source, target.structure = fn, structure
        _targets[key] = target
    return cast("_T", target)


def bound_target(name: str) -> tuple[Target, Transforms] | None:
    """Returns the live target that goes by a name in this process alone, and the transformations that the name is for."""
    target = _by_name.get(name)
    return None if target is None else (target, target._bound[name])


@functools.lru_cache(maxsize=64)
def carried_target(text: str) -> CarriedTarget:
    """Returns the target of a name that says itself what it does, "kind:payload"."""
    return CarriedTarget(text)
