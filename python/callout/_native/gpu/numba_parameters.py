# SPDX-License-Identifier: Apache-2.0
"""The parameters of a kernel as Numba's compilers pass them, each in its own way.

An array of n dimensions is several parameters of 8 bytes:

  numba-cuda, numba   meminfo (0), parent (0), number of items, bytes of an item, data, n extents, n strides in bytes
  numba-cuda-mlir     data, data, offset (0), n extents, n strides in items: an MLIR memref

A number is a parameter of its own size; a complex one is two of them, but one with numba-cuda-mlir. Neither is documented:
what is packed here is compared with what the image says of itself.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence

import numpy as np

from .kernel import Parameters


@dataclasses.dataclass(frozen=True)
class Array:
    """A row-major array: the operand that it is, its shape, and the bytes of an item."""

    operand: int
    shape: tuple[int, ...]
    itemsize: int


def _word(value: int) -> bytes:
    return struct.pack("<q", value)


def _strides(shape: tuple[int, ...]) -> list[int]:
    """Computes the strides in items."""
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    return strides[: len(shape)]


class NumbaAbi:
    """Passes arrays and numbers as numba-cuda and numba.cuda do."""

    name = "numba"

    def add_array(self, parameters: Parameters, array: Array) -> None:
        for word in (0, 0, int(np.prod(array.shape, dtype=np.int64)), array.itemsize):
            parameters.add(_word(word))
        parameters.add_pointer(array.operand)
        for word in (*array.shape, *(stride * array.itemsize for stride in _strides(array.shape))):
            parameters.add(_word(word))

    def add_number(self, parameters: Parameters, number: np.generic) -> None:
        for part in (number.real, number.imag) if isinstance(number, np.complexfloating) else (number,):
            parameters.add(part.tobytes())


class MemrefAbi:
    """Passes arrays and numbers as numba-cuda-mlir does."""

    name = "memref"

    def add_array(self, parameters: Parameters, array: Array) -> None:
        parameters.add_pointer(array.operand)
        parameters.add_pointer(array.operand)
        for word in (0, *array.shape, *_strides(array.shape)):
            parameters.add(_word(word))

    def add_number(self, parameters: Parameters, number: np.generic) -> None:
        parameters.add(number.tobytes())


Abi = NumbaAbi | MemrefAbi


def pack(parameters: Parameters, abi: Abi, values: Sequence[Array | np.generic]) -> None:
    """Appends what a kernel takes for these, in its order."""
    for value in values:
        if isinstance(value, Array):
            abi.add_array(parameters, value)
        else:
            abi.add_number(parameters, value)
