# SPDX-License-Identifier: Apache-2.0
"""Tests programs exported for platforms: one, several, and platforms without callbacks."""

import callout
import jax
import pytest
import settings
from callout._primitives import lowering
from exporting import F32, export_for, loaded, unordered
from jax import lax
from jax.extend import core as jex_core
from jax.interpreters import mlir


def with_callback(x):
    return callout.tap("t", callout.pure_callback("c", jax.ShapeDtypeStruct(x.shape, x.dtype), x), ordered=True)


def on_cpu_only(x, f=with_callback):
    return lax.platform_dependent(x, cpu=f, default=lambda x: x * 10)


def in_nested_functions(x):
    def body(i, c):
        return lax.cond(c > 0, jax.jit(with_callback), lambda c: c, c)

    return lax.platform_dependent(x, cpu=lambda x: lax.fori_loop(0, 1, body, x), default=lambda x: x * 10)


@pytest.mark.cpu_only("it runs what is for a CPU, of a program for several platforms")
@pytest.mark.parametrize("f", [on_cpu_only, in_nested_functions])
@pytest.mark.parametrize("platforms", [("cpu", "tpu"), ("tpu", "cpu"), ("rocm", "cpu", "cuda")])
def test_callbacks_reachable_only_on_cpu_export_for_several_platforms(bind, f, platforms):
    exported = export_for(f, F32, platforms=platforms)
    assert exported.platforms == platforms
    assert "not_supported" not in exported.mlir_module()
    bind("c", "t")
    assert float(loaded(exported).call(1.0)) == 2
    callout.barrier_wait()
    assert bind == [("c", 1.0), ("t", 2.0)]


@pytest.mark.cuda_xfail("JAX drops the ordered effects of a branch for another platform, its own callbacks' too")
def test_platform_dependent_under_jit(bind):
    bind("c", "t")
    assert float(jax.jit(on_cpu_only)(1.0)) == 2
    assert callout.exported_names(export_for(lambda x: on_cpu_only(x, unordered), F32, platforms=["tpu"])) == ()


@pytest.fixture
def no_fallback():
    with settings.fallback("off"):
        yield


@pytest.mark.usefixtures("no_fallback")
@pytest.mark.parametrize(
    "f",
    [
        with_callback,
        lambda x: with_callback(x) + on_cpu_only(x),
        lambda x: lax.platform_dependent(x, tpu=jax.jit(with_callback), default=lambda x: x),
    ],
)
@pytest.mark.parametrize("platforms", [("cpu", "tpu"), ("tpu", "cpu", "rocm")])
def test_a_callback_reachable_on_another_platform_is_rejected_by_name(f, platforms):
    with pytest.raises(NotImplementedError, match="callbacks are not supported on platform tpu") as info:
        export_for(f, F32, platforms=platforms)
    assert "callout: 'c': callbacks" in str(info.value)
    assert "platform_dependent" in str(info.value)


@pytest.mark.usefixtures("no_fallback")
def test_a_callback_for_another_platform_alone_is_refused():
    with pytest.raises(NotImplementedError, match="not supported on platform tpu"):
        export_for(with_callback, F32, platforms=["tpu"])
    with pytest.raises(NotImplementedError, match="not supported on platform METAL"):
        jax.jit(with_callback).trace(F32).lower(lowering_platforms=("cpu", "METAL"))


def with_calls(x):
    x = callout.pure_callback("c", jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    callout.debug_callback("d", x)
    return callout.io_callback("c", jax.ShapeDtypeStruct(x.shape, x.dtype), x, ordered=True)


@pytest.mark.parametrize("platforms", [("cpu", "cuda"), ("cuda", "cpu")])
def test_a_program_with_calls_is_exported_for_cpu_and_cuda(bind, platforms):
    exported = export_for(with_calls, F32, platforms=platforms)
    assert exported.platforms == platforms
    assert exported.mlir_module().count("callout.v1.call(") == 3
    assert callout.exported_names(exported) == ("c", "d")
    bind("c")
    bind("d", returns=lambda value: None)
    assert float(loaded(exported).call(1.0)) == 3
    with pytest.raises(NotImplementedError, match="not supported on platform METAL; supported: cpu, cuda"):
        export_for(with_calls, F32, platforms=[*platforms, "METAL"])


per_platform_p = jex_core.Primitive("per_platform")
per_platform_p.def_abstract_eval(lambda x: x)
mlir.register_lowering(per_platform_p, lowering.refuse_platform)
for platform, factor in (("cpu", 2), ("cuda", 3)):
    rule = mlir.lower_fun(lambda x, factor=factor: x * factor, multiple_results=False)
    mlir.register_lowering(per_platform_p, rule, platform=platform)


@pytest.mark.cpu_only("it runs what is for a CPU, of a program for several platforms")
@pytest.mark.parametrize("platforms", [("cpu", "tpu"), ("cpu", "cuda", "tpu"), ("tpu", "cuda", "cpu")])
def test_platforms_have_rules_of_their_own_beside_a_refusal(platforms):
    def f(x):
        return lax.platform_dependent(x, tpu=lambda x: x, default=per_platform_p.bind)

    exported = export_for(f, F32, platforms=platforms)
    assert "not_supported" not in exported.mlir_module()
    assert float(loaded(exported).call(5.0)) == 10
    with pytest.raises(NotImplementedError, match="callbacks are not supported on platform tpu"):
        export_for(per_platform_p.bind, F32, platforms=platforms)
