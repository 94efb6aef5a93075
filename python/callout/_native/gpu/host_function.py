# SPDX-License-Identifier: Apache-2.0
"""Host functions of CUDA C++ as JAX functions: they get the device's memory and XLA's stream, and launch kernels."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ..._callbacks.pure_callback import result_avals
from ..._targets.target import interned
from ..cpp_function import Function
from ..function import Settings, shapes_of
from ..library import LoadedFunction
from ..native_target import NativeTarget


@dataclasses.dataclass(frozen=True)
class HostSettings(Settings):
    """The settings of a host function; see `HostFunction.options`."""

    scratch: Any = None
    graph: bool = False
    command_buffer_compatible: bool = False


class HostTarget(NativeTarget):
    """A function of a library that works on a device's memory."""

    __slots__ = ("_graph", "handler")

    platforms = ("cuda",)
    has_parallel_lanes = False

    def __init__(self, key: Any, code: LoadedFunction, settings: HostSettings):
        super().__init__(key, code.label, code.callback, code.digest, code.library)
        self._graph = settings.graph
        self.handler = "callout.v1.buffer_capturable" if settings.command_buffer_compatible else "callout.v1.buffer"

    def attributes(self) -> dict[str, Any]:
        """Returns the call's attributes besides its name."""
        return {**super().attributes(), "graph": self._graph}


class HostFunction(Function):
    """A host function of CUDA C++ that JAX programs can call.

    It takes arrays by position, and attributes by keyword. `options` returns a copy with other settings. Without `out`,
    each result has the shape of the first argument of its rank; this needs a function that describes its parameters.
    """

    _PACKAGE = "callout.cuda"
    _MORE_VMAP_METHODS = ()

    def __init__(self, code: LoadedFunction, name: str, settings: HostSettings):
        super().__init__(_host_target(code, settings), name, settings)
        if settings.graph and settings.command_buffer_compatible:
            raise self._error(
                "graph=True records the function into a graph of its own and command_buffer_compatible=True into XLA's, "
                "which cannot hold the other: expected one of them, got both"
            )
        self._code = code
        self._host_settings = settings

    def options(self, **settings: Any) -> HostFunction:
        """Returns a copy with other settings.

        Args:
            **settings: any of these:

                - `out`: the results: a pytree of `jax.ShapeDtypeStruct`s, or a function of the arguments (with `shape` and
                  `dtype`) and the constants that returns one.
                - `scratch`: device memory for the function's own use, in the form of `out`. Its parameters are the last
                   `Out` parameters, or pointers, behind the results. The memory is uninitialised, and its contents are
                   dropped.
                - `graph`: record the function's work into a CUDA graph, once for each set of buffers that XLA passes,
                   and launch the graph from then on without calling the function. The function must then queue the same
                   work each time, all of it on its stream, and must not allocate or wait. The first call on a device is
                   not recorded.
                - `command_buffer_compatible`: XLA may record the function into its own CUDA graphs, with the
                   requirements of `graph`. Not together with `graph`.
                - `vmap_method`: as in `jax.pure_callback`.
                - `jvp`: `jvp(primals, tangents, **constants)` returns (results, their tangents).
                - `vjp`: (`forward(*args, **constants)` returns (results, residuals), `backward(residuals, cotangents)`
                   returns one cotangent for each argument).
                - `sharding`: `SingleDeviceSharding` of the device that calls, in a jit over several devices.
                - `input_output_aliases`: {argument: result}, both flat indices. Such a result holds its argument's
                   value at the start, and the function updates it in place.
        """
        return self._with(dataclasses.replace(self._host_settings, **settings))

    def _with(self, settings: Any) -> HostFunction:
        return HostFunction(self._code, self.__name__, settings)

    def _scratch(self, args: Sequence[Any], avals: Sequence[Any], constants: Mapping[str, Any]) -> tuple[Any, ...]:
        wanted = shapes_of(self._host_settings.scratch, args, avals, constants)
        return tuple(result_avals(self._where, wanted)[0])

    def _results(self, args: Sequence[Any], avals: Sequence[Any], constants: Mapping[str, Any]) -> Any:
        if self._host_settings.scratch is not None:
            raise self._error("with scratch, say what it returns: .options(out=jax.ShapeDtypeStruct(...))")
        return super()._results(args, avals, constants)


def _host_target(code: LoadedFunction, settings: HostSettings) -> HostTarget:
    """Returns the target of calls with these settings."""
    how = (settings.graph, settings.command_buffer_compatible)
    return interned(
        "cuda_host",
        None,
        (code.digest, code.label, code.library is not None, how),
        lambda key: HostTarget(key, code, settings),
    )
