# SPDX-License-Identifier: Apache-2.0
"""Packs the parameters of a kernel by the calling conventions of Numba's compilers.

An array of n dimensions is several parameters of 8 bytes:

  numba-cuda, numba   meminfo (0), parent (0), number of items, bytes of an item, data, n extents, n strides in bytes
  numba-cuda-mlir     data, data, offset (0), n extents, n strides in items: an MLIR memref

A number is a parameter of its own size; a complex number is two parameters, but one with numba-cuda-mlir. The
conventions are undocumented, so packed parameters are compared with the image's own description.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence

import numpy as np

from .kernel import Parameters


@dataclasses.dataclass(frozen=True)
class Array:
    """A row-major array: the operand's index, its shape, and the bytes of an item."""

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
    """Passes arrays and numbers by the convention of numba-cuda and numba.cuda."""

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
    """Passes arrays and numbers by the convention of numba-cuda-mlir."""

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
    """Appends a kernel's parameters for `values`, in their order."""
    for value in values:
        if isinstance(value, Array):
            abi.add_array(parameters, value)
        else:
            abi.add_number(parameters, value)
