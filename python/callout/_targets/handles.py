# SPDX-License-Identifier: Apache-2.0
"""Handles: the leaves that represent host objects in pytrees, and so in programs.

A handle is a typed key of JAX's, with a dtype for each kind of object: JAX rejects arithmetic and conversion to
numbers, and `vmap` maps whole handles. The core destroys an object when its owner has been destroyed and the programs
that were dispatched before have ended.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, NoReturn

import jax
import numpy as np
from jax.extend.random import define_prng_impl

from .. import _ext, _jax_compat
from .._base import tokens
from .._base.barrier import drain

_KEPT = 64  # objects without an owner that start a check whether their programs have ended


def _no_key(*_: Any, **__: Any) -> NoReturn:
    raise TypeError("callout: this array has handles of objects of the host, and no random keys")


_types: dict[str, HandleType] = {}


class HandleType:
    """The dtype of the handles of one kind of object."""

    def __init__(self, name: str, tag: str) -> None:
        self.name = name
        self._dtype = f"key<{tag}>"
        _types[self._dtype] = self
        self.implementation = define_prng_impl(
            key_shape=(4,),
            seed=_no_key,
            split=_no_key,
            random_bits=_no_key,
            fold_in=_no_key,
            name=f"callout.{name}",
            tag=tag,
        )

    def data(self, leaf: Any) -> Any:
        """Returns the handles' words, u32[..., 4], inside a program. Raises TypeError for a leaf of another dtype."""
        if str(getattr(leaf, "dtype", None)) != self._dtype:
            raise TypeError(f"callout.{self.name}: its leaf must be its handle, got {leaf!r}")
        return jax.random.key_data(leaf)

    def words(self, leaf: Any, what: str) -> list[int]:
        """Returns the words of one handle, outside of programs. `what`: the caller's name in errors."""
        words = np.asarray(self.data(leaf))
        if words.shape != (4,):
            raise TypeError(
                f"callout.{self.name}.{what}: it holds handles of the shape {words.shape[:-1]}: jax.vmap maps it"
            )
        return [int(word) for word in words]


def is_handle(leaf: Any) -> str:
    """Returns the name of the kind of object if the leaf is a handle; "" for other values."""
    kind = _types.get(str(getattr(leaf, "dtype", None)))
    return "" if kind is None else kind.name


def wrap(words: Any, like: Any) -> Any:
    """Returns a leaf like `like`, with other words, u32[4]."""
    return jax.random.wrap_key_data(words, impl=_types[str(like.dtype)].implementation)


class Owned:
    """Owns a host object and its leaf. `state`: attributes that copies of the Python object share."""

    __slots__ = ("__weakref__", "leaf", "owner", "state")

    def __init__(self, owner: Any, kind: HandleType, state: Any = None) -> None:
        self.owner = owner
        self.state = state
        words: Any = np.array(owner.words, np.uint32)
        with jax.ensure_compile_time_eval():
            self.leaf: Any = _jax_compat.unguarded(lambda: jax.random.wrap_key_data(words, impl=kind.implementation))
        _by_leaf[id(self.leaf)] = self
        _by_words[tuple(owner.words)] = self
        _free_in_background()


_by_leaf: weakref.WeakValueDictionary[int, Owned] = weakref.WeakValueDictionary()
_by_words: weakref.WeakValueDictionary[tuple[int, ...], Owned] = weakref.WeakValueDictionary()


def owned_by_leaf(leaf: Any) -> Owned | None:
    """Returns the owner that made this leaf. None for results of programs, and for leaves of other processes."""
    owned = _by_leaf.get(id(leaf))
    return owned if owned is not None and owned.leaf is leaf else None


def owned_by_words(words: list[int]) -> Owned | None:
    """Returns the living owner of the object with this handle."""
    return _by_words.get(tuple(words))


_freeing = threading.Lock()


def _free_in_background() -> None:
    """Drops objects without an owner in a background thread, when no program can use them any more.

    `barrier_wait` drops them, too. A token cannot be polled, so one other thread waits for the programs.
    """
    _, kept = _ext.retired_handles()
    if kept < _KEPT or not _freeing.acquire(blocking=False):
        return

    def free() -> None:
        try:
            free_retired()
        finally:
            _freeing.release()

    _ext.call_with_timeout(free, 0.0)


def free_retired() -> None:
    """Waits for the current programs and records, and drops the objects that had no owner before."""
    ever, _ = _ext.retired_handles()
    tokens.wait_for_pending()
    drain()
    _ext.free_handles(ever)
