# SPDX-License-Identifier: Apache-2.0
"""`progress` wraps the body of a loop; `scan_tqdm` and `loop_tqdm` do so with jax-tqdm's arguments."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, Literal, TypeVar

import jax

from .. import _jax_compat
from . import _loops  # noqa: F401 - it lowers the loops
from ._bars import board
from ._marker import Mark, mark_p
from ._settings import Settings, check_total, make_settings, tqdm_class

C = TypeVar("C")
F = TypeVar("F", bound=Callable[..., Any])
Field = Callable[[Any], Any]


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class PBar(Generic[C]):
    """Joins a loop's initial value and the number of its bar, so that under `vmap` each lane has a bar.

    Args:
        id: the number of the bar, from 0 on; an integer or a traced one.
        carry: the loop's own initial value, a pytree.

    Example:
        >>> @callout.progress.scan_tqdm(10, file=open("bar.txt", "w"))
        ... def body(carry, i):
        ...     return 2 * carry, None
        >>> run = jax.vmap(lambda lane, x: jax.lax.scan(body, callout.progress.PBar(lane, x), jnp.arange(10))[0].carry)
        >>> run(jnp.arange(2), jnp.ones(2))
        Array([1024., 1024.], dtype=float32)
        >>> callout.barrier_wait()
    """

    id: Any
    carry: C

    def replace(self, **changes: Any) -> PBar[C]:
        """Returns a copy with other values of `id` or `carry`."""
        return dataclasses.replace(self, **changes)


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape")


def _field(where: str, name: str, value: Any) -> Any:
    """Returns a field's value. Raises TypeError if it is not one real number."""
    if value is None:
        raise TypeError(f"{where}: field '{name}' must be a number, but its function returned None")
    try:
        array = value if _is_array(value) else jax.numpy.asarray(value)
    except TypeError:
        raise TypeError(f"{where}: field '{name}' must be a number, got {value!r}") from None
    if array.shape != () or jax.dtypes.issubdtype(array.dtype, jax.dtypes.extended):
        raise TypeError(f"{where}: field '{name}' must be a scalar, got {array.dtype}{list(array.shape)}")
    if jax.numpy.issubdtype(array.dtype, jax.numpy.complexfloating):
        raise TypeError(f"{where}: field '{name}' must be a real number, got {array.dtype}")
    return array


def decorate(body: F, settings: Settings, fields: Mapping[str, Field]) -> F:
    """Returns the body of a loop with a marker behind it. The body gets the `carry` of a PBar among the arguments."""

    @functools.wraps(body)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        places = [i for i, arg in enumerate(args) if isinstance(arg, PBar)]
        bar = args[places[0]] if places else None
        plain = [arg.carry if arg is bar else arg for arg in args] if bar is not None else args
        out = body(*plain, **kwargs)
        shown = [_field(settings.where, name, field(out)) for name, field in fields.items()]
        _mark(settings, tuple(fields), None if bar is None else bar.id, shown, plain)
        if bar is None:
            return out
        if places[0] == 0 and len(args) > 1:  # the body of a scan
            return (PBar(bar.id, out[0]), *out[1:])
        return PBar(bar.id, out)

    weakref.finalize(decorated, board.forget, settings)
    return decorated  # type: ignore[return-value]


def _mark(settings: Settings, names: tuple[str, ...], ids: Any, fields: list[Any], args: Any) -> None:
    leaves = [leaf for leaf in jax.tree.leaves(args) if isinstance(leaf, jax.core.Tracer)]
    anchor = [leaf for leaf in leaves if not jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended)][:1]
    lanes = max(map(_jax_compat.count_lanes, leaves), default=0)
    if lanes and _jax_compat.jit_is_disabled() and not _is_in_batched_map():
        lanes = 0  # an untraced loop sees lanes of an outer vmap, too, which do not count
    shown = fields if ids is None else [jax.numpy.asarray(ids), *fields]
    mark_p.bind(*anchor, *shown, mark=Mark(settings, names, ids is not None, max(1, lanes), lanes > 0))


_MAP, *_LOOPS = (
    inspect.unwrap(loop).__code__ for loop in (jax.lax.map, jax.lax.scan, jax.lax.fori_loop, jax.lax.while_loop)
)


