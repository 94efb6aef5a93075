# SPDX-License-Identifier: Apache-2.0
"""Rewrites a module after JAX has lowered it, when all uses of its values exist."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
from jax.extend.mlir import ir

from .. import _jax_compat
from .._base.native_platforms import PLATFORMS
from .._base.patches import Place
from . import call_kinds, held_results, jaxprs, reducers, tapped_values
from .effects import ordered_effect
from .fallback import exported, policy
from .lowering import not_supported
from .tap import where_of

# Finds calls of exported programs.
_exported = jaxprs.Search(lambda eqn: eqn.primitive.name == "call_exported")


def _before_lowering(_original: Any, _name: str, jaxpr: Any, *_: Any, **__: Any) -> Any:
    reducers.refuse_calls(jaxpr)
    return NotImplemented


def _after_lowering(
    lowered: Any,
    _name: str,
    jaxpr: Any,
    *_: Any,
    platforms: Sequence[str] = (),
    backend: Any = None,
    axis_context: Any = None,
    arg_shardings: Sequence[Any] | None = None,
    num_partitions: int = 1,
    lowering_parameters: Any = None,
    **__: Any,
) -> None:
    is_held = held_results.take_note() and not {"cuda", "rocm"}.isdisjoint(platforms)
    is_read = tapped_values.take_note() and tuple(platforms) == ("cpu",)
    for_export = bool(getattr(lowering_parameters, "for_export", False))
    is_carried = (
        len(platforms) == 1 and not for_export and _leaves_native_path(platforms[0]) and _exported.in_jaxpr(jaxpr)
    )
    if not (is_held or is_read or is_carried):
        return
    with lowered.module.context, ir.Location.unknown(lowered.module.context):
        if is_held:
            held_results.hold(lowered.module)
        if is_read:
            tapped_values.read_from_taps(lowered.module)
        if is_carried and not policy.is_used(platforms[0]):
            if exported.calls_of(lowered.module):
                raise NotImplementedError(not_supported(platforms))
        elif is_carried:
            devices = getattr(axis_context, "device_assignment", None) or _devices_of(arg_shardings or ())
            exported.carry(lowered, platforms[0], backend, devices, num_partitions)


def _explain_missing_token(error: BaseException, _name: str, jaxpr: Any, *_: Any, **__: Any) -> None:
    """Raises an error that names the callback if JAX lowers an ordered callback in a function without a token."""
    if isinstance(error, KeyError) and error.args == (ordered_effect,):
        where = next(map(_where, _ordered_callbacks(jaxpr)), "callout")
        raise NotImplementedError(
            f"{where}: ordered=True inside of jax.lax.composite, or of the function that custom_partitioning has for each "
            "shard: JAX lowers these functions without the token that keeps the order. Use ordered=False there, or call it "
            "outside"
        ) from None


def _ordered_callbacks(jaxpr: Any) -> Iterator[Any]:
    """Yields the equations of ordered callbacks, those that are not in the enclosing function's effects first."""
    found: list[Any] = []

    def visit(jaxpr: Any) -> Iterator[Any]:
        for eqn in jaxprs.opened(jaxpr).eqns:
            inner = [equation for each in jaxprs.inner_jaxprs(eqn) for equation in visit(each)]
            if inner and ordered_effect not in eqn.effects:
                found.extend(inner)
            elif ordered_effect in eqn.effects:
                yield from inner or (eqn,)

    rest = list(visit(jaxpr))
    return iter(found + rest)


def _where(eqn: Any) -> str:
    """Returns the name of an equation's callback for errors."""
    target, site = (eqn.params.get(name) for name in ("target", "site"))
    if target is not None and site is not None:
        return where_of(target, site)
    kind = call_kinds.of_primitive(eqn.primitive)
    return f"{kind.where if kind else 'callout'} '{target.label}'" if target is not None else "callout"


def _leaves_native_path(platform: str) -> bool:
    return policy.is_used(platform) or platform not in PLATFORMS


def _devices_of(shardings: Sequence[Any]) -> Sequence[jax.Device]:
    """Returns the devices of a program from the shardings of its arguments; none if these are unknown."""
    meshes = (each.mesh for each in shardings if isinstance(each, jax.sharding.NamedSharding))
    return next((tuple(mesh.devices.flat) for mesh in meshes if isinstance(mesh, jax.sharding.Mesh)), ())


def hooked() -> list[Place]:
    """Returns the place where JAX makes a module."""
    place = _jax_compat.module_maker()
    if place is None:
        return []
    return [Place(*place, before=_before_lowering, after=_after_lowering, failed=_explain_missing_token)]
