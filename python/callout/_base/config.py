# SPDX-License-Identifier: Apache-2.0
"""All settings: one object, one table (docs/configuration.md), and an environment variable for each."""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .. import _ext
from . import loggers, patches

MIN_QUEUE_BYTES = 16_000_000
_UNSET = object()


def _boolean(value: object) -> bool:
    text = str(value).strip().lower()
    if text in ("1", "true", "yes", "on", "y", "t"):
        return True
    if text in ("0", "false", "no", "off", "n", "f"):
        return False
    raise ValueError("expected true or false")


def _queue_bytes(value: object) -> int:
    number = int(float(str(value)))
    if number < MIN_QUEUE_BYTES:
        raise ValueError(f"expected at least {MIN_QUEUE_BYTES} (16 MB)")
    if number >= 2**63:
        raise ValueError("expected less than 2**63")
    return number


def _seconds(value: object) -> float:
    number = float(str(value))
    if not number >= 0:
        raise ValueError("expected 0 or more seconds")
    return number


def _seconds_or_none(value: object) -> float | None:
    return None if value is None or str(value).strip().lower() in ("", "none") else _seconds(value)


def _thread_count(value: object) -> int:
    number = int(str(value))
    if not 1 <= number <= 64:
        raise ValueError("expected 1 to 64")
    return number


def _log_level(value: object) -> str:
    name = str(value).strip().lower()
    if name not in ("debug", "info", "warning", "error"):
        raise ValueError("expected debug, info, warning or error")
    return name


def _checks(value: object) -> str:
    name = str(value).strip().lower()
    if name not in ("raise", "warn", "off"):
        raise ValueError("expected raise, warn or off")
    return name


def _fallback(value: object) -> str:
    name = str(value).strip().lower()
    if name not in ("auto", "off", "always"):
        raise ValueError("expected auto, off or always")
    return name


def _args(value: object) -> str:
    name = str(value).strip().lower()
    if name not in ("numpy", "jax"):
        raise ValueError("expected numpy or jax")
    return name


def _folder(value: object) -> str:
    return str(Path(str(value)).expanduser())


@dataclasses.dataclass(frozen=True)
class _Setting:
    default: Any
    parse: Callable[[object], Any]
    doc: str


def _default_cache() -> str:
    return str(Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "callout")


SETTINGS: dict[str, _Setting] = {
    "queue_bytes": _Setting(
        256_000_000,
        _queue_bytes,
        "Capacity of each tap queue (two a device: to Python, to native code), bytes; at least 16e6.",
    ),
    "exit_timeout_s": _Setting(10.0, _seconds, "How long interpreter exit waits for programs and undelivered taps."),
    "hang_report_s": _Setting(30.0, _seconds, "Seconds without progress before a callback is reported; 0: never."),
    "tap_flush_interval": _Setting(
        None,
        _seconds_or_none,
        "Seconds for which loops may collect the records of taps that give no flush_interval; None: not at all.",
    ),
    "delivery_threads": _Setting(
        1, _thread_count, "Threads that run Python taps; devices are dealt out to them. 64 once host_callback taps."
    ),
    "log_level": _Setting("warning", _log_level, "Level of the `callout` logger and of the core."),
    "args": _Setting(
        "numpy", _args, "What Python callbacks get that options() tells nothing of args: numpy, or jax for jax.Arrays."
    ),
    "checks": _Setting(
        "raise", _checks, "What error_if and check do (raise, warn, off), in what is traced from then on."
    ),
    "fallback": _Setting(
        "auto", _fallback, "Where programs go by JAX's own callbacks: auto (without a native path), off, always."
    ),
    "locate_nans": _Setting(True, _boolean, "Whether locate_nans does anything, in what is traced from then on."),
    "cache_dir": _Setting(_default_cache(), _folder, "Where compiled native code is kept."),
    "embedded_code": _Setting(
        True, _boolean, "Run code that programs carry along (callout.cpp's embed=True, GPU kernels); see SECURITY.md."
    ),
    **{
        patch.setting: _Setting(True, _boolean, f"Patch {patch.name}: {patch.what}.")
        for patch in patches.TABLE.values()
    },
}

_PATCHES = {patch.setting: patch.name for patch in patches.TABLE.values()}

# Further names of settings, which also give further environment variables.
ALIASES: dict[str, str] = {}


