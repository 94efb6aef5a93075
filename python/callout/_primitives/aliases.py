# SPDX-License-Identifier: Apache-2.0
"""Checks `input_output_aliases`: results that are written to the memory of arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

# (operand, result) pairs. The core gets them as an attribute, and copies an operand to its result if XLA gave the two
# different memory.
Aliases = tuple[tuple[int, int], ...]


def check_aliases(where: str, aliases: Mapping[int, int], args: Sequence[Any], results: Sequence[Any]) -> Aliases:
    """Returns the pairs. Raises ValueError for an impossible one."""
    for operand, result in aliases.items():
        for what, index, of in (("argument", operand, args), ("result", result, results)):
            if not (isinstance(index, int) and 0 <= index < len(of)):
                raise ValueError(
                    f"{where}: input_output_aliases {{{operand!r}: {result!r}}}: there is no {what} {index!r}; "
                    f"the call has {len(of)}"
                )
        one, other = args[operand], results[result]
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            raise ValueError(
                f"{where}: input_output_aliases {{{operand}: {result}}}: argument {operand} is {_type(one)}, "
                f"result {result} is {_type(other)}"
            )
    if len(set(aliases.values())) != len(aliases):
        raise ValueError(f"{where}: input_output_aliases {dict(aliases)} names a result twice")
    return tuple(aliases.items())


def _type(aval: Any) -> str:
    return f"{np.dtype(aval.dtype).name}{list(aval.shape)}"


def own_operands(
    aliases: Aliases, args: Sequence[Any], dims: Sequence[int | None]
) -> tuple[list[Any], list[int | None]]:
    """Batches the operand of each aliased result, for a batching rule.

    A batched result cannot share the memory of an operand without a batch.
    """
    size = next(arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if dim is not None)
    args, dims = list(args), list(dims)
    for operand, _ in aliases:
        if dims[operand] is None:
            args[operand], dims[operand] = jnp.broadcast_to(args[operand], (size, *jnp.shape(args[operand]))), 0
    return args, dims
