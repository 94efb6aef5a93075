# SPDX-License-Identifier: Apache-2.0
"""A foreign call takes flat arrays, and is checked against its target's signature and its results.

The results are declared, computed by a function of the arguments, or read from the target's signature.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import PyTreeDef

from .. import _jax_compat
from .._primitives.aliases import check_aliases
from .._primitives.batching import VMAP_METHODS, check_vmap_method
from .._primitives.ffi import ffi_p
from .._primitives.varying import stated
from .._targets import foreign_attributes as frozen
from .._targets import layouts, random_keys
from .._targets.function_targets import is_leaf
from .._targets.handler_signature import Signature
from .._targets.partitioning.foreign_partitioning import DEFAULT, SHARDINGS, call_on_shards, parse_rule
from .derivatives import inherited_vmap_method

# The signatures and names of targets that callout.ffi registered.
signatures: dict[str, Signature] = {}
registered: set[str] = set()
batch_partitionable: set[str] = set()


@dataclasses.dataclass(eq=False)
class ForeignCall:
    """Holds a checked `ffi_call` with results of these types, without its derivatives."""

    target: str
    results: tuple[Any, ...]
    wanted: Sequence[Any]  # the user's declarations of the results
    has_side_effect: bool
    vmap_method: str | None
    input_layouts: Sequence[Any] | None
    output_layouts: Sequence[Any] | None
    aliases: dict[int, int]
    api_version: int
    backend_config: str | None
    sharding: str | None
    rule: str | None

    def __post_init__(self) -> None:
        check_vmap_method(self.where, self.vmap_method)
        if self.sharding not in SHARDINGS:
            raise ValueError(f"{self.where}: sharding must be one of {list(SHARDINGS)}, got {self.sharding!r}")
        if self.api_version >= 4 and self.backend_config is not None:
            raise ValueError(
                f"{self.where}: legacy_backend_config needs custom_call_api_version < 4, got {self.api_version}"
            )
        if self.rule is not None and self.sharding != "local":
            raise ValueError(f"{self.where}: sharding_rule is for sharding='local', got {self.sharding!r}")
        _ = self._layouts_of_results

    @functools.cached_property
    def where(self) -> str:
        return f"callout.ffi.ffi_call '{self.target}'"

    @functools.cached_property
    def _layouts_of_results(self) -> tuple[layouts.MinorToMajor, ...]:
        return layouts.of_all(self.where, "output", self.results, self.output_layouts)

    def bind(self, values: Sequence[Any], attributes: Mapping[str, Any]) -> list[Any]:
        """Binds the call, on shards if it has a sharding rule."""
        if self.rule is None:
            return self._bind(values, attributes)
        dims = parse_rule(self.where, self.rule, [jax.typeof(value) for value in values], self.results)

        def on_shard(shards: Sequence[Any], results: tuple[Any, ...]) -> list[Any]:
            here = dataclasses.replace(self, results=results, sharding=None, rule=None)
            return here._bind(shards, attributes)

        return call_on_shards(self.where, on_shard, self.rule, dims, values, self.results)

    def _bind(self, values: Sequence[Any], attributes: Mapping[str, Any]) -> list[Any]:
        types = [jax.typeof(value) for value in values]
        if self.target in signatures:
            signatures[self.target].check(self.target, types, self.results, attributes)
        if self.api_version < 4 and attributes:
            raise ValueError(f"{self.where}: attributes need custom_call_api_version >= 4, got {self.api_version}")
        of_args = layouts.of_all(self.where, "input", types, self.input_layouts)
        of_results = self._layouts_of_results
        aliases = check_aliases(self.where, self.aliases, types, self.results) if self.aliases else ()
        for operand, result in aliases:
            if of_args[operand] != of_results[result]:
                raise ValueError(f"{self.where}: input_output_aliases {{{operand}: {result}}}: their layouts differ")
        out: list[Any] = ffi_p.bind(
            *values,
            target_name=self.target,
            result_avals=stated(self.wanted, self.results),
            vmap_method=inherited_vmap_method(self.vmap_method, VMAP_METHODS),
            has_side_effect=self.has_side_effect,
            input_layouts=of_args,
            output_layouts=of_results,
            aliases=aliases,
            api_version=self.api_version,
            backend_config=self.backend_config,
            attributes=frozen.freeze(self.where, attributes) if attributes else (),
            sharding=self._sharding(not aliases and all(map(layouts.is_row_major, (*of_args, *of_results)))),
        )
        return out

    def _sharding(self, is_plain: bool) -> str | None:
        """Returns the partitioner's mode. `is_plain`: the partitioner can rebuild the call."""
        is_plain = is_plain and self.api_version >= 4
        if self.sharding is None:
            return DEFAULT if is_plain and self.target in registered - batch_partitionable else None
        if self.sharding != "error" and not is_plain:
            raise NotImplementedError(
                f"{self.where}: sharding={self.sharding!r} is for calls with row-major arrays, no aliases and typed FFI; "
                "use jax.shard_map"
            )
        return self.sharding


