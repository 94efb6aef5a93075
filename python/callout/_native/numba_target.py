# SPDX-License-Identifier: Apache-2.0
"""A Numba kernel as the target of a primitive: compiled when it is traced, once for each combination of types."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.errors import NumbaError

from .. import _ext
from .._targets.function_targets import function_name
from .._targets.target import interned
from .native_target import NativeTarget
from .numba_code import Code, Operand, compile_entry, is_serial_pool
from .numba_content import content_of
from .numba_kernel import dispatcher_of, is_pointer_function, python_function
from .numba_refusal import is_of_a_write, refused_write

_COMPUTABLE = frozenset(map(np.dtype, "?bBhHiIlLfdFD"))


class NumbaTarget(NativeTarget):
    """Joins a kernel and the constants of a call. `specialise` gives the machine code for shapes and dtypes."""

    __slots__ = ("_baked", "_kernel", "_lock", "_passed", "_specialised", "_written", "where")

    def __init__(
        self,
        key: Hashable,
        where: str,
        kernel: Any,
        passed: tuple[tuple[str, Any], ...],
        baked: Mapping[str, Any],
        written: frozenset[int],
    ):
        super().__init__(key, function_name(python_function(kernel)), None, "")
        self.where = where
        self._kernel = kernel
        self._passed = passed
        self._baked = dict(baked)
        self._written = written
        self._specialised: dict[Hashable, NativeTarget] = {}
        self._lock = threading.RLock()

    def specialise(self, args: Sequence[Any], results: Sequence[Any]) -> NativeTarget:
        """Compiles the kernel, if it is not; TypeError if it does not fit or Numba refuses it."""
        operands = [*self._operands("args", args), *self._operands("results", results)]
        key = tuple((operand.table, operand.index, operand.type) for operand in operands)
        with self._lock:
            if key not in self._specialised:
                self._specialised[key] = self._compiled(key, operands, len(args))
            return self._specialised[key]

    def _operands(self, table: str, avals: Sequence[Any]) -> list[Operand]:
        what = "argument" if table == "args" else "result"
        return [Operand(table, i, self._array_type(f"{what} {i}", aval)) for i, aval in enumerate(avals)]

    def _array_type(self, what: str, aval: Any) -> Any:
        dtype = np.dtype(aval.dtype)
        if dtype not in _COMPUTABLE:
            raise TypeError(
                f"{self.where}: {what} is {dtype.name}, which Numba cannot compute with on a CPU; convert it, or pass its "
                "bits (jax.lax.bitcast_convert_type)"
            )
        return types.Array(numba.from_dtype(dtype), len(aval.shape), "C")

    def _compiled(self, key: Hashable, operands: Sequence[Operand], num_args: int) -> NativeTarget:
        signature = ", ".join(str(operand.type) for operand in operands)
        if is_pointer_function(self._kernel):
            callback = _ext.make_jit_function(self.label, self._kernel.address, True, self._kernel, False)
            content = content_of(self._kernel)
        else:
            code = self._code(operands, num_args)
            one_at_a_time = code.is_parallel and is_serial_pool()
            callback = _ext.make_jit_function(self.label, code.address, False, code.owner, one_at_a_time)
            content = content_of(self._kernel, signature, sorted(self._baked.items()), [str(c) for c in self._passed])
        target = NativeTarget(("numba", self.label, content, key), self.label, callback, content)
        target.bind()  # a program that another process exported finds it from now on
        return target

    def _code(self, operands: Sequence[Operand], num_args: int) -> Code:
        is_scalar = all(operand.type.ndim == 0 for operand in operands)
        passed = tuple(name for name, _ in self._passed)
        num_results = len(operands) - num_args
        kernel = dispatcher_of(self._kernel, num_args, num_results, is_scalar, passed, self._baked)
        numbers = [Operand("attributes", i, kind) for i, (_, kind) in enumerate(self._passed)]
        code = self._compile(kernel, operands, numbers)
        if code.is_object_mode:
            raise TypeError(
                f"{self.where}: Numba compiled the kernel in object mode, which runs in Python; use numba.njit"
            )
        if code.result_type != types.none:
            raise TypeError(
                f"{self.where}: the kernel returns a value of type {code.result_type}; a kernel writes into its results, "
                "which follow its arguments, and returns nothing"
            )
        return code

    def _compile(self, kernel: Any, operands: Sequence[Operand], numbers: Sequence[Operand]) -> Code:
        """Compiles a kernel for arguments that cannot be written to, unless it has signatures, which say otherwise."""
        has_signatures = not getattr(kernel, "_can_compile", True)
        wanted = operands if has_signatures else [*map(self._protected, operands)]
        try:
            return compile_entry(kernel, [*wanted, *numbers])
        except AssertionError as error:
            if not has_signatures:
                raise
            types_ = tuple(operand.type for operand in operands)
            raise TypeError(
                f"{self.where}: the kernel was compiled for {kernel.signatures} only, not {types_}"
            ) from error
        except Exception as error:  # Numba raises others than NumbaError, too
            if is_of_a_write(error):
                raise refused_write(self.where) from error
            kind = "" if isinstance(error, NumbaError) else f"{type(error).__name__}: "
            raise TypeError(
                f"{self.where}: Numba does not compile the kernel for these types (arguments are read-only): {kind}{error}"
            ) from error

    def _protected(self, operand: Operand) -> Operand:
        if operand.table != "args" or operand.index in self._written:
            return operand
        return Operand(operand.table, operand.index, operand.type.copy(readonly=True))


def numba_target(
    where: str,
    kernel: Any,
    passed: tuple[tuple[str, Any], ...],
    baked: Mapping[str, Any],
    written: frozenset[int],
) -> NumbaTarget:
    """Returns the target of a kernel with constants: `passed` by name and Numba type, `baked` into the code.

    `written`: the arguments whose memory is a result's.
    """
    structure = (passed, content_of(sorted(baked.items())) if baked else "", written)
    return interned("numba", kernel, structure, lambda key: NumbaTarget(key, where, kernel, passed, baked, written))
