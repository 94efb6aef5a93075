# SPDX-License-Identifier: Apache-2.0
"""Callout calls host code from inside compiled XLA programs.

`pure_callback` and `tap` call Python functions, native functions and sinks from inside jitted JAX programs, at about a
microsecond. See the README and docs/.
"""

import sys as _sys
import typing as _typing
from importlib import import_module as _import_module
from importlib.metadata import version as _version

from ._base.config import config as config
from ._base.errors import BarrierTimeout as BarrierTimeout
from ._base.errors import CallbackError as CallbackError
from ._base.errors import CheckError as CheckError
from ._base.errors import ForkError as ForkError
from ._base.errors import NonFiniteError as NonFiniteError
from ._base.errors import NonFiniteWarning as NonFiniteWarning
from ._base.errors import RegistrationError as RegistrationError
from ._base.errors import ResultError as ResultError
from ._base.errors import TapError as TapError
from ._base.errors import UnboundNameError as UnboundNameError
from ._base.errors import last_error as last_error
from ._base.errors import reraise as reraise
from ._base.lifetime import start as _start
from ._base.options import options as options
from ._measuring import host_callback_additions as _host_callback_additions  # noqa: F401 - adds settings and counters
from ._primitives import effects as _effects  # noqa: F401 - JAX finds them by name in exported programs
from ._targets.partitioning.partitioner import register as _register_partitioners

if _typing.TYPE_CHECKING:
    from . import buffer_callback as buffer_callback
    from . import cpp as cpp
    from . import cuda as cuda
    from . import ffi as ffi
    from . import host as host
    from . import host_callback as host_callback
    from . import numba as numba
    from . import numba_cuda as numba_cuda
    from . import progress as progress
    from . import sinks as sinks
    from ._base.barrier import barrier_wait as barrier_wait
    from ._base.jit import jit as jit
    from ._callbacks.checks import check as check
    from ._callbacks.checks import error_if as error_if
    from ._callbacks.checks import warn_if as warn_if
    from ._callbacks.debug import debug_callback as debug_callback
    from ._callbacks.debug import debug_print as debug_print
    from ._callbacks.host_value import HostValue as HostValue
    from ._callbacks.io_callback import io_callback as io_callback
    from ._callbacks.located_nans import locate_nans as locate_nans
    from ._callbacks.pure_callback import pure_callback as pure_callback
    from ._callbacks.stop_flag import StopFlag as StopFlag
    from ._callbacks.stoppable_loops import fori_loop as fori_loop
    from ._callbacks.stoppable_loops import scan as scan
    from ._callbacks.tap import tap as tap
    from ._callbacks.threaded import threaded as threaded
    from ._callbacks.watch import watch as watch
    from ._export.export import export as export
    from ._export.export import exported_names as exported_names
    from ._measuring.profile import profile as profile
    from ._measuring.stats import report as report
    from ._measuring.stats import stats as stats
    from ._native.library import cmake_dir as cmake_dir
    from ._native.library import include_dir as include_dir
    from ._targets.register import register as register
    from ._targets.register import unregister as unregister

__version__ = _version("callout")

# These modules are imported at their first use: they are half of the package, and need half of JAX.
_MODULES = (
    "buffer_callback",
    "cpp",
    "cuda",
    "ffi",
    "host",
    "host_callback",
    "numba",
    "numba_cuda",
    "progress",
    "sinks",
)
_NAMES = {
    "debug_callback": "._callbacks.debug",
    "debug_print": "._callbacks.debug",
    "io_callback": "._callbacks.io_callback",
    "pure_callback": "._callbacks.pure_callback",
    "threaded": "._callbacks.threaded",
    "export": "._export.export",
    "exported_names": "._export.export",
    "profile": "._measuring.profile",
    "report": "._measuring.stats",
    "stats": "._measuring.stats",
    "barrier_wait": "._base.barrier",
    "jit": "._base.jit",
    "check": "._callbacks.checks",
    "error_if": "._callbacks.checks",
    "warn_if": "._callbacks.checks",
    "locate_nans": "._callbacks.located_nans",
    "HostValue": "._callbacks.host_value",
    "StopFlag": "._callbacks.stop_flag",
    "fori_loop": "._callbacks.stoppable_loops",
    "scan": "._callbacks.stoppable_loops",
    "tap": "._callbacks.tap",
    "watch": "._callbacks.watch",
    "cmake_dir": "._native.library",
    "include_dir": "._native.library",
    "register": "._targets.register",
    "unregister": "._targets.register",
}


def _import_when_asked_for(name: str) -> _typing.Any:
    if name in _MODULES:
        return _import_module(f"{__name__}.{name}")
    if name not in _NAMES:
        this = _sys.modules[__name__]  # for the names that Python suggests
        raise AttributeError(f"module 'callout' has no attribute '{name}'", name=name, obj=this)
    value = globals()[name] = getattr(_import_module(_NAMES[name], __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_NAMES})


if not _typing.TYPE_CHECKING:  # a type checker would accept every name of the module
    __getattr__ = _import_when_asked_for
    # Without this list, `from callout import *` would import only the names that have been used before.
    __all__ = [name for name in __dir__() if not name.startswith("_")]


_start()
_register_partitioners()
