# SPDX-License-Identifier: Apache-2.0
"""`callout.export` exports a program, and `callout.exported_names` lists the names that a program calls.

A program for several shapes has an exact specialisation for each shape, all in one file for the C++ host.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import jax

from .. import _ext, _jax_compat
from .._base import patches
from .._base.jit import Jitted
from .._primitives.effects import OrderedEffect, of_exported
from .._primitives.ffi import foreign_targets
from .._primitives.lowering import REFUSAL
from . import artifacts, host_objects, host_transfers, plugin, reachability

_HOST_LAPACK = [f"lapack_{letter}{stem}_ffi" for letter in "sdcz" for stem in ("geqp3", "gesvd")]
"""Custom calls without a guarantee of JAX's that the C++ host runs like jaxlib does: src/lapack."""

_REAL = ("orgqr", "sytrd", "syevd")
_COMPLEX = ("ungqr", "hetrd", "heevd")
_ALL = ("getrf", "geqrf", "geqp3", "potrf", "gehrd", "trsm", "gtsv", "gesdd", "gesvd", "geev", "gees")
_HOST_TARGETS = {
    f"lapack_{letter}{stem}_ffi"
    for letters, stems in (("sd", _REAL), ("cz", _COMPLEX), ("sdcz", _ALL))
    for letter in letters
    for stem in stems
}
"""The custom calls that the C++ host has on CPU: src/host/lapack/custom_calls.cc."""

_OWN_TARGETS = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement",
                "AllocateBuffer", "TopK", "shape_assertion", "stablehlo.", "mhlo.", "xla.")  # fmt: skip
"""The beginnings of custom calls that XLA implements itself."""

_EVERYTHING = "ALL"  # as a target in disabled checks: JAX then allows all custom calls


@overload
def export(
    jitted: Any,
    *,
    platforms: Sequence[str] | None = None,
    for_plugin: str | None = None,
    stablehlo_version: str | None = None,
    disabled_checks: Sequence[jax.export.DisabledSafetyCheck] = (),
    shapes: None = None,
) -> Callable[..., jax.export.Exported]: ...


@overload
def export(
    jitted: Any,
    *,
    platforms: Sequence[str] | None = None,
    for_plugin: str | None = None,
    stablehlo_version: str | None = None,
    disabled_checks: Sequence[jax.export.DisabledSafetyCheck] = (),
    shapes: Sequence[Mapping[str, int]],
) -> Callable[..., ExportedShapes]: ...


