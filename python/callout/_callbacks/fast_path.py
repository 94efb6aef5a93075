# SPDX-License-Identifier: Apache-2.0
"""Lets programs with callbacks use JAX's fast path, on which C++ dispatches a jitted function from its second call on.

The fast path lacks two things. First, an error is a ValueError with a text; `_base.errors` translates it to the error
of the first call. Second, the fast path makes no tokens for `jax.effects_barrier` and `callout.barrier_wait` to wait
for, so JAX excludes programs with effects. Callout admits programs whose effects are Callout's own and unordered. The
tree of their results gets a node of Callout's around one result. C++ calls the node when it builds the tree, and the
node keeps the result in the place of a token: a result is ready only when its program has ended.
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
"""The limit of a result that replaces a token, which stays in memory until the thread's next program or a barrier."""


def wait_for(end: _ext.ProgramEnd) -> None:
    """Blocks until a program has ended, and raises its error once, like a token of JAX's. The core calls this."""
    result: Any = end.result
    if result is None:
        return
    try:
        result.block_until_ready()
    except Exception:
        end.result = None
        if not result.is_deleted():
            raise
        # The result was donated to a later program, usually of this thread. A thread's programs end in their order.
        programs.wait_on_each_device()
    end.result = None


class _Node:
    """Stands for a result in the pytree definition of a program's results.

    When JAX's C++ code builds a tree, it makes no `_Node`. It calls `mark_end`, which returns the result itself.
    """

    __slots__ = ("marker", "result")

    def __init__(self, result: Any, marker: _ext.EndMarker):
        self.result = result
        self.marker = marker

    def __getattr__(self, name: str) -> Any:
        if name in _Node.__slots__:  # while the node is constructed
            raise AttributeError(name)
        return getattr(self.result, name)  # PRNG keys inspect the array inside


def _flatten(node: _Node) -> tuple[tuple[Any], _ext.EndMarker]:
    return (node.result,), node.marker


def _fast_path_data(original: Any, executable: Any, out_tree: Any, args: Any, out: Any, found: Any, *rest: Any) -> Any:
    """Replaces JAX's function that returns the data by which C++ dispatches a program, or None for the slower path."""
    if not errors.fast_path_is_translated():  # the error would differ from the first call's
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
    """Adds the node. Returns None, for JAX's slower path, if every result is too large to be kept."""
    sizes = [leaf.nbytes for leaf in leaves]
    place = min(range(len(sizes)), key=sizes.__getitem__, default=None)
    if place is None or sizes[place] > MAX_KEPT_BYTES:
        return None
    marker = _ext.EndMarker(tuple(devices), _jax_compat.runtime_token_set(), tokens.remember)
    leaves = list(leaves)
    leaves[place] = _Node(leaves[place], marker)
    try:
        flat, tree = _jax_compat.dispatch_registry().flatten(data.out_pytree_def.unflatten(leaves), None)
    except Exception:  # noqa: BLE001 - a pytree class of the user's may only take arrays
        return None
    return data._replace(out_pytree_def=tree) if len(flat) == len(leaves) else None


def hooked() -> list[Place]:
    """Returns the place where JAX selects programs for the fast path."""
    place, registry = _jax_compat.fast_path_decision(), _jax_compat.dispatch_registry()
    if place is None or registry is None or _jax_compat.runtime_token_set() is None:
        return []
    if not _registered:
        registry.register_node(_Node, _flatten, _ext.mark_end)
        _registered.append(_Node)
    return [Place(*place, before=_fast_path_data)]


_registered: list[type] = []
