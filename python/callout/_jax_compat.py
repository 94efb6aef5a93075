# SPDX-License-Identifier: Apache-2.0
"""Everything that touches private names of JAX and jaxlib, and nothing else does.

Each use says why the public API does not do, and has a fall-back where one makes sense: a JAX that moved a name must not
break `import callout`. Names that were not found are listed in `MISSING`, which `python -m callout.doctor` prints.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import platform
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.extend.backend
import jax.extend.core
import numpy as np
from jax.interpreters import ad, mlir

JAX_VERSION = tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in jax.__version__.split(".")[:3])
OLDEST_TESTED = (0, 10, 2)
NEWEST_TESTED = (0, 12)
NEWEST_TESTED_PYTHON = (3, 14)

MISSING: list[str] = []


def warn_if_untested() -> None:
    """Warns, once at import, about a JAX or a Python that this release was not tested with."""
    untested = []
    if JAX_VERSION < OLDEST_TESTED or JAX_VERSION[:2] > NEWEST_TESTED:
        untested.append(f"jax 0.10.2 to 0.12; this is {jax.__version__}")
    if sys.version_info[:2] > NEWEST_TESTED_PYTHON:
        newest = ".".join(map(str, NEWEST_TESTED_PYTHON))
        untested.append(f"Python 3.11 to {newest}; this is {platform.python_version()}")
    for what in untested:
        warnings.warn(f"callout was tested with {what}. Please report what does not work.", stacklevel=3)


def register_effect(effect: type[jax.extend.core.Effect], *, ordered: bool = False, remat: bool = True) -> None:
    """Allows an effect in lowering, control flow, custom derivatives and, if so told, remat; ordered ones on shards too.

    Only `lowerable_effects` is public. Without `partial_eval_kept` a tap without a used result is lost in the gradient of
    a scan.
    """
    mlir.lowerable_effects.add_type(effect)
    try:
        from jax._src import effects
    except ImportError:
        MISSING.append("jax._src.effects")
        return
    names = ["control_flow_allowed", "custom_derivatives_allowed", "partial_eval_kept"]
    names += ["remat_allowed"] if remat else []
    names += ["ordered", "shardable_ordered"] if ordered else []
    for name in names:
        allowed = getattr(effects, f"{name}_effects", None)
        if allowed is None:
            MISSING.append(f"jax._src.effects.{name}_effects")
        else:
            allowed.add_type(effect)


def hide_frames(folder: str) -> None:
    """Leaves the frames of a folder's files out of the tracebacks that JAX filters, as it does with its own."""
    try:
        from jax._src.traceback_util import register_exclusion
    except ImportError:
        MISSING.append("jax._src.traceback_util.register_exclusion")
        return
    register_exclusion(folder)


def io_effects() -> set[Any]:
    """The effects of JAX's own `io_callback`, which JAX's rules for `vmap` of cond and while look for."""
    try:
        from jax._src.callback import _IOEffect, _OrderedIOEffect

        return {_IOEffect, _OrderedIOEffect}
    except ImportError:
        MISSING.append("jax._src.callback._IOEffect")
        return set()


_io_effects = io_effects()


def is_refused_in_vmap(jaxpr: Any) -> bool:
    """Whether JAX's rules for `vmap` of cond and while refuse this branch or body: for an io callback of JAX's, or a Ref."""
    return any(effect in _io_effects or is_state_effect(effect) for effect in jaxpr.effects)


class _AllEffects:
    """Stands for all tokens where they cannot be listed."""

    def block_until_ready(self) -> None:
        jax.effects_barrier()


def _wait_for_token(token: Any) -> None:
    """Waits for a program's end. How it ended is for whoever uses its results: that is where JAX raises."""
    try:
        token.block_until_ready()
    except Exception:  # noqa: BLE001
        pass


def wait_for_order(effect: jax.extend.core.Effect) -> None:
    """Waits for the last program of this thread that had `effect`, however it ended."""
    try:
        from jax._src.dispatch import runtime_tokens

        token: Any = runtime_tokens.current_tokens.get(effect)
    except (ImportError, AttributeError):
        token = _AllEffects()
    if token is not None:
        _wait_for_token(token)


def wait_for_all_effects() -> None:
    """Waits for the programs with effects that this thread has dispatched."""
    _wait_for_token(_AllEffects())


