# SPDX-License-Identifier: Apache-2.0
"""Reads kernels' parameters and missing functions from images for GPUs, without a driver.

A cubin is ELF-64, little-endian. Its section `.nv.info.<kernel>` is a list of attributes: a byte for the format, a byte
for the attribute, two bytes for a value or, in one format, for the length of the data that follows. The attribute for a
parameter has 12 bytes: an index, the parameter's ordinal, its offset, and its size above bit 18. Kernels with more than
about 4 KB of parameters have another attribute instead, with the size below bit 24. A kernel without parameters has
neither attribute, and no attribute for the bytes of all parameters.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence

_ELF_HEAD = b"\x7fELF\x02\x01"
_CUDA_MACHINE = b"\xbe\0"
_FATBIN_HEAD = b"\x50\xed\x55\xba"
_SECTION = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, link, info, alignment, entry size
_NO_BITS = 8
_INFO = ".nv.info."
_SIZED = 4  # the format with data
_PARAMETER, _LARGE_PARAMETER, _ALL_BYTES = 0x17, 0x45, 0x19  # attributes

_PTX_HEAD = re.compile(rb"\s*(//[^\n]*\n\s*)*\.version\s")
_PTX_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?")
_PTX_PARAMETER = re.compile(
    r"\.param\b(?P<flags>[^,\[]*?)\.(?P<kind>[bsuf])(?P<bits>\d+)\b[^,\[]*(?:\[(?P<count>\d+)\])?"
)


def kind_of(image: bytes) -> str:
    """Returns the format of an image: "cubin", "fatbin" or "ptx". Raises ValueError for anything else."""
    if image.startswith(_ELF_HEAD) and image[0x12:0x14] == _CUDA_MACHINE:
        return "cubin"
    if image.startswith(_FATBIN_HEAD):
        return "fatbin"
    if _PTX_HEAD.match(image):
        return "ptx"
    raise ValueError(f"expected a cubin, a fat binary or PTX, got {len(image)} bytes that begin with {image[:16]!r}")


def parameter_sizes(image: bytes) -> dict[str, tuple[int, ...] | None] | None:
    """Returns the bytes of each parameter of each kernel.

    The result is None for a fat binary, whose contents are compressed. A kernel whose parameters the image does not
    describe has None.

    Raises:
        ValueError: the bytes are no image, or a truncated one.
    """
    kind = kind_of(image)
    if kind == "fatbin":
        return None
    try:
        return _of_cubin(image) if kind == "cubin" else _of_ptx(image.decode(errors="replace"))
    except (struct.error, ValueError, IndexError) as error:
        raise ValueError(f"the {kind} of {len(image)} bytes is damaged: {error}") from error


def check_parameters(where: str, image: bytes, symbol: str, sizes: Sequence[int]) -> None:
    """Raises TypeError if the image's kernel takes other parameters, ValueError if there is no such kernel."""
    kernels = parameter_sizes(image)
    if kernels is None:
        return
    if symbol not in kernels:
        raise ValueError(f"{where}: the image has no kernel {symbol!r}; there are: {', '.join(sorted(kernels))}")
    known = kernels[symbol]
    if known is not None and known != tuple(sizes):
        raise TypeError(
            f"{where}: the image's kernel {symbol!r} has parameters of {text_of(known)} bytes, got {text_of(sizes)}"
        )


def text_of(sizes: Sequence[int]) -> str:
    """Formats sizes for errors: "(8, 8, 4)"."""
    return f"({', '.join(map(str, sizes))})"


def _sections(image: bytes) -> Mapping[str, bytes]:
    (table,) = struct.unpack_from("<Q", image, 0x28)
    size, count, names = struct.unpack_from("<HHH", image, 0x3A)
    heads = [_SECTION.unpack_from(image, table + size * i) for i in range(count)]
    strings = heads[names][4]
    found = {}
    for name, kind, _, _, offset, length, *_ in heads:
        begin = strings + name
        data = b"" if kind == _NO_BITS else image[offset : offset + length]
        found[image[begin : image.index(b"\0", begin)].decode()] = data
    return found


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields attributes: (attribute, data), where data may be a value of two bytes."""
    at = 0
    while at < len(data):
        layout, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        if layout == _SIZED:
            yield attribute, data[at : at + value]
            at += value
        else:
            yield attribute, value.to_bytes(2, "little")


def _of_kernel(data: bytes) -> tuple[int, ...] | None:
    sizes, is_known = {}, True
    for kind, item in _attributes(data):
        if kind in (_PARAMETER, _LARGE_PARAMETER):
            _, place, _, packed = struct.unpack("<IHHI", item)
            sizes[place] = packed >> 18 if kind == _PARAMETER else packed & 0xFFFFFF
        elif kind == _ALL_BYTES:
            is_known = not any(item)
    return tuple(sizes[place] for place in sorted(sizes)) if sizes or is_known else None


def _of_cubin(image: bytes) -> dict[str, tuple[int, ...] | None]:
    kernels: dict[str, tuple[int, ...] | None] = {}
    for name, data in _sections(image).items():
        if name.startswith(_INFO):
            kernels[name[len(_INFO) :]] = _of_kernel(data)
    return kernels


def _of_ptx(text: str) -> dict[str, tuple[int, ...] | None]:
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    kernels: dict[str, tuple[int, ...] | None] = {}
    for name, parameters in _PTX_ENTRY.findall(text):
        found = [_PTX_PARAMETER.fullmatch(item.strip()) for item in parameters.split(",") if item.strip()]
        if None in found:
            raise ValueError(f"the parameters of {name} are ({parameters.strip()})")
        kernels[name] = tuple(int(item["bits"]) // 8 * int(item["count"] or 1) for item in found if item)
    return kernels


_EXTERNAL = re.compile(r"\.extern\s+\.func\b(?:\s*\([^)]*\))?\s+([\w$.%]+)")
# Functions that every driver links by itself.
_OF_THE_DRIVER = frozenset({"vprintf", "malloc", "free", "__assertfail"})


def missing_functions(ptx: str) -> set[str]:
    """Returns the functions that the PTX calls, and that neither it nor the driver has: they must be linked."""
    return set(_EXTERNAL.findall(ptx)) - _OF_THE_DRIVER


def is_complete(ptx: str) -> bool:
    """Returns True for a single module of PTX that needs no other module."""
    return ptx.count(".address_size") == 1 and not missing_functions(ptx)
