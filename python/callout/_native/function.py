# SPDX-License-Identifier: Apache-2.0
"""A native function as a JAX function: shapes and types are checked when it is traced."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from .. import _ext
from .._arguments import as_leaves
from .._primitives.batching import check_vmap_method
from .._primitives.function import Constant, function_p
from .._pure_callback import check_sharding, result_avals
from .._targets import Target

_IN, _OUT, _ATTRIBUTE = 1, 2, 3


@dataclasses.dataclass(frozen=True)
class _Parameter:
    kind: int
    dtype: str
    rank: int
    name: str

    def fits(self, shape: Sequence[int], dtype: Any) -> bool:
        return np.dtype(dtype).name == self.dtype and self.rank in (-1, len(shape))

    def __str__(self) -> str:
        return f"{self.dtype} of {'any rank' if self.rank < 0 else f'rank {self.rank}'}"


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a call may be told besides its arguments; see `Function`."""

    out: Any = None
    vmap_method: str | None = None
    jvp: Callable[..., Any] | None = None
    vjp: tuple[Callable[..., Any], Callable[..., Any]] | None = None
    sharding: jax.sharding.SingleDeviceSharding | None = None


class Function:
    """A native function that JAX programs can call.

    Call it with arrays, and with its attributes by keyword. `options` returns a copy with other settings:

    Args:
        out: the results: a pytree of `jax.ShapeDtypeStruct`s, or a function of the arguments (with `shape` and `dtype`) and
            the attributes that returns one. If left out, each result has the shape of the first argument of its rank; that
            needs a function that describes its parameters.
        vmap_method: as in `jax.pure_callback`.
        jvp: `jvp(primals, tangents, **attributes)` returns (results, their tangents).
        vjp: (`forward(*args, **attributes)` returns (results, residuals), `backward(residuals, cotangents)` returns a
            cotangent an argument).
        sharding: `SingleDeviceSharding` of the device that calls, in a jit over several.
    """

    def __init__(self, target: Target, name: str, settings: Settings):
        self._target = target
        self._settings = settings
        self.__name__ = name
        described: Any = _ext.native_parameters(target.callback())
        self._parameters = None if described is None else [_Parameter(*item) for item in described]

    def __repr__(self) -> str:
        return f"<native function {self._target.label}>"

    def options(self, **settings: Any) -> Function:
        """A copy with other settings."""
        return Function(self._target, self.__name__, dataclasses.replace(self._settings, **settings))

    def __call__(self, *args: Any, **attributes: Any) -> Any:
        constants = self._constants(attributes)

        def call(*values: Any) -> Any:
            return self._bind(values, constants, attributes)

        if self._settings.jvp is not None:
            differentiable = jax.custom_jvp(call)
            rule = self._settings.jvp
            differentiable.defjvp(lambda primals, tangents: rule(primals, tangents, **attributes))
            return differentiable(*args)
        if self._settings.vjp is not None:
            forward, backward = self._settings.vjp
            reversible = jax.custom_vjp(call)
            reversible.defvjp(lambda *values: forward(*values, **attributes), backward)
            return reversible(*args)
        return call(*args)

    def _error(self, text: str) -> TypeError:
        return TypeError(f"callout.cpp '{self.__name__}': {text}")

    def _of(self, kind: int) -> list[_Parameter]:
        return [parameter for parameter in self._parameters or [] if parameter.kind == kind]

    def _constants(self, attributes: Mapping[str, Any]) -> tuple[tuple[str, Constant], ...]:
        declared = {parameter.name: parameter for parameter in self._of(_ATTRIBUTE)}
        if self._parameters is not None and set(declared) != set(attributes):
            raise self._error(f"expected the attributes {sorted(declared)}, got {sorted(attributes)}")
        return tuple((name, self._constant(name, attributes[name], declared.get(name))) for name in sorted(attributes))

    def _constant(self, name: str, value: Any, declared: _Parameter | None) -> Constant:
        if isinstance(value, str):
            if declared is not None and (declared.dtype or declared.rank != 1):
                raise self._error(f"attribute {name!r} must be a number, got {value!r}")
            return Constant(value)
        try:
            array = np.asarray(value)
            if declared is not None:
                exact = array.astype(declared.dtype or "object")
                whole = np.can_cast(array.dtype, exact.dtype, "same_kind") or array.size == 0
                if exact.ndim != declared.rank or not whole or (array.dtype.kind in "iu" and np.any(exact != array)):
                    raise ValueError
                array = exact
            if array.ndim > 1 or array.dtype.kind not in "biufc":
                raise ValueError
        except (ValueError, TypeError, OverflowError) as error:
            wanted = "a number, a list of numbers or a string"
            if declared is not None:
                kind = declared.dtype or "str"
                wanted = f"a list of {kind}" if declared.rank and declared.dtype else kind
            raise self._error(f"attribute {name!r} must be {wanted}, got {value!r}") from error
        return Constant(array[()] if array.ndim == 0 else array)

    def _bind(self, args: Sequence[Any], constants: Any, attributes: Mapping[str, Any]) -> Any:
        where = f"callout.cpp '{self.__name__}'"
        check_vmap_method(where, self._settings.vmap_method)
        check_sharding(where, self._settings.sharding)
        flat = as_leaves(where, [self._typed(i, arg) for i, arg in enumerate(jax.tree.leaves(args))])
        avals = [jax.ShapeDtypeStruct(leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype)) for leaf in flat]
        self._check_arguments(avals)
        results, tree = result_avals(where, self._results(args, avals, attributes))
        self._check_results(results)
        out = function_p.bind(
            *flat,
            target=self._target,
            result_avals=results,
            vmap_method=self._settings.vmap_method,
            attributes=constants,
            sharding=self._settings.sharding,
        )
        return jax.tree.unflatten(tree, out)

    def _typed(self, index: int, arg: Any) -> Any:
        """A Python number as an array, of the declared dtype if there is one."""
        if not isinstance(arg, (bool, int, float, complex)):
            return arg
        declared = self._of(_IN)
        return np.asarray(arg, declared[index].dtype) if index < len(declared) else jax.numpy.asarray(arg)

    def _check_arguments(self, avals: Sequence[jax.ShapeDtypeStruct]) -> None:
        if self._parameters is None:
            return
        declared = self._of(_IN)
        if len(declared) != len(avals):
            raise self._error(f"expected {len(declared)} arguments, got {len(avals)}")
        for i, (parameter, aval) in enumerate(zip(declared, avals, strict=True)):
            if not parameter.fits(aval.shape, aval.dtype):
                raise self._error(f"argument {i}: expected {parameter}, got {aval.dtype.name} of shape {aval.shape}")

    def _check_results(self, avals: Sequence[Any]) -> None:
        if self._parameters is None:
            return
        declared = self._of(_OUT)
        if len(declared) != len(avals):
            raise self._error(f"the function has {len(declared)} results, `out` declares {len(avals)}")
        for i, (parameter, aval) in enumerate(zip(declared, avals, strict=True)):
            if not parameter.fits(aval.shape, aval.dtype):
                raise self._error(f"result {i} is {parameter}, `out` declares {aval.dtype.name} of shape {aval.shape}")

    def _results(
        self, args: Sequence[Any], avals: Sequence[jax.ShapeDtypeStruct], attributes: Mapping[str, Any]
    ) -> Any:
        out = self._settings.out
        if callable(out):
            shapes = jax.tree.unflatten(jax.tree.structure(tuple(args)), avals)
            return out(*shapes, **attributes)
        if out is not None:
            return out
        if self._parameters is None:
            raise self._error("say what it returns: .options(out=jax.ShapeDtypeStruct(...))")
        results = []
        for i, parameter in enumerate(self._of(_OUT)):
            same_rank = [aval.shape for aval in avals if parameter.rank in (-1, len(aval.shape))]
            if not same_rank and parameter.rank != 0:
                raise self._error(f"the shape of result {i} is nobody's: say it by .options(out=...)")
            shape = () if parameter.rank == 0 else same_rank[0]
            results.append(jax.ShapeDtypeStruct(shape, np.dtype(parameter.dtype)))
        return results[0] if len(results) == 1 else tuple(results)
