# SPDX-License-Identifier: Apache-2.0
"""The settings of a progress bar. They are checked in the user's call, not when the bar is drawn."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

Devices = Literal["each", "sum"]
TqdmType = Literal["auto", "std", "notebook"]

_TQDM_TYPES = ("auto", "std", "notebook")
_DEVICES = ("each", "sum")
_MOST_US = 2**32 - 1  # programs pass it as a uint32


@dataclasses.dataclass(frozen=True, eq=False)
class Settings:
    """The settings of one bar in the user's code. Each execution of the loop shows a new bar."""

    where: str  # the bar's name in errors
    total: int | None
    print_rate: int | None  # steps between updates; None: updates at time intervals
    tqdm_type: str
    devices: str
    only_process: int | None
    tqdm: Mapping[str, Any]  # arguments of tqdm

    early_rests: list[int] = dataclasses.field(default_factory=list, repr=False)  # _bars.py uses this under its lock
    _eager: list[Any] = dataclasses.field(default_factory=list, repr=False)

    def eager_loop(self, make: Callable[[], Any]) -> Any:
        """Returns the object for steps that are not compiled, and makes it at the first call."""
        if not self._eager:
            self._eager.append(make())
        return self._eager[0]

    def interval_us(self) -> int:
        """Returns the microseconds that a chunk should take without print_rate: half of tqdm's drawing interval."""
        return int(min(max(float(self.tqdm.get("mininterval", 0.1)) / 2 * 1e6, 1), _MOST_US))


def tqdm_class(tqdm_type: str) -> Any:
    """Returns the class that draws. Imports tqdm."""
    if tqdm_type == "notebook":
        from tqdm.notebook import tqdm as notebook_tqdm

        return notebook_tqdm
    if tqdm_type == "std":
        from tqdm.std import tqdm as std_tqdm

        return std_tqdm
    from tqdm.auto import tqdm as auto_tqdm

    return auto_tqdm


@functools.cache
def loop_class(tqdm_type: str) -> Any:
    """Makes a `tqdm_class` for loops in programs, without tqdm's monitor thread, which cannot start at exit."""
    return type("tqdm", (tqdm_class(tqdm_type),), {"monitor_interval": 0})


@functools.cache
def _tqdm_arguments() -> frozenset[str]:
    from tqdm.std import tqdm

    taken = {"self", "iterable", "total", "gui", "kwargs"}
    return frozenset(set(inspect.signature(tqdm.__init__).parameters) - taken | {"display"})


def check_total(where: str, n: Any) -> int:
    """Returns a number of steps. Raises TypeError if `n` is no number, ValueError if it is out of range."""
    n = whole(n)
    if isinstance(n, str):
        raise TypeError(f"{where}: the first argument must be the number of steps, got {n!r}; a text goes to desc=")
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"{where}: the number of steps must be an integer of at least 0, got {n!r}")
    if n.__index__() < 0:
        raise ValueError(f"{where}: the number of steps must be an integer of at least 0, got {n!r}")
    return int(n.__index__())


def whole(value: Any) -> Any:
    """Converts a float that is a whole number to an int, like jax-tqdm. Returns other values unchanged."""
    is_whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return int(value) if is_whole else value


def _check_tqdm(where: str, tqdm: Mapping[str, Any]) -> None:
    if "total" in tqdm:
        raise TypeError(f"{where}: total={tqdm['total']!r}: pass the number of steps as the first argument")
    unknown = sorted(set(tqdm) - _tqdm_arguments())
    if unknown:
        raise TypeError(
            f"{where}: {', '.join(unknown)}: neither an argument of tqdm nor a callable that makes a field of the bar"
        )
    if "lock_args" in tqdm:
        raise ValueError(
            f"{where}: lock_args cannot be passed on: tqdm would keep its lock after drawing, and other bars would wait "
            "for it"
        )
    desc = tqdm.get("desc")
    if desc is not None and not isinstance(desc, str):
        raise TypeError(f"{where}: desc must be a str, got {desc!r}")
    interval = tqdm.get("mininterval", 0.1)
    try:
        is_number = not math.isnan(float(interval))
    except (TypeError, ValueError):
        is_number = False
    if not is_number:
        raise ValueError(f"{where}: mininterval must be a number of seconds, got {interval!r}")


def make_settings(
    where: str,
    total: int | None,
    *,
    print_rate: int | None = None,
    tqdm_type: str = "auto",
    devices: str = "each",
    only_process: int | None = 0,
    tqdm: Mapping[str, Any],
) -> Settings:
    """Makes the settings. Raises ValueError for invalid values, TypeError for arguments that tqdm does not have."""
    if tqdm_type not in _TQDM_TYPES:
        raise ValueError(f"{where}: tqdm_type must be one of {list(_TQDM_TYPES)}, got {tqdm_type!r}")
    if devices not in _DEVICES:
        raise ValueError(f"{where}: devices must be one of {list(_DEVICES)}, got {devices!r}")
    print_rate = whole(print_rate)
    if print_rate is not None and (not hasattr(print_rate, "__index__") or print_rate < 1):
        raise ValueError(f"{where}: print_rate must be an integer of at least 1, got {print_rate!r}")
    if print_rate is not None and total is not None and print_rate > max(total, 1):
        raise ValueError(f"{where}: print_rate must not exceed the number of steps {total}, got {print_rate}")
    _check_tqdm(where, tqdm)
    # Make the lock now, not with the first bar: at exit its semaphore would be made after multiprocessing's clean-up.
    loop_class(tqdm_type).get_lock()
    return Settings(where, total, print_rate, tqdm_type, devices, only_process, dict(tqdm))
