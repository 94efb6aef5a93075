# SPDX-License-Identifier: Apache-2.0
"""Arrays that lie in one array of words, each element at the beginning of a word."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import bits_of, short_name


class PackedLayout:
    """`parts`: (dtype, shape) of each."""

    def __init__(self, word_bytes: int, parts: Sequence[tuple[Any, Sequence[int]]]):
        self._word = word_bytes
        self._parts = [(np.dtype(dtype), tuple(shape)) for dtype, shape in parts]
        for dtype, _ in self._parts:
            if short_name(dtype) is None or bits_of(dtype) < 8 or dtype.itemsize > word_bytes:
                raise TypeError("callout: an array of a dtype that has no place in a word")
        self._bytes = sum(math.prod(shape) for _, shape in self._parts) * word_bytes

    def arrays(self, given: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Those of one message."""
        if len(given) != 1 or given[0].nbytes < self._bytes:
            raise TypeError("callout: what the program sent is not what was packed")
        message = np.ascontiguousarray(given[0]).reshape(-1).view(np.uint8)
        found = []
        begin = 0
        for dtype, shape in self._parts:
            end = begin + math.prod(shape) * self._word
            words = message[begin:end].reshape(-1, self._word)
            found.append(np.ascontiguousarray(words[:, : dtype.itemsize]).view(dtype).reshape(shape))
            begin = end
        return found
