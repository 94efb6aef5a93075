# SPDX-License-Identifier: Apache-2.0
"""The platforms whose programs call Callout: JAX accepted the FFI targets for them when Callout was imported.

A JAX whose XLA has another handler interface rejects the targets. Its programs use JAX's own callbacks
(docs/fallback.md).
"""

from __future__ import annotations

import jax

from .. import _ext

# The names by which plugins look up registered targets. Lowering rules use the names on the left.
_PLUGIN_PLATFORMS = {"cuda": "CUDA"}


def register_targets() -> tuple[tuple[str, ...], dict[str, str]]:
    """Registers Callout's targets with JAX; starts no backend. Returns the platforms, and JAX's errors for others."""
    platforms: set[str] = set()
    refused: dict[str, str] = {}
    for name, platform, handlers in _ext.ffi_targets():
        try:
            jax.ffi.register_ffi_target(name, handlers, platform=_PLUGIN_PLATFORMS.get(platform, platform))
        except Exception as error:  # noqa: BLE001 - other XLA versions may raise anything
            refused.setdefault(platform, f"{type(error).__name__}: {error}")
        platforms.add(platform)
    return tuple(sorted(platforms - set(refused))), refused


PLATFORMS, REFUSED = register_targets()


def reason(platform: str) -> str:
    """Returns why a platform has no native path."""
    if platform in REFUSED:
        return f"jax {jax.__version__} refused callout's handlers ({REFUSED[platform]})"
    return "callout has no native path there"
