# SPDX-License-Identifier: Apache-2.0
"""A kernel of CUDA C++ as a JAX function: what its declaration says is checked when it is traced."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ..function import Constants
from ..target import NativeTarget
from .constants import constant_bytes
from .cuda_target import Code, CudaSettings, CudaTarget
from .function import GpuFunction
from .parameter import Kind

_MOST_TARGETS = 64


class Function(GpuFunction):
    """A kernel that JAX programs can launch.

    Call it with arrays, and with its numbers by keyword. `options` returns a copy with other settings. Without `out`, a
    result has the shape of the first argument, or, in place, of its own, and the declared dtype.
    """

    def __init__(self, code: Code, name: str, settings: CudaSettings):
        super().__init__(f"callout.cuda '{name}'", name, settings)
        self._code = code
        self._cuda_settings = settings
        self._values = {parameter.name: parameter for parameter in code.of(Kind.VALUE)}
        unknown = sorted(set(settings.constants or {}) - set(self._values))
        if unknown:
            raise self._error(f"there are no constants {unknown}, but {sorted(self._values)}")
        # Kept, so that calls outside of jit find what was compiled for them.
        self._targets: dict[Any, CudaTarget] = {}

    def __repr__(self) -> str:
        return f"<CUDA kernel {self._code.label}: {', '.join(map(str, self._code.parameters))}>"

    def options(self, **settings: Any) -> Function:
        """A copy with other settings.

        Functions among them get the arguments and the results of one launch, with `shape`, `size` and `dtype`.

        Args:
            **settings: of these:

                - `launch_dims`: threads along x, y and z: a number, up to three of them, or a function that returns such.
                  Blocks of `threads_per_block`, 16 x 16 or 8 x 8 x 4 threads cover them, so the last blocks may have
                  threads too many.
                - `threads_per_block`: for `launch_dims` of one dimension; 256 by default.
                - `grid`, `block`: instead, the blocks, and the threads of each.
                - `shared_mem`: bytes of dynamic shared memory of a block, or a function that returns them.
                - `cooperative`: all blocks run at once, so that they can wait for each other.
                - `constants`: values of the kernel's numbers for calls that do not give them, or functions that return them.
                - `synchronous`: programs wait for the kernel, and its faults are their errors; for debugging.
                - `out`: the results: a pytree of `jax.ShapeDtypeStruct`s, or a function of the arguments and the constants
                  of the call that returns one.
                - `vmap_method`: any but None: `vmap` launches the kernel once a lane.
                - `jvp`: `jvp(primals, tangents, **constants)` returns (results, their tangents).
                - `vjp`: (`forward(*args, **constants)` returns (results, residuals), `backward(residuals, cotangents)`
                  returns a cotangent an argument).
                - `input_output_aliases`: {argument: result}, both flat indices. Such a result holds its argument's value
                  when the kernel is launched, which updates it in place. The argument then needs no pointer of its
                  own; if the kernel has one nevertheless, both are the same memory.
        """
        return self._with(dataclasses.replace(self._cuda_settings, **settings))

    def _with(self, settings: Any) -> Function:
        return Function(self._code, self.__name__, settings)

    def _prepare(self, constants: Mapping[str, Any]) -> tuple[NativeTarget, Constants]:
        given = {**(self._cuda_settings.constants or {}), **constants}
        if set(given) != set(self._values):
            raise self._error(f"expected the constants {sorted(self._values)}, got {sorted(given)}")
        values = tuple((name, self._constant(name, value)) for name, value in sorted(given.items()))
        target = self._targets.get(values)
        if target is None:
            target = CudaTarget(self._where, self._code, self._cuda_settings, values)
            if len(self._targets) >= _MOST_TARGETS:
                self._targets.clear()
            self._targets[values] = target
        return target, ()

    def _constant(self, name: str, value: Any) -> Any:
        return value if callable(value) else constant_bytes(self._error, self._values[name], value)

    @property
    def _in_place(self) -> Mapping[int, int]:
        return self._settings.input_output_aliases or {}

    def _typed(self, index: int, arg: Any) -> Any:
        """A Python number as an array of the declared dtype, if there is one."""
        declared = self._code.of(Kind.IN)
        is_number = isinstance(arg, (bool, int, float, complex))
        dtype = declared[index].dtype if is_number and not self._in_place and index < len(declared) else None
        if dtype is None:
            return super()._typed(index, arg)

        def error(_: str) -> TypeError:
            return self._error(f"argument {index}: expected {dtype}, got {arg!r}")

        return np.frombuffer(constant_bytes(error, declared[index], arg), dtype)[0]

    def _check(self, args: Sequence[Any], results: Sequence[Any]) -> None:
        operands = self._code.operands(self._error, len(args), len(results), [*self._in_place])
        for operand, declared in operands:
            is_argument = operand < len(args)
            aval = args[operand] if is_argument else results[operand - len(args)]
            if declared.dtype is None or np.dtype(aval.dtype) == declared.dtype:
                continue
            which, index = ("argument", operand) if is_argument else ("result", operand - len(args))
            got = "got" if is_argument else "`out` declares"
            raise self._error(
                f"{which} {index}{f' ({declared.name})' if declared.name else ''}: expected {declared.dtype}, {got} "
                f"{np.dtype(aval.dtype)} of shape {aval.shape}"
            )

    def _results(self, args: Sequence[Any], avals: Sequence[Any], constants: Mapping[str, Any]) -> Any:
        del args, constants
        like = {result: argument for argument, result in self._in_place.items()}
        results = []
        for i, declared in enumerate(self._code.of(Kind.OUT)):
            place = like.get(i, 0)
            if place >= len(avals) or (declared.dtype is None and i not in like):
                raise self._error(f"say what result {i} is: .options(out=jax.ShapeDtypeStruct(...))")
            results.append(jax.ShapeDtypeStruct(avals[place].shape, declared.dtype or avals[place].dtype))
        return results[0] if len(results) == 1 else tuple(results)
