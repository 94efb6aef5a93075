# SPDX-License-Identifier: Apache-2.0
"""Replaces host objects among the inputs of an exported program by their handles.

A handle is a u32[4], and is valid in the process that made the object. So a process that runs the exported program
makes its own object and handle.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np

from .._callbacks.handles import HostObject
from .._primitives import jaxprs
from .._targets.handles import is_handle, wrap
from .._targets.sink_arguments import ArgumentSink

_HANDLE = jax.ShapeDtypeStruct((4,), np.uint32)


def _is_object(node: Any) -> bool:
    return issubclass(type(node), (HostObject, ArgumentSink))


def opened(program: Any, args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
    """Returns the program with handles instead of objects, and the types of its arguments.

    A program that takes no objects is returned unchanged.
    """
    nodes, tree = jax.tree.flatten((args, kwargs), is_leaf=_is_object)
    objects = {place: node for place, node in enumerate(nodes) if _is_object(node)}
    if not objects:
        return program, args, kwargs

    @functools.wraps(program)
    def of_handles(*args: Any, **kwargs: Any) -> Any:
        given = jax.tree.leaves((args, kwargs))
        for place, node in objects.items():
            given[place] = _like(node, given[place])
        args, kwargs = jax.tree.unflatten(tree, given)
        return program(*args, **kwargs)

    types = [_HANDLE if place in objects else node for place, node in enumerate(nodes)]
    args, kwargs = jax.tree.unflatten(tree, types)
    return jax.jit(of_handles), args, kwargs


def _like(node: Any, words: Any) -> Any:
    """Returns an object like `node`, with another handle."""
    (leaf,), tree = jax.tree.flatten(node)
    return jax.tree.unflatten(tree, [wrap(words, leaf)])


def refuse_captured(where: str, jaxpr: Any) -> None:
    """Raises ValueError for a traced program that has captured the handle of an object of this process."""
    consts = [*jaxprs.consts_of(jaxpr)]
    for equation in jaxprs.opened(jaxpr).eqns:
        consts += [getattr(atom, "val", None) for atom in equation.invars]
        for inner in jaxprs.inner_jaxprs(equation):
            refuse_captured(where, inner)
    for const in consts:
        if kind := is_handle(const):
            raise ValueError(
                f"{where}: the program has captured a {kind}, which is an object of this process: pass it as an argument, "
                "so that whoever runs the exported program gives it one"
            )
