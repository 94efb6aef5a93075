# SPDX-License-Identifier: Apache-2.0
"""Describes a kernel launch in a program: image, parameters, blocks and threads. Tracing checks the launch."""

from __future__ import annotations

import dataclasses
import math
import operator
import struct
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from .tensor_maps import BYTES as TENSOR_MAP_BYTES


@dataclasses.dataclass(frozen=True)
class Image:
    """Machine code with a kernel in it.

    Attributes:
        code: a cubin, a fat binary, or PTX.
        symbol: the kernel's symbol in the code.
        portable: PTX for exported programs, which may run on other devices than this process's. None: `code`.
    """

    code: bytes
    symbol: str
    portable: bytes | None = None


@dataclasses.dataclass(frozen=True)
class Launch:
    """The blocks and threads of a launch. `shared_bytes`: dynamic shared memory of a block.

    `cooperative`: all blocks run at once, so that they can wait for each other. `fills_device`: as many blocks as the
    device runs at once, instead of the grid's. `cluster`: blocks of a cluster. `dependent`: the kernel may begin before
    the previous kernel ends. `priority`: CUDA's number; None: the stream's.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0
    cooperative: bool = False
    fills_device: bool = False
    cluster: tuple[int, int, int] | None = None
    dependent: bool = False
    priority: int | None = None

    def attributes(self) -> dict[str, Any]:
        """Returns the launch's attributes for callout.v1.image. Rare ones are left out if they have their defaults."""
        more = {
            "fills_device": self.fills_device,
            "cluster": self.cluster,
            "dependent": self.dependent,
            "priority": None if self.priority is None else [self.priority],
        }
        return {
            "grid": self.grid,
            "block": self.block,
            "shared_bytes": self.shared_bytes,
            "cooperative": self.cooperative,
            **{name: value for name, value in more.items() if value},
        }


class Parameters:
    """The parameters of a kernel, in order, by the calling convention of its compiler."""

    def __init__(self) -> None:
        self._block = bytearray()
        self._sizes: list[int] = []
        self._pointers: list[tuple[int, int]] = []
        self._maps: list[list[int]] = []

    def add(self, data: bytes) -> None:
        """Adds a parameter that is passed by value."""
        self._block += data
        self._sizes.append(len(data))

    def add_pointer(self, operand: int) -> None:
        """Adds the address of an operand's buffer; operands count arguments, then results."""
        self._pointers.append((len(self._block), operand))
        self.add(struct.pack("<q", 0))

    def add_tensor_map(self, numbers: Sequence[int]) -> None:
        """Adds a tensor map of an operand's buffer. `numbers`: the result of `TensorMap.numbers`."""
        self._maps.append([len(self._block), *numbers])
        self.add(bytes(TENSOR_MAP_BYTES))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Returns the bytes of each parameter."""
        return tuple(self._sizes)

    def attributes(self) -> dict[str, Any]:
        """Returns the parameters' attributes for callout.v1.image."""
        maps = {"tensor_maps": self._maps} if self._maps else {}
        return {
            "parameter_bytes": self._sizes,
            "parameter_block": bytes(self._block),
            "pointers": self._pointers,
            **maps,
        }


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A launch for operands of given shapes.

    Attributes:
        faults: the fault reports of a kernel that was compiled for debugging; see docs/abi.md.
        synchronous: the program waits for the launch, and raises a fault of the device as error.
    """

    image: Image
    launch: Launch
    parameters: Parameters
    faults: Mapping[str, str] | None = None
    synchronous: bool = False

    @property
    def target(self) -> str:
        """Returns the FFI target that launches the kernel."""
        return "callout.v1.image_sync" if self.synchronous else "callout.v1.image"

    def attributes(self, portable: bool) -> dict[str, Any]:
        """Returns the target's attributes. `portable`: for devices that this process may not have."""
        code = self.image.portable if portable and self.image.portable is not None else self.image.code
        return {
            "image": {"bytes": code, "symbol": self.image.symbol},
            **self.launch.attributes(),
            **self.parameters.attributes(),
            "faults": self.faults or {},
        }


Extents = tuple[int, int, int]
# Dimensions in users' settings. Functions get the arguments and the results, with shape and dtype.
Dims = int | Sequence[int] | Callable[..., int | Sequence[int]]
SharedBytes = int | Callable[..., int]

_AXES = "xyz"
_MOST_THREADS = 1024
_MOST_BLOCK = (1024, 1024, 64)
_MOST_GRID = (2**31 - 1, 65535, 65535)
# The blocks for launch_dims with two and three dimensions.
_BLOCKS = {2: (16, 16), 3: (8, 8, 4)}


def launch_shape(
    where: str,
    args: Sequence[Any],
    results: Sequence[Any],
    *,
    grid: Dims | None = None,
    block: Dims | None = None,
    launch_dims: Dims | None = None,
    threads_per_block: int = 256,
) -> tuple[Extents, Extents]:
    """Returns grid and block of a launch. A launch of no threads has an extent of 0 in its grid, and no valid block.

    Args:
        where: the begin of errors.
        args: shapes and dtypes of the arguments.
        results: shapes and dtypes of the results.
        grid: blocks along x, y and z: a number, up to three of them, or a function of `*args, *results` that returns
            these.
        block: threads of a block, likewise.
        launch_dims: instead of `grid` and `block`, the threads, likewise. Blocks of `threads_per_block`, 16 x 16 or 8 x
            8 x 4 threads, but never larger than `launch_dims`, cover them.
        threads_per_block: threads of a block for `launch_dims` of one dimension.

    Raises:
        TypeError: a number is none.
        ValueError: neither is given, or both; or no GPU can launch that.
    """
    avals = (*args, *results)
    if launch_dims is None:
        if grid is None or block is None:
            raise ValueError(
                f"{where}: say how many threads to launch: launch_dims=, or grid= and block=; got "
                f"grid={grid!r}, block={block!r}, launch_dims=None"
            )
        grid, block = _extents(where, "grid", grid, avals), _extents(where, "block", block, avals)
    else:
        if grid is not None or block is not None:
            raise ValueError(f"{where}: launch_dims= replaces grid= and block=; give one or the other")
        dims = _extents(where, "launch_dims", launch_dims, avals)
        grid, block = _cover(dims, _threads(where, threads_per_block))
    _check_limits(where, "block", block, _MOST_BLOCK)
    _check_limits(where, "grid", grid, _MOST_GRID)
    if math.prod(block) > _MOST_THREADS:
        raise ValueError(f"{where}: a block has at most {_MOST_THREADS} threads, got {math.prod(block)}: {block}")
    if 0 in block:
        raise ValueError(f"{where}: a block has at least one thread, got {block}")
    return _three(grid), _three(block)