def _is_in_batched_map() -> bool:
    """Returns whether the innermost loop is a `map` with a batch_size. Only valid where loops run in Python."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not _MAP and frame.f_code not in _LOOPS:
        frame = frame.f_back
    for _ in range(4):  # `map` calls `scan`, perhaps through a wrapper of JAX
        if frame is not None and frame.f_code is not _MAP:
            frame = frame.f_back
    return frame is not None and frame.f_code is _MAP and frame.f_locals.get("batch_size") is not None


class Progress:
    """Decorates the body of a loop with a progress bar, or iterates with a bar. `progress` makes it."""

    def __init__(self, iterable: Iterable[Any] | None, settings: Settings, fields: Mapping[str, Field]):
        self._iterable = iterable
        self._settings = settings
        self._fields = dict(fields)

    def __call__(self, body: F) -> F:
        """Returns the body with a bar."""
        return decorate(body, self._settings, self._fields)

    def __iter__(self) -> Iterator[Any]:
        if self._iterable is None:
            raise TypeError(
                f"{self._settings.where}: there is nothing to go over: pass an iterable, or decorate a body"
            )
        if self._fields:
            names = ", ".join(self._fields)
            raise TypeError(
                f"{self._settings.where}: fields ({names}) are of a decorated body, which a Python loop has not"
            )
        cls = tqdm_class(self._settings.tqdm_type)
        return iter(cls(self._iterable, total=self._settings.total, **self._tqdm()))

    def _tqdm(self) -> dict[str, Any]:
        """Returns the arguments of tqdm for a loop in Python, whose steps tqdm counts itself."""
        options = dict(self._settings.tqdm)
        if self._settings.print_rate is not None:
            options = {"mininterval": 0, "miniters": self._settings.print_rate, **options}
        chosen = self._settings.only_process
        # A loop in Python may run before any backend exists, and asking JAX for the process would start a backend too
        # early.
        process = jax.process_index() if jax.distributed.is_initialized() else 0
        if chosen is not None and process != chosen:
            options["disable"] = True
        return options

    def __len__(self) -> int:
        if self._settings.total is None:
            raise TypeError(f"{self._settings.where}: the number of steps is not known")
        return self._settings.total


def progress(
    iterable_or_n: Any = None,
    desc: str | None = None,
    *,
    print_rate: int | None = None,
    tqdm_type: Literal["auto", "std", "notebook"] = "auto",
    devices: Literal["each", "sum"] = "each",
    only_process: int | None = 0,
    **fields_and_tqdm: Any,
) -> Progress:
    """Draws a progress bar for a loop in a program, or for one in Python.

    As a decorator it takes the body of `jax.lax.scan`, `fori_loop`, `while_loop` or `map`. The loop computes the same
    results, and the bar adds almost nothing to the cost of a step. tqdm draws the bar on the delivery thread;
    `callout.barrier_wait()` waits until the bar has ended. Each execution of the loop has a new bar.

    Args:
        iterable_or_n: the number of steps; or an iterable to go over with `for`, or whose length is the number of
            steps. None: a scan and a `fori_loop` with constant bounds give the number themselves; bars of other loops
            have no total.
        desc: the text in front of the bar.
        print_rate: steps between updates. None: as often as tqdm draws.
        tqdm_type: "auto", "std" for a terminal, "notebook".
        devices: if several devices run the loop in shard_map or pmap: "each" device has a bar, or one bar shows the
            "sum".
        only_process: the index of the process that draws the bar; None: every process draws.
        **fields_and_tqdm: a callable is a field of the bar: it gets the body's result, and returns a scalar, which is
            shown behind the bar. All other values are arguments of `tqdm.tqdm`.

    Returns:
        A decorator, which is also an iterable if `iterable_or_n` is one.

    Raises:
        ValueError: an argument has a value that it cannot have.
        TypeError: an argument is neither tqdm's nor callable.

    Example:
        >>> @jax.jit
        ... def powers(x):
        ...     @callout.progress.progress(file=open("bar.txt", "w"))
        ...     def body(i, y):
        ...         return 2 * y
        ...     return jax.lax.fori_loop(0, 10, body, x)
        >>> float(powers(jnp.float32(1)))
        1024.0
        >>> callout.barrier_wait()
    """
    where = "callout.progress"
    fields = {name: value for name, value in fields_and_tqdm.items() if callable(value)}
    tqdm = {name: value for name, value in fields_and_tqdm.items() if name not in fields}
    iterable = None
    total = None
    is_iterable = isinstance(iterable_or_n, Iterable) or hasattr(iterable_or_n, "__getitem__")
    is_one = isinstance(iterable_or_n, str) or (_is_array(iterable_or_n) and iterable_or_n.shape == ())
    if iterable_or_n is not None and (is_one or not is_iterable):
        total = check_total(where, iterable_or_n)
    elif iterable_or_n is not None:
        iterable = iterable_or_n
        total = len(iterable) if hasattr(iterable, "__len__") else None
    settings = make_settings(
        where,
        total,
        print_rate=print_rate,
        tqdm_type=tqdm_type,
        devices=devices,
        only_process=only_process,
        tqdm={"leave": None, **({} if desc is None else {"desc": desc}), **tqdm},
    )
    return Progress(iterable, settings, fields)


# jax-tqdm ignores these arguments and chooses the values itself.
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
    """Draws a progress bar for the body of a `jax.lax.scan`, with the arguments of jax-tqdm's `scan_tqdm`.

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
    """Draws a progress bar for the body of a `jax.lax.fori_loop`, with the arguments of jax-tqdm's `loop_tqdm`.

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