def put_on_device(value: np.ndarray, device: jax.Device, committed: bool) -> jax.Array:
    """A jax.Array of a NumPy array: 2.5 us where `jax.device_put` takes 20."""
    result: jax.Array
    if _batched_device_put is None:
        result = jax.device_put(value, device)
        return result
    aval = jax.core.ShapedArray(value.shape, value.dtype)
    sharding = jax.sharding.SingleDeviceSharding(device)
    result = _batched_device_put(aval, sharding, [value], [device], committed)
    return result


try:
    from jaxlib import xla_client

    _xla_client: Any = xla_client
except ImportError:
    _xla_client = None
    MISSING.append("jaxlib.xla_client")

_batched_device_put: Any = getattr(_xla_client, "batched_device_put", None)
if _batched_device_put is None:
    MISSING.append("jaxlib.xla_client.batched_device_put")


def host_callback_handler() -> Any:
    """A capsule of jaxlib's handler that calls a host callback in XLA's scope, or None where that helps nobody.

    The scope lets a callback dispatch JAX computations beyond the limit in flight; JAX before 0.12 does not look at it.
    """
    if JAX_VERSION < (0, 12):
        return None
    try:
        return _xla_client.custom_call_targets("cpu")["xla_buffer_python_cpu_callback"]["execute"]
    except (AttributeError, KeyError, TypeError):
        MISSING.append("jaxlib's xla_buffer_python_cpu_callback")
        return None


def register_remat_rule(primitive: jax.extend.core.Primitive, rule: Any) -> None:
    """Registers what happens to an equation when a rematerialised jaxpr is split into known and staged parts.

    The policy that `rule` gets answers with True where the value is kept, here or elsewhere, and else with False: those of
    JAX may also answer with objects, which are all true.
    """
    try:
        from jax._src.interpreters import partial_eval
    except ImportError:
        MISSING.append("jax._src.interpreters.partial_eval")
        return
    rules = getattr(partial_eval, "partial_eval_jaxpr_custom_rules", None)
    if rules is None:
        MISSING.append("partial_eval_jaxpr_custom_rules")
    else:
        recompute = getattr(partial_eval, "Recompute", False)

        def with_plain_policy(policy: Any, *rest: Any) -> Any:
            return rule(lambda *args, **params: policy(*args, **params) not in (False, recompute), *rest)

        rules[primitive] = with_plain_policy


class _LoweringRules:
    """JAX's rules for the lowering of primitives on all platforms, as a mapping."""

    def __init__(self, entries: dict[Any, Any]):
        self._entries = entries

    def __getitem__(self, primitive: jax.extend.core.Primitive) -> Any:
        return self._entries[primitive].rule

    def __setitem__(self, primitive: jax.extend.core.Primitive, rule: Any) -> None:
        self._entries[primitive] = dataclasses.replace(self._entries[primitive], rule=rule)


@functools.cache
def lowering_rules() -> _LoweringRules | None:
    """The rules of JAX's loops, which can be replaced in public, but not asked for; None if they are not as expected."""
    try:
        from jax._src.interpreters.mlir import _lowerings

        rules = _LoweringRules(_lowerings)
        for primitive in (jax.extend.core.primitives.scan_p, jax.extend.core.primitives.while_p):
            rules[primitive] = rules[primitive]
    except (ImportError, KeyError, AttributeError, TypeError):
        MISSING.append("mlir._lowerings")
        return None
    return rules


