# SPDX-License-Identifier: Apache-2.0
"""`HostObject` is the base of host objects that programs take as arguments: a pytree whose one leaf is a handle.

The Python object that the user made owns the host's object, and so does every Python object with the same leaf. An
object that a program or `jax.device_put` returns has only the handle, and owns nothing.
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import numpy as np

from .. import _jax_compat
from .._base.lifetime import check_usable
from .._primitives.read import read_p
from .._targets.handles import HandleType, Owned, owned_by_leaf


class HostObject:
    """Holds a handle of a host object. A subclass defines the kind of object, and how it is made."""

    _kind: ClassVar[str]
    _type: ClassVar[HandleType]

    _leaf: Any
    _owner: Owned | None

    def __init_subclass__(cls, *, tag: str) -> None:
        cls._kind = cls.__name__
        cls._type = HandleType(cls.__name__, tag)

    def _own(self, owner: Any) -> None:
        self._owner = Owned(owner, self._type)
        self._leaf = self._owner.leaf

    @property
    def handle(self) -> np.ndarray:
        """Returns the handle, uint32[4], which an exported program takes in the place of this object.

        Raises:
            TypeError: the call is inside of a program.
        """
        return np.array(self._words("handle"), np.uint32)

    def _take(self, leaf: Any) -> None:
        self._leaf = leaf
        self._owner = owned_by_leaf(leaf)

    def _happens_now(self) -> bool:
        """Returns whether Python reads the object now, rather than a program that is traced."""
        return not isinstance(self._leaf, jax.core.Tracer) and not _jax_compat.is_tracing_a_program()

    def _words(self, what: str) -> list[int]:
        """Returns the words of the handle. Raises TypeError inside of programs, with the method's name `what`."""
        check_usable()
        if not self._happens_now():
            raise TypeError(
                f"callout.{self._kind}.{what} inside a function that JAX traces: it is for the host, and a program can "
                "only read; call it from another thread, or from a callback"
            )
        if self._owner is not None:
            return list(self._owner.owner.words)
        return self._type.words(self._leaf, what)

    def _read(self, *avals: jax.core.ShapedArray) -> Any:
        """Returns what a program reads: values of these types, for each object of a batch."""
        batch = jax.numpy.shape(self._leaf)
        types = tuple(_jax_compat.array_type((*batch, *aval.shape), aval.dtype, frozenset()) for aval in avals)
        return read_p.bind(self._type.data(self._leaf), kind=self._kind, result_avals=types)
