# SPDX-License-Identifier: Apache-2.0
"""`scan_tqdm` and `loop_tqdm`, with jax-tqdm's arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ._decorator import decorate
from ._settings import Settings, check_total, make_settings

F = TypeVar("F", bound=Callable[..., Any])

# jax-tqdm decides these itself.
_DROPPED = ("total", "mininterval", "maxinterval", "miniters")


def _settings(where: str, n: int, print_rate: int | None, tqdm_type: str, tqdm: dict[str, Any]) -> Settings:
    n = check_total(where, n)
    desc = tqdm.pop("desc", f"Running for {n:,} iterations")
    desc = tqdm.pop("message", desc)
    tqdm = {name: value for name, value in tqdm.items() if name not in _DROPPED}
    if print_rate is None:
        print_rate = n // 20 if n > 20 else 1
    elif n == 0:
        raise ValueError(f"{where}: print_rate must not exceed the number of steps 0, got {print_rate!r}")
    return make_settings(where, n, print_rate=print_rate, tqdm_type=tqdm_type, tqdm={"desc": desc, **tqdm})


def scan_tqdm(n: int, print_rate: int | None = None, tqdm_type: str = "auto", **kwargs: Any) -> Callable[[F], F]:
    """Draws a progress bar for the body of a `jax.lax.scan`; jax-tqdm's.

    Args:
        n: the number of steps.
        print_rate: steps between updates; by default a twentieth of all.
        tqdm_type: "auto", "std" or "notebook".
        **kwargs: arguments of tqdm. `total`, `mininterval`, `maxinterval` and `miniters` are dropped.

    Returns:
        A decorator. The initial value of the loop may be a `PBar`.

    Raises:
        ValueError: print_rate is below 1 or above n, or there is no such tqdm_type.

    Example:
        >>> @jax.jit
        ... def powers(x):
        ...     @callout.progress.scan_tqdm(10, file=open("bar.txt", "w"))
        ...     def body(y, i):
        ...         return 2 * y, None
        ...     return jax.lax.scan(body, x, jnp.arange(10))[0]
        >>> float(powers(jnp.float32(1)))
        1024.0
        >>> callout.barrier_wait()
    """
    settings = _settings("callout.progress.scan_tqdm", n, print_rate, tqdm_type, kwargs)
    return lambda body: decorate(body, settings, {})


def loop_tqdm(n: int, print_rate: int | None = None, tqdm_type: str = "auto", **kwargs: Any) -> Callable[[F], F]:
    """Draws a progress bar for the body of a `jax.lax.fori_loop`; jax-tqdm's. Arguments and errors are those of `scan_tqdm`.

    Args:
        n: the number of steps.
        print_rate: steps between updates; by default a twentieth of all.
        tqdm_type: "auto", "std" or "notebook".
        **kwargs: as in `scan_tqdm`.

    Returns:
        A decorator. The initial value of the loop may be a `PBar`.

    Raises:
        ValueError: print_rate is below 1 or above n, or there is no such tqdm_type.

    Example:
        >>> @jax.jit
        ... def powers(x):
        ...     @callout.progress.loop_tqdm(10, file=open("bar.txt", "w"))
        ...     def body(i, y):
        ...         return 2 * y
        ...     return jax.lax.fori_loop(0, 10, body, x)
        >>> float(powers(jnp.float32(1)))
        1024.0
        >>> callout.barrier_wait()
    """
    settings = _settings("callout.progress.loop_tqdm", n, print_rate, tqdm_type, kwargs)
    return lambda body: decorate(body, settings, {})
