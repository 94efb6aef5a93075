# SPDX-License-Identifier: Apache-2.0
"""One program for several shapes: an exact specialisation for each, in one file for the C++ host."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from .. import _jax_compat

MAGIC = b"callout.programs 1\n"
"""How the file begins; src/programs/shapes_file.cc reads it."""


@dataclasses.dataclass(frozen=True)
class ExportedShapes:
    """A program, exported for several shapes: what `callout.export(..., shapes=...)` makes."""

    programs: tuple[tuple[dict[str, int], jax.export.Exported], ...]
    """The values of the symbolic dimensions, and the program for them."""

    def serialize(self) -> bytes:
        """All programs as one file for the C++ host and the command: they choose by the arguments' shapes."""
        file = bytearray(MAGIC)
        for values, exported in self.programs:
            for part in (label(values).encode(), bytes(exported.serialize())):
                file += len(part).to_bytes(8, "little") + part
        return bytes(file)


def label(values: Mapping[str, int]) -> str:
    """How the file and the host's errors call a specialisation: "b=3,n=4"."""
    return ",".join(f"{name}={value}" for name, value in sorted(values.items()))


def export_shapes(
    export_for: Callable[..., jax.export.Exported], shapes: Sequence[Mapping[str, int]], args: Any, kwargs: Any
) -> ExportedShapes:
    """Exports for each of `shapes`.

    Raises:
        ValueError: `shapes` or the arguments do not fit each other.
    """
    names = _symbols((args, kwargs))
    if not names:
        raise ValueError(
            "callout.export: shapes= is for arguments with symbolic dimensions (jax.export.symbolic_shape)"
        )
    _check(shapes, names)
    programs = []
    for values in shapes:
        exact_args, exact_kwargs = jax.tree.map(lambda leaf, env=dict(values): _exact(leaf, env), (args, kwargs))
        programs.append((dict(values), export_for(*exact_args, **exact_kwargs)))
    return ExportedShapes(tuple(programs))


def _check(shapes: Sequence[Mapping[str, int]], names: set[str]) -> None:
    if not shapes:
        raise ValueError("callout.export: shapes= is empty")
    for values in shapes:
        if set(values) != names:
            listed = ", ".join(map(repr, sorted(names)))
            raise ValueError(f"callout.export: the symbolic dimensions are {listed}, and shapes= has {dict(values)}")
        for name, value in values.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ValueError(f"callout.export: shapes= has {value!r} for {name!r}; expected a size")
    if len({label(values) for values in shapes}) < len(shapes):
        raise ValueError("callout.export: shapes= has the same shape twice")


def _symbols(tree: Any) -> set[str]:
    extents = [extent for leaf in jax.tree.leaves(tree) for extent in getattr(leaf, "shape", ())]
    return {name for extent in extents for name in _jax_compat.symbols_of(extent)}


def _exact(leaf: Any, values: Mapping[str, int]) -> Any:
    """An argument, or its description with sizes for its symbolic dimensions."""
    shape = getattr(leaf, "shape", ())
    if not any(_jax_compat.symbols_of(extent) for extent in shape):
        return leaf
    exact = tuple(_jax_compat.extent_for(extent, values) for extent in shape)
    return jax.ShapeDtypeStruct(exact, leaf.dtype, sharding=getattr(leaf, "sharding", None))
