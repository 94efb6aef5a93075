# SPDX-License-Identifier: Apache-2.0
"""JAX's fast path, on which C++ dispatches a jitted function from its second call on, for programs with callbacks.

Two things are missing there. An error is a ValueError with a text, of which `_base.errors` makes what it is at the first
call. And JAX keeps programs with effects away from it, because it makes no tokens for them, which
`jax.effects_barrier` and `callout.barrier_wait` wait for. Those whose effects are ours, and unordered, are let in: the tree
of their results has a node of ours at one result, which is called when C++ makes the tree, and takes that result for a
token. A program's results are there when it has ended, and not before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from .. import _ext, _jax_compat
from .._base import errors, programs, tokens
from .._base.patches import Place
from .._primitives import effects

MAX_KEPT_BYTES = 1 << 20
"""A result that stands for a token lives until the thread's next program with callbacks, or a barrier."""


def wait_for(end: _ext.ProgramEnd) -> None:
    """Waits for a program's end; raises what it failed with, once, as JAX's token does. Called by the core."""
    result: Any = end.result
    if result is None:
        return
    try:
        result.block_until_ready()
    except Exception:
        end.result = None
        if not result.is_deleted():
            raise
        # It was donated to a later program: of this thread, as a rule, whose programs end in their order.
        programs.wait_on_each_device()
    end.result = None


class _Node:
    """Stands for a result in the tree of a program's results. C++ makes none: it calls `mark_end`, and gets the result."""

    __slots__ = ("marker", "result")

    def __init__(self, result: Any, marker: _ext.EndMarker):
        self.result = result
        self.marker = marker

    def __getattr__(self, name: str) -> Any:
        if name in _Node.__slots__:  # while it is made
            raise AttributeError(name)
        return getattr(self.result, name)  # PRNG keys look at what they are made of


def _flatten(node: _Node) -> tuple[tuple[Any], _ext.EndMarker]:
    return (node.result,), node.marker


def _fast_path_data(original: Any, executable: Any, out_tree: Any, args: Any, out: Any, found: Any, *rest: Any) -> Any:
    """Takes the place of the function that answers with what C++ dispatches a program by, or None."""
    if not errors.fast_path_is_translated():  # a failure would be another there than at the first call
        return NotImplemented
    if executable is None or not effects.are_ours_unordered(found) or _jax_compat.runtime_token_set() is None:
        return NotImplemented
    without = _jax_compat.without_effects(executable)
    data = None if without is None else original(without, out_tree, args, out, found, *rest)
    if data is None:
        return None
    leaves, _ = _jax_compat.dispatch_registry().flatten(jax.tree.unflatten(out_tree, out), None)
    return _with_node(data, leaves, _jax_compat.local_devices_of(executable))


def _with_node(data: Any, leaves: list[Any], devices: Sequence[Any]) -> Any:
    """Returns None where no result is small enough to be kept: JAX's slower path costs little beside such a program."""
    sizes = [leaf.nbytes for leaf in leaves]
    place = min(range(len(sizes)), key=sizes.__getitem__, default=None)
    if place is None or sizes[place] > MAX_KEPT_BYTES:
        return None
    marker = _ext.EndMarker(tuple(devices), _jax_compat.runtime_token_set(), tokens.remember)
    leaves = list(leaves)
    leaves[place] = _Node(leaves[place], marker)
    try:
        flat, tree = _jax_compat.dispatch_registry().flatten(data.out_pytree_def.unflatten(leaves), None)
    except Exception:  # noqa: BLE001 - a class of the user's that takes nothing but arrays
        return None
    return data._replace(out_pytree_def=tree) if len(flat) == len(leaves) else None


def hooked() -> list[Place]:
    """Names the place where JAX decides what goes by the fast path."""
    place, registry = _jax_compat.fast_path_decision(), _jax_compat.dispatch_registry()
    if place is None or registry is None or _jax_compat.runtime_token_set() is None:
        return []
    if not _registered:
        registry.register_node(_Node, _flatten, _ext.mark_end)
        _registered.append(_Node)
    return [Place(*place, before=_fast_path_data)]


_registered: list[type] = []
