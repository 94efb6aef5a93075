# SPDX-License-Identifier: Apache-2.0
"""The target of a native function's primitive: machine code, which is named by its content.

`refused_write` makes the error for a Numba kernel, on a CPU or a GPU, that writes to an argument.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

from jax.interpreters import mlir

from .. import _ext
from .._base.native_platforms import PLATFORMS
from .._targets.target import Target, Transforms


@dataclasses.dataclass(frozen=True)
class Library:
    """A shared library that a program carries, and the function in it."""

    path: Path
    symbol: str


class NativeTarget(Target):
    """Calls native code. Its name in a program contains a digest, so that every process that builds the code finds it."""

    __slots__ = ("_library", "content")

    platforms: tuple[str, ...] = PLATFORMS
    handler = "callout.v1.call"
    """The FFI target that calls the code."""
    has_parallel_lanes = True
    """True if `vmap_method="parallel"` is supported."""
    is_kernel = False
    """True if `lower_launch` launches the code, instead of a call."""

    def __init__(
        self, key: Hashable, label: str, callback: _ext.Callback | None, content: str, library: Library | None = None
    ):
        super().__init__(key, label, True, self._make, may_run_in_caller=True)
        self.content = content
        self._library = library
        if callback is not None:
            self._callbacks[repr(())] = callback

    def _make(self, _: Transforms) -> _ext.Callback:
        raise NotImplementedError(f"{self.label} is made for the types that it is called with")

    def is_python(self) -> bool:
        return False

    def bind(self, transforms: Transforms = ()) -> str:
        """Binds the code, and returns its name for programs."""
        if self._library is not None:
            return self.label
        key = repr(transforms)
        if key not in self._bindings:
            self._bindings[key] = _ext.Binding(f"native:{self.label}/{self.content[:16]}", self.callback())
        return self._bindings[key].name

    def exported_name(self, where: str, transforms: Transforms = ()) -> str:
        """Returns the name from `bind`, which is valid in the process that loads the program, too."""
        del where
        return self.bind(transforms)

    def is_held_by_programs(self, name: str) -> bool:
        del name
        """Returns False if programs carry the code themselves."""
        return self._library is None

    @property
    def is_embedded(self) -> bool:
        """Returns True if the program carries the code."""
        return self._library is not None

    def attributes(self) -> dict[str, Any]:
        """Returns the call's attributes besides its name."""
        if self._library is None:
            return {}
        code = self._library.path.read_bytes()
        return {
            "library": {
                "bytes": code,
                "digest": hashlib.sha256(code).hexdigest(),
                "platform": _ext.native_platform(),
                "symbol": self._library.symbol,
            }
        }

    def lower_launch(
        self,
        ctx: mlir.LoweringRuleContext,
        args: Sequence[Any],
        avals_in: Sequence[Any],
        avals_out: Sequence[Any],
        *,
        in_place: dict[int, int],
        **more: Any,
    ) -> Sequence[Any]:
        """Lowers the launch of a kernel. `avals_in`, `avals_out`: types of one lane. `more`: further attributes."""
        raise NotImplementedError(f"{self.label} is no kernel")

    def specialise(self, args: Sequence[Any], results: Sequence[Any]) -> NativeTarget:
        """Returns the target for operands and results of these shapes and dtypes. Raises TypeError if they do not fit."""
        del args, results
        return self


_OF_NUMBA = "Cannot modify readonly array"


def is_of_a_write(error: BaseException | None) -> bool:
    """Returns whether Numba rejected a kernel because it writes to a read-only array."""
    return _OF_NUMBA in str(error)


def refused_write(where: str) -> TypeError:
    """Returns the error for a kernel that writes to an argument, with the remedy."""
    return TypeError(
        f"{where}: the kernel writes to an argument, whose memory is XLA's. Write to a result; "
        "input_output_aliases={argument: result} makes one begin with an argument's value"
    )
