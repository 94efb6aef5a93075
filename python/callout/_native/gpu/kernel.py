# SPDX-License-Identifier: Apache-2.0
"""One kernel launch as a program carries it: the image, the launch, and the parameters as bytes."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Image:
    """Machine code with a kernel in it.

    Attributes:
        code: a cubin, a fat binary, or PTX.
        symbol: what the kernel is called in it.
        portable: PTX for programs that are exported, which may run on other devices than this process's. None: `code`.
    """

    code: bytes
    symbol: str
    portable: bytes | None = None


@dataclasses.dataclass(frozen=True)
class Launch:
    """How many blocks of how many threads. `shared_bytes`: dynamic shared memory of a block.

    `cooperative`: all blocks run at once, so that they can wait for each other.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0
    cooperative: bool = False


class Parameters:
    """The parameters of a kernel, in order, as the calling convention of its compiler has them."""

    def __init__(self) -> None:
        self._block = bytearray()
        self._sizes: list[int] = []
        self._pointers: list[tuple[int, int]] = []

    def add(self, data: bytes) -> None:
        """A parameter that is passed by value."""
        self._block += data
        self._sizes.append(len(data))

    def add_pointer(self, operand: int) -> None:
        """The address of an operand's buffer; operands count arguments, then results."""
        self._pointers.append((len(self._block), operand))
        self.add(struct.pack("<q", 0))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of each parameter."""
        return tuple(self._sizes)

    def attributes(self) -> dict[str, Any]:
        """As callout.v1.image takes them."""
        return {
            "parameter_bytes": self._sizes,
            "parameter_block": bytes(self._block),
            "pointers": self._pointers,
        }


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A launch for operands of given shapes.

    Attributes:
        faults: what a kernel that was compiled for debugging reports; see docs/abi.md.
        synchronous: the program waits for the launch, and a fault of the device is its error.
    """

    image: Image
    launch: Launch
    parameters: Parameters
    faults: Mapping[str, str] | None = None
    synchronous: bool = False

    @property
    def target(self) -> str:
        """The FFI target that launches it."""
        return "callout.v1.image_sync" if self.synchronous else "callout.v1.image"

    def attributes(self, portable: bool) -> dict[str, Any]:
        """As the target takes them. `portable`: for devices that this process may not have."""
        code = self.image.portable if portable and self.image.portable is not None else self.image.code
        return {
            "image": {"bytes": code, "symbol": self.image.symbol},
            "grid": self.launch.grid,
            "block": self.launch.block,
            **self.parameters.attributes(),
            "shared_bytes": self.launch.shared_bytes,
            "cooperative": self.launch.cooperative,
            "faults": self.faults or {},
        }
