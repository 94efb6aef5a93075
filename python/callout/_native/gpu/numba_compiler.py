# SPDX-License-Identifier: Apache-2.0
"""The interface of compilers of Numba kernels: parameter types and compiled code."""

from __future__ import annotations

import abc
import dataclasses
import os
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from .images import is_complete
from .kernel import Image
from .numba_parameters import Abi

_NAMES = {"bool": "boolean"}
_DTYPES = frozenset(
    ["bool", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
# PTX for this capability runs on every GPU that CUDA 13 supports, because the driver compiles it for newer ones.
OLDEST_CAPABILITY = (7, 5)

Capability = tuple[int, int]


def named_capability() -> Capability | None:
    """Returns the architecture in Numba's environment variable, which is for machines without a GPU."""
    found = re.fullmatch(r"(\d+)\.(\d+)", os.environ.get("NUMBA_CUDA_DEFAULT_PTX_CC", "").strip())
    return (int(found[1]), int(found[2])) if found else None


@dataclasses.dataclass(frozen=True)
class ArrayType:
    """A parameter that is a row-major array."""

    dtype: np.dtype[Any]
    ndim: int
    is_writable: bool


@dataclasses.dataclass(frozen=True)
class NumberType:
    """A parameter that is a number, passed by value."""

    dtype: np.dtype[Any]


@dataclasses.dataclass(frozen=True)
class Baked:
    """A parameter whose value is part of the code. `key` identifies the value."""

    key: Hashable
    value: Any = dataclasses.field(compare=False)


ParameterType = ArrayType | NumberType | Baked


@dataclasses.dataclass(frozen=True)
class Code:
    """A compiled kernel. `numbers`: the compiled dtype of each parameter that is a number."""

    image: Image
    abi: Abi
    numbers: tuple[np.dtype[Any] | None, ...]
    cooperative: bool
    faults: Mapping[str, str] | None
    owner: Any  # keeps alive the objects that the code refers to


class Compiler(abc.ABC):
    """The interface to a package that compiles `cuda.jit` kernels."""

    package: str
    abi: Abi
    types: Any  # the package's module of types

    @abc.abstractmethod
    def has_device(self) -> bool:
        """Returns True if this process has a GPU."""

    @abc.abstractmethod
    def compile(self, kernel: Any, types: tuple[Any, ...]) -> Any:
        """Compiles for the GPU of this process, or, without one, PTX for other machines."""

    @abc.abstractmethod
    def code_of(self, kernel: Any, compiled: Any, numbers: tuple[np.dtype[Any] | None, ...]) -> Code:
        """Returns the code of a result of `compile`."""

    def dtype_of(self, kind: Any) -> np.dtype[Any] | None:
        """Returns the dtype of a Numba type of numbers; None for other types."""
        name = {"boolean": "bool"}.get(str(kind), str(kind))
        return np.dtype(name) if name in _DTYPES and name != "bfloat16" else None

    def scalar_type(self, dtype: np.dtype[Any]) -> Any:
        """Returns the Numba type of a dtype, or None."""
        return getattr(self.types, _NAMES.get(dtype.name, dtype.name), None) if dtype.name in _DTYPES else None

    def type_of(self, parameter: ParameterType, *, read_only: bool = True) -> Any:
        """Returns the Numba type of a parameter."""
        if isinstance(parameter, Baked):
            return self.types.Omitted(parameter.value)
        scalar = self.scalar_type(parameter.dtype)
        if isinstance(parameter, NumberType):
            return scalar
        return self.types.Array(scalar, parameter.ndim, "C", readonly=read_only and not parameter.is_writable)

    def fits(self, kind: Any, parameter: ParameterType) -> bool:
        """Returns True if code that was compiled for a Numba type takes the parameter."""
        if isinstance(parameter, ArrayType):
            return (
                isinstance(kind, self.types.Array)
                and kind.dtype == self.scalar_type(parameter.dtype)
                and kind.ndim == parameter.ndim
                and kind.layout in "CA"
                and (kind.mutable or not parameter.is_writable)
            )
        if isinstance(parameter, NumberType):
            dtype = self.dtype_of(kind)
            return dtype is not None and np.can_cast(parameter.dtype, dtype, "same_kind")
        return bool(kind == self.type_of(parameter))


def choose_image(
    package: str, symbol: str, ptx: str, cubin: bytes | None, named: Capability | None, *, has_device: bool
) -> Image:
    """Returns the image for programs. `cubin`: compiled for this process's GPU, or for the `named` one."""
    portable = ptx.encode() if is_complete(ptx) else None
    if has_device and cubin is not None:
        return Image(cubin, symbol, portable)
    if portable is not None:
        return Image(portable, symbol, portable)
    if cubin is not None and named is not None:
        return Image(cubin, symbol, None)
    raise ImportError(
        f"{package} links this kernel with other code, which is done for one kind of GPU, and finds none here; name it by "
        "the environment variable NUMBA_CUDA_DEFAULT_PTX_CC (9.0 for an H100)"
    )


def fault_text(kind: type[BaseException], args: Sequence[Any] | None) -> str:
    """Formats an exception for errors of programs: "ValueError: negative"."""
    try:
        text = str(kind(*(args or ())))
    except Exception:  # noqa: BLE001 - the user's class may raise anything
        text = ", ".join(map(str, args or ()))
    return f"{kind.__name__}: {text}" if text else kind.__name__