def export(
    jitted: Any,
    *,
    platforms: Sequence[str] | None = None,
    for_plugin: str | None = None,
    stablehlo_version: str | None = None,
    disabled_checks: Sequence[jax.export.DisabledSafetyCheck] = (),
    shapes: Sequence[Mapping[str, int]] | None = None,
) -> Callable[..., Any]:
    """Exports programs with callbacks and taps, like `jax.export.export`.

    A program may only call names of `callout.register`. A name need not be bound at export, but must be bound before a
    process loads the program. `Exported.serialize`, `jax.export.deserialize` and `Exported.call` are JAX's; the process
    that calls `deserialize` has imported callout. Where the program takes a `StopFlag`, a `HostValue` or a sink as an
    argument, the exported program takes the object's handle, a `uint32[4]`: its `handle`.

    Args:
        jitted: the result of `jax.jit` or `callout.jit`.
        platforms: as in `jax.export.export`. Callbacks are native calls on "cpu" and "cuda"; on other platforms JAX's
            own callbacks of the process that compiles the program run them (docs/fallback.md).
        for_plugin: write StableHLO that this plugin reads: the path of a PJRT plugin, whose version a short-lived
            process reads; "cpu", the CPU plugin; or another platform of this process. Custom calls are then allowed;
            for cpu, those that the C++ host lacks cause a warning.
        stablehlo_version: write StableHLO for this version, such as "1.13.0". By default JAX chooses.
        disabled_checks: further checks to disable, as in `jax.export.export`.
        shapes: for the C++ host, which cannot compile symbolic dimensions: the values of the arguments' symbolic
            dimensions, such as `[{"b": 3}, {"b": 17}]`. The returned function then exports the program for each, and
            returns an object with the `programs`, whose `serialize()` writes one file. The host chooses the program
            that fits its arguments.

    Returns:
        A function of arguments or `jax.ShapeDtypeStruct`s that returns a `jax.export.Exported`. Its `main` neither takes
        nor returns tokens: the order of ordered callbacks begins and ends inside the program.

    Raises:
        ValueError: a version that cannot be written; (from the returned function) the program calls a function or a
            sink instead of a name, or captures a `StopFlag` or `HostValue`, or `shapes` do not fit the arguments.
        NotImplementedError: (from the returned function) a platform has no callbacks, or JAX's own cannot run this one
            there; for cpu, send and receive ops that do not belong to a host callback.

    Example:
        >>> callout.register("halve", lambda x: x / 2, replace=True)
        >>> like = jax.ShapeDtypeStruct((3,), jnp.float32)
        >>> exported = callout.export(jax.jit(lambda x: callout.pure_callback("halve", like, x)))(like)
        >>> loaded = jax.export.deserialize(exported.serialize())
        >>> loaded.call(jnp.array([2.0, 4.0, 6.0]))
        Array([1., 2., 3.], dtype=float32)
    """
    if for_plugin is not None and stablehlo_version is not None:
        raise ValueError("callout.export: for_plugin and stablehlo_version both choose a version; pass one of them")
    if not isinstance(for_plugin, str | None):
        raise TypeError(f"callout.export: for_plugin must be a path or the name of a platform, got {for_plugin!r}")
    newest = None if for_plugin is None else plugin.stablehlo_version(for_plugin)
    if stablehlo_version is not None:
        artifacts.check_version(stablehlo_version)
    ours = [name for name, *_ in _ext.ffi_targets()]
    allowed = [*ours, *_HOST_LAPACK, REFUSAL, *([] if for_plugin is None else [_EVERYTHING])]
    checks = [*map(jax.export.DisabledSafetyCheck.custom_call, allowed), *disabled_checks]
    jitted_program = jitted._jitted if issubclass(type(jitted), Jitted) else jitted
    jax.export.export(jitted_program, platforms=platforms)  # raises if `jitted` is not jitted

    def export_for(stacklevel: int, /, *args: Any, **kwargs: Any) -> jax.export.Exported:
        program, args, kwargs = host_objects.opened(jitted_program, args, kwargs)
        traced = program.trace(*args, **kwargs).jaxpr
        host_objects.refuse_captured("callout.export", traced)
        foreign = map(jax.export.DisabledSafetyCheck.custom_call, sorted(foreign_targets(traced)))
        as_jax_does = jax.export.export(program, platforms=platforms, disabled_checks=[*checks, *foreign])

        def finish(exported: jax.export.Exported) -> jax.export.Exported:
            version = stablehlo_version or artifacts.version_of(exported.mlir_module_serialized)
            return _finished(exported, version if newest is None else artifacts.older(version, newest))

        exported = _jax_compat.with_vjps(as_jax_does(*args, **kwargs), finish)
        if for_plugin is not None and "cpu" in exported.platforms:
            _warn_of_missing(exported, stacklevel + 1)
        return exported

    if shapes is None:
        return functools.partial(export_for, 2)
    # The stack level 4 skips `export_shapes` and the lambda.
    return lambda *args, **kwargs: export_shapes(functools.partial(export_for, 4), shapes, args, kwargs)


def _warn_of_missing(exported: jax.export.Exported, stacklevel: int) -> None:
    """Warns of the custom calls that the C++ host does not have."""
    with artifacts.opened(exported.mlir_module_serialized) as module:
        targets = artifacts.custom_calls(module)
    missing = [target for target in targets if target not in _HOST_TARGETS and not target.startswith(_OWN_TARGETS)]
    if missing:
        listed = ", ".join(map(repr, missing))
        warnings.warn(
            f"callout.export: the program calls {listed}, which neither the CPU plugin nor Callout's C++ host has: "
            f"register it there (Plugin::RegisterHandler, or --handler NAME=lib.so:SYMBOL of the command), or the program "
            f"does not compile",
            UserWarning,
            stacklevel=stacklevel,
        )


def _finished(exported: jax.export.Exported, version: str) -> jax.export.Exported:
    """Returns the program in the wanted version, without Callout's tokens, and with all names in every call."""
    is_ours = [isinstance(effect, OrderedEffect) for effect in exported.ordered_effects]
    is_static = all(isinstance(extent, int) for aval in exported.in_avals for extent in aval.shape)
    is_refined = exported.uses_global_constants and is_static  # it calls a program of symbolic shapes with static ones
    written = exported.mlir_module_serialized
    with artifacts.opened(artifacts.refined(written) if is_refined else written) as module:
        reachability.resolve_refusals(module, exported.platforms)
        _rewrite_host_transfers(module, exported.platforms)
        artifacts.remove_tokens(module, is_ours)
        artifacts.write_names(module)
        artifact = artifacts.closed(module, version)
    others = [effect for effect, ours in zip(exported.ordered_effects, is_ours, strict=True) if not ours]
    return dataclasses.replace(
        exported,
        ordered_effects=tuple(others),
        unordered_effects=of_exported(exported.unordered_effects),
        mlir_module_serialized=artifact,
        uses_global_constants=exported.uses_global_constants and not is_refined,
    )


