# SPDX-License-Identifier: Apache-2.0
"""One program for several shapes: an exact specialisation for each, in one file for the C++ host."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from .. import _jax_compat

MAGIC = b"callout.programs 1\n"
"""How the file begins; src/host/programs/exported_file.cc reads it."""


@dataclasses.dataclass(frozen=True)
class ExportedShapes:
    """A program, exported for several shapes: what `callout.export(..., shapes=...)` makes."""

    programs: tuple[tuple[dict[str, int], jax.export.Exported], ...]
    """The values of the symbolic dimensions, and the program for them."""

    def serialize(self) -> bytes:
        """Writes all programs as one file for the C++ host and the command: they choose by the arguments' shapes."""
        file = bytearray(MAGIC)
        for values, exported in self.programs:
            for part in (label(values).encode(), bytes(exported.serialize())):
                file += len(part).to_bytes(8, "little") + part
        return bytes(file)


def label(values: Mapping[str, int]) -> str:
    """Returns how the file and the host's errors call a specialisation: "b=3,n=4"."""
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
    programs = []
    for values in _sizes(shapes, names):
        exact_args, exact_kwargs = jax.tree.map(lambda leaf, env=dict(values): _exact(leaf, env), (args, kwargs))
        programs.append((values, export_for(*exact_args, **exact_kwargs)))
    return ExportedShapes(tuple(programs))


def _sizes(shapes: Sequence[Mapping[str, int]], names: set[str]) -> list[dict[str, int]]:
    """Returns `shapes`, of integers of Python's."""
    if not shapes:
        raise ValueError("callout.export: shapes= is empty")
    for values in shapes:
        if set(values) != names:
            listed = ", ".join(map(repr, sorted(names)))
            raise ValueError(f"callout.export: the symbolic dimensions are {listed}, and shapes= has {dict(values)}")
    sizes = [{name: _size(name, value) for name, value in values.items()} for values in shapes]
    if len(set(map(label, sizes))) < len(sizes):
        raise ValueError("callout.export: shapes= has the same shape twice")
    return sizes


def _size(name: str, value: Any) -> int:
    try:
        size = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        size = -1
    if size < 0:
        raise ValueError(f"callout.export: shapes= has {value!r} for {name!r}; expected a size")
    return size


def _symbols(tree: Any) -> set[str]:
    extents = [extent for leaf in jax.tree.leaves(tree) for extent in getattr(leaf, "shape", ())]
    return {name for extent in extents for name in _jax_compat.symbols_of(extent)}


def _exact(leaf: Any, values: Mapping[str, int]) -> Any:
    """Returns an argument, or its description with sizes for its symbolic dimensions."""
    shape = getattr(leaf, "shape", ())
    if not any(_jax_compat.symbols_of(extent) for extent in shape):
        return leaf
    exact = tuple(_jax_compat.extent_for(extent, values) for extent in shape)
    sharding, weak_type = getattr(leaf, "sharding", None), getattr(leaf, "weak_type", False)
    return jax.ShapeDtypeStruct(exact, leaf.dtype, sharding=sharding, weak_type=weak_type)
