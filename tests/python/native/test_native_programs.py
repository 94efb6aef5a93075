# SPDX-License-Identifier: Apache-2.0
"""Tests native functions in programs: parallel batches, results in place, embedded code, names."""

import hashlib
import subprocess

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

SOURCE = """
#include <stdexcept>
#include "callout/kernel.h"

void decay(callout::In<float, 1> x, callout::In<float, 0> a, callout::Out<float, 1> y) {
  if (a < 0) throw std::invalid_argument("negative decay");
  float carry = 0;
  for (int64_t i = 0; i < x.size(); ++i) y[i] = carry = a * carry + x[i];
}
CALLOUT_KERNEL(decay);

void add_to(callout::In<float, 1> x, callout::In<float, 1> more, callout::Out<float, 1> y) {
  (void)x;
  for (int64_t i = 0; i < y.size(); ++i) y[i] += more[i];
}
CALLOUT_KERNEL(add_to);

extern "C" __attribute__((visibility("default"))) int32_t plain(void** ptrs, const int64_t* dims) {
  for (int64_t i = 0; i < dims[0]; ++i) ((float*)ptrs[1])[i] = ((float*)ptrs[0])[i] + 1;
  return 0;
}
"""


@pytest.fixture(scope="module")
def module(cache):
    return callout.cpp.load_inline(SOURCE, name="programs")


@pytest.fixture(scope="module")
def embedded(cache):
    return callout.cpp.load_inline(SOURCE, name="carried", embed=True)


def decay_in_jax(x, a):
    return lax.scan(lambda c, v: (a * c + v,) * 2, jnp.zeros((), x.dtype), x)[1]


NESTED = [((0, None), (0, 0)), ((0, None), (None, 0)), ((None, 0), (0, None)), ((1, None), (0, None))]


@pytest.mark.parametrize("axes", NESTED, ids=str)
def test_nested_batches_in_parallel(module, axes):
    outer, inner = axes
    x, a = jnp.arange(24.0).reshape(2, 3, 4), jnp.array([0.5, 0.25, 0.0])
    values = x[0] if None in (outer[0], inner[0]) else x
    decays = a if 0 in (outer[1], inner[1]) else a[0]
    ours, expected = (
        jax.vmap(jax.vmap(f, in_axes=inner), in_axes=outer)
        for f in (module.decay.options(vmap_method="parallel"), decay_in_jax)
    )
    np.testing.assert_allclose(ours(values, decays), expected(values, decays), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(ours)(values, decays), expected(values, decays), rtol=1e-6)


@pytest.mark.parametrize("lanes", [0, 1, 1000])
def test_any_number_of_lanes(module, lanes):
    decay = jax.vmap(module.decay.options(vmap_method="parallel"), in_axes=(0, None))
    x = jnp.arange(lanes * 3.0).reshape(lanes, 3)
    np.testing.assert_allclose(decay(x, 0.5), jax.vmap(decay_in_jax, in_axes=(0, None))(x, 0.5), rtol=1e-6)


def test_the_first_lane_that_fails_is_named(module):
    decay = jax.jit(jax.vmap(module.decay.options(vmap_method="parallel")))
    decays = jnp.where(jnp.arange(8) < 3, 0.5, -1.0)
    with pytest.raises(Exception, match=r"'programs.decay' failed on device 0: negative decay \(lane 3 of 8\)"):
        decay(jnp.ones((8, 2)), decays).block_until_ready()


@pytest.mark.collectives
def test_parallel_lanes_on_several_devices(module):
    decay = jax.vmap(module.decay.options(vmap_method="parallel"), in_axes=(0, None))
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("d",))
    x = jax.device_put(jnp.ones((4, 2)), jax.NamedSharding(mesh, jax.P("d")))
    assert jax.jit(decay)(x, 0.5).tolist() == [[1, 1.5]] * 4
    sharded = jax.shard_map(decay, mesh=mesh, in_specs=(jax.P("d"), jax.P()), out_specs=jax.P("d"))
    assert jax.jit(sharded)(x, jnp.float32(0.5)).tolist() == [[1, 1.5]] * 4


def test_a_batch_without_a_method_is_refused(module):
    with pytest.raises(NotImplementedError, match="vmap needs a vmap_method"):
        jax.vmap(module.decay)(jnp.ones((2, 3)), jnp.ones(2))


