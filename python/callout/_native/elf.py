# SPDX-License-Identifier: Apache-2.0
"""What a shared library exports, read from its dynamic symbol table (ELF-64, little-endian; see elf(5))."""

from __future__ import annotations

import struct
from pathlib import Path

_SECTION = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, link, info, alignment, entry size
_SYMBOL = struct.Struct("<IBBHQQ")  # name, info, other, section, value, size
_DYNSYM = 11


def exported_symbols(path: Path) -> set[str]:
    """Returns the names of the defined symbols. ValueError for a file that is not such a library, or damaged."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path} is no shared library: it has {len(data)} bytes, and begins with {data[:6]!r}")
    try:
        return _symbols(data)
    except (struct.error, ValueError, IndexError, OverflowError) as error:
        raise ValueError(f"the shared library {path} of {len(data)} bytes is damaged: {error}") from error


def _symbols(data: bytes) -> set[str]:
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [_SECTION.unpack_from(data, table + size * i) for i in range(count)]
    names = set()
    for _, kind, _, _, offset, length, link, *_ in sections:
        if kind != _DYNSYM:
            continue
        strings = sections[link][4]
        for name, _, _, section, *_ in _SYMBOL.iter_unpack(data[offset : offset + length]):
            if section:
                end = data.index(b"\0", strings + name)
                names.add(data[strings + name : end].decode())
    return names
