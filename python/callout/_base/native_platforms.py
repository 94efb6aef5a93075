# SPDX-License-Identifier: Apache-2.0
"""The platforms whose programs call Callout: those for which JAX took the FFI targets, when Callout was imported.

A JAX whose XLA has another interface of handlers refuses them. Its programs go by JAX's own callbacks (docs/fallback.md).
"""

from __future__ import annotations

import jax

from .. import _ext

# What plugins call the platform when they ask for what was registered. Lowering rules use the other name.
_PLUGIN_PLATFORMS = {"cuda": "CUDA"}


def register_targets() -> tuple[tuple[str, ...], dict[str, str]]:
    """Tells JAX about our targets; starts no backend. Returns the platforms, and why JAX refused others."""
    platforms: set[str] = set()
    refused: dict[str, str] = {}
    for name, platform, handlers in _ext.ffi_targets():
        try:
            jax.ffi.register_ffi_target(name, handlers, platform=_PLUGIN_PLATFORMS.get(platform, platform))
        except Exception as error:  # noqa: BLE001 - whatever another XLA says
            refused.setdefault(platform, f"{type(error).__name__}: {error}")
        platforms.add(platform)
    return tuple(sorted(platforms - set(refused))), refused


PLATFORMS, REFUSED = register_targets()


def reason(platform: str) -> str:
    """Tells why there is no native path for a platform."""
    if platform in REFUSED:
        return f"jax {jax.__version__} refused callout's handlers ({REFUSED[platform]})"
    return "callout has no native path there"
