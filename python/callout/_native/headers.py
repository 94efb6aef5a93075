# SPDX-License-Identifier: Apache-2.0
"""Where the C++ headers and the CMake package are."""

from __future__ import annotations

from pathlib import Path

_HOME = Path(__file__).parents[1]


def _folder(what: str, *parts: str) -> str:
    folder = _HOME.joinpath(*parts)
    if not folder.is_dir():
        raise NotImplementedError(
            f"callout: {what} in {_HOME}: this is the pure-Python wheel (py3-none-any), which has no C++ core. A wheel with "
            "the core, for CPython on Linux x86-64, has it; docs/fallback.md has the list"
        )
    return str(folder)


def include_dir() -> str:
    """Returns the folder of the C++ headers, for `-I`.

    Returns:
        Its path.

    Raises:
        NotImplementedError: the pure-Python wheel has none.

    Example:
        >>> import pathlib
        >>> (pathlib.Path(callout.include_dir()) / "callout" / "call.h").exists()
        True
    """
    return _folder("there are no C++ headers", "include")


def cmake_dir() -> str:
    """Returns the folder of the CMake package, for `-Dcallout_DIR=`.

    Returns:
        Its path.

    Raises:
        NotImplementedError: the pure-Python wheel has none.

    Example:
        >>> import pathlib
        >>> pathlib.Path(callout.cmake_dir()).is_dir()
        True
    """
    return _folder("there is no CMake package", "lib", "cmake", "callout")
