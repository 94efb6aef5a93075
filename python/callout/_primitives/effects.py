# SPDX-License-Identifier: Apache-2.0
"""The effects of our primitives: they keep callbacks in a program and, where asked for, in order.

An ordered program carries a token for its effect, and JAX hands each program the token that the one before it returned. All
ordered primitives share one effect, so taps and calls are ordered among each other. Abstract evaluation answers with the
ordered AND an unordered effect: with ordered ones alone, JAX's ahead-of-time path fails from the second call on ("Execution
supplied 1 arguments but compiled program expected 2", up to JAX 0.12 at least).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import _jax_compat
from .._base import patches


class _Effect(_jax_compat.Effect):
    """All objects of a class are equal, which JAX asks of effects that it writes into exported programs.

    Such a file has the name of the class, as its repr says it. So that name is frozen: `callout.X` wherever X is defined.
    """

    def __init_subclass__(cls) -> None:
        cls.__module__ = "callout"

    def __init__(self) -> None:
        """JAX makes one where it reads an exported program, which some other process has traced."""
        _ensure_patches()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __reduce__(self) -> tuple[Any, ...]:
        # For compiled programs that are serialised. The class is not where its frozen name says.
        return _effect_named, (type(self).__name__,)


def _effect_named(name: str) -> _Effect:
    kinds: dict[str, type[_Effect]] = {kind.__name__: kind for kind in _Effect.__subclasses__()}
    return kinds[name]()


def _ensure_patches() -> None:
    """Installs what programs with an effect of ours need."""
    patches.ensure("tokens", "errors", "dispatch", "tapped_values")


class UnorderedEffect(_Effect):
    """Keeps taps and debug callbacks in the program. Programs with it are dispatched asynchronously."""

    def __str__(self) -> str:
        return "Callout"


class OrderedEffect(_Effect):
    """Keeps program order. JAX waits for the previous ordered program before it dispatches the next."""

    def __str__(self) -> str:
        return "CalloutOrdered"


class IoEffect(_Effect):
    """Keeps io callbacks in the program. Not allowed in remat, which would repeat them."""

    def __str__(self) -> str:
        return "CalloutIo"


class ProgressEffect(_Effect):
    """Keeps progress bars in the program, and tells loops that have one from those that have none."""

    def __str__(self) -> str:
        return "CalloutProgress"


# Not by their constructors: nobody has traced anything yet.
unordered_effect = UnorderedEffect.__new__(UnorderedEffect)
ordered_effect = OrderedEffect.__new__(OrderedEffect)
io_effect = IoEffect.__new__(IoEffect)
progress_effect = ProgressEffect.__new__(ProgressEffect)

_jax_compat.register_effect(UnorderedEffect)
_jax_compat.register_effect(OrderedEffect, ordered=True)
_jax_compat.register_effect(IoEffect, remat=False)
_jax_compat.register_effect(ProgressEffect)
# A failed program leaves its token failed: later ones then start with a fresh one.
_jax_compat.own_ordered_effects.add(ordered_effect)


def observing(ordered: bool) -> set[Any]:
    """Returns the effects of a tap or a debug callback that is traced."""
    _ensure_patches()
    patches.ensure("batching", "loop_invariants")
    return {unordered_effect, ordered_effect} if ordered else {unordered_effect}


def showing() -> set[Any]:
    """Returns the effect of a progress bar that is traced."""
    _ensure_patches()
    patches.ensure("loop_lowering", "loop_invariants")
    return {progress_effect}


# JAX's own effect is what its rules for `vmap` of cond and while look for, which refuse to run both branches of a
# program whose callbacks must not be repeated. Ours see to that, where they may.
_refused_effects = {io_effect, *_jax_compat.io_effects()}


def acting(ordered: bool) -> set[Any]:
    """Returns the effects of an io callback that is traced."""
    _ensure_patches()
    patches.ensure("batching", "loop_invariants")
    own = {io_effect} if patches.is_installed("batching") else _refused_effects
    return {*own, ordered_effect} if ordered else own


def of_exported(unordered: Iterable[Any]) -> tuple[Any, ...]:
    """Returns the unordered effects of a program that is exported: JAX's cannot be written, and stands beside ours."""
    return tuple(effect for effect in unordered if effect not in _refused_effects or effect == io_effect)


def are_ours_unordered(found: Iterable[Any]) -> bool:
    """Tells whether a program has effects, which are ours alone, and unordered."""
    found = set(found)
    own = found & {unordered_effect, io_effect, progress_effect}
    return bool(own) and found - own <= (_refused_effects if io_effect in own else set())
