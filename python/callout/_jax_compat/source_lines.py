# SPDX-License-Identifier: Apache-2.0
"""The places in the user's code where something was traced, and what is left out of tracebacks."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from .versions import MISSING


def hide_frames(folder: str) -> None:
    """Leaves the frames of a folder's files out of the tracebacks that JAX filters, as it does with its own."""
    try:
        from jax._src.traceback_util import register_exclusion
    except ImportError:
        MISSING.append("jax._src.traceback_util.register_exclusion")
        return
    register_exclusion(folder)


@contextlib.contextmanager
def context_of(eqn: Any) -> Iterator[None]:
    """Restores what was set where an equation was traced: settings, and the place in the user's code that errors name."""
    with contextlib.ExitStack() as stack:
        if _source_info is not None:
            names = _source_info.current_name_stack() + eqn.source_info.name_stack
            stack.enter_context(_source_info.user_context(eqn.source_info.traceback, name_stack=names))
        stack.enter_context(eqn.ctx.manager)
        yield


try:
    from jax._src import source_info_util

    _source_info: Any = source_info_util
except ImportError:
    _source_info = None
    MISSING.append("jax._src.source_info_util")


def frames_of(eqn: Any) -> Iterator[Any]:
    """Returns the frames outside of JAX that an equation was traced in, innermost first; see `file_name`, `start_line`."""
    return iter(()) if _source_info is None else _source_info.user_frames(eqn.source_info.traceback)


@contextlib.contextmanager
def own_lines() -> Iterator[None]:
    """Gives what is traced the lines where it stands, and not those of the equation that it is traced for."""
    if _source_info is None:
        yield
        return
    context = _source_info._source_info_context
    before = context.context
    context.context = _source_info.SourceInfo(None, before.name_stack)
    try:
        yield
    finally:
        context.context = before


def source_file(traced: Any) -> str:
    """Names the file where the function stands that a jaxpr was traced from, or a derivative rule; "" if nobody knows."""
    info = getattr(getattr(traced, "jaxpr", traced), "debug_info", None)
    return str(getattr(info, "func_src_info", None) or "").rpartition(" at ")[2].rpartition(":")[0]


def is_of_jax(file: str) -> bool:
    """Returns True for JAX's own files, and others that it leaves out of tracebacks."""
    return _source_info is not None and not _source_info.is_user_filename(file)


def inside_jax_callback() -> bool:
    """Tells whether this thread is inside a callback of JAX's own, which only its stack tells."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") in ("jax._src.callback", "jax._src.debugging"):
            return True
        frame = frame.f_back
    return False
