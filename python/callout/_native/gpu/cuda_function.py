# SPDX-License-Identifier: Apache-2.0
"""Kernels of CUDA C++, or of an image that was built elsewhere, as JAX functions, which are checked during tracing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ..function import Constants, Settings
from ..native_target import NativeTarget
from . import tensor_maps
from .cuda_signature import Kind, Parameter, constant_bytes
from .images import check_parameters
from .kernel import COOPERATIVE, Dims, Image, Kernel, Launch, LaunchSettings, Parameters, cluster_shape
from .kernel_function import GpuFunction, GpuTarget


@dataclasses.dataclass(frozen=True)
class CudaSettings(Settings, LaunchSettings):
    """The settings of a kernel; see `callout.cuda.Function`."""

    cooperative: bool = False
    cluster: Dims | None = None
    dependent_launch: bool = False
    priority: int | None = None
    tensor_maps: Mapping[str, Mapping[str, Any]] | None = None
    constants: Mapping[str, Any] | None = None
    synchronous: bool = False

    def launch_for(self, where: str, args: Sequence[Any], results: Sequence[Any]) -> Launch:
        """Makes the launch for arguments and results. Raises TypeError or ValueError if no GPU can launch it."""
        fills = self.grid == COOPERATIVE
        settings = dataclasses.replace(self, grid=1) if fills else self
        made = settings.launch(where, args, results, cooperative=bool(self.cooperative) or fills)
        priority = self.priority
        if priority is not None and (isinstance(priority, bool) or not isinstance(priority, int)):
            raise TypeError(f"{where}: priority must be an integer, got {priority!r}")
        if fills and self.cluster is not None:
            raise ValueError(f"{where}: grid={COOPERATIVE!r} has no clusters, got cluster={self.cluster!r}")
        return dataclasses.replace(
            made,
            fills_device=fills,
            cluster=cluster_shape(where, made.grid, self.cluster, (*args, *results)),
            dependent=bool(self.dependent_launch),
            priority=priority,
        )


@dataclasses.dataclass(frozen=True)
class Code:
    """A kernel of an image. `digest` identifies the inputs that the image was compiled from."""

    label: str
    image: Image
    parameters: tuple[Parameter, ...]
    digest: str

    def of(self, kind: Kind) -> list[Parameter]:
        """Returns the parameters of one kind, in the kernel's order."""
        return [parameter for parameter in self.parameters if parameter.kind is kind]

    def operands(
        self,
        error: Callable[[str], Exception],
        num_args: int,
        num_results: int,
        in_place: Sequence[int],
        mapped: Collection[int] = (),
    ) -> list[tuple[int, Parameter]]:
        """Returns the operand, arguments first, of each pointer. `in_place`: arguments that share memory with results.

        Arguments in place need no pointer of their own, and neither do operands that have a tensor map (`mapped`). A
        kernel with a pointer for every argument gets the address of a shared operand twice.
        """
        inputs, outputs = self.of(Kind.IN), self.of(Kind.OUT)
        written = [*range(num_args, num_args + num_results)]
        if len(outputs) != num_results:
            written = [i for i in written if i not in mapped]
        if len(outputs) != len(written):
            raise error(
                f"the kernel has {len(outputs)} results (pointers that are not to const), `out` declares {len(written)}"
            )
        own = [i for i in range(num_args) if i not in in_place and i not in mapped]
        if len(inputs) == num_args:
            own = [*range(num_args)]
        elif len(inputs) != len(own):
            besides = f" besides {len(in_place)} in place" if in_place else ""
            raise error(f"expected {len(inputs)} arguments (pointers to const){besides}, got {len(own)}")
        next_input, next_output = iter(own), iter(written)
        pointers = [parameter for parameter in self.parameters if parameter.kind is not Kind.VALUE]
        return [(next(next_input if pointer.kind is Kind.IN else next_output), pointer) for pointer in pointers]