def prepare_lapack(name: str) -> None:
    """Initializes jaxlib's LAPACK functions if `name` is one of its targets: an earlier call would crash the process.

    jaxlib loads the functions from SciPy, all at once, when JAX first lowers an operation of `jnp.linalg` for a CPU.
    """
    if name.startswith("lapack_"):
        _fill_in_lapack()


@functools.cache
def _fill_in_lapack() -> None:
    """Lowers a Cholesky decomposition, which is the public way to make jaxlib load its functions."""
    jax.jit(jnp.linalg.cholesky).trace(jax.ShapeDtypeStruct((1, 1), jnp.float32)).lower(lowering_platforms=("cpu",))


_TOKEN: Any = _jax_compat.abstract_token()


@dataclasses.dataclass(frozen=True)
class Results:
    """Holds the results of one call: a pytree of objects with `shape` and `dtype`, keys and tokens."""

    wanted: Sequence[Any]
    of_handler: Sequence[random_keys.Result]
    tree: PyTreeDef
    is_single: bool  # True for one array that is not in a container

    def rebuilt(self, outs: Sequence[Any]) -> Any:
        """Returns the handler's results in the declared structure."""
        return jax.tree.unflatten(self.tree, random_keys.wrapped(outs, self.of_handler))


def results_are_fixed(declared: Any) -> bool:
    """Returns False for results that depend on the arguments."""
    return _is_result(declared) or not (declared is None or callable(declared))


def read_results(where: str, declared: Any) -> Results:
    """Reads declared results. Raises ValueError for a result without shape and dtype."""
    if isinstance(declared, Sequence) and type(declared) not in (list, tuple) and not hasattr(declared, "_fields"):
        declared = tuple(declared) if isinstance(declared, tuple) else list(declared)
    wanted, tree = jax.tree.flatten(declared, is_leaf=lambda value: value is None or _is_result(value))
    results = []
    for i, one in enumerate(wanted):
        if one is _TOKEN:
            results.append(random_keys.Result(one))
        elif _is_result(one):
            results.append(random_keys.result(one))
        else:
            raise ValueError(f"{where}: result_shape_dtypes must have 'shape' and 'dtype'; got {one!r} at position {i}")
    return Results(wanted, results, tree, is_leaf(tree))


def results_for_arguments(
    where: str, target: str, declared: Callable[..., Any] | None, args: Any, attributes: Mapping[str, Any]
) -> Results:
    """Returns the results of a call with `args`.

    `declared` computes the results from the arguments' shapes. Without it, the target's signature determines them.
    """
    shapes = jax.tree.map(_shape_of, args)
    if declared is not None:
        return read_results(where, declared(*shapes, **attributes))
    if target not in signatures:
        raise TypeError(
            f"{where}: its results are not known: say result_shape_dtypes, or register the target with a signature that "
            "says their shapes"
        )
    operands = [random_keys.result(shape).aval for shape in jax.tree.leaves(shapes) if shape is not _TOKEN]
    results = signatures[target].results_for(target, operands)
    return read_results(where, results[0] if len(results) == 1 else tuple(results))


def _is_result(value: Any) -> bool:
    return value is _TOKEN or (hasattr(value, "shape") and hasattr(value, "dtype"))


def _shape_of(value: Any) -> Any:
    aval = jax.typeof(value)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype) if hasattr(aval, "shape") else aval
