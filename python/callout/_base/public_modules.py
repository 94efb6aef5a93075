# SPDX-License-Identifier: Apache-2.0
"""Public modules: `dir` and completion offer a module's own names, and some modules can be called."""

from __future__ import annotations

import sys
import types
from typing import Any


class PublicModule(types.ModuleType):
    """A module whose `dir` leaves out imported names."""

    def __dir__(self) -> list[str]:
        return sorted({*self.__all__, *(name for name in vars(self) if name.startswith("__"))})


class CallableModule(PublicModule):
    """A module that can be called like the function of its own name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, self.__name__.rpartition(".")[2])(*args, **kwargs)


def publish(name: str, kind: type[PublicModule] = PublicModule) -> None:
    """Makes the module of this name one of this kind. Its `__all__` lists its own names."""
    sys.modules[name].__class__ = kind
