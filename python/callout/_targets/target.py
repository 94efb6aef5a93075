# SPDX-License-Identifier: Apache-2.0
"""The `target` parameter of a primitive: a function with the structure of its arguments, or a name.

A target is the strong reference that keeps a callback alive while JAX's caches hold the traced program. JAX refers to
equation parameters weakly only if they are callable and support weak references, so targets do both.
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
from .._base.options import Options

# ("batch", {"batch_dims": (...)}) or ("transpose", {}): inner transformation first.
Transforms = tuple[tuple[str, Any], ...]


@dataclasses.dataclass(frozen=True)
class DeviceCall:
    """Data for `options(memory="device")` on devices whose memory is not the host's."""

    function: Callable[..., Any]
    in_tree: PyTreeDef
    out_tree: PyTreeDef
    x64: bool
    wants_jax: bool
    ignore_result: bool


class Target:
    """Makes one kind of callback from a function, sink or name. Equal targets are one object while they live."""

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
        make: Callable[[Transforms], _ext.Callback],
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
        self.source: Any = None  # the function or sink; see `interned`
        self.structure: Any = None  # hashable
        self._callbacks: dict[str, _ext.Callback] = {}
        self._bindings: dict[str, _ext.Binding] = {}
        self._bound: dict[str, Transforms] = {}  # by the bindings' names

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
        """Returns the user's code that binds a function of this kind to a name, for errors."""
        if self.kind == "buffer":
            return "callout.register(name, callout.buffer_callback(fn, result_shape_dtypes))"
        return "callout.register(name, fn)"

    @property
    def kind(self) -> str:
        """Returns the `kind` of `interned`, or another word for a target from elsewhere."""
        return str(self._key[0]) if isinstance(self._key, tuple) else ""

    def for_programs(self) -> Target:
        """Returns the target for a program's parameter: the live object that equals this target."""
        return self

    def callback(self, transforms: Transforms = ()) -> _ext.Callback:
        """Returns the core's callback, made at the first use. The target lives as long as any program that uses it."""
        key = repr(transforms)
        callback = self._callbacks.get(key)
        if callback is None:
            callback = self._callbacks[key] = self.make(transforms)
        return callback

    def bind(self, transforms: Transforms = ()) -> str:
        """Binds a name for programs, and returns it: the function's name, and a digest of how it is called.

        The name is bound while the target lives.
        """
        key = repr(transforms)
        if key not in self._bindings:
            digest = hashlib.sha256(repr(self.signature).encode()).hexdigest()[:8]
            self._bindings[key] = _ext.Binding(f"{self.label}/{digest}", self.callback(transforms))
            self._bound[self._bindings[key].name] = transforms
            _by_name[self._bindings[key].name] = self
        return self._bindings[key].name

    def exported_name(self, where: str, transforms: Transforms = ()) -> str:
        """Returns the name for an exported program. Raises ValueError if other processes could not bind the name."""
        del transforms
        raise ValueError(
            f"{where}: an exported program carries names, and '{self.label}' was not passed as one: bind it by "
            f"{self._registration()}, in the process that loads the program, and pass the name here"
        )

    def is_held_by_programs(self, name: str) -> bool:
        """Returns True if `name`, from `bind`, is valid only while the target lives."""
        del name
        return True

    def is_python(self) -> bool:
        """Returns True if the callback takes the GIL."""
        return not self.callback().is_native


class SourceTarget:
    """The target of one call or tap. `source` is a function or a sink, and `plain` the source without its `options`.

    Each call and each tap makes one, so construction must be cheap; programs share `for_programs`. A subclass sets
    `kind`, and makes the core's callback and the signature from the source.
    """

    __slots__ = ("device_call", "device_index", "label", "options", "plain", "source", "structure")

    kind: str

    def __init__(self, source: Any, structure: Any, label: str, plain: Any, options: Options):
        self.source = source
        self.structure = structure
        self.label = label
        self.plain = plain
        self.options = options
        self.device_index = options.device_index or 0
        self.device_call: DeviceCall | None = None

    @property
    def signature(self) -> tuple[Any, ...]:
        """Returns how the source is called. The digest in the name from `bind` is computed of this."""
        return ()

    def callback(self, transforms: Transforms = ()) -> _ext.Callback:
        """Makes the core's callback."""
        raise NotImplementedError

    def for_programs(self) -> Target:
        """Returns the target for a program's parameter: the live object, or a new one."""
        return interned(self.kind, self.source, self.structure, self._keyed)

    def _keyed(self, key: Hashable) -> Target:
        chosen = self.options
        return Target(
            key,
            self.label,
            chosen.numpy_only,
            self.callback,
            self.signature,
            self.device_index,
            self.device_call,
            may_run_in_caller=chosen.may_run_in_caller,
        )


AnyTarget = Target | SourceTarget


# The names that were registered with options(numpy_only=True).
numpy_only_names: set[str] = set()


class NamedTarget(Target):
    """A registered name, which the process that runs the program looks up."""

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
        return False  # the registry holds it

    def is_python(self) -> bool:
        # A program may be traced before the name is bound; compiling it then fails with the name in the text.
        return self.label in _ext.registered_names() and super().is_python()


class EmbeddedTarget(NamedTarget):
    """A name that embeds the whole callback, so that it needs no binding in any process."""

    __slots__ = ()

    def is_python(self) -> bool:
        return False


_T = TypeVar("_T", bound=Target)
_targets: weakref.WeakValueDictionary[Hashable, Target] = weakref.WeakValueDictionary()
_by_name: weakref.WeakValueDictionary[str, Target] = weakref.WeakValueDictionary()


def _identity(fn: Any) -> Hashable:
    """Returns a key that does not refer to the function, so that a cycle through a target and its function is collectable.

    An identity is unique while its target holds the function.
    """
    if isinstance(fn, types.MethodType):
        return ("method", id(fn.__self__), id(fn.__func__))
    return id(fn)


def _hashable(fn: Any) -> Any:
    hash(fn)
    return fn


def _texts_of_trees(structure: Hashable) -> tuple[str, ...]:
    """Returns texts that distinguish equal trees, because a callback sees whether a key is 1, True or 1.0."""
    parts = structure if isinstance(structure, tuple) else ()
    return tuple(str(part) for part in parts if isinstance(part, PyTreeDef) and part.num_nodes > 1)


def interned(kind: str, fn: Any, structure: Hashable, make: Callable[[Hashable], _T]) -> _T:
    """Returns the live target of `fn` and `structure`, or makes one by `make(key)`."""
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
    """Returns the live target of a name that is valid in this process alone, and the name's transformations."""
    target = _by_name.get(name)
    return None if target is None else (target, target._bound[name])


@functools.lru_cache(maxsize=64)
def embedded_target(text: str) -> EmbeddedTarget:
    """Returns the target of a name that embeds the callback, "kind:payload"."""
    return EmbeddedTarget(text)