class Config:
    """Has every setting as an attribute; `config.update(name, value)` also takes further names of settings.

    Assignment takes effect at once, unless the table in docs/configuration.md says otherwise. Thread-safe.
    """

    queue_bytes: int
    exit_timeout_s: float
    hang_report_s: float
    tap_flush_interval: float | None
    delivery_threads: int
    log_level: str
    args: str
    checks: str
    fallback: str
    locate_nans: bool
    cache_dir: str
    embedded_code: bool
    chain_errors: bool
    patch_tokens: bool
    patch_dispatch: bool
    patch_batching: bool
    patch_tapped_values: bool
    patch_rule_lines: bool
    patch_loop_invariants: bool
    patch_loop_lowering: bool

    def __init__(self) -> None:
        # Each setting is an attribute of the object, because eager calls read settings: a property takes ten times as
        # long.
        vars(self).update(
            {name: _from_environment(name, setting) for name, setting in SETTINGS.items()},
            _lock=threading.RLock(),
            _chosen={name for name in SETTINGS if _variables_of(name)},
        )
        for name in SETTINGS:
            self._apply(name)

    def _read(self, name: str) -> None:
        vars(self)[name] = _from_environment(name, SETTINGS[name])
        self._apply(name)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"callout.config has no setting {name!r}; there are: {', '.join(SETTINGS)}")

    def __setattr__(self, name: str, value: object) -> None:
        self.update(name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"callout.config: a setting cannot be deleted, got {name!r}")

    def __dir__(self) -> list[str]:
        return [*SETTINGS, "update"]

    def __reduce__(self) -> str:
        """Pickles the object's name, because settings belong to their process. A copy is the object itself."""
        return "config"

    def __repr__(self) -> str:
        return "callout.config(" + ", ".join(f"{name}={getattr(self, name)!r}" for name in SETTINGS) + ")"

    def update(self, name: str, value: object) -> None:
        """Changes one setting. Raises AttributeError for an unknown name and ValueError for a bad value, without effect."""
        name = ALIASES.get(name, name)
        if name not in SETTINGS:
            raise AttributeError(f"callout.config has no setting {name!r}; there are: {', '.join(SETTINGS)}")
        parsed = _parse(SETTINGS[name], value, f"callout.config.{name}")
        with self._lock:
            old = vars(self)[name]
            vars(self)[name] = parsed
            try:
                self._apply(name)
            except BaseException:
                vars(self)[name] = old
                raise
            self._chosen.add(name)

    def replace_default(self, name: str, value: object) -> None:
        """Changes a setting unless the program or the environment has chosen its value."""
        with self._lock:
            if name not in self._chosen:
                self.update(name, value)
                self._chosen.remove(name)

    def _apply(self, name: str) -> None:
        if name in ("queue_bytes", "delivery_threads"):
            _ext.configure_delivery(self.queue_bytes, self.delivery_threads)
        elif name == "hang_report_s":
            _ext.set_hang_report_seconds(self.hang_report_s)
        elif name == "embedded_code":
            _ext.allow_embedded_code(self.embedded_code)
        elif name in _PATCHES:
            patches.switch(_PATCHES[name], getattr(self, name))
        elif name == "log_level":
            loggers.logger.setLevel(getattr(logging, self.log_level.upper()))


def _parse(setting: _Setting, value: object, where: str) -> Any:
    try:
        return setting.parse(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{where}: {error}, got {value!r}") from None


def _from_environment(name: str, setting: _Setting) -> Any:
    for variable in _variables_of(name):
        return _parse(setting, os.environ[variable], f"environment variable {variable}")
    return setting.default


def _variables_of(name: str) -> list[str]:
    """Returns the setting's environment variables that are set; the first one counts."""
    variables = [f"CALLOUT_{name.upper()}", *(old.upper() for old, new in ALIASES.items() if new == name)]
    return [variable for variable in variables if os.environ.get(variable)]


config = Config()


def add(flags: Mapping[str, tuple[bool, str]], aliases: Mapping[str, str]) -> None:
    """Adds settings of a module above: flags, as (default, description) by name, and further names of settings."""
    SETTINGS.update({name: _Setting(default, _boolean, doc) for name, (default, doc) in flags.items()})
    ALIASES.update(aliases)
    for name in {*flags, *aliases.values()}:
        config._read(name)
