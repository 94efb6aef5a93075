# SPDX-License-Identifier: Apache-2.0
"""A kernel of CUDA C++, or of an image that was built elsewhere, as the target of a primitive."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..function import Settings
from .constants import constant_bytes
from .cubin import check_parameters
from .kernel import Image, Kernel, Launch, Parameters
from .launch import Dims, launch_shape
from .parameter import Kind, Parameter
from .target import GpuTarget


@dataclasses.dataclass(frozen=True)
class CudaSettings(Settings):
    """What a kernel may be told besides its arguments; see `callout.cuda.Function`."""

    grid: Dims | None = None
    block: Dims | None = None
    launch_dims: Dims | None = None
    threads_per_block: int = 256
    shared_mem: int | Callable[..., int] = 0
    cooperative: bool = False
    constants: Mapping[str, Any] | None = None
    synchronous: bool = False

    def launch(self, where: str, args: Sequence[Any], results: Sequence[Any]) -> Launch:
        """The launch for operands of these shapes."""
        grid, block = launch_shape(
            where,
            args,
            results,
            grid=self.grid,
            block=self.block,
            launch_dims=self.launch_dims,
            threads_per_block=self.threads_per_block,
        )
        shared = self.shared_mem(*args, *results) if callable(self.shared_mem) else self.shared_mem
        if isinstance(shared, bool) or not isinstance(shared, int) or shared < 0:
            raise ValueError(f"{where}: shared_mem must be a number of bytes, got {shared!r}")
        return Launch(grid, block, shared, bool(self.cooperative))


@dataclasses.dataclass(frozen=True)
class Code:
    """A kernel of an image. `digest`: of what the image was made of."""

    label: str
    image: Image
    parameters: tuple[Parameter, ...]
    digest: str

    def of(self, kind: Kind) -> list[Parameter]:
        """The parameters of a kind, in order."""
        return [parameter for parameter in self.parameters if parameter.kind is kind]

    def operands(
        self, error: Callable[[str], Exception], num_args: int, num_results: int, in_place: Sequence[int]
    ) -> list[tuple[int, Parameter]]:
        """The operand, arguments first, of each pointer. `in_place`: arguments that results are in the place of.

        The latter need no pointer of their own; a kernel that has one for every argument gets the same address twice.
        """
        inputs, outputs = self.of(Kind.IN), self.of(Kind.OUT)
        if len(outputs) != num_results:
            raise error(
                f"the kernel has {len(outputs)} results (pointers that are not to const), `out` declares {num_results}"
            )
        own = [i for i in range(num_args) if i not in in_place]
        if len(inputs) == num_args:
            own = [*range(num_args)]
        elif len(inputs) != len(own):
            besides = f" besides {len(in_place)} in place" if in_place else ""
            raise error(f"expected {len(inputs)} arguments (pointers to const){besides}, got {len(own)}")
        next_input, next_output = iter(own), iter(range(num_args, num_args + num_results))
        pointers = [parameter for parameter in self.parameters if parameter.kind is not Kind.VALUE]
        return [(next(next_input if pointer.kind is Kind.IN else next_output), pointer) for pointer in pointers]


class CudaTarget(GpuTarget):
    """A kernel and the settings and constants of a call. `constants`: bytes, or functions of arguments and results."""

    __slots__ = ("_code", "_constants", "_settings", "_where")

    def __init__(self, where: str, code: Code, settings: CudaSettings, constants: tuple[tuple[str, Any], ...]):
        aliases = tuple(sorted((settings.input_output_aliases or {}).items()))
        how = (settings.grid, settings.block, settings.launch_dims, settings.threads_per_block, settings.shared_mem)
        more = (settings.cooperative, settings.synchronous, aliases)
        key = ("cuda", code.label, code.digest, code.image.symbol, code.parameters, constants, _hashable(how), more)
        super().__init__(key, code.label, code.digest)
        self._where = where
        self._code = code
        self._settings = settings
        self._constants = dict(constants)

    def kernel(self, args: Sequence[Any], results: Sequence[Any]) -> Kernel:
        def error(text: str) -> TypeError:
            return TypeError(f"{self._where}: {text}")

        launch = self._settings.launch(self._where, args, results)
        in_place = [*(self._settings.input_output_aliases or {})]
        operands = iter(self._code.operands(error, len(args), len(results), in_place))
        parameters = Parameters()
        for parameter in self._code.parameters:
            if parameter.kind is not Kind.VALUE:
                operand, _ = next(operands)
                parameters.add_pointer(operand)
                continue
            value = self._constants[parameter.name]
            if callable(value):
                value = constant_bytes(error, parameter, value(*args, *results))
            parameters.add(value)
        check_parameters(self._where, self._code.image.code, self._code.image.symbol, parameters.sizes)
        return Kernel(self._code.image, launch, parameters, synchronous=self._settings.synchronous)


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, (tuple, list)) else value
