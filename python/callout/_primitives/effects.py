# SPDX-License-Identifier: Apache-2.0
"""The effects of Callout's primitives keep callbacks in a program and, if required, in order.

An ordered program carries a token for its effect, and JAX passes each program the token that the previous one returned.
All ordered primitives share one effect, so taps and calls are ordered among each other. Abstract evaluation returns the
ordered AND an unordered effect: with an ordered effect alone, JAX's ahead-of-time path fails from the second call on
("Execution supplied 1 arguments but compiled program expected 2", up to JAX 0.12 at least).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import _jax_compat
from .._base import patches


class _Effect(_jax_compat.Effect):
    """The base of effects. All objects of a class are equal, which JAX requires of effects in exported programs.

    An exported program contains the name of the class, from its repr. So the name `callout.X` is frozen, wherever X is
    defined.
    """

    def __init_subclass__(cls) -> None:
        cls.__module__ = "callout"

    def __init__(self) -> None:
        """Installs patches: JAX constructs an effect when it reads an exported program that another process has traced."""
        _ensure_patches()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __reduce__(self) -> tuple[Any, ...]:
        # For serialised compiled programs. The class cannot be found by its frozen name.
        return _effect_named, (type(self).__name__,)


def _effect_named(name: str) -> _Effect:
    kinds: dict[str, type[_Effect]] = {kind.__name__: kind for kind in _Effect.__subclasses__()}
    return kinds[name]()


def _ensure_patches() -> None:
    """Installs the patches for programs with an effect of Callout's."""
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
    """Keeps progress bars in the program, and distinguishes loops with a bar from loops without."""

    def __str__(self) -> str:
        return "CalloutProgress"


# The constructors, which install patches, are skipped, because no program has been traced yet.
unordered_effect = UnorderedEffect.__new__(UnorderedEffect)
ordered_effect = OrderedEffect.__new__(OrderedEffect)
io_effect = IoEffect.__new__(IoEffect)
progress_effect = ProgressEffect.__new__(ProgressEffect)

_jax_compat.register_effect(UnorderedEffect)
_jax_compat.register_effect(OrderedEffect, ordered=True)
_jax_compat.register_effect(IoEffect, remat=False)
_jax_compat.register_effect(ProgressEffect)
# A failed program leaves a failed token. Later programs then start with a new token.
_jax_compat.own_ordered_effects.add(ordered_effect)


def observing(ordered: bool) -> set[Any]:
    """Returns the effects of a traced tap or debug callback."""
    _ensure_patches()
    patches.ensure("batching", "loop_invariants")
    return {unordered_effect, ordered_effect} if ordered else {unordered_effect}


def showing() -> set[Any]:
    """Returns the effect of a traced progress bar."""
    _ensure_patches()
    patches.ensure("loop_lowering", "loop_invariants")
    return {progress_effect}


# JAX's own io effect makes JAX's rules for `vmap` of cond and while raise an error, because callbacks must not be
# repeated. With Callout's batching patch the effect is not needed, because its rules never repeat callbacks.
_refused_effects = {io_effect, *_jax_compat.io_effects()}


def acting(ordered: bool) -> set[Any]:
    """Returns the effects of a traced io callback."""
    _ensure_patches()
    patches.ensure("batching", "loop_invariants")
    own = {io_effect} if patches.is_installed("batching") else _refused_effects
    return {*own, ordered_effect} if ordered else own


def of_exported(unordered: Iterable[Any]) -> tuple[Any, ...]:
    """Returns the unordered effects of an exported program, without JAX's io effect, which cannot be serialised."""
    return tuple(effect for effect in unordered if effect not in _refused_effects or effect == io_effect)


def are_ours_unordered(found: Iterable[Any]) -> bool:
    """Returns whether a program has effects, and all are Callout's and unordered."""
    found = set(found)
    own = found & {unordered_effect, io_effect, progress_effect}
    return bool(own) and found - own <= (_refused_effects if io_effect in own else set())
