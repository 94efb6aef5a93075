# SPDX-License-Identifier: Apache-2.0
"""Host functions for another process: clients of remote servers pickle what a program sends to and receives from.

Python functions travel by value, registered names by name. What belongs to this process, such as a sink, is refused. In the
other process, which must be able to import callout, records go to the queue there, and failures to its barriers.
"""

from __future__ import annotations

import copyreg
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

from ... import _ext, _jax_compat
from ..._targets.function_targets import restored_target
from ..._targets.target import Transforms
from . import host_stand_ins
from .host_stand_ins import Told


def _pickled(told: Told) -> bytes | None:
    """Returns the callback, unless its name says what it is in every process. PicklingError if it belongs to this one."""
    if told.owner is None:
        return None
    target, transforms = told.owner
    refusal = (
        f"callout: '{target.label}' cannot be sent to the process that runs the program{{}}. Bind it there by "
        "callout.register(name, fn), and pass the name"
    )
    if target.kind not in ("call", "tap"):
        raise pickle.PicklingError(refusal.format(": it is no Python function, and belongs to this process"))
    try:
        return _jax_compat.dumps((target.kind, target.source, target.structure, transforms))
    except Exception as error:
        raise pickle.PicklingError(refusal.format(f": {type(error).__name__}: {error}")) from error


def _reduced(told: Told) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    if told.platform != "tpu":  # a compiled program that is serialised: JAX loads it without its callbacks
        raise pickle.PicklingError(
            f"callout: '{told.label}' goes by JAX's own callbacks (config.fallback), which belong to this process, and so "
            "does a compiled program that calls it. Programs of callout.export carry names"
        )
    here = dataclasses.replace(told, first=told.first_ordinal(), owner=None)
    return _restore, ({field.name: getattr(here, field.name) for field in dataclasses.fields(here)}, _pickled(told))


def _restore(fields: dict[str, Any], pickled: bytes | None) -> Any:
    told = Told(**fields)
    callback: _ext.Callback | None = None
    if pickled is not None:
        kind, source, structure, transforms = pickle.loads(pickled)
        callback = _callback(kind, source, structure, transforms)
    return host_stand_ins.function_for(told, callback)


def _callback(kind: str, source: Any, structure: Any, transforms: Transforms) -> _ext.Callback:
    return restored_target(kind, source, structure).callback(transforms)


def _reduced_tap(tap: _ext.HostTap) -> Any:
    told: Any = tap.told
    return _reduced(told)


def _reduced_call(call: host_stand_ins.Call) -> Any:
    return _reduced(call.told)


def register() -> None:
    """Tells pickle of the functions."""
    copyreg.pickle(_ext.HostTap, _reduced_tap)
    copyreg.pickle(host_stand_ins.Call, _reduced_call)
