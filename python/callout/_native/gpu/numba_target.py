# SPDX-License-Identifier: Apache-2.0
"""A kernel of `cuda.jit` as the target of a primitive: compiled and packed when it is traced."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ..._targets.functions import function_name
from ..._targets.target import interned
from .cubin import check_parameters
from .kernel import Kernel, Launch, Parameters
from .launch import Dims, launch_shape
from .numba_code import array_type, compiled, compiler_of, number_type
from .numba_compiler import Baked, Code, ParameterType
from .numba_parameters import Array, pack
from .target import GpuTarget

SharedBytes = int | Callable[..., int]


@dataclasses.dataclass(frozen=True)
class LaunchSettings:
    """How a kernel is launched, as its user said it."""

    grid: Dims | None
    block: Dims | None
    launch_dims: Dims | None
    threads_per_block: int
    shared_mem: SharedBytes

    def identity(self) -> Hashable:
        """The same for the same functions, which it does not refer to: they may refer to what is launched."""
        return tuple(
            id(value) if callable(value) else tuple(value) if isinstance(value, list) else value
            for value in (self.grid, self.block, self.launch_dims, self.threads_per_block, self.shared_mem)
        )

    def check(self, where: str) -> None:
        """TypeError or ValueError for what no arguments make right."""
        grid, block, dims = (1 if callable(value) else value for value in (self.grid, self.block, self.launch_dims))
        launch_shape(where, (), (), grid=grid, block=block, launch_dims=dims, threads_per_block=self.threads_per_block)
        if not callable(self.shared_mem):
            self._shared_bytes(where, (), ())

    def _shared_bytes(self, where: str, args: Sequence[Any], results: Sequence[Any]) -> int:
        shared = self.shared_mem(*args, *results) if callable(self.shared_mem) else self.shared_mem
        if isinstance(shared, bool) or not isinstance(shared, (int, np.integer)) or shared < 0:
            raise ValueError(f"{where}: shared_mem must be bytes, 0 or more, got {shared!r}")
        return int(shared)

    def launch(self, where: str, args: Sequence[Any], results: Sequence[Any], *, cooperative: bool) -> Launch:
        """For arguments and results. TypeError or ValueError if no GPU can launch that."""
        grid, block = launch_shape(
            where,
            args,
            results,
            grid=self.grid,
            block=self.block,
            launch_dims=self.launch_dims,
            threads_per_block=self.threads_per_block,
        )
        return Launch(grid, block, self._shared_bytes(where, args, results), cooperative)


class NumbaCudaTarget(GpuTarget):
    """A kernel, the constants of a call, and how it is launched."""

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
        """Compiles the kernel, if it is not; TypeError if it does not fit or Numba refuses it."""
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
    """What each parameter of the kernel gets: the operands in order, but for parameters that have a constant."""
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
    """What is passed at run time, with numbers as the code takes them."""
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
    """A value that becomes part of the code."""
    return Baked(_frozen(value), value)


def _frozen(value: Any) -> Hashable:
    """Equal for values that compile to the same."""
    if isinstance(value, tuple):
        return ("tuple", *map(_frozen, value))
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.shape, value.tobytes())
    return (type(value), repr(value) if isinstance(value, float) else value)  # 0.0 and -0.0 are equal


def numba_cuda_target(
    where: str,
    kernel: Any,
    constants: Mapping[str, np.generic | Baked],
    launch: LaunchSettings,
    written: frozenset[int],
) -> NumbaCudaTarget:
    """The target of a kernel with constants. `written`: the arguments whose memory is a result's."""
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
