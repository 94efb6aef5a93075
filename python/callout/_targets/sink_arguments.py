# SPDX-License-Identifier: Apache-2.0
"""Sinks as arguments of programs: a pytree whose one leaf is the sink's handle.

A function that JAX traces gets a sink that only has a handle. A tap of such a sink sends the handle in front of the
value, and the delivery thread finds the sink by the handle. So one compiled program sends to any number of sinks. A
sink that the function captures is a part of the program instead, like a captured Python function.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Hashable
from typing import Any, ClassVar

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from .. import _ext, _jax_compat
from .._base import options
from .function_targets import FunctionByHandleTarget, TapKeywords, with_jax_arrays
from .handles import HandleType, Owned, owned_by_leaf, owned_by_words
from .sink import Sink
from .target import AnyTarget, embedded_target

_SINK, _FUNCTION = HandleType("sinks", "sink"), HandleType("sinks.Function", "sink_function")


class ArgumentSink(Sink):
    """A sink that programs take as an argument: the sink itself, or its form and handle inside a program."""

    _callout_type: ClassVar[HandleType]
    """The dtype of its handles."""
    _callout_leaf: Any = None
    """The handle, which is made at its first use."""
    _callout_owned: Owned | None = None
    """The owner that keeps the handle valid. None inside a program."""
    _callout_form: Any = None
    """The static part of the sink, which a program is compiled for."""

    def __init_subclass__(cls) -> None:
        jax.tree_util.register_pytree_node(cls, _flatten, functools.partial(_unflatten, cls))

    def _own(self) -> Any:
        """Returns the core's owner of a new handle."""
        raise NotImplementedError

    def _form(self) -> Hashable:
        """Returns the static part of the sink. A compiled program takes all sinks of one class and form."""
        raise NotImplementedError

    def _take_form(self, form: Any) -> None:
        """Sets the attributes from the form."""

    def _routed_target(self, tree: PyTreeDef, wanted: TapKeywords) -> AnyTarget:
        """Returns the target of a tap that sends the handle in front of a value with the structure `tree`."""
        raise NotImplementedError

    def _default_name(self) -> str | None:
        """Returns the default name of a program's taps to this sink."""
        return None

    @property
    def handle(self) -> np.ndarray:
        """Returns the handle, uint32[4], which an exported program takes in the place of this sink.

        Raises:
            TypeError: the call is inside of a program.
        """
        (leaf,), _ = _flatten(self)
        if isinstance(leaf, jax.core.Tracer):
            raise TypeError(
                f"callout.sinks.{type(self).__name__}.handle inside a function that JAX traces: it is for the host"
            )
        return np.array(self._callout_type.words(leaf, "handle"), np.uint32)

    def _is_in_program(self) -> bool:
        """Returns whether this object is inside a traced function, and only has a form and a handle."""
        return self._callout_owned is None and isinstance(self._callout_leaf, jax.core.Tracer)

    def _find(self) -> bool:
        """Makes this object, which a program has returned, the sink of its handle. Returns False if the sink is gone."""
        if self._callout_owned is None and self._callout_leaf is not None and not self._is_in_program():
            owned = owned_by_words(self._callout_type.words(self._callout_leaf, type(self).__name__))
            if owned is not None:
                vars(self).update(owned.state)
                self._callout_owned = owned
        return self._callout_owned is not None


_making = threading.Lock()  # two handles of one sink would be a handle without an owner


def _flatten(sink: ArgumentSink) -> tuple[tuple[Any], Any]:
    if sink._callout_leaf is None:
        with _making:
            _make_handle(sink)
    return (sink._callout_leaf,), sink._callout_form


def _make_handle(sink: ArgumentSink) -> None:
    if sink._callout_leaf is not None:
        return  # by another thread
    sink._callout_form = sink._form()
    state = dict(vars(sink))  # without the owner, which would keep itself
    sink._callout_owned = Owned(sink._own(), sink._callout_type, state)
    sink._callout_leaf = sink._callout_owned.leaf