def manual_devices(ctx: Any) -> int:
    """How many devices of this process run what is lowered, each on its own: inside shard_map or pmap."""
    axis_context = ctx.module_context.axis_context
    if isinstance(axis_context, mlir.SPMDAxisContext):
        mesh: Any = axis_context.mesh
        count = int(np.prod([mesh.shape[name] for name in axis_context.manual_axes]))
        devices = getattr(mesh, "devices", None)
    else:
        count, devices = int(np.prod(getattr(getattr(axis_context, "axis_env", None), "sizes", ()))), None
    of_all = list(jax.devices() if devices is None else np.ravel(devices))
    here = sum(device.process_index == jax.process_index() for device in of_all)
    return max(1, int(count * here // len(of_all)))


def varying_axes(aval: Any) -> frozenset[Any]:
    """The manual axes of a shard_map over which JAX takes a value of this type to differ; none without `check_vma`."""
    axes: frozenset[Any] = getattr(getattr(aval, "manual_axis_type", None), "varying", frozenset())
    return axes


try:
    from jax._src import shard_map as _shard_map

    shard_map_p: Any = _shard_map.shard_map_p
except (ImportError, AttributeError):
    shard_map_p = None
    MISSING.append("jax._src.shard_map.shard_map_p")


def varying(value: Any, like: Any) -> Any:
    """`value`, of which JAX then thinks that it differs over the same axes of a shard_map as one of type `like`."""
    axes = varying_axes(like)
    return jax.lax.pcast(value, tuple(axes), to="varying") if axes else value


def checked_axes() -> frozenset[Any]:
    """The manual axes of the shard_map that is being traced, if it tells over which of them values vary."""
    axes: frozenset[Any] = frozenset(jax.sharding.get_abstract_mesh().manual_axes)
    return axes if axes and (_check_vma is None or _check_vma.value) else frozenset()


try:
    from jax._src import config as _config

    _check_vma: Any = _config._check_vma
except (ImportError, AttributeError):
    _check_vma = None
    MISSING.append("jax._src.config._check_vma")


def array_type(shape: Sequence[Any], dtype: Any, axes: frozenset[Any]) -> jax.core.ShapedArray:
    """The type of an array that varies over these manual axes."""
    if not axes:
        return jax.core.ShapedArray(shape, dtype)
    whole = jax.sharding.PartitionSpec(*(None,) * len(shape))
    sharding = jax.sharding.NamedSharding(jax.sharding.get_abstract_mesh(), whole)
    varies = jax.sharding.ManualAxisType(varying=axes)
    return jax.core.ShapedArray(shape, dtype, sharding=sharding, manual_axis_type=varies)


def count_lanes(value: Any) -> int:
    """How many lanes of `vmap`s that are being traced a value has; 0 outside of any."""
    tracer = _batch_tracer
    if tracer is None or not isinstance(value, tracer):
        return 0
    size = value.val.shape[value.batch_dim] if value.batch_dim is not None else 1
    return int(size) * max(1, count_lanes(value.val))


try:
    from jax._src.interpreters import batching as _batching

    _batch_tracer: Any = _batching.BatchTracer
except (ImportError, AttributeError):
    _batch_tracer = None
    MISSING.append("jax._src.interpreters.batching.BatchTracer")


def is_variable(atom: Any) -> bool:
    """True for a variable of a jaxpr, false for a literal."""
    return isinstance(atom, jax.extend.core.Var)


@contextlib.contextmanager
def context_of(eqn: Any) -> Iterator[None]:
    """What was set where an equation was traced: settings, and the place in the user's code that errors name."""
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
    """The frames outside of JAX that an equation was traced in, the innermost first; see `file_name`, `start_line`."""
    return iter(()) if _source_info is None else _source_info.user_frames(eqn.source_info.traceback)


@contextlib.contextmanager
def own_lines() -> Iterator[None]:
    """What is traced has the lines where it stands, and not those of the equation that it is traced for."""
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
    """Where the function stands that a jaxpr was traced from, or a derivative rule; "" if nobody knows."""
    info = getattr(getattr(traced, "jaxpr", traced), "debug_info", None)
    return str(getattr(info, "func_src_info", None) or "").rpartition(" at ")[2].rpartition(":")[0]


def is_of_jax(file: str) -> bool:
    """True for JAX's own files, and others that it leaves out of tracebacks."""
    return _source_info is not None and not _source_info.is_user_filename(file)


def bind_again(eqn: Any, args: Sequence[Any]) -> list[Any]:
    """The results of an equation for other operands."""
    out = eqn.primitive.bind(*args, **eqn.primitive.get_bind_params(eqn.params))
    return list(out) if eqn.primitive.multiple_results else [out]


def scan_counts(params: dict[str, Any]) -> tuple[int, int]:
    """How many constants and how many carried values a scan has."""
    if "num_carry" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()  # JAX 0.12
    return len(list(consts)), len(list(carry))


def custom_transpose_rule() -> tuple[Any, Any] | None:
    """The mapping and the key of the rule that calls the second function of `jax.custom_vjp`; None if it is elsewhere."""
    key = getattr(_ad, "custom_lin_p", None)
    for rules in (getattr(_ad, "primitive_transposes", {}), getattr(_ad, "fancy_transposes", {})):
        if key is not None and key in rules:
            return rules, key
    MISSING.append("jax._src.interpreters.ad.custom_lin_p")
    return None


try:
    from jax._src.interpreters import ad as _ad
except ImportError:
    _ad = None  # type: ignore[assignment]


def is_state_effect(effect: Any) -> bool:
    """True for the effects of mutable arrays, which belong to one operand of an equation."""
    return _input_effect is not None and isinstance(effect, _input_effect)


try:
    from jax._src import effects as _effects

    _input_effect: Any = getattr(_effects, "JaxprInputEffect", None)
except ImportError:
    _input_effect = None
if _input_effect is None:
    MISSING.append("jax._src.effects.JaxprInputEffect")


def instantiate_cotangent(cotangent: Any) -> Any:
    """A symbolic zero as an array of zeros."""
    return ad.instantiate_zeros(cotangent) if isinstance(cotangent, ad.Zero) else cotangent


def require_devices(primitive: jax.extend.core.Primitive) -> None:
    """Makes JAX lower programs with this primitive for given devices, so that `device_assignment` knows them."""
    try:
        from jax._src.dispatch import prim_requires_devices_during_lowering

        prim_requires_devices_during_lowering.add(primitive)
    except ImportError:
        MISSING.append("jax._src.dispatch.prim_requires_devices_during_lowering")


def abstract_token() -> Any:
    """The type of a token, which must be JAX's one object of it."""
    try:
        return jax.ffi.abstract_token  # type: ignore[attr-defined]
    except AttributeError:
        from jax._src.core import abstract_token as token  # JAX 0.10

        return token


def has_partitioner() -> bool:
    """Whether custom calls can tell XLA how they are spread over devices."""
    return hasattr(_xla_client, "register_custom_call_partitioner") and hasattr(_xla_client, "HloSharding")


def register_partitioner(target: str, partition: Any) -> None:
    """Registers `partition(arg_shapes, arg_shardings, result_shape, result_sharding, config) -> (module, shardings, ...)`.

    The public `custom_partitioning` puts a pointer into the module, which neither the compilation cache nor an exported
    program survives, and does not know side effects.
    """
    if not has_partitioner():
        MISSING.append("jaxlib.xla_client.register_custom_call_partitioner")
        return
    register = functools.partial(
        _xla_client.register_custom_call_partitioner,
        target,
        lambda sharding, *_: sharding,
        partition,
        lambda *_: None,
        can_side_effecting_have_replicated_sharding=True,
    )
    register()
    _with_each_plugin(register)


def _with_each_plugin(register: Any) -> None:
    """Calls `register(c_api=)` for each PJRT plugin, now or once JAX finds it. CUDA comes as a plugin."""
    try:
        from jax._src.xla_bridge import register_plugin_callbacks
    except ImportError:
        MISSING.append("jax._src.xla_bridge.register_plugin_callbacks")
        return

    def register_if_it_can(c_api: Any) -> None:
        with contextlib.suppress(jax.errors.JaxRuntimeError):  # a plugin without partitioners
            register(c_api=c_api)

    register_plugin_callbacks(register_if_it_can)


def replicated_sharding() -> Any:
    """Every device has the whole value."""
    return _xla_client.HloSharding.replicate()


def tuple_sharding(shape: Any, elements: Sequence[Any]) -> Any:
    """The sharding of a call's results: a tuple's, or the one element."""
    return _xla_client.HloSharding.tuple_sharding(shape, list(elements)) if shape.is_tuple() else elements[0]


def local_devices() -> Sequence[jax.Device]:
    """This process's devices that callbacks run on, those of the default platform first: all but Metal's."""
    return _with_callbacks(tuple(jax.local_devices()))


@functools.lru_cache(maxsize=1)
def _with_callbacks(of_default_platform: Sequence[jax.Device]) -> Sequence[jax.Device]:
    devices = [device for device in of_default_platform if device.platform in ("cpu", "gpu", "tpu")]
    if all(device.platform != "cpu" for device in devices):
        with contextlib.suppress(RuntimeError):  # JAX was told to use other platforms only
            devices += jax.local_devices(backend="cpu")
    return tuple(devices)


def ordinal_of(device: jax.Device) -> int:
    """The device's FFI ordinal. XLA:CPU passes the id, also where several processes share the ids (0, 1, 2048, 2049)."""
    return int(device.id if device.platform == "cpu" else device.local_hardware_id or 0)


def x64_enabled() -> bool:
    """Whether 64-bit types are kept, in this thread."""
    settings: Any = jax.config
    return bool(settings.jax_enable_x64)


def jit_is_disabled() -> bool:
    """Whether programs run step by step, in this thread."""
    settings: Any = jax.config
    return bool(settings.jax_disable_jit)


def default_device() -> Any:
    """`jax_default_device` of this thread, or None."""
    settings: Any = jax.config
    return settings.jax_default_device


own_ordered_effects: set[Any] = set()
"""Our ordered effects, whose tokens must not stay failed."""


def _find_runtime_token_set() -> Any:
    try:
        from jax._src.dispatch import runtime_tokens
    except ImportError:
        MISSING.append("jax._src.dispatch.runtime_tokens")
        return None
    names = (
        *("current_tokens", "output_runtime_tokens"),
        *("get_token_input", "set_token_result", "set_output_runtime_token", "block_until_ready"),
    )
    missing = [f"runtime_tokens.{name}" for name in names if not hasattr(runtime_tokens, name)]
    MISSING.extend(missing)
    return None if missing else runtime_tokens


_runtime_token_set = _find_runtime_token_set()


def runtime_token_set() -> Any:
    """Where JAX keeps each thread's tokens of programs with effects; None if it is not as expected.

    `jax.effects_barrier` is the public way to them. It has no time limit and sees the calling thread's tokens only.
    """
    return _runtime_token_set


def jitted_function_maker() -> tuple[Any, str] | None:
    """The module and the name by which JAX makes the objects that `jax.jit` returns; None if they are not as expected."""
    try:
        from jax._src.pjit import _jax
    except ImportError:
        _jax = None
    if not hasattr(_jax, "pjit"):
        MISSING.append("jax._src.pjit._jax.pjit")
        return None
    return _jax, "pjit"


def fast_path_decision() -> tuple[Any, str] | None:
    """The module and the name of what decides whether C++ dispatches a program; None if it is not as expected."""
    try:
        from jax._src import pjit
    except ImportError:
        pjit = None  # type: ignore[assignment]
    if not hasattr(pjit, "_get_fastpath_data"):
        MISSING.append("jax._src.pjit._get_fastpath_data")
        return None
    return pjit, "_get_fastpath_data"


def module_maker() -> tuple[Any, str] | None:
    """The module and the name of what lowers a program to an MLIR module; None if it is not as expected."""
    try:
        from jax._src.interpreters import mlir as lowering
    except ImportError:
        lowering = None  # type: ignore[assignment]
    if not hasattr(lowering, "lower_jaxpr_to_module"):
        MISSING.append("jax._src.interpreters.mlir.lower_jaxpr_to_module")
        return None
    return lowering, "lower_jaxpr_to_module"


def without_effects(executable: Any) -> Any:
    """A copy of an executable that says that it has no unordered effects; None if it has ordered ones, or is another."""
    try:
        call = copy.copy(executable.unsafe_call)
        if call.ordered_effects or not call.has_unordered_effects:
            return None
        call.has_unordered_effects = False
        executable = copy.copy(executable)
        executable._unsafe_call = call
    except AttributeError:
        return None
    return executable


def local_devices_of(executable: Any) -> Sequence[jax.Device]:
    """The devices of this process that an executable runs on."""
    return list(executable.xla_executable.local_devices())


def dispatch_registry() -> Any:
    """The registry of pytrees by which C++ makes a jitted function's results; None if there is none."""
    try:
        from jax._src.tree_util import dispatch_registry as registry
    except ImportError:
        MISSING.append("jax._src.tree_util.dispatch_registry")
        return None
    return registry


def token_devices(token: Any) -> Sequence[jax.Device]:
    """The devices of the program that returned an ordered effect's token; none if the token does not tell."""
    devices = getattr(getattr(token, "_buf", None), "devices", None)
    return [] if devices is None else list(devices())


CALLBACK_PLATFORMS = ("cpu", "cuda", "rocm", "tpu", *(("oneapi",) if JAX_VERSION >= (0, 12) else ()))
"""Where JAX's own callbacks run."""


def uses_shardy() -> bool:
    """Whether shardings are written in Shardy's dialect."""
    settings: Any = jax.config
    return bool(getattr(settings, "jax_use_shardy_partitioner", True))


def cpu_device() -> jax.Device:
    """A CPU of this process. RuntimeError if JAX was told to use other platforms only."""
    return jax.local_devices(backend="cpu")[0]


def first_ordinal(platform: str) -> int:
    """The FFI ordinal of this process's first device of a platform."""
    name = platform if platform in ("cpu", "tpu") else "gpu"
    return next((ordinal_of(device) for device in local_devices() if device.platform == name), 0)


def attach_transfers(
    module_context: Any,
    platform: str,
    function: Any,
    operands: Sequence[tuple[Any, Sequence[int]]],
    results: Sequence[tuple[Any, Sequence[int]]],
    sent: Sequence[int],
    received: Sequence[int],
) -> None:
    """Tells the platform's backend what to call for sends to the host and receives; nothing if there is no backend.

    What JAX has for it, `emit_python_callback`, refuses to write a program for a platform without one.
    """
    try:
        backend: Any = module_context.get_backend(optional=True) or jax.extend.backend.get_backend(platform)
    except RuntimeError:
        return
    shape = _xla_client.Shape.array_shape
    module_context.add_host_callback(
        backend.make_python_callback_from_host_send_and_recv(
            function, [shape(*of) for of in operands], [shape(*of) for of in results], sent, received, _dumps
        )
    )


def _dumps(value: Any) -> bytes:
    """What a client asks for that sends the function to another process: JAX's own, which takes cloudpickle."""
    from jax._src import pickle_util

    dumped: bytes = pickle_util.dumps(value)
    return dumped


def lower_each_by_itself(primitive: jax.extend.core.Primitive) -> None:
    """From now on each equation of a primitive is lowered, not called by those that are alike: its channels are its own."""
    try:
        from jax._src.interpreters.mlir import _uncacheable_primitives
    except ImportError:
        MISSING.append("mlir._uncacheable_primitives")
        return
    _uncacheable_primitives.add(primitive)


def lower_for_each(
    ctx: Any, primitive: jax.extend.core.Primitive, rules: dict[str, Any], args: Sequence[Any], params: dict[str, Any]
) -> Any:
    """What the rule of each platform writes, as branches: JAX does that for rules that are registered for platforms."""
    from jax._src.interpreters.mlir import lower_per_platform

    _, effects = primitive.abstract_eval(*ctx.avals_in, **params)
    tokens = mlir.TokenSet({effect: token for effect, token in ctx.tokens_in.items() if effect in effects})
    inner = ctx.replace(avals_out=list(ctx.avals_out), tokens_in=tokens)  # it adds to the list
    results = lower_per_platform(inner, str(primitive), rules, None, effects, *args, **params)
    if inner.tokens_out is not None:
        ctx.set_tokens_out(ctx.tokens_in.update_tokens(inner.tokens_out))
    return results


def devices_in_use() -> Sequence[jax.Device]:
    """`local_devices`, or none while nobody has used a backend. Starts no backend: the public API does."""
    if _backends_are_initialized is not None and not _backends_are_initialized():
        return []
    return local_devices()


try:
    from jax._src.xla_bridge import backends_are_initialized as _backends_are_initialized
except ImportError:
    _backends_are_initialized = None  # type: ignore[assignment]
    MISSING.append("jax._src.xla_bridge.backends_are_initialized")


def inside_jax_callback() -> bool:
    """Whether this thread is inside a callback of JAX's own, which only its stack tells."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") in ("jax._src.callback", "jax._src.debugging"):
            return True
        frame = frame.f_back
    return False


def with_vjps(
    exported: jax.export.Exported, finish: Callable[[jax.export.Exported], jax.export.Exported]
) -> jax.export.Exported:
    """`finish(exported)`, whose derivatives, which JAX exports when they are asked for, are finished too."""
    finished = finish(exported)
    get_vjp: Any = getattr(exported, "_get_vjp", None)
    if get_vjp is None:
        return finished
    return dataclasses.replace(finished, _get_vjp=lambda primal: with_vjps(get_vjp(primal), finish))


def refined(module: Any) -> Any:
    """A module whose arguments have static shapes, with static shapes throughout, as JAX makes them when it compiles.

    Raises:
        ValueError: that cannot be.
    """
    try:
        from jax._src.interpreters.mlir import refine_polymorphic_shapes
    except ImportError as error:
        raise NotImplementedError("callout.export: this JAX does not refine symbolic shapes") from error
    return refine_polymorphic_shapes(module)


# A program of its own: jaxlib tells a plugin's attributes through a client, which takes the devices.
PRINT_PLUGIN_VERSION = """
import sys
from jaxlib import xla_client
xla_client.load_pjrt_plugin_dynamically("callout_probe", sys.argv[1])
xla_client.initialize_pjrt_plugin("callout_probe")
client = xla_client.make_c_api_client("callout_probe", {}, None)
print("StableHLO", *client.stablehlo_current_version)
"""
