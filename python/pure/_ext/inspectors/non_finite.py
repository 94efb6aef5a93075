# SPDX-License-Identifier: Apache-2.0
"""NaN and infinities in an array."""

from __future__ import annotations

import dataclasses

import numpy as np

from ..dtypes import bits_of, kind_of


@dataclasses.dataclass(frozen=True)
class NonFinite:
    """How many; and the row-major place of the first that was asked for, -1 if there is none."""

    nan: int = 0
    infinite: int = 0
    first: int = -1
    first_is_nan: bool = False


_NONE = NonFinite()


def count_non_finite(array: np.ndarray, nan: bool = True, infinite: bool = True) -> NonFinite:
    """Counts both; `first` is of those that are told."""
    if kind_of(array.dtype) not in ("f", "c") or bits_of(array.dtype) < 8:
        return _NONE
    with np.errstate(all="ignore"):
        if bool(np.all(np.isfinite(array))):
            return _NONE
        nans = np.isnan(array)
        infinities = ~np.isfinite(array) & ~nans
    wanted = (nans if nan else np.zeros_like(nans)) | (infinities if infinite else np.zeros_like(nans))
    first = int(np.argmax(wanted)) if wanted.any() else -1
    is_nan = first >= 0 and nan and bool(nans.ravel()[first])
    return NonFinite(int(nans.sum()), int(infinities.sum()), first, is_nan)
