# SPDX-License-Identifier: Apache-2.0
"""The target of a Numba kernel, which is compiled when it is traced, once for each combination of types.

A kernel is called by a C function of one `callout_call*`, which makes arrays over the call's buffers. This module
writes the C function as LLVM IR by Numba's builders, not as Python that Numba would have to type first: LLVM IR
compiles in a third of the time, and an error of the kernel reaches the call's `set_error` with its class and message.
The module needs Numba; it is imported when the first kernel is traced.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import NumbaError
from numba.extending import intrinsic
from numba.np import arrayobj

from .. import _ext
from .._targets.function_targets import function_name
from .._targets.target import interned
from .native_target import NativeTarget, is_of_a_write, refused_write
from .numba_kernel import content_of, dispatcher_of, is_pointer_function, python_function

_LAYOUT = _ext.call_layout()
_I8P = ir.IntType(8).as_pointer()
_I32 = ir.IntType(32)
_I64P = ir.IntType(64).as_pointer()


@functools.cache
def _add_symbols() -> None:
    for name, address in _ext.jit_symbols().items():
        llvmlite.binding.add_symbol(name, address)


@dataclasses.dataclass(frozen=True)
class Operand:
    """A buffer or an attribute of the call, by its index, with its Numba type."""

    table: str  # "args", "results" or "attributes"
    index: int
    type: Any


def _field(builder: Any, base: Any, offset: int, kind: Any) -> Any:
    """Emits a load of the value of type `kind` at base + offset."""
    return builder.load(cgutils.pointer_add(builder, base, offset, kind.as_pointer()))


def _array(context: Any, builder: Any, kind: Any, buffer: Any) -> Any:
    """Emits a row-major array over a callout_buffer."""
    array = context.make_array(kind)(context, builder)
    data = _field(builder, buffer, _LAYOUT["buffer.data"], _I8P)
    dims = _field(builder, buffer, _LAYOUT["buffer.dims"], _I64P)
    shape = [_field(builder, dims, 8 * axis, ir.IntType(64)) for axis in range(kind.ndim)]
    itemsize = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    strides = [itemsize]
    for extent in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], extent))
    arrayobj.populate_array(
        array,
        data=builder.bitcast(data, array.data.type),
        shape=shape,
        strides=strides[: kind.ndim],
        itemsize=itemsize,
        meminfo=None,
    )
    return array._getvalue()


def _load(context: Any, builder: Any, call: Any, operand: Operand) -> Any:
    table = _field(builder, call, _LAYOUT[f"call.{operand.table}"], _I8P)
    entry = "attribute" if operand.table == "attributes" else "buffer"
    place = cgutils.pointer_add(builder, table, operand.index * _LAYOUT[entry], _I8P)
    if entry == "buffer":
        return _array(context, builder, operand.type, place)
    data = _field(builder, place, _LAYOUT["attribute.data"], _I8P)
    pointer = builder.bitcast(data, context.get_data_type(operand.type).as_pointer())
    return context.unpack_value(builder, operand.type, pointer)


def _fail(context: Any, builder: Any, call: Any, status: Any) -> None:
    """Emits code that raises the kernel's exception in Python, and passes it to the core."""
    python = context.get_python_api(builder)
    begin = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_I8P, [_I8P]), "callout_begin_python")
    end_type = ir.FunctionType(ir.VoidType(), [_I8P, _I8P])
    end = cgutils.get_or_insert_function(builder.module, end_type, "callout_end_with_python_error")
    scope = builder.call(begin, [call])
    with cgutils.if_likely(builder, cgutils.is_not_null(builder, scope)):
        context.call_conv.raise_error(builder, python, status)
        builder.call(end, [call, scope])


def _entry(operands: Sequence[Operand], signatures: list[Any]) -> Any:
    """Returns an intrinsic `enter(kernel, call) -> int32` that calls the kernel with these operands."""
    argument_types = tuple(operand.type for operand in operands)

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def enter(typing_context: Any, kernel: Any, call: Any) -> Any:
        signature = kernel.get_call_type(typing_context, argument_types, {})
        signatures.append(signature)

        def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:
            context.get_function(kernel, signature)
            compiled = kernel.dispatcher.overloads[tuple(signature.args)]
            context.add_linking_libs([compiled.library])
            fndesc = compiled.fndesc
            function = context.declare_function(builder.module, fndesc)
            call = builder.bitcast(values[1], _I8P)
            loaded = [_load(context, builder, call, operand) for operand in operands]
            status, _ = context.call_conv.call_function(builder, function, fndesc.restype, fndesc.argtypes, loaded)
            code = cgutils.alloca_once_value(builder, _I32(0))
            with cgutils.if_unlikely(builder, status.is_error):
                _fail(context, builder, call, status)
                builder.store(_I32(1), code)
            return builder.load(code)

        return types.int32(kernel, call), generate

    return enter


@dataclasses.dataclass(frozen=True)
class Code:
    """Compiled code. `owner` keeps the machine code alive."""

    owner: Any
    address: int
    result_type: Any
    is_object_mode: bool
    is_parallel: bool


def compile_entry(kernel: Any, operands: Sequence[Operand]) -> Code:
    """Compiles `kernel`, a Numba dispatcher, and the C function that calls it, for these operands.

    Raises:
        numba.core.errors.NumbaError: Numba rejected the kernel.
    """
    _add_symbols()
    signatures: list[Any] = []
    enter = _entry(operands, signatures)

    def entry(call):  # type: ignore[no-untyped-def]
        return enter(kernel, call)

    compiled = numba.cfunc(types.int32(types.voidptr))(entry)
    overload = kernel.overloads[tuple(signatures[-1].args)]
    return Code(
        owner=compiled,
        address=compiled.address,
        result_type=overload.signature.return_type,
        is_object_mode=bool(overload.objectmode),
        is_parallel="numba_parallel_for" in compiled._library.get_llvm_str(),
    )


def is_serial_pool() -> bool:
    """Returns True for Numba's threading layer `workqueue`, which aborts the process if two threads use it at once."""
    numba.get_num_threads()  # starts the layer
    return bool(numba.threading_layer() == "workqueue")


_COMPUTABLE = frozenset(map(np.dtype, "?bBhHiIlLfdFD"))


class NumbaTarget(NativeTarget):
    """A kernel and the constants of a call. `specialise` returns the machine code for shapes and dtypes."""

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
        """Compiles the kernel unless it is cached. Raises TypeError if it does not fit or Numba rejects it."""
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
        target.bind()  # from now on, programs that another process exported find it
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
        """Compiles a kernel for read-only arguments, or by its own signatures if it has any."""
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
        except Exception as error:  # Numba raises not only NumbaError
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

    `written`: the arguments that share memory with a result.
    """
    structure = (passed, content_of(sorted(baked.items())) if baked else "", written)
    return interned("numba", kernel, structure, lambda key: NumbaTarget(key, where, kernel, passed, baked, written))
