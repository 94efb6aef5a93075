# SPDX-License-Identifier: Apache-2.0
"""Calls of foreign functions: what is known of their targets, and the call itself, of flat arrays."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._primitives.aliases import check_aliases
from .._primitives.batching import VMAP_METHODS, check_vmap_method
from .._primitives.ffi import ffi_p
from .._primitives.varying import stated
from .._targets import foreign_attributes as frozen
from .._targets import layouts
from .._targets.handler_signature import Signature
from .._targets.partitioning.foreign_partitioning import DEFAULT, SHARDINGS, call_on_shards, parse_rule
from .derivatives import inherited_vmap_method

# The names of targets that callout.ffi registered, with their signatures.
signatures: dict[str, Signature] = {}
registered: set[str] = set()
batch_partitionable: set[str] = set()


@dataclasses.dataclass(eq=False)
class ForeignCall:
    """Holds a checked `ffi_call` with results of these types, less its derivatives."""

    target: str
    results: tuple[Any, ...]
    wanted: Sequence[Any]  # what they were made of
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
        """Returns the call, on shards if there is a rule for them."""
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
        """Returns what the partitioner is to do. `is_plain`: it can write the call anew."""
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
    """Makes jaxlib's LAPACK functions ready if `name` is one of its targets: a call before that ends the process.

    jaxlib takes the functions from SciPy, all at once, when JAX first lowers an operation of `jnp.linalg` for a CPU.
    """
    if name.startswith("lapack_"):
        _fill_in_lapack()


@functools.cache
def _fill_in_lapack() -> None:
    """Lowers a Cholesky decomposition, which is the public way to have jaxlib look its functions up."""
    jax.jit(jnp.linalg.cholesky).trace(jax.ShapeDtypeStruct((1, 1), jnp.float32)).lower(lowering_platforms=("cpu",))