# Requests a grid of as many blocks as run at once.
COOPERATIVE: Any = "cooperative"
_MOST_OF_A_CLUSTER = 16


def cluster_shape(where: str, grid: Extents, cluster: Dims | None, avals: Sequence[Any]) -> Extents | None:
    """Returns the blocks of a cluster, checked against the grid.

    Raises:
        TypeError: a number is none.
        ValueError: no GPU can launch that.
    """
    if cluster is None:
        return None
    shape = _three(_extents(where, "cluster", cluster, avals))
    if not 1 <= math.prod(shape) <= _MOST_OF_A_CLUSTER:
        raise ValueError(f"{where}: a cluster has 1 to {_MOST_OF_A_CLUSTER} blocks, got {math.prod(shape)}: {shape}")
    for axis, blocks, of_cluster in zip(_AXES, grid, shape, strict=True):
        if blocks % of_cluster:
            raise ValueError(f"{where}: grid.{axis} must be a multiple of the cluster's {of_cluster}, got {blocks}")
    return shape


def _three(extents: Sequence[int]) -> Extents:
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z


def _integer(where: str, name: str, value: Any, kind: str = "integers") -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{where}: {name} must be {kind}, got {value!r}") from None


def _threads(where: str, value: Any) -> int:
    threads = _integer(where, "threads_per_block", value, "an integer")
    if not 1 <= threads <= _MOST_THREADS:
        raise ValueError(f"{where}: threads_per_block must be from 1 to {_MOST_THREADS}, got {threads}")
    return threads


def _extents(where: str, name: str, value: Any, avals: Sequence[Any]) -> tuple[int, ...]:
    if callable(value):
        value = value(*avals)
    items = value if isinstance(value, (tuple, list)) else (value,)
    extents = tuple(_integer(where, name, item) for item in items)
    if not 1 <= len(extents) <= 3:
        raise ValueError(f"{where}: {name} must have one to three dimensions, got {len(extents)}: {extents}")
    if min(extents) < 0:
        raise ValueError(f"{where}: {name} must not be negative, got {extents}")
    return extents


def _cover(dims: tuple[int, ...], threads: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns a grid and blocks of `threads` threads that cover `dims` threads."""
    wanted = _BLOCKS.get(len(dims), (threads,))
    block = tuple(max(1, min(most, dim)) for most, dim in zip(wanted, dims, strict=True))
    return tuple(-(-dim // size) for dim, size in zip(dims, block, strict=True)), block


def _check_limits(where: str, name: str, extents: Sequence[int], most: Sequence[int]) -> None:
    for axis, extent, limit in zip(_AXES, extents, most, strict=False):
        if extent > limit:
            raise ValueError(f"{where}: {name}.{axis} is at most {limit}, got {extent}: {tuple(extents)}")


@dataclasses.dataclass(frozen=True)
class LaunchSettings:
    """The user's settings for launches of a kernel."""

    grid: Dims | None = None
    block: Dims | None = None
    launch_dims: Dims | None = None
    threads_per_block: int = 256
    shared_mem: SharedBytes = 0

    def identity(self) -> Hashable:
        """Returns a key that is equal for equal settings. It does not refer to functions, which may refer to the kernel."""
        return tuple(
            id(value) if callable(value) else tuple(value) if isinstance(value, list) else value
            for value in (self.grid, self.block, self.launch_dims, self.threads_per_block, self.shared_mem)
        )

    def check(self, where: str) -> None:
        """Raises TypeError or ValueError for settings that are wrong for any arguments."""
        grid, block, dims = (1 if callable(value) else value for value in (self.grid, self.block, self.launch_dims))
        launch_shape(where, (), (), grid=grid, block=block, launch_dims=dims, threads_per_block=self.threads_per_block)
        if not callable(self.shared_mem):
            self._shared_bytes(where, (), ())

    def _shared_bytes(self, where: str, args: Sequence[Any], results: Sequence[Any]) -> int:
        shared = self.shared_mem(*args, *results) if callable(self.shared_mem) else self.shared_mem
        if isinstance(shared, bool) or not isinstance(shared, (int, np.integer)) or shared < 0:
            raise ValueError(f"{where}: shared_mem must be a number of bytes, got {shared!r}")
        return int(shared)

    def launch(self, where: str, args: Sequence[Any], results: Sequence[Any], *, cooperative: bool) -> Launch:
        """Makes the launch for arguments and results. TypeError or ValueError if no GPU can launch that."""
        grid, block = launch_shape(
            where,
            args,
            results,
            grid=self.grid,
            block=self.block,
            launch_dims=self.launch_dims,
            threads_per_block=self.threads_per_block,
        )
        return Launch(grid, block, self._shared_bytes(where, args, results), cooperative)
