# SPDX-License-Identifier: Apache-2.0
"""Makes /dev/nvidia0 seem to exist: JAX looks for it before it loads its CUDA plugin, also under `software_gpu/run`."""

import os
import pathlib
from typing import Any

_DEVICES = ("/dev/nvidia0", "/dev/nvidiactl")
_exists = os.path.exists
_path_exists = pathlib.Path.exists


def _exists_here(path: Any) -> bool:
    return str(path) in _DEVICES or _exists(path)


def _path_exists_here(path: pathlib.Path, *arguments: Any, **named: Any) -> bool:
    return str(path) in _DEVICES or _path_exists(path, *arguments, **named)


os.path.exists = _exists_here  # type: ignore[assignment]
pathlib.Path.exists = _path_exists_here  # type: ignore[assignment]
