# SPDX-License-Identifier: Apache-2.0
"""Tests the platforms for which a kernel for CUDA is lowered. Nothing runs, and no device is needed."""

import callout
import jax
import jax.numpy as jnp
import pytest
from callout._base import native_platforms
from callout._native.function import Settings
from callout._native.gpu.kernel import Image, Kernel, Launch, Parameters
from callout._native.gpu.kernel_function import GpuFunction, GpuTarget


class Target(GpuTarget):
    def kernel(self, args, results):
        parameters = Parameters()
        parameters.add_pointer(1)
        return Kernel(Image(b"cubin", "double", b"ptx"), Launch((1, 1, 1), (32, 1, 1)), parameters)


class Double(GpuFunction):
    def __init__(self, settings=None):
        super().__init__("test 'double'", "double", settings or Settings(out=lambda x: x))

    def _with(self, settings):
        return Double(settings)

    def _prepare(self, constants):
        return Target("double", "double"), ()

    def _results(self, args, avals, constants):
        return avals[0]


X = jnp.ones(3, jnp.float32)


@pytest.mark.cpu_only("a CPU refuses it")
def test_other_platforms_are_refused_by_name():
    message = "kernels for cuda are not supported on platform cpu; supported: cuda"
    for call in (Double(), jax.jit(Double())):
        with pytest.raises(NotImplementedError, match=message):
            call(X)
    for platform in ("rocm", "tpu"):
        with pytest.raises(NotImplementedError, match=rf"kernels for cuda are not supported on platform {platform}"):
            jax.export.export(jax.jit(Double()), platforms=[platform])(X)
    with pytest.raises(NotImplementedError, match=message):
        callout.export(jax.jit(Double()), platforms=["cpu", "cuda"])(X)


def test_a_program_exported_for_cuda_embeds_portable_code():
    module = callout.export(jax.jit(Double()), platforms=["cuda"])(X).mlir_module()
    assert "callout.v1.image(" in module
    assert 'bytes = "ptx"' in module
    assert "cubin" not in module


@pytest.mark.cpu_only("its image is no kernel, so that only the CPU's part can run")
def test_each_platform_of_a_program_has_its_own():
    def program(x):
        return jax.lax.platform_dependent(x, cpu=lambda x: x * 2, cuda=Double())

    module = callout.export(jax.jit(program), platforms=["cpu", "cuda"])(X)
    assert "callout.v1.image(" in module.mlir_module()
    assert "not_supported" not in module.mlir_module()
    assert float(jnp.sum(module.call(X))) == 6
    mixed = jax.lax.platform_dependent

    def both(x):
        native = lambda x: callout.pure_callback(lambda x: x, x, x)  # noqa: E731
        return mixed(x, cpu=native, cuda=Double())

    traced = jax.jit(both).trace(X)
    assert "callout.v1.call" in traced.lower(lowering_platforms=("cpu",)).as_text()
    assert "callout.v1.image" in traced.lower(lowering_platforms=("cuda",)).as_text()


def test_plugins_find_targets_under_their_platform_name(monkeypatch):
    registered = {}

    def register(name, handlers, platform):
        registered.setdefault(platform, set()).add(name)

    monkeypatch.setattr(jax.ffi, "register_ffi_target", register)
    platforms, refused = native_platforms.register_targets()
    assert (platforms, refused) == (("cpu", "cuda"), {})
    assert set(registered) == {"cpu", "CUDA"}
    assert registered["CUDA"] >= {"callout.v1.image", "callout.v1.image_sync"}
