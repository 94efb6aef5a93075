# SPDX-License-Identifier: Apache-2.0
"""`callout.options` gives a callback settings that JAX's signatures have no parameters for."""

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
    """Holds the arguments of `options`. If `args` is None, `split` takes `config.args`."""

    zero_copy: bool = False
    numpy_only: bool = False
    args: Literal["numpy", "jax"] | None = None
    memory: Literal["host", "device"] = "host"
    device_index: int | None = None
    name: str | None = None
    may_run_in_caller: bool = False  # even with numpy_only; not a public option


DEFAULT = Options()
_DEFAULT_NUMPY, _DEFAULT_JAX = Options(args="numpy"), Options(args="jax")


def look_like(wrapper: Any, fn: Callable[..., Any]) -> None:
    """Copies attributes like `functools.update_wrapper`, without failing: a callable's attributes may raise anything."""
    for name in functools.WRAPPER_ASSIGNMENTS:
        with contextlib.suppress(Exception):
            setattr(wrapper, name, getattr(fn, name))
    with contextlib.suppress(Exception):
        if isinstance(own := fn.__dict__, dict | types.MappingProxyType):
            wrapper.__dict__.update(own)
    wrapper.__wrapped__ = fn


class FunctionWithOptions:
    """Behaves like the callable that it wraps, with settings for every function of Callout that takes a callback."""

    def __init__(self, function: Callable[..., Any], chosen: Options):
        look_like(self, function)
        self.function = function
        self.options = chosen

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> FunctionWithOptions:
        """Returns a bound method with the settings, if the function is in a class."""
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
    """Returns `fn` with settings for `pure_callback`, `tap` and other functions that take a callback.

    A setting that is None keeps its value in `fn`, which may be a function with settings, its method or a
    `functools.partial` of it. Otherwise `zero_copy` and `numpy_only` are False, `args` is `callout.config.args`
    ("numpy" by default), and `memory` is "host".

    Args:
        fn: the callback.
        zero_copy: pass read-only views of XLA's own memory instead of copies. Borrowed: valid until the callback
            returns; a callback that keeps a view fails. Has no effect on taps, which always own their arrays.
        numpy_only: a promise that the callback does not use JAX. On a CPU its programs are then dispatched
            asynchronously, and even JAX 0.10 writes them to the persistent compilation cache. A callback that breaks
            the promise can hang.
        args: "numpy" passes NumPy arrays; "jax" passes `jax.Array`s. Before JAX 0.12 a callback that uses JAX can hang
            while many programs are queued: see docs/hangs.md. `zero_copy`, `numpy_only` and `memory="device"` imply
            "numpy", even if `callout.config.args` is "jax".
        memory: where the arguments are: in "host" memory, or in the memory of the "device", which on CPU is the same.
            On CUDA, with "device", the callback gets Buffers of `callout.buffer_callback`, which other libraries read
            by DLPack or the CUDA array interface, and may return arrays on the device. Only for calls that are not
            ordered; taps send copies.
        device_index: the device whose callback runs when the operands are sharded over several.
        name: the callback's name in errors, counters and logs; None for the function's qualified name.

    Returns:
        A callable with the settings, for every function of Callout that takes a callback.

    Raises:
        TypeError: `fn` is not callable, or `name` is no str.
        ValueError: an unknown `args` or `memory`; `device_index` is no integer or negative; `zero_copy` with
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
    given: dict[str, Any] = {
        "zero_copy": zero_copy,
        "numpy_only": numpy_only,
        "args": args,
        "memory": memory,
        "device_index": device_index,
        "name": name,
    }
    plain, inner = _as_told(fn)
    chosen = dataclasses.replace(inner, **{option: value for option, value in given.items() if value is not None})
    if chosen.zero_copy and chosen.args == "jax":
        raise ValueError('callout.options: zero_copy=True needs args="numpy": a jax.Array keeps its memory')
    if not callable(fn):
        raise TypeError(f"callout.options: expected a callable, got {fn!r}")
    return FunctionWithOptions(plain, chosen)


def split(fn: Callable[..., Any]) -> tuple[Callable[..., Any], Options]:
    """Returns the plain function and its options with defaults filled in. Every eager call pays for this: 0.2 us."""
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
    """Returns a callable that gets arrays of this kind, independent of `config.args`; `fn` itself if it does already."""
    if split(fn)[1].args == args:
        return fn
    plain, chosen = _as_told(fn)
    return fn if chosen.args is not None else FunctionWithOptions(plain, dataclasses.replace(chosen, args=args))


def _as_told(fn: Callable[..., Any]) -> tuple[Callable[..., Any], Options]:
    """Returns the plain function and its explicit options."""
    if isinstance(fn, FunctionWithOptions):
        return fn.function, fn.options
    if isinstance(fn, functools.partial):
        plain, chosen = _as_told(fn.func)
        if plain is not fn.func:
            return functools.partial(plain, *fn.args, **fn.keywords), chosen
    return fn, DEFAULT
