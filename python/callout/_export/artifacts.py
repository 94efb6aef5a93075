# SPDX-License-Identifier: Apache-2.0
"""Reads and rewrites the StableHLO of an exported program: its calls, the tokens in its signature, and its version."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from jax.extend import mlir as jax_mlir
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import func, stablehlo
from jax.interpreters import mlir

from .. import _ext, _jax_compat
from .._targets import target_attributes
from .._targets.operation_attributes import OURS, config_key, operations, own_calls

_VERSION = re.compile(r"\d+\.\d+\.\d+")


@contextlib.contextmanager
def opened(artifact: bytes) -> Iterator[Any]:
    """Yields the module of a portable artifact."""
    with mlir.make_ir_context() as context, ir.Location.unknown(context):
        yield jax_mlir.deserialize_portable_artifact(artifact)


def closed(module: Any, version: str) -> bytes:
    """Returns the portable artifact of a module. Shardings stay in Shardy's dialect, as JAX writes them."""
    try:
        artifact: bytes = jax_mlir.serialize_portable_artifact(module, version, True)
    except Exception as error:
        raise ValueError(f"callout.export: this program cannot be written as StableHLO {version}: {error}") from error
    return artifact


def refined(artifact: bytes) -> bytes:
    """Makes all shapes of a program static, if the shapes of `main` are."""
    with opened(artifact) as module:
        static = _jax_compat.refined(module)
    with static.context:
        return closed(static, version_of(artifact))


def version_of(artifact: bytes) -> str:
    """Returns the StableHLO version that an artifact was written for."""
    match = re.search(rb"StableHLO_v(\d+\.\d+\.\d+)", artifact[:64])
    if match is None:
        raise ValueError("callout.export: this JAX wrote a StableHLO artifact without a version")
    return match[1].decode()


def check_version(version: str) -> None:
    """Raises ValueError for a version that this jaxlib cannot write."""
    oldest, newest = stablehlo.get_minimum_version(), stablehlo.get_current_version()
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise ValueError(f"callout.export: stablehlo_version must look like '1.13.0', got {version!r}")
    if not _number(oldest) <= _number(version) <= _number(newest):
        raise ValueError(
            f"callout.export: this jaxlib writes StableHLO {oldest} to {newest}, and not stablehlo_version={version!r}"
        )


def older(one: str, other: str) -> str:
    """Returns the older of two versions."""
    return min(one, other, key=_number)


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def custom_calls(module: Any) -> tuple[str, ...]:
    """Returns the targets of the custom calls that are not Callout's, sorted."""
    targets = {
        ir.StringAttr(operation.attributes["call_target_name"]).value
        for operation in operations(module.operation)
        if operation.name == "stablehlo.custom_call"
    }
    return tuple(sorted(target for target in targets if not target.startswith(OURS)))


# Attributes by which a program embeds the code that it calls.
_CODE = {"library", "image"}

# The beginnings of embedded names, which every process can turn into a callback.
_CARRIED = tuple(_ext.program_kinds())


def names(module: Any) -> tuple[str, ...]:
    """Returns the names that the program calls, sorted, except embedded ones."""
    configs: list[Any] = [ir.DictAttr(operation.attributes[config_key(operation)]) for operation in own_calls(module)]
    keys = [(config, {entry.name for entry in config}) for config in configs]
    called = {ir.StringAttr(config["callback"]).value for config, has in keys if "callback" in has and not _CODE & has}
    return tuple(sorted(name for name in called if not name.startswith(_CARRIED)))


def write_names(module: Any) -> None:
    """Writes all names of the program into each call, for the error about an unbound name."""
    listed = ir.StringAttr.get("\n".join(names(module)))
    for operation in list(own_calls(module)):
        target = ir.StringAttr(operation.attributes["call_target_name"]).value
        if "names" not in target_attributes.tables().get(target, {}):
            continue
        key = config_key(operation)
        config: Any = ir.DictAttr(operation.attributes[key])
        operation.attributes[key] = ir.DictAttr.get({**{entry.name: entry.attr for entry in config}, "names": listed})


def remove_tokens(module: Any, is_removed: Sequence[bool]) -> None:
    """Removes tokens from the program's signature, so that an order begins and ends inside.

    `is_removed` has an item for each token; `main` takes and returns them in this order, and returns them first.
    """
    if not any(is_removed):
        return
    main: Any = ir.SymbolTable(module.operation)["main"]
    block = main.entry_block
    tokens = [i for i, argument in enumerate(block.arguments) if argument.type == mlir.token_type()]
    removed = {position for position, gone in zip(tokens, is_removed, strict=True) if gone}
    left = [i for i in range(len(block.arguments)) if i not in removed]
    terminator = block.operations[len(block.operations) - 1]
    returned = list(terminator.operands)
    results = [i for i in range(len(returned)) if i >= len(is_removed) or not is_removed[i]]

    argument_attributes = [_aliasing(main.arg_attrs[i], results) for i in left]
    result_attributes = [main.result_attrs[i] for i in results]
    with ir.InsertionPoint.at_block_begin(block):
        for position in removed:
            block.arguments[position].replace_all_uses_with(stablehlo.after_all([]))
    with ir.InsertionPoint(terminator):
        func.ReturnOp([returned[i] for i in results])
    terminator.erase()
    for position in sorted(removed, reverse=True):
        block.erase_argument(position)
    inputs, outputs = [argument.type for argument in block.arguments], [returned[i].type for i in results]
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, outputs))
    main.arg_attrs = ir.ArrayAttr.get(argument_attributes)
    main.attributes["res_attrs"] = ir.ArrayAttr.get(result_attributes)


def _aliasing(attributes: Any, results: Sequence[int]) -> Any:
    """Returns an argument's attributes, with the index of the donated result adjusted to `results`."""
    entries = {entry.name: entry.attr for entry in attributes}
    if "tf.aliasing_output" in entries:
        donated = entries["tf.aliasing_output"]
        entries["tf.aliasing_output"] = ir.IntegerAttr.get(donated.type, results.index(ir.IntegerAttr(donated).value))
    return ir.DictAttr.get(entries)
