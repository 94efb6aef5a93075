# SPDX-License-Identifier: Apache-2.0
"""Turns send and receive ops of host callbacks into calls.

On some platforms, a program reaches host callbacks by channels: it sends the operands (`stablehlo.send` with
`is_host_transfer`), then receives the results (`stablehlo.recv`), each op with the token of the previous one. XLA:CPU
has no such ops. The ops of one callback become one call, which replaces the first receive, or the last send if there is
no receive. The C++ host rewrites programs in MLIR text in this way, too (src/host/transfers/preparation.h), with equal
names.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from jax.extend import mlir as jax_mlir
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir

from .._targets.operation_attributes import DEVICE_TO_HOST, HOST_TO_DEVICE, call_attributes, config_of, operations
from . import artifacts

_SEND, _RECV = "stablehlo.send", "stablehlo.recv"
_CALL = "callout.v1.call"
_PATTERN = (
    "only the pattern of a host callback can be turned into a call, which is all sends and then all receives, in one "
    "block, each with the token of the one before"
)
# The beginning of a portable artifact; other MLIR bytecode does not contain its StableHLO version.
_ARTIFACT = re.compile(rb"ML\xefR\rStableHLO_v")

Names = Mapping[str, tuple[Sequence[int], Sequence[int]]]


@dataclasses.dataclass(frozen=True)
class _Transfer:
    """Describes one send or receive op."""

    operation: Any
    channel: int

    @property
    def is_send(self) -> bool:
        return bool(self.operation.name == _SEND)

    @property
    def token(self) -> Any:
        return self.operation.results[len(self.operation.results) - 1]

    def follows(self, other: _Transfer) -> bool:
        return bool(self.operation.operands[len(self.operation.operands) - 1] == other.token)

    def __str__(self) -> str:
        return f"{self.operation.name} on channel {self.channel}"


def channels_name(operands: Sequence[int], results: Sequence[int]) -> str:
    """Returns the name of the callback on these channels: `channels:1,2->3`."""
    return f"channels:{','.join(map(str, sorted(operands)))}->{','.join(map(str, sorted(results)))}"


def has_host_transfers(module: Any) -> bool:
    """Returns whether the module has a send or receive op."""
    return any(operation.name in (_SEND, _RECV) for operation in operations(module.operation))


def rewrite(module: Any, names: Names | None = None) -> None:
    """Replaces the send and receive ops of each host callback by a call.

    Args:
        module: changed in place.
        names: other names for some callbacks, with the channels of their operands and of their results. They also
            separate a callback without results from the next one.

    Raises:
        NotImplementedError: an op is not part of a host callback's pattern.
        ValueError: a channel occurs twice, in the program or in `names`, or is in `names` but not in the program.
    """
    transfers = [_transfer(one) for one in operations(module.operation) if one.name in (_SEND, _RECV)]
    named = _named_channels(names or {})
    channels = collections.Counter(transfer.channel for transfer in transfers)
    for channel, count in channels.items():
        if count > 1:
            raise ValueError(f"callout: channel {channel} is used by {count} ops of the program")
    for group in _groups(transfers, named):
        operands = sorted((one for one in group if one.is_send), key=lambda one: one.channel)
        results = sorted((one for one in group if not one.is_send), key=lambda one: one.channel)
        key = [one.channel for one in operands], [one.channel for one in results]
        _replace(group, operands, results, _name_of(*key, names or {}, named))
    if missing := sorted(set(named) - set(channels)):
        raise ValueError(f"callout: {named[missing[0]]!r} has channel {missing[0]}, which the program does not use")


def _transfer(operation: Any) -> _Transfer:
    """Reads an op. Raises NotImplementedError if it is no transfer from or to the host."""
    channel: Any = stablehlo.ChannelHandle(operation.attributes["channel_handle"])
    transfer = _Transfer(operation, channel.handle)
    wanted = DEVICE_TO_HOST if transfer.is_send else HOST_TO_DEVICE
    is_host = "is_host_transfer" in operation.attributes and ir.BoolAttr(operation.attributes["is_host_transfer"]).value
    if not is_host or channel.channel_type != wanted:
        raise NotImplementedError(
            f"callout: {transfer} is between devices, not from or to a host: expected is_host_transfer = true and channel "
            f"type {wanted}, got channel type {channel.channel_type}"
        )
    values, tokens = operation.operands, operation.results
    if not transfer.is_send:
        values, tokens = tokens, values
    if len(values) != 2 or len(tokens) != 1:
        raise NotImplementedError(f"callout: {transfer}: expected one array and a token, got {len(values)} values")
    return transfer


def _named_channels(names: Names) -> dict[int, str]:
    """Returns the name of each channel."""
    named: dict[int, str] = {}
    for name, both in names.items():
        if not (isinstance(both, Sequence) and len(both) == 2 and all(isinstance(part, Sequence) for part in both)):
            raise TypeError(
                f"callout: names[{name!r}] must be the channels of the operands and of the results, as ([1, 2], [3]), "
                f"got {both!r}"
            )
        operands, results = both
        for channel in (*operands, *results):
            if channel in named:
                raise ValueError(f"callout: {named[channel]!r} and {name!r} both have channel {channel}")
            named[channel] = name
    return named


def _groups(transfers: Sequence[_Transfer], named: Mapping[int, str]) -> list[list[_Transfer]]:
    """Returns the ops of each callback, in their order."""
    groups: list[list[_Transfer]] = []
    for transfer in transfers:
        group = next((group for group in reversed(groups) if _continues(group, transfer, named)), None)
        if group is not None:
            group.append(transfer)
        elif transfer.is_send:
            groups.append([transfer])
        else:
            raise NotImplementedError(f"callout: {transfer} does not come after a send of its callback: {_PATTERN}")
    for group in groups:
        _check(group)
    return groups


def _continues(group: Sequence[_Transfer], transfer: _Transfer, named: Mapping[int, str]) -> bool:
    before = group[-1]
    if not transfer.follows(before) or named.get(transfer.channel) != named.get(before.channel):
        return False
    return before.is_send or not transfer.is_send


def _check(group: Sequence[_Transfer]) -> None:
    for before, transfer in itertools.pairwise(group):
        if transfer.operation.block != before.operation.block:
            raise NotImplementedError(f"callout: {transfer} is in another block than {before}: {_PATTERN}")
        if len(list(before.token.uses)) != 1:
            raise NotImplementedError(f"callout: the token of {before} is used more than once: {_PATTERN}")


def _name_of(operands: list[int], results: list[int], names: Names, named: Mapping[int, str]) -> str:
    name = named.get(operands[0])
    if name is None:
        return channels_name(operands, results)
    expected = tuple(map(sorted, names[name]))
    if expected != (operands, results):
        raise ValueError(
            f"callout: {name!r}: expected the channels {channels_name(*names[name])[9:]}, got "
            f"{channels_name(operands, results)[9:]} in the program"
        )
    return name


def _replace(
    group: Sequence[_Transfer], operands: Sequence[_Transfer], results: Sequence[_Transfer], name: str
) -> None:
    first, last = group[0], group[-1]
    place = group[len(operands)] if results else last
    values = [*(one.operation.operands[0] for one in operands), first.operation.operands[1]]
    types = [*(one.operation.results[0].type for one in results), mlir.token_type()]
    config = config_of("callout.host.rewrite_host_transfers", _CALL, {"callback": name})
    attributes = call_attributes(_CALL, config, [value.type for value in values], types)
    with ir.InsertionPoint(place.operation), place.operation.location:
        call = ir.Operation.create("stablehlo.custom_call", results=types, operands=values, attributes=attributes)
    for index, one in enumerate(results):
        one.operation.results[0].replace_all_uses_with(call.results[index])
    last.token.replace_all_uses_with(call.results[len(types) - 1])
    for one in reversed(group):
        one.operation.erase()


def rewrite_host_transfers(
    module: str | bytes, *, names: Names | None = None, stablehlo_version: str | None = None
) -> bytes:
    """Turns the send and receive ops of a program's host callbacks into calls, for platforms without such ops (cpu).

    A callback's operands are sent to the host and its results are received from the host, each on its own channel. The
    call that replaces the ops has the name `channels:1,2->3`: the channels of the operands and of the results.
    Operands, results and channels are in ascending order of channels. A `HostTransferCallback` of the C++ host has this
    name; in Python `callout.register` binds it. Shardings of the ops are dropped.

    Args:
        module: StableHLO as MLIR text, MLIR bytecode, or a portable artifact.
        names: other names, with the channels of the operands and of the results: `{"loss": ([1, 2], [3])}`. They also
            separate a callback without results from the next one.
        stablehlo_version: write StableHLO for this version, such as "1.13.0". By default the version of a portable
            artifact, otherwise one that is 12 weeks old.

    Returns:
        A portable artifact.

    Raises:
        NotImplementedError: send and receive ops do not belong to a host callback: they are between devices, have no
            chain of tokens, or receive before they send.
        ValueError: `module` is no program; a channel occurs twice, or is in `names` but not in the program.

    Example:
        >>> text = jax.jit(lambda x: 2 * x).lower(jnp.float32(1)).as_text()
        >>> isinstance(callout.host.rewrite_host_transfers(text), bytes)
        True
    """
    if stablehlo_version is not None:
        artifacts.check_version(stablehlo_version)
    with mlir.make_ir_context() as context, ir.Location.unknown(context):
        parsed = _parse(module)
        rewrite(parsed, names)
        return artifacts.closed(parsed, stablehlo_version or _version_for(module))


def _parse(module: str | bytes) -> Any:
    """Returns the module, in the current context."""
    try:
        if isinstance(module, bytes) and _ARTIFACT.match(module):
            return jax_mlir.deserialize_portable_artifact(module)
        parsed = ir.Module.parse(module)
    except Exception as error:  # no name of MLIRError exists in all versions
        raise ValueError(f"callout.host.rewrite_host_transfers: this is no StableHLO program: {error}") from error
    return parsed


def _version_for(module: str | bytes) -> str:
    if isinstance(module, bytes) and _ARTIFACT.match(module):
        return artifacts.version_of(module)
    requirement = stablehlo.StablehloCompatibilityRequirement.WEEK_12
    version: str = stablehlo.get_version_from_compatibility_requirement(requirement)
    return version
