# SPDX-License-Identifier: Apache-2.0
"""Finds the user's lines where equations were traced, and hides frames from tracebacks."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from .versions import MISSING


def hide_frames(folder: str) -> None:
    """Makes JAX hide the frames of a folder's files in filtered tracebacks, like its own frames."""
    try:
        from jax._src.traceback_util import register_exclusion
    except ImportError:
        MISSING.append("jax._src.traceback_util.register_exclusion")
        return
    register_exclusion(folder)


@contextlib.contextmanager
def context_of(eqn: Any) -> Iterator[None]:
    """Restores the settings and the source line of an equation's trace, which errors name."""
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
    """Returns the frames outside of JAX that an equation was traced in, innermost first: `file_name`, `start_line`, ..."""
    return iter(()) if _source_info is None else _source_info.user_frames(eqn.source_info.traceback)


@contextlib.contextmanager
def own_lines() -> Iterator[None]:
    """Gives traced equations their own source lines, instead of the line of the equation that is evaluated."""
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
    """Returns the source file of a derivative rule, or of the function behind a jaxpr; "" if unknown."""
    info = getattr(getattr(traced, "jaxpr", traced), "debug_info", None)
    return str(getattr(info, "func_src_info", None) or "").rpartition(" at ")[2].rpartition(":")[0]


def is_of_jax(file: str) -> bool:
    """Returns True for JAX's own files, and for others that it hides in tracebacks."""
    return _source_info is not None and not _source_info.is_user_filename(file)


def inside_jax_callback() -> bool:
    """Returns whether this thread is inside one of JAX's own callbacks, by looking at the stack."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") in ("jax._src.callback", "jax._src.debugging"):
            return True
        frame = frame.f_back
    return False
