# SPDX-License-Identifier: Apache-2.0
"""Decides by `config.fallback` on which platforms programs use JAX's own callbacks."""

from __future__ import annotations

from collections.abc import Iterable

from ..._base.config import config
from ..._base.loggers import logger
from ..._base.native_platforms import PLATFORMS, reason
from ..._jax_compat import CALLBACK_PLATFORMS

_warned: dict[None, object] = {}


def is_used(platform: str) -> bool:
    """Returns whether programs for this platform use JAX's callbacks."""
    if platform not in CALLBACK_PLATFORMS:
        return False
    return config.fallback == "always" or (config.fallback == "auto" and platform not in PLATFORMS)


def remedy(platforms: Iterable[str], exporting: bool) -> str:
    """Returns the remedy in an error about callbacks on these platforms."""
    if not all(platform in CALLBACK_PLATFORMS for platform in platforms):
        return ""
    if config.fallback == "off":
        return '; callout.config.fallback = "auto" has JAX\'s own callbacks carry Python functions and taps there'
    if exporting:
        return "; callout.pure_callback with a registered name, and taps, go by JAX's own callbacks there"
    return "; callout.pure_callback with a Python function, and taps, go by JAX's own callbacks there"


def warn_once(platform: str) -> None:
    """Warns at the first use that JAX's callbacks are slower, and why they are used."""
    warning = object()
    if _warned.setdefault(None, warning) is not warning:
        return
    why = reason(platform) if platform not in PLATFORMS else f"config.fallback={config.fallback!r}"
    logger.warning(
        "programs for %s reach callbacks and taps by JAX's own callbacks, because %s: each of them, a tap to a sink and a "
        "check too, holds the GIL%s. docs/fallback.md tells what else differs",
        platform,
        why,
        "" if platform == "tpu" else ", and a tap's program waits until its value is queued",
    )