@pytest.mark.parametrize("method", ["parallel", "sequential", "sequential_unrolled"])
def test_results_in_the_place_of_arguments(module, method):
    add_to = module.add_to.options(input_output_aliases={0: 0}, vmap_method=method)
    x, more = jnp.arange(3.0), jnp.ones(3)
    assert jax.jit(lambda v: add_to(v, more) + v)(x).tolist() == [1, 3, 5], "the argument is needed later"
    assert lax.fori_loop(0, 4, lambda _, v: add_to(v, more), x).tolist() == [4, 5, 6]
    rows = jnp.arange(6.0).reshape(2, 3)
    assert jax.vmap(add_to, in_axes=(None, 0))(x, rows).tolist() == [[0, 2, 4], [3, 5, 7]]
    assert jax.jit(jax.vmap(add_to, in_axes=(0, None)))(rows, x).tolist() == [[0, 2, 4], [3, 5, 7]]
    assert x.tolist() == [0, 1, 2]


@pytest.mark.collectives
def test_results_in_the_place_of_arguments_on_several_devices(module):
    add_to = module.add_to.options(input_output_aliases={0: 0})
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("d",))
    x = jax.device_put(jnp.arange(4.0), jax.NamedSharding(mesh, jax.P("d")))
    assert jax.jit(add_to)(x, jnp.ones(4)).tolist() == [1, 2, 3, 4]
    assert x.tolist() == [0, 1, 2, 3]


def test_aliases_that_do_not_fit(module):
    x = jnp.ones(3)
    for aliases, message in [
        ({0: 1}, r"there is no result 1; the call has 1"),
        ({-1: 0}, r"there is no argument -1; the call has 2"),
        ({0: 0, 1: 0}, r"names a result twice"),
    ]:
        with pytest.raises(ValueError, match=r"callout\.cpp 'add_to': input_output_aliases .*" + message):
            module.add_to.options(input_output_aliases=aliases)(x, x)
    with pytest.raises(ValueError, match=r"argument 1 is float32\[\], result 0 is float32\[3\]"):
        module.decay.options(input_output_aliases={1: 0})(x, 0.5)


def test_an_embedded_library_is_in_the_program(embedded, module):
    x = jnp.arange(3.0)
    text = jax.jit(embedded.decay).lower(x, 0.5).as_text()
    digest = hashlib.sha256(embedded.path.read_bytes()).hexdigest()
    assert f'digest = "{digest}"' in text
    assert "library" not in jax.jit(module.decay).lower(x, 0.5).as_text()
    np.testing.assert_allclose(jax.jit(embedded.decay)(x, 0.5), decay_in_jax(x, 0.5))
    plain = callout.cpp.load_inline(SOURCE, {"plain": {"out": jax.ShapeDtypeStruct((3,), jnp.float32)}}, embed=True)
    assert jax.jit(plain.plain)(x).tolist() == [1, 2, 3]


@pytest.mark.collectives
def test_an_embedded_function_on_several_devices(embedded):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("d",))
    x = jax.device_put(jnp.ones((4, 2)), jax.NamedSharding(mesh, jax.P("d")))
    decay = jax.vmap(embedded.decay.options(vmap_method="parallel"), in_axes=(0, None))
    assert jax.jit(decay)(x, 0.5).tolist() == [[1, 1.5]] * 4


def test_embedded_code_can_be_refused(embedded):
    callout.config.embedded_code = False
    try:
        with pytest.raises(Exception, match=r"carries the native function 'carried\.decay', and .*embedded_code"):
            jax.jit(lambda x: embedded.decay(x, 0.5) + 1)(jnp.ones(2))
    finally:
        callout.config.embedded_code = True


def test_a_library_that_was_built_elsewhere(tmp_path):
    (tmp_path / "mine.cc").write_text(SOURCE)
    flags = ["-std=c++20", "-O1", "-shared", "-fPIC", f"-I{callout.include_dir()}"]
    subprocess.run(["c++", *flags, str(tmp_path / "mine.cc"), "-o", str(tmp_path / "libmine.so")], check=True)
    mine = callout.cpp.load(tmp_path / "libmine.so")
    assert (mine.__name__, sorted(mine._functions)) == ("libmine", ["add_to", "decay"])
    assert mine.decay(jnp.ones(3), 0.5).tolist() == [1, 1.5, 1.75]
    callout.register("mine.decay", f"{tmp_path}/libmine.so:decay")
    out = callout.pure_callback("mine.decay", jax.ShapeDtypeStruct((3,), jnp.float32), jnp.ones(3), jnp.float32(0.5))
    assert out.tolist() == [1, 1.5, 1.75]
    callout.unregister("mine.decay")
    # Replaces the file, as a linker does: writing into the mapped file would crash this process.
    (tmp_path / "newer.so").write_bytes((tmp_path / "libmine.so").read_bytes() + b"changed")
    (tmp_path / "newer.so").replace(tmp_path / "libmine.so")
    with pytest.raises(callout.RegistrationError, match="has changed since this process loaded it"):
        callout.cpp.load(tmp_path / "libmine.so")
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(callout.cpp.CompileError, match="is no shared library"):
        callout.cpp.load(tmp_path / "text.so")