class CudaTarget(GpuTarget):
    """A kernel with the settings and constants of a call. `constants`: bytes, or functions of arguments and results."""

    __slots__ = ("_code", "_constants", "_settings", "_where")

    def __init__(self, where: str, code: Code, settings: CudaSettings, constants: tuple[tuple[str, Any], ...]):
        aliases = tuple(sorted((settings.input_output_aliases or {}).items()))
        how = (settings.grid, settings.block, settings.launch_dims, settings.threads_per_block, settings.shared_mem)
        extended = (settings.cluster, settings.dependent_launch, settings.priority, settings.tensor_maps)
        more = (settings.cooperative, settings.synchronous, aliases, _hashable(extended))
        key = ("cuda", code.label, code.digest, code.image.symbol, code.parameters, constants, _hashable(how), more)
        super().__init__(key, code.label, code.digest)
        self._where = where
        self._code = code
        self._settings = settings
        self._constants = dict(constants)

    def kernel(self, args: Sequence[Any], results: Sequence[Any]) -> Kernel:
        def error(text: str) -> TypeError:
            return TypeError(f"{self._where}: {text}")

        launch = self._settings.launch_for(self._where, args, results)
        in_place = [*(self._settings.input_output_aliases or {})]
        maps = tensor_maps.mapped(error, self._settings.tensor_maps, len(args), len(results))
        having_maps = {found.operand for found in maps.values()}
        operands = iter(self._code.operands(error, len(args), len(results), in_place, having_maps))
        parameters = Parameters()
        for parameter in self._code.parameters:
            if parameter.kind is not Kind.VALUE:
                operand, _ = next(operands)
                parameters.add_pointer(operand)
                continue
            if parameter.name in maps:
                parameters.add_tensor_map(maps[parameter.name].numbers(self._where, args, results))
                continue
            value = self._constants[parameter.name]
            if callable(value):
                value = constant_bytes(error, parameter, value(*args, *results))
            parameters.add(value)
        check_parameters(self._where, self._code.image.code, self._code.image.symbol, parameters.sizes)
        return Kernel(self._code.image, launch, parameters, synchronous=self._settings.synchronous)


def _hashable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple((key, _hashable(value[key])) for key in sorted(value))
    return tuple(map(_hashable, value)) if isinstance(value, (tuple, list)) else value


_MOST_TARGETS = 64


