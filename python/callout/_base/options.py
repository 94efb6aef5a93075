# SPDX-License-Identifier: Apache-2.0
"""`callout.options`: settings of one callback that the drop-in signatures have no room for."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import types
from collections.abc import Callable
from typing import Any, Literal

from .arguments import check_index
from .config import config


@dataclasses.dataclass(frozen=True)
class Options:
    """Holds the arguments of `options`. `args` is None where the caller gave none; `split` then asks `config.args`."""

    zero_copy: bool = False
    numpy_only: bool = False
    args: Literal["numpy", "jax"] | None = None
    memory: Literal["host", "device"] = "host"
    device_index: int | None = None
    name: str | None = None
    may_run_in_caller: bool = False  # whatever numpy_only says: no option of users


DEFAULT = Options()
_DEFAULT_NUMPY, _DEFAULT_JAX = Options(args="numpy"), Options(args="jax")


def look_like(wrapper: Any, fn: Callable[..., Any]) -> None:
    """Does what `functools.update_wrapper` does, as far as that goes: a callable may make up its attributes."""
    for name in functools.WRAPPER_ASSIGNMENTS:
        with contextlib.suppress(Exception):
            setattr(wrapper, name, getattr(fn, name))
    with contextlib.suppress(Exception):
        if isinstance(own := fn.__dict__, dict | types.MappingProxyType):
            wrapper.__dict__.update(own)
    wrapper.__wrapped__ = fn


class FunctionWithOptions:
    """Behaves like the callable that it wraps, and is understood by every entry point of callout."""

    def __init__(self, function: Callable[..., Any], chosen: Options):
        look_like(self, function)
        self.function = function
        self.options = chosen

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> FunctionWithOptions:
        """Returns a method with the settings, if it is a function in a class."""
        if instance is None or not hasattr(self.function, "__get__"):
            return self
        return FunctionWithOptions(self.function.__get__(instance, owner), self.options)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, FunctionWithOptions) and self.function == other.function and self.options == other.options
        )

    def __hash__(self) -> int:
        return hash((self.function, self.options))


def options(
    fn: Callable[..., Any],
    *,
    zero_copy: bool | None = None,
    numpy_only: bool | None = None,
    args: Literal["numpy", "jax"] | None = None,
    memory: Literal["host", "device"] | None = None,
    device_index: int | None = None,
    name: str | None = None,
) -> FunctionWithOptions:
    """Returns `fn` with settings that `pure_callback` and `tap` honour.

    What is None is as `fn` has it, which may be a function with settings, its method or a `functools.partial` of it.
    Otherwise it is False, what `callout.config.args` says ("numpy" by default), and "host".

    Args:
        fn: the callback.
        zero_copy: pass read-only views of XLA's own memory instead of copies. A callback that keeps one beyond its call
            fails with an error that says so. Calls only; taps always own what they get.
        numpy_only: a promise that the callback does not use JAX. On a CPU its programs are then dispatched asynchronously,
            and are written to the persistent compilation cache by JAX 0.10 too. A callback that breaks it can hang.
        args: "numpy" passes NumPy arrays; "jax" passes `jax.Array`s. Before JAX 0.12 a callback that uses JAX can hang
            where many programs are queued: see docs/hangs.md. `zero_copy`, `numpy_only` and `memory="device"` say "numpy",
            whatever `callout.config.args` is.
        memory: where the arguments are: "host", or "device" for the device's own memory, which on CPU is the same. On
            CUDA the callback gets Buffers of `callout.buffer_callback`, of which other libraries make arrays by DLPack or
            the CUDA array interface, and may return arrays on the device. For calls that are not ordered; taps send copies.
        device_index: the device whose callback runs when the operands are sharded over several.
        name: what errors, counters and logs call it; the function's qualified name if None.

    Returns:
        A callable with the settings, which every function of Callout that takes a callback understands.

    Raises:
        TypeError: `fn` is not callable, or `name` no str.
        ValueError: another value of `args` or `memory`; a `device_index` that is no integer or negative; `zero_copy` with
            `args="jax"`.

    Example:
        >>> total = callout.options(np.sum, zero_copy=True, name="total")
        >>> like = jax.ShapeDtypeStruct((), jnp.float32)
        >>> float(jax.jit(lambda x: callout.pure_callback(total, like, x))(jnp.arange(4.0)))
        6.0
    """
    if args not in (None, "numpy", "jax"):
        raise ValueError(f'callout.options: args must be "numpy" or "jax", got {args!r}')
    if memory not in (None, "host", "device"):
        raise ValueError(f'callout.options: memory must be "host" or "device", got {memory!r}')
    if device_index is not None:
        device_index = check_index("callout.options: device_index", device_index)
    if name is not None and not isinstance(name, str):
        raise TypeError(f"callout.options: name must be a str, got {name!r}")
    told: dict[str, Any] = {
        "zero_copy": zero_copy,
        "numpy_only": numpy_only,
        "args": args,
        "memory": memory,
        "device_index": device_index,
        "name": name,
    }
    plain, inner = _as_told(fn)
    chosen = dataclasses.replace(inner, **{option: value for option, value in told.items() if value is not None})
    if chosen.zero_copy and chosen.args == "jax":
        raise ValueError('callout.options: zero_copy=True needs args="numpy": a jax.Array keeps its memory')
    if not callable(fn):
        raise TypeError(f"callout.options: expected a callable, got {fn!r}")
    return FunctionWithOptions(plain, chosen)


def split(fn: Callable[..., Any]) -> tuple[Callable[..., Any], Options]:
    """Returns the plain function and its options, all of which are decided. Every eager call asks: 0.2 us for a function."""
    if type(fn) is types.FunctionType:
        return fn, _DEFAULT_NUMPY if config.args == "numpy" else _DEFAULT_JAX
    plain, chosen = _as_told(fn)
    if chosen.args is not None:
        return plain, chosen
    is_numpy = chosen.zero_copy or chosen.numpy_only or chosen.memory == "device" or config.args == "numpy"
    if chosen is DEFAULT:
        return plain, _DEFAULT_NUMPY if is_numpy else _DEFAULT_JAX
    return plain, dataclasses.replace(chosen, args="numpy" if is_numpy else "jax")


def with_args(fn: Callable[..., Any], args: Literal["numpy", "jax"]) -> Callable[..., Any]:
    """Returns a callable that gets arrays of that kind, whatever `config.args` says; `fn` itself where it would."""
    if split(fn)[1].args == args:
        return fn
    plain, chosen = _as_told(fn)
    return fn if chosen.args is not None else FunctionWithOptions(plain, dataclasses.replace(chosen, args=args))


def _as_told(fn: Callable[..., Any]) -> tuple[Callable[..., Any], Options]:
    """Returns the plain function and what `options` was told of it."""
    if isinstance(fn, FunctionWithOptions):
        return fn.function, fn.options
    if isinstance(fn, functools.partial):
        plain, chosen = _as_told(fn.func)
        if plain is not fn.func:
            return functools.partial(plain, *fn.args, **fn.keywords), chosen
    return fn, DEFAULT
