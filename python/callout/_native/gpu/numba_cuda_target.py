# SPDX-License-Identifier: Apache-2.0
"""The target of a `cuda.jit` kernel, which is compiled and packed when it is traced."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ..._targets.foreign_attributes import exact_key
from ..._targets.function_targets import function_name
from ..._targets.target import interned
from .images import check_parameters
from .kernel import Kernel, LaunchSettings, Parameters
from .kernel_function import GpuTarget
from .numba_compiler import Baked, Code, ParameterType
from .numba_image import array_type, compiled, compiler_of, number_type
from .numba_parameters import Array, pack


class NumbaCudaTarget(GpuTarget):
    """A kernel with the constants of a call and the launch settings."""

    __slots__ = ("_constants", "_cuda_kernel", "_launch", "_written", "where")

    def __init__(
        self,
        key: Hashable,
        where: str,
        kernel: Any,
        constants: Mapping[str, np.generic | Baked],
        launch: LaunchSettings,
        written: frozenset[int],
    ):
        super().__init__(key, function_name(kernel.py_func))
        self.where = where
        self._cuda_kernel = kernel
        self._constants = dict(constants)
        self._launch = launch
        self._written = written

    def kernel(self, args: Sequence[Any], results: Sequence[Any]) -> Kernel:
        """Compiles the kernel unless it is cached. Raises TypeError if it does not fit or Numba rejects it."""
        operands = [*args, *results]
        values = _values(self.where, self._cuda_kernel, operands, len(args), self._constants)
        code = compiled(self.where, self._cuda_kernel, self._types(values, operands, len(args)))
        launch = self._launch.launch(self.where, args, results, cooperative=code.cooperative)
        parameters = Parameters()
        pack(parameters, code.abi, _passed(self.where, values, code))
        check_parameters(self.where, code.image.code, code.image.symbol, parameters.sizes)
        return Kernel(code.image, launch, parameters, code.faults, synchronous=code.faults is not None)

    def _types(self, values: Mapping[str, Any], operands: Sequence[Any], num_args: int) -> list[ParameterType]:
        compiler = compiler_of(self._cuda_kernel)
        types: list[ParameterType] = []
        for name, value in values.items():
            if isinstance(value, Array):
                i = value.operand
                what = f"argument {i}" if i < num_args else f"result {i - num_args}"
                writable = i >= num_args or i in self._written
                types.append(array_type(self.where, what, compiler, operands[i], is_writable=writable))
            elif isinstance(value, np.generic):
                types.append(number_type(self.where, f"constant {name!r}", compiler, value.dtype))
            else:
                types.append(value)
        return types


def _values(
    where: str, kernel: Any, operands: Sequence[Any], num_args: int, constants: Mapping[str, np.generic | Baked]
) -> dict[str, Array | np.generic | Baked]:
    """Returns the value of each parameter: a constant if it has one, otherwise the next operand."""
    parameters = inspect.signature(kernel.py_func).parameters
    if any(parameter.kind == parameter.VAR_POSITIONAL for parameter in parameters.values()):
        raise TypeError(f"{where}: the kernel takes *{[*parameters][-1]}; name its parameters")
    rest = iter(range(len(operands)))
    values: dict[str, Array | np.generic | Baked] = {}
    for name, parameter in parameters.items():
        if name in constants:
            values[name] = constants[name]
        elif (i := next(rest, None)) is not None:
            dtype = np.dtype(operands[i].dtype)
            values[name] = Array(i, tuple(operands[i].shape), dtype.itemsize)
        elif parameter.default is not parameter.empty:
            values[name] = baked(parameter.default)
    unknown = [name for name in constants if name not in parameters]
    missing = [name for name in parameters if name not in values]
    if unknown or missing or next(rest, None) is not None:
        got = f"{num_args} arguments and {len(operands) - num_args} results"
        raise TypeError(
            f"{where}: the kernel takes ({', '.join(parameters)}), got {got}"
            + (f", and constants {', '.join(sorted(constants))}" if constants else "")
        )
    return values


def _passed(where: str, values: Mapping[str, Any], code: Code) -> list[Array | np.generic]:
    """Returns the values that are passed at run time, with numbers in the dtypes of the code."""
    passed: list[Array | np.generic] = []
    for (name, value), dtype in zip(values.items(), code.numbers, strict=True):
        if isinstance(value, Array):
            passed.append(value)
        elif dtype is not None:
            number = value.astype(dtype)
            if dtype.kind in "iu" and int(number) != int(value):
                raise TypeError(f"{where}: constant {name!r} is {value}, which the kernel takes as {dtype}")
            passed.append(number)
    return passed


def baked(value: Any) -> Baked:
    """Returns a value that becomes part of the code."""
    return Baked(exact_key(value), value)


def numba_cuda_target(
    where: str,
    kernel: Any,
    constants: Mapping[str, np.generic | Baked],
    launch: LaunchSettings,
    written: frozenset[int],
) -> NumbaCudaTarget:
    """Returns the target of a kernel with constants. `written`: the arguments that share memory with a result."""
    keys = tuple(
        (name, value.key if isinstance(value, Baked) else (value.dtype.str, value.tobytes()))
        for name, value in sorted(constants.items())
    )
    return interned(
        "numba_cuda",
        kernel,
        (keys, launch.identity(), written),
        lambda key: NumbaCudaTarget(key, where, kernel, constants, launch, written),
    )