class Function(GpuFunction):
    """A kernel that JAX programs can launch.

    It takes arrays by position, and numbers by keyword. `options` returns a copy with other settings. Without `out`, a
    result has the declared dtype, and the shape of the first argument, or of the argument that it is in place of.
    """

    def __init__(self, code: Code, name: str, settings: CudaSettings):
        super().__init__(f"callout.cuda '{name}'", name, settings)
        self._code = code
        self._cuda_settings = settings
        maps = settings.tensor_maps or {}
        tensor_maps.check(self._error, maps, [parameter.name for parameter in code.of(Kind.VALUE)])
        self._values = {parameter.name: parameter for parameter in code.of(Kind.VALUE) if parameter.name not in maps}
        unknown = sorted(set(settings.constants or {}) - set(self._values))
        if unknown:
            raise self._error(f"there are no constants {unknown}, but {sorted(self._values)}")
        # Targets are cached, so that calls outside of jit are not compiled again.
        self._targets: dict[Any, CudaTarget] = {}

    def __repr__(self) -> str:
        return f"<CUDA kernel {self._code.label}: {', '.join(map(str, self._code.parameters))}>"

    def options(self, **settings: Any) -> Function:
        """Returns a copy with other settings.

        Functions among them get the arguments and the results of one launch, with `shape`, `size` and `dtype`.

        Args:
            **settings: any of these:

                - `launch_dims`: threads along x, y and z: a number, up to three of them, or a function that returns such.
                  Blocks of `threads_per_block`, 16 x 16 or 8 x 8 x 4 threads cover them, so the last blocks may have
                  threads too many.
                - `threads_per_block`: threads of a block for `launch_dims` of one dimension; 256 by default.
                - `grid`, `block`: instead of `launch_dims`, the blocks, and the threads of each. `grid="cooperative"`:
                   as many blocks as the program's device can run at once, launched so that they can wait for each
                   other.
                - `shared_mem`: bytes of dynamic shared memory of a block, or a function that returns them.
                - `cooperative`: all blocks run at once, so that they can wait for each other.
                - `cluster`: blocks of a cluster along x, y and z, in the form of `grid`, which must be a multiple of
                   them. Only for devices of compute capability 9.0 and later.
                - `dependent_launch`: the kernel may begin before the previous kernel ends (programmatic dependent
                   launch). It must not touch its arguments and results before `cudaGridDependencySynchronize()`.
                - `priority`: the launch's priority; lower numbers come first. By default the stream's.
                - `tensor_maps`: {parameter: {"argument": 0, "box": (64, 64)}}: parameters of type `CUtensorMap`, by which
                  the tensor memory accelerator copies boxes of an argument or of a "result". Further settings: "step"
                  (1 for each axis), "swizzle" (0, 32, 64 or 128 bytes), "l2_promotion" (0, 64, 128 or 256 bytes),
                  "nan_fill". Axes are in the array's order. An operand with a map needs no pointer of its own.
                - `constants`: default values of the kernel's numbers, or functions that return them.
                - `synchronous`: programs wait for the kernel, and raise its faults as errors; for debugging.
                - `out`: the results: a pytree of `jax.ShapeDtypeStruct`s, or a function of the arguments and the constants
                  of the call that returns one.
                - `vmap_method`: any but None: `vmap` launches the kernel once for each lane.
                - `jvp`: `jvp(primals, tangents, **constants)` returns (results, their tangents).
                - `vjp`: (`forward(*args, **constants)` returns (results, residuals), `backward(residuals, cotangents)`
                   returns one cotangent for each argument).
                - `input_output_aliases`: {argument: result}, both flat indices. Such a result holds its argument's
                   value at the start, and the kernel updates it in place. The argument then needs no pointer of its
                   own; if the kernel has one, both pointers are equal.
        """
        return self._with(dataclasses.replace(self._cuda_settings, **settings))

    def _with(self, settings: Any) -> Function:
        return Function(self._code, self.__name__, settings)

    def _prepare(self, constants: Mapping[str, Any]) -> tuple[NativeTarget, Constants]:
        given = {**(self._cuda_settings.constants or {}), **constants}
        if set(given) != set(self._values):
            raise self._error(f"expected the constants {sorted(self._values)}, got {sorted(given)}")
        values = tuple((name, self._constant(name, value)) for name, value in sorted(given.items()))
        target = self._targets.get(values)
        if target is None:
            target = CudaTarget(self._where, self._code, self._cuda_settings, values)
            if len(self._targets) >= _MOST_TARGETS:
                self._targets.clear()
            self._targets[values] = target
        return target, ()

    def _constant(self, name: str, value: Any) -> Any:
        return value if callable(value) else constant_bytes(self._error, self._values[name], value)

    @property
    def _in_place(self) -> Mapping[int, int]:
        return self._settings.input_output_aliases or {}

    def _typed(self, index: int, arg: Any) -> Any:
        """Converts a Python number to an array of the declared dtype, if there is one."""
        declared = self._code.of(Kind.IN)
        is_number = isinstance(arg, (bool, int, float, complex))
        dtype = declared[index].dtype if is_number and not self._in_place and index < len(declared) else None
        if dtype is None:
            return super()._typed(index, arg)

        def error(_: str) -> TypeError:
            return self._error(f"argument {index}: expected {dtype}, got {arg!r}")

        return np.frombuffer(constant_bytes(error, declared[index], arg), dtype)[0]

    def _check(self, args: Sequence[Any], results: Sequence[Any]) -> None:
        maps = tensor_maps.mapped(self._error, self._cuda_settings.tensor_maps, len(args), len(results))
        having_maps = {found.operand for found in maps.values()}
        operands = self._code.operands(self._error, len(args), len(results), [*self._in_place], having_maps)
        for operand, declared in operands:
            is_argument = operand < len(args)
            aval = args[operand] if is_argument else results[operand - len(args)]
            if declared.dtype is None or np.dtype(aval.dtype) == declared.dtype:
                continue
            which, index = ("argument", operand) if is_argument else ("result", operand - len(args))
            got = "got" if is_argument else "`out` declares"
            raise self._error(
                f"{which} {index}{f' ({declared.name})' if declared.name else ''}: expected {declared.dtype}, {got} "
                f"{np.dtype(aval.dtype)} of shape {aval.shape}"
            )

    def _results(self, args: Sequence[Any], avals: Sequence[Any], constants: Mapping[str, Any]) -> Any:
        del args, constants
        like = {result: argument for argument, result in self._in_place.items()}
        results = []
        for i, declared in enumerate(self._code.of(Kind.OUT)):
            place = like.get(i, 0)
            if place >= len(avals) or (declared.dtype is None and i not in like):
                raise self._error(f"say what result {i} is: .options(out=jax.ShapeDtypeStruct(...))")
            results.append(jax.ShapeDtypeStruct(avals[place].shape, declared.dtype or avals[place].dtype))
        return results[0] if len(results) == 1 else tuple(results)