def _rewrite_host_transfers(module: Any, platforms: Sequence[str]) -> None:
    """Turns host transfers, which XLA:CPU does not have, into calls."""
    if "cpu" not in platforms or not host_transfers.has_host_transfers(module):
        return
    if len(platforms) > 1:
        raise NotImplementedError(
            f"callout.export: this program sends to its host or receives from it, which has to be a call on cpu and must "
            f"not be one elsewhere, and it is exported for {platforms}: export it once for cpu and once for the others"
        )
    host_transfers.rewrite(module)


def exported_names(exported: jax.export.Exported | ExportedShapes) -> tuple[str, ...]:
    """Returns the names that an exported program calls, sorted. They must be registered where the program runs.

    Args:
        exported: the result of `callout.export(...)(...)` or `jax.export.deserialize`.

    Returns:
        The names, each once.

    Raises:
        AttributeError: `exported` is no `jax.export.Exported`.

    Example:
        >>> like = jax.ShapeDtypeStruct((3,), jnp.float32)
        >>> exported = callout.export(jax.jit(lambda x: callout.tap("log", callout.pure_callback("ask", like, x))))(like)
        >>> callout.exported_names(exported)
        ('ask', 'log')
    """
    if isinstance(exported, ExportedShapes):
        return tuple(sorted({name for _, each in exported.programs for name in exported_names(each)}))
    patches.ensure("tapped_values")  # the caller will probably compile the program
    with artifacts.opened(exported.mlir_module_serialized) as module:
        return artifacts.names(module)


MAGIC = b"callout.programs 1\n"
"""The beginning of the file; src/host/programs/exported_file.cc reads it."""


@dataclasses.dataclass(frozen=True)
class ExportedShapes:
    """A program that was exported for several shapes by `callout.export(..., shapes=...)`."""

    programs: tuple[tuple[dict[str, int], jax.export.Exported], ...]
    """The values of the symbolic dimensions, and the program for them."""

    def serialize(self) -> bytes:
        """Writes all programs as one file for the C++ host and the command, which choose by the arguments' shapes."""
        file = bytearray(MAGIC)
        for values, exported in self.programs:
            for part in (label(values).encode(), bytes(exported.serialize())):
                file += len(part).to_bytes(8, "little") + part
        return bytes(file)


def label(values: Mapping[str, int]) -> str:
    """Returns the name of a specialisation in the file and in the host's errors: "b=3,n=4"."""
    return ",".join(f"{name}={value}" for name, value in sorted(values.items()))


def export_shapes(
    export_for: Callable[..., jax.export.Exported], shapes: Sequence[Mapping[str, int]], args: Any, kwargs: Any
) -> ExportedShapes:
    """Exports the program for each of `shapes`.

    Raises:
        ValueError: `shapes` or the arguments do not fit each other.
    """
    names = _symbols((args, kwargs))
    if not names:
        raise ValueError(
            "callout.export: shapes= is for arguments with symbolic dimensions (jax.export.symbolic_shape)"
        )
    programs = []
    for values in _sizes(shapes, names):
        exact_args, exact_kwargs = jax.tree.map(lambda leaf, env=dict(values): _exact(leaf, env), (args, kwargs))
        programs.append((values, export_for(*exact_args, **exact_kwargs)))
    return ExportedShapes(tuple(programs))


def _sizes(shapes: Sequence[Mapping[str, int]], names: set[str]) -> list[dict[str, int]]:
    """Returns `shapes` with Python integers."""
    if not shapes:
        raise ValueError("callout.export: shapes= is empty")
    for values in shapes:
        if set(values) != names:
            listed = ", ".join(map(repr, sorted(names)))
            raise ValueError(f"callout.export: the symbolic dimensions are {listed}, and shapes= has {dict(values)}")
    sizes = [{name: _size(name, value) for name, value in values.items()} for values in shapes]
    if len(set(map(label, sizes))) < len(sizes):
        raise ValueError("callout.export: shapes= has the same shape twice")
    return sizes


def _size(name: str, value: Any) -> int:
    try:
        size = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        size = -1
    if size < 0:
        raise ValueError(f"callout.export: shapes= has {value!r} for {name!r}; expected a size")
    return size


def _symbols(tree: Any) -> set[str]:
    extents = [extent for leaf in jax.tree.leaves(tree) for extent in getattr(leaf, "shape", ())]
    return {name for extent in extents for name in _jax_compat.symbols_of(extent)}


def _exact(leaf: Any, values: Mapping[str, int]) -> Any:
    """Returns an argument unchanged, or its description with `values` for symbolic dimensions."""
    shape = getattr(leaf, "shape", ())
    if not any(_jax_compat.symbols_of(extent) for extent in shape):
        return leaf
    exact = tuple(_jax_compat.extent_for(extent, values) for extent in shape)
    sharding, weak_type = getattr(leaf, "sharding", None), getattr(leaf, "weak_type", False)
    return jax.ShapeDtypeStruct(exact, leaf.dtype, sharding=sharding, weak_type=weak_type)
