# SPDX-License-Identifier: Apache-2.0
"""A native function as a JAX function: what callout.cpp and callout.numba share."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

import jax

from .._base.arguments import as_leaves
from .._callbacks.derivatives import call_with_rules, inherited_vmap_method
from .._callbacks.pure_callback import check_sharding, result_avals
from .._primitives.aliases import check_aliases
from .._primitives.batching import VMAP_METHODS, check_vmap_method
from .._primitives.context import named_device
from .._targets.foreign_attributes import Constant
from .native_target import NativeTarget
from .primitive import PARALLEL, function_p

Constants = tuple[tuple[str, Constant], ...]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a call may be told besides its arguments; see `NativeFunction.options`."""

    out: Any = None
    vmap_method: str | None = None
    jvp: Callable[..., Any] | None = None
    vjp: tuple[Callable[..., Any], Callable[..., Any]] | None = None
    sharding: jax.sharding.SingleDeviceSharding | None = None
    input_output_aliases: Mapping[int, int] | None = None


_Self = TypeVar("_Self", bound="NativeFunction")


class NativeFunction(abc.ABC):
    """Is called with arrays, or pytrees of them, and with its constants by keyword."""

    _MORE_VMAP_METHODS: tuple[str, ...] = (PARALLEL,)

    def __init__(self, where: str, name: str, settings: Settings):
        self._where = where
        self._settings = settings
        self.__name__ = name
        check_vmap_method(where, settings.vmap_method, self._MORE_VMAP_METHODS)
        check_sharding(where, settings.sharding)

    def __copy__(self) -> Self:
        return self  # as functions do

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    @abc.abstractmethod
    def _with(self: _Self, settings: Settings) -> _Self:
        """Returns a copy with these settings."""

    @abc.abstractmethod
    def _prepare(self, constants: Mapping[str, Any]) -> tuple[NativeTarget, Constants]:
        """Returns what to call, and the constants that the program carries."""

    @abc.abstractmethod
    def _results(self, args: Sequence[Any], avals: Sequence[Any], constants: Mapping[str, Any]) -> Any:
        """Returns shapes and dtypes of the results where `out` does not say them."""

    def _typed(self, index: int, arg: Any) -> Any:
        """Returns a Python number as an array."""
        del index
        return jax.numpy.asarray(arg) if isinstance(arg, (bool, int, float, complex)) else arg

    def _scratch(self, args: Sequence[Any], avals: Sequence[Any], constants: Mapping[str, Any]) -> tuple[Any, ...]:
        """Returns shapes and dtypes of results that are memory for the function, and dropped. They come last."""
        del args, avals, constants
        return ()

    def _check(self, args: Sequence[Any], results: Sequence[Any]) -> None:
        """Raises TypeError if the function does not take or give these. By default it finds out when it is compiled."""
        del args, results

    def options(self, **settings: Any) -> Self:
        """Returns a copy with other settings.

        Args:
            **settings: of these:

                - `out`: the results: a pytree of `jax.ShapeDtypeStruct`s, or a function of the arguments (with `shape` and
                  `dtype`) and the constants that returns one.
                - `vmap_method`: as in `jax.pure_callback`, or "parallel": `vmap` then calls the function once a lane, on
                  several of XLA's threads at once.
                - `jvp`: `jvp(primals, tangents, **constants)` returns (results, their tangents).
                - `vjp`: (`forward(*args, **constants)` returns (results, residuals), `backward(residuals, cotangents)`
                  returns a cotangent an argument).
                - `sharding`: `SingleDeviceSharding` of the device that calls, in a jit over several.
                - `input_output_aliases`: {argument: result}, both flat indices. Such a result holds its argument's value
                  when the function is called, which updates it in place.
        """
        return self._with(dataclasses.replace(self._settings, **settings))

    def __call__(self, *args: Any, **constants: Any) -> Any:
        def call(*values: Any) -> Any:
            return self._bind(values, constants)

        settings = self._settings
        return call_with_rules(
            call, args, constants, jvp=settings.jvp, vjp=settings.vjp, vmap_method=settings.vmap_method
        )

    def _error(self, text: str) -> TypeError:
        return TypeError(f"{self._where}: {text}")

    def _bind(self, args: Sequence[Any], constants: Mapping[str, Any]) -> Any:
        target, attributes = self._prepare(constants)
        leaves = [self._typed(i, arg) for i, arg in enumerate(jax.tree.leaves(args))]
        flat = as_leaves(self._where, leaves, jax.tree.structure((tuple(args), {})), is_call=True)
        avals = [jax.ShapeDtypeStruct(leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype)) for leaf in flat]
        results, tree = result_avals(self._where, self._declared(args, avals, constants))
        aliases = check_aliases(self._where, self._settings.input_output_aliases or {}, avals, results)
        filled = (*results, *self._scratch(args, avals, constants))
        self._check(avals, filled)
        out = self._call(flat, avals, target, filled, attributes=attributes, aliases=aliases)
        return jax.tree.unflatten(tree, out[: len(results)])

    def _call(
        self, flat: Sequence[Any], avals: Sequence[Any], target: NativeTarget, results: Sequence[Any], **params: Any
    ) -> Sequence[Any]:
        """Returns the results as a flat list. `avals` are those of `flat`."""
        del avals
        called: Sequence[Any] = function_p.bind(
            *flat,
            target=target,
            result_avals=results,
            vmap_method=self._vmap_method(),
            sharding=named_device(self._settings.sharding),
            lanes=None,
            **params,
        )
        return called

    def _vmap_method(self) -> str | None:
        return inherited_vmap_method(self._settings.vmap_method, (*self._MORE_VMAP_METHODS, *VMAP_METHODS))

    def _declared(self, args: Sequence[Any], avals: Sequence[Any], constants: Mapping[str, Any]) -> Any:
        out = self._settings.out
        return self._results(args, avals, constants) if out is None else shapes_of(out, args, avals, constants)


def shapes_of(wanted: Any, args: Sequence[Any], avals: Sequence[Any], constants: Mapping[str, Any]) -> Any:
    """Returns `wanted`, or what it returns for arguments of these shapes and for the constants."""
    if not callable(wanted):
        return wanted
    return wanted(*jax.tree.unflatten(jax.tree.structure(tuple(args)), avals), **constants)
