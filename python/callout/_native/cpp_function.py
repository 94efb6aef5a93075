# SPDX-License-Identifier: Apache-2.0
"""C++ functions as JAX functions. A call is checked against the declared parameters when it is traced."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from .. import _ext
from .._targets.foreign_attributes import Constant
from .._targets.target import interned
from .function import Constants, NativeFunction, Settings
from .library import LoadedFunction
from .native_target import NativeTarget

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


class Function(NativeFunction):
    """A C++ function that JAX programs can call.

    It takes arrays by position, and attributes by keyword. `options` returns a copy with other settings. Without `out`,
    each result has the shape of the first argument of its rank; this needs a function that describes its parameters.
    """

    _PACKAGE = "callout.cpp"

    def __init__(self, target: NativeTarget, name: str, settings: Settings):
        super().__init__(f"{self._PACKAGE} '{name}'", name, settings)
        self._target = target
        # From now on, programs that another process exported find the function.
        self._name = target.bind()
        described: Any = _ext.native_parameters(target.callback())
        self._parameters = None if described is None else [_Parameter(*item) for item in described]

    def __repr__(self) -> str:
        return f"<native function {self._target.label}>"

    def _with(self, settings: Settings) -> Function:
        return type(self)(self._target, self.__name__, settings)

    def _of(self, kind: int) -> list[_Parameter]:
        return [parameter for parameter in self._parameters or [] if parameter.kind == kind]

    def _prepare(self, constants: Mapping[str, Any]) -> tuple[NativeTarget, Constants]:
        declared = {parameter.name: parameter for parameter in self._of(_ATTRIBUTE)}
        if self._parameters is not None and set(declared) != set(constants):
            raise self._error(f"expected the attributes {sorted(declared)}, got {sorted(constants)}")
        attributes = ((name, self._constant(name, constants[name], declared.get(name))) for name in sorted(constants))
        return self._target, tuple(attributes)

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
            if array.ndim > 1 or array.dtype.kind not in "biuf":
                raise ValueError
        except (ValueError, TypeError, OverflowError):
            wanted = "a number, a list of numbers or a string"
            if declared is not None:
                kind = declared.dtype or "str"
                wanted = f"a list of {kind}" if declared.rank and declared.dtype else kind
            raise self._error(f"attribute {name!r} must be {wanted}, got {value!r}") from None
        return Constant(array[()] if array.ndim == 0 else array)

    def _typed(self, index: int, arg: Any) -> Any:
        """Converts a Python number to an array of the declared dtype, if there is one."""
        declared = self._of(_IN)
        if not isinstance(arg, (bool, int, float, complex)) or index >= len(declared):
            return super()._typed(index, arg)
        dtype = np.dtype(declared[index].dtype)
        try:
            array = np.asarray(arg, dtype)
            if not np.can_cast(np.asarray(arg).dtype, dtype, "same_kind") or (dtype.kind in "iu" and array != arg):
                raise ValueError
        except (ValueError, TypeError, OverflowError):
            raise self._error(f"argument {index}: expected {declared[index]}, got {arg!r}") from None
        return array

    def _check(self, args: Sequence[Any], results: Sequence[Any]) -> None:
        if self._parameters is None:
            return
        self._check_arguments(args)
        declared = self._of(_OUT)
        if len(declared) != len(results):
            raise self._error(f"the function has {len(declared)} results, `out` declares {len(results)}")
        for i, (parameter, aval) in enumerate(zip(declared, results, strict=True)):
            if not parameter.fits(aval.shape, aval.dtype):
                raise self._error(f"result {i} is {parameter}, `out` declares {aval.dtype.name} of shape {aval.shape}")

    def _check_arguments(self, avals: Sequence[Any]) -> None:
        declared = self._of(_IN)
        if len(declared) != len(avals):
            raise self._error(f"expected {len(declared)} arguments, got {len(avals)}")
        for i, (parameter, aval) in enumerate(zip(declared, avals, strict=True)):
            if not parameter.fits(aval.shape, aval.dtype):
                raise self._error(f"argument {i}: expected {parameter}, got {aval.dtype.name} of shape {aval.shape}")

    def _results(self, args: Sequence[Any], avals: Sequence[Any], constants: Mapping[str, Any]) -> Any:
        del args, constants
        if self._parameters is None:
            raise self._error("say what it returns: .options(out=jax.ShapeDtypeStruct(...))")
        self._check_arguments(avals)
        results = []
        for i, parameter in enumerate(self._of(_OUT)):
            same_rank = [aval.shape for aval in avals if parameter.rank in (-1, len(aval.shape))]
            if not same_rank and parameter.rank != 0:
                raise self._error(f"the shape of result {i} is nobody's: say it by .options(out=...)")
            shape = () if parameter.rank == 0 else same_rank[0]
            results.append(jax.ShapeDtypeStruct(shape, np.dtype(parameter.dtype)))
        return results[0] if len(results) == 1 else tuple(results)


def library_target(code: LoadedFunction) -> NativeTarget:
    """Returns the target of a function of a shared library."""
    return interned(
        "native",
        None,
        (code.digest, code.label, code.library is not None),
        lambda key: NativeTarget(key, code.label, code.callback, code.digest, code.library),
    )
