# SPDX-License-Identifier: Apache-2.0
"""Callout: every way out of a compiled XLA program.

`pure_callback` and `tap` call Python functions, native functions and sinks from inside jitted JAX programs, at about a
microsecond. See the README and docs/.
"""

import sysconfig as _sysconfig
from importlib.metadata import version as _version
from pathlib import Path as _Path

if _sysconfig.get_config_var("Py_GIL_DISABLED"):
    # Importing the extension would switch the GIL on for the whole process without a word.
    raise ImportError("callout does not support free-threaded Python yet; use a build with the GIL")

from . import buffer_callback as buffer_callback
from . import cpp as cpp
from . import cuda as cuda
from . import ffi as ffi
from . import host as host
from . import numba as numba
from . import numba_cuda as numba_cuda
from . import progress as progress
from . import sinks as sinks
from ._barrier import barrier_wait as barrier_wait
from ._checks import check as check
from ._checks import error_if as error_if
from ._checks import warn_if as warn_if
from ._config import config as config
from ._debug import debug_callback as debug_callback
from ._debug import debug_print as debug_print
from ._errors import BarrierTimeout as BarrierTimeout
from ._errors import CallbackError as CallbackError
from ._errors import CheckError as CheckError
from ._errors import ForkError as ForkError
from ._errors import NonFiniteError as NonFiniteError
from ._errors import NonFiniteWarning as NonFiniteWarning
from ._errors import RegistrationError as RegistrationError
from ._errors import ResultError as ResultError
from ._errors import TapError as TapError
from ._errors import UnboundNameError as UnboundNameError
from ._errors import last_error as last_error
from ._errors import reraise as reraise
from ._export import export as export
from ._export import exported_names as exported_names
from ._host_callback import additions as _host_callback_additions  # noqa: F401 - what it adds is there
from ._io_callback import io_callback as io_callback
from ._jit import jit as jit
from ._nans import locate_nans as locate_nans
from ._options import options as options
from ._profile import Profile as Profile
from ._profile import profile as profile
from ._pure_callback import pure_callback as pure_callback
from ._register import register as register
from ._register import unregister as unregister
from ._report import report as report
from ._runtime import start as _start
from ._stats import stats as stats
from ._tap import tap as tap
from ._threaded import threaded as threaded
from ._watch import watch as watch

__version__ = _version("callout")


def include_dir() -> str:
    """The folder of the C++ headers, for `-I`.

    Returns:
        Its path.

    Example:
        >>> import pathlib
        >>> (pathlib.Path(callout.include_dir()) / "callout" / "call.h").exists()
        True
    """
    return str(_Path(__file__).parent / "include")


def cmake_dir() -> str:
    """The folder of the CMake package, for `-Dcallout_DIR=`.

    Returns:
        Its path.

    Example:
        >>> import pathlib
        >>> pathlib.Path(callout.cmake_dir()).is_dir()
        True
    """
    return str(_Path(__file__).parent / "lib" / "cmake" / "callout")


_start()
