# SPDX-License-Identifier: Apache-2.0
"""The marker: a primitive that a decorated body binds once in each step. Its operands are the fields of a bar.

_loops.py compiles loops with a marker in their body, and removes the marker. Where this is impossible (under a cond),
the marker is compiled to a message each time that the program reaches it, which is slower.

The first operand is not shown. It is a value that the step depends on, because JAX moves equations that depend on
nothing out of loops that it differentiates.

Between chunks of steps, a loop asks a clock; see _primitives/chunk_clock.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core as jex_core
from jax.interpreters import ad, batching, mlir

from .. import _jax_compat
from .._primitives import effects, lowering
from .._primitives.chunk_clock import ask_clock, has_clock
from .._primitives.eager import check_usable, to_hosts
from .._primitives.site import Site
from .._primitives.tap import no_transforms, tap_p
from ._bars import REST, SINGLE, Loop
from ._embedded import LoopTarget
from ._settings import Settings

# (head, ids, lanes, fields): head is u32[10], the eight words of the clock's state, the steps, the flags.
HEAD_SIZE = 10


@dataclasses.dataclass(frozen=True)
class Mark:
    """The marker's parameter."""

    settings: Settings
    names: tuple[str, ...]
    has_ids: bool
    weight: int = 1  # lanes of a vmap inside the loop, as in a step of `map` with a batch_size
    is_batch: bool = False  # True under such a vmap, even if it has one lane
    # The parameters of the scan around the marker, once known:
    length: int | None = None
    unroll: int = 1
    reverse: bool = False
    rest: int = 0  # steps behind the compiled loop
    is_counted: bool = False  # True if the compiled loop also counts the steps behind it

    def new_loop(self, scale: int = 1, rest: int = 0, parts: int = 1) -> Loop:
        """Returns the loop that reads the messages. Its total is the scan's length unless the user gave one."""
        total = self.settings.total
        if total is None and isinstance(self.length, int):  # a symbolic length is known only when the program runs
            total = self.length * self.weight
        return Loop(
            self.settings, self.names, total=total, scale=scale, rest=rest, parts=parts, is_mapped=self.weight > 1
        )

    def split(self, operands: Sequence[Any]) -> tuple[Any | None, list[Any]]:
        """Returns (ids, fields) of the marker's operands."""
        shown = list(operands[len(operands) - len(self.names) - self.has_ids :])
        return (shown[0] if self.has_ids else None), shown[self.has_ids :]


mark_p = jex_core.Primitive("callout_progress")
mark_p.multiple_results = True


def has_marks(eqn_or_jaxpr: Any) -> bool:
    """Returns True if a marker is inside."""
    return any(isinstance(effect, effects.ProgressEffect) for effect in eqn_or_jaxpr.effects)


@mark_p.def_effectful_abstract_eval
def _abstract_eval(*_: Any, mark: Mark) -> tuple[list[Any], set[Any]]:
    del mark
    return [], effects.showing()


@mark_p.def_impl
def _eager(*args: Any, mark: Mark) -> list[Any]:
    """Counts a step outside of any program: under `jax.disable_jit`, or in a Python loop."""
    check_usable()
    ids, fields = mark.split(args)
    head = np.zeros(HEAD_SIZE, np.uint32)
    head[8:] = mark.weight, _kind(mark) if not _jax_compat.jit_is_disabled() else SINGLE
    loop = mark.settings.eager_loop(mark.new_loop)
    loop((head, None if ids is None else to_hosts([ids])[0], None, to_hosts(fields)))
    return []


def _kind(mark: Mark) -> int:
    """Returns the flag of a message about one step: SINGLE, or REST if the step is the remainder of a batched `map`.

    A `map` with a `batch_size` runs its remainder under a vmap.
    """
    return REST if mark.is_batch else SINGLE


def _batch(args: Sequence[Any], dims: Sequence[Any], *, mark: Mark) -> tuple[Any, Any]:
    ids, fields = mark.split(range(len(args)))
    size = next(arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if dim is not None)
    # If each lane has a bar, every field must have a value for each lane.
    spread = ids is not None and (dims[ids] is not None or args[ids].ndim > 0)
    values = list(args)
    for index in [*fields, *(() if ids is None else (ids,))]:
        if dims[index] is not None:
            values[index] = jax.numpy.moveaxis(args[index], dims[index], 0)
        elif spread:
            values[index] = jax.numpy.broadcast_to(args[index], (size, *args[index].shape))
    return mark_p.bind(*values, mark=mark), []


batching.primitive_batchers[mark_p] = _batch


def _jvp(primals: Sequence[Any], _tangents: Sequence[Any], *, mark: Mark) -> tuple[Any, list[Any]]:
    return mark_p.bind(*primals, mark=mark), []


ad.primitive_jvps[mark_p] = _jvp


def _transpose(_: Sequence[Any], *args: Any, mark: Mark) -> Sequence[Any]:
    """Drops the marker: the backward pass of a linear loop has no bar."""
    del mark
    return [None] * len(args)


ad.primitive_transposes[mark_p] = _transpose


def _partial_eval(_: Any, unknown_in: Sequence[bool], instantiated_in: Sequence[bool], eqn: Any) -> Any:
    """Keeps the marker in the forward pass only, so that remat shows each step once."""
    if not any(unknown_in):
        return eqn, None, [], [], []
    ready = zip(eqn.invars, instantiated_in, strict=True)
    return None, eqn, [], [], [var for var, known in ready if not known and _jax_compat.is_variable(var)]


_jax_compat.register_remat_rule(mark_p, _partial_eval, lambda *_: [])


def _lower(ctx: mlir.LoweringRuleContext, *args: Any, mark: Mark) -> Sequence[Any]:
    """Lowers a marker that was not removed to a message. The loop already counts markers behind an unrolled scan."""
    if mark.is_counted:
        return []

    def single(*operands: Any) -> list[Any]:
        ids, fields = mark.split(operands)
        state = np.zeros(HEAD_SIZE - 2, np.uint32)
        if has_clock(ctx):
            state = ask_clock(state, 0)
        head = jax.numpy.concatenate([state, np.array([mark.weight, _kind(mark)], np.uint32)])
        send(mark.new_loop(), head, ids, None, fields)
        return []

    mlir.lower_fun(single)(ctx, *args)
    return []


lowering.register(mark_p, _lower)


def send(loop: Loop, head: Any, ids: Any, lanes: Any, fields: Sequence[Any]) -> None:
    """Sends a message from inside a program."""
    value = (head, ids, lanes, tuple(fields))
    leaves = jax.tree.leaves(value)
    target = LoopTarget(loop, value)
    tap_p.bind(
        *leaves,
        target=target,
        site=Site(target.label, ("",) * len(leaves)),
        transforms=no_transforms,
    )
