# SPDX-License-Identifier: Apache-2.0
"""Matches a result's leaves to the declared results by name, across kinds of structures.

JAX flattens a dict in the order of its sorted keys, an OrderedDict and a named tuple in their own order, and matches a
result's leaves by position alone. Here a leaf goes to the declared result of its name.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
from jax.tree_util import DictKey, GetAttrKey, PyTreeDef

# A leaf's path in its structure, and the leaf's index.
Leaf = tuple[tuple[Any, ...], int]


@functools.lru_cache(maxsize=64)
def _flat(count: int) -> PyTreeDef:
    return jax.tree.structure((0,) * count)


def is_flat(tree: PyTreeDef) -> bool:
    """Returns True for a leaf and for a flat tuple."""
    count = tree.num_leaves
    return bool(count == tree.num_nodes == 1 or (tree.num_nodes == count + 1 and tree == _flat(count)))


def is_same(declared: PyTreeDef, got: PyTreeDef) -> bool:
    """Returns whether two structures are equal; False if the contents of a user's class cannot be compared."""
    try:
        return bool(declared == got)
    except Exception:  # noqa: BLE001 - a user's `__eq__` may raise anything
        return False


class Declared:
    """The declared tree of a callback's results."""

    __slots__ = ("_leaves", "_tree")

    def __init__(self, tree: PyTreeDef):
        self._tree = tree
        self._leaves: list[Leaf] | None = None

    def places_by_name(self, got: PyTreeDef) -> Sequence[int] | None:
        """Returns for each declared leaf the index of its leaf in a result with equally many; None if names differ.

        Leaves are matched by position if only one of the structures has names, and below differing structures.
        """
        in_order = range(self._tree.num_leaves)
        try:
            if self._leaves is None:
                self._leaves = _leaves(self._tree)
            if not any(_is_name(key) for path, _ in self._leaves for key in path):
                return in_order
            places = [*in_order]
            return places if _match(self._leaves, _leaves(got), places) else None
        except Exception:  # noqa: BLE001 - a user's class may reject numbers as leaves
            return in_order


def _leaves(tree: PyTreeDef) -> list[Leaf]:
    pairs, _ = jax.tree_util.tree_flatten_with_path(tree.unflatten(range(tree.num_leaves)))
    return [(tuple(path), number) for path, number in pairs]


def _match(declared: list[Leaf], got: list[Leaf], places: list[int]) -> bool:
    """Fills `places` for some declared leaves with the indices of equally many leaves. Returns False if names differ."""
    ours, theirs = _children(declared), _children(got)
    if ours is None or theirs is None:
        return _in_order(declared, got, places)
    are_named = all(map(_is_name, ours)), all(map(_is_name, theirs))
    if are_named == (True, True):
        by_name = {_name(key): leaves for key, leaves in theirs.items()}
        pairs = [(leaves, by_name.get(_name(key), [])) for key, leaves in ours.items()]
        if len(by_name) != len(ours) or any(len(one) != len(other) for one, other in pairs):
            return False
        return all(_match(one, other, places) for one, other in pairs)
    # A sequence of one item is matched like its item.
    if len(ours) == 1 and not are_named[0]:
        return _match(next(iter(ours.values())), got, places)
    if len(theirs) == 1 and not are_named[1]:
        return _match(declared, next(iter(theirs.values())), places)
    alike = [*map(len, ours.values())] == [*map(len, theirs.values())]
    if are_named == (False, False) and alike:
        return all(_match(one, other, places) for one, other in zip(ours.values(), theirs.values(), strict=True))
    return _in_order(declared, got, places)


def _in_order(declared: list[Leaf], got: list[Leaf], places: list[int]) -> bool:
    for (_, place), (_, number) in zip(declared, got, strict=True):
        places[place] = number
    return True


def _children(leaves: list[Leaf]) -> dict[Any, list[Leaf]] | None:
    """Returns the leaves of each child; None for a leaf."""
    children: dict[Any, list[Leaf]] = {}
    for path, number in leaves:
        if not path:
            return None
        children.setdefault(path[0], []).append((path[1:], number))
    return children


def _is_name(key: Any) -> bool:
    return isinstance(key, DictKey | GetAttrKey)


def _name(key: Any) -> Any:
    return key.key if isinstance(key, DictKey) else key.name
