# SPDX-License-Identifier: Apache-2.0
"""Machine code around a Numba kernel: a C function of one `callout_call*` that makes arrays of its buffers.

Written as LLVM IR through Numba's own builders, not as Python that Numba would have to type first: it compiles in a third of
the time, and an error of the kernel reaches the call's `set_error` with its class and message. Needs Numba; imported when
the first kernel is traced.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import llvmlite.binding
import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

from .. import _ext

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
    """Describes a buffer or an attribute of the call, by its place, as a Numba type."""

    table: str  # "args", "results" or "attributes"
    index: int
    type: Any


def _field(builder: Any, base: Any, offset: int, kind: Any) -> Any:
    """Returns the value of type `kind` at base + offset."""
    return builder.load(cgutils.pointer_add(builder, base, offset, kind.as_pointer()))


def _array(context: Any, builder: Any, kind: Any, buffer: Any) -> Any:
    """Returns a row-major array over a callout_buffer."""
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
    """Raises the kernel's exception in Python, and has the core take it from there."""
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
    """Is compiled code. `owner` keeps the machine code."""

    owner: Any
    address: int
    result_type: Any
    is_object_mode: bool
    is_parallel: bool


def compile_entry(kernel: Any, operands: Sequence[Operand]) -> Code:
    """Compiles `kernel`, a Numba dispatcher, for these operands, and the C function around it.

    Raises:
        numba.core.errors.NumbaError: Numba refused the kernel.
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
    """Returns True if Numba's threading layer aborts the process where two threads use it at once (its `workqueue`)."""
    numba.get_num_threads()  # starts the layer
    return bool(numba.threading_layer() == "workqueue")