def _unflatten(cls: type[ArgumentSink], form: Any, leaves: tuple[Any]) -> ArgumentSink:
    made = object.__new__(cls)
    made._callout_owned = owned_by_leaf(leaves[0])
    if made._callout_owned is not None:
        vars(made).update(made._callout_owned.state)
    else:
        made._take_form(form)
    made._callout_leaf, made._callout_form = leaves[0], form
    return made


def sink_in_program(target: Any) -> ArgumentSink | None:
    """Returns the target if it is a sink inside a program. None for sinks outside, and for other targets.

    Raises:
        ValueError: the target has the handle of a sink that is gone.
    """
    if not issubclass(type(target), ArgumentSink) or target._callout_leaf is None or target._callout_owned is not None:
        return None
    if not target._is_in_program() and not target._find():
        raise ValueError(
            f"callout.tap: the sink of this {type(target).__name__} is gone, because nothing in Python refers to it any "
            "more: keep the sink that was made"
        )
    return target if target._is_in_program() else None


def routed_target(sink: ArgumentSink, tree: PyTreeDef, wanted: TapKeywords) -> tuple[AnyTarget, Any]:
    """Returns the target of a tap to a sink in a program, and the operand for the handle, u32[4]."""
    return sink._routed_target(tree, wanted), sink._callout_type.data(sink._callout_leaf)


def with_handle(tree: PyTreeDef) -> PyTreeDef:
    """Returns the structure of (handle, value)."""
    return jax.tree_util.treedef_tuple((jax.tree.structure(0), tree))


class CoreSink(ArgumentSink):
    """A sink that is implemented by the core."""

    _callout_type = _SINK
    _SHAPES: ClassVar[tuple[str, ...]] = ()
    """The attributes that `_callout_check` reads, which are part of the form."""
    _core: _ext.Callback | None = None
    _label: str

    @property
    def _callout_callback(self) -> _ext.Callback | None:  # type: ignore[override]
        if self._core is None:
            self._find()
        return self._core

    def _own(self) -> Any:
        assert self._core is not None
        return _ext.SinkOwner(self._core)

    def _form(self) -> Hashable:
        assert self._core is not None
        return (self._core.label, *(getattr(self, name) for name in self._SHAPES))

    def _take_form(self, form: Any) -> None:
        self._label, *values = form
        for name, value in zip(self._SHAPES, values, strict=True):
            setattr(self, name, value)

    def _default_name(self) -> str:
        return self._label

    def _routed_target(self, tree: PyTreeDef, wanted: TapKeywords) -> AnyTarget:
        del tree
        wanted.refuse()
        return embedded_target(f"sink:{self._label}")

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute of the sink that a program has returned. Raises AttributeError in a program."""
        if not name.startswith("__") and self._core is None and self._find():
            return getattr(self, name)
        why = ": inside of a program a sink takes taps, and nothing else" if self._is_in_program() else ""
        raise AttributeError(f"callout.sinks.{type(self).__name__} has no attribute {name!r}{why}")


class FunctionSink(ArgumentSink):
    """A sink that is a Python function."""

    _callout_type = _FUNCTION

    def _own(self) -> Any:
        function, chosen = options.split(self._callout_function)
        if chosen.args == "jax":
            function = with_jax_arrays(function, _jax_compat.x64_enabled(), ignore_result=True)
        return _ext.FunctionOwner(function)

    def _form(self) -> Hashable:
        return options.split(self._callout_function)[1]

    def _routed_target(self, tree: PyTreeDef, wanted: TapKeywords) -> AnyTarget:
        chosen: options.Options = self._callout_form
        structure = (tree, wanted, _jax_compat.x64_enabled())
        return FunctionByHandleTarget(
            _stand_in(chosen), structure, chosen.name or "callout.sinks.Function", None, chosen
        )


@functools.cache
def _stand_in(chosen: options.Options) -> Any:
    """Returns the object that represents all functions with these options when targets are compared."""
    return options.FunctionWithOptions(FunctionSink, chosen)
