# SPDX-License-Identifier: Apache-2.0
"""What is said of a Numba kernel, for a CPU or a GPU, that writes to an argument."""

from __future__ import annotations

_OF_NUMBA = "Cannot modify readonly array"


def is_of_a_write(error: BaseException | None) -> bool:
    """Tells whether Numba refused a kernel because it writes to an array that cannot be written to."""
    return _OF_NUMBA in str(error)


def refused_write(where: str) -> TypeError:
    """Returns the error for the user, with the remedy."""
    return TypeError(
        f"{where}: the kernel writes to an argument, whose memory is XLA's. Write to a result; "
        "input_output_aliases={argument: result} makes one begin with an argument's value"
    )
