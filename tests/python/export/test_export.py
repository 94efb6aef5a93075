# SPDX-License-Identifier: Apache-2.0
"""Exported programs: names instead of functions, no tokens, platforms, versions."""

import inspect
import re
import sys

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout import _jax_compat
from callout._export import artifacts
from exporting import F32, NAMES, bind_everything, everything, export_for, loaded, main_of, unordered
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def test_a_loaded_program_matches_the_traced_one(bind):
    exported = export_for(everything, F32)  # no name is bound yet
    program = loaded(exported)
    bind_everything(bind)
    expected, records = float(jax.jit(everything)(1.0)), None
    callout.barrier_wait()
    records = list(bind)
    bind.clear()
    for call in (program.call, jax.jit(program.call), exported.call):
        assert float(call(1.0)) == expected == 3
        callout.barrier_wait()
        assert sorted(bind) == sorted(records)
        in_order = [record for record in bind if record[0] in ("tap.ordered", "io")]
        assert in_order == [("tap.ordered", 1.0), ("io", 2.0)]
        bind.clear()


def test_tokens_and_ordered_effects_are_gone():
    exported = export_for(everything, F32)
    assert "token" not in main_of(exported)
    for program in (exported, loaded(exported)):
        assert program.ordered_effects == ()
        assert {str(effect) for effect in program.unordered_effects} == {"Callout", "CalloutIo"}
        assert program.in_avals == (jax.core.ShapedArray((), jnp.float32, weak_type=False),)
        assert program.module_kept_var_idx == (0,)


def test_effects_keep_unused_calls_of_a_loaded_program(bind):
    program = loaded(export_for(everything, F32))
    bind_everything(bind)
    assert float(jax.jit(lambda x: (program.call(x), x)[1])(1.0)) == 1
    callout.barrier_wait()
    assert len(bind) == 5


def test_successive_calls_are_in_order(bind):
    program = loaded(export_for(lambda x: callout.tap("t", x, ordered=True) + 1, F32))
    bind("t")
    x = jnp.float32(0)
    for _ in range(50):
        x = program.call(x)
        program.call(jnp.float32(-1))
    callout.barrier_wait()
    assert [value for _, value in bind] == [value for i in range(50) for value in (i, -1)]


def test_donation_points_at_the_right_result():
    f = jax.jit(lambda x, y: callout.tap("t", (x * 2, y + 1), ordered=True), donate_argnums=1)
    exported = callout.export(f)(F32, jax.ShapeDtypeStruct((3,), jnp.float32))
    assert "tensor<3xf32> {tf.aliasing_output = 1 : i32}" in main_of(exported)


def test_loops_branches_and_unused_arguments(bind):
    def f(x, unused, y):
        def body(i, c):
            return lax.cond(i % 2 == 0, lambda c: callout.io_callback("io", F32, c, ordered=True), lambda c: c, c)

        return {"out": lax.fori_loop(0, 6, body, x), "y": y}

    program = loaded(export_for(f, F32, F32, jax.ShapeDtypeStruct((2,), jnp.int32)))
    bind("io")
    out = program.call(1.0, jnp.float32(0), jnp.arange(2, dtype=jnp.int32))
    assert (float(out["out"]), out["y"].tolist()) == (4, [0, 1])
    assert bind == [("io", 1.0), ("io", 2.0), ("io", 3.0)]


def test_derivatives_are_exported_too(bind):
    program = jax.export.deserialize(
        export_for(lambda x: callout.tap("t", jnp.sin(x), ordered=True), F32).serialize(vjp_order=1)
    )
    assert program.vjp().ordered_effects == ()
    bind("t")
    np.testing.assert_allclose(jax.grad(program.call)(1.0), np.cos(1.0), rtol=1e-6)


def test_symbolic_shapes(bind):
    (size,) = jax.export.symbolic_shape("n")
    spec = jax.ShapeDtypeStruct((size,), jnp.float32)
    program = loaded(
        export_for(
            lambda x: callout.tap("t", callout.pure_callback("c", spec, x), ordered=True),
            spec,
        )
    )
    bind("t", "c")
    for count in (2, 3):
        np.testing.assert_array_equal(program.call(jnp.arange(float(count))), np.arange(count) + 1)


def test_an_ordered_call_with_a_symbolic_result_is_refused(bind):
    (size,) = jax.export.symbolic_shape("n")
    spec = jax.ShapeDtypeStruct((size,), jnp.float32)

    def ordered(x):
        return callout.io_callback("call", jax.ShapeDtypeStruct(x.shape, x.dtype), x, ordered=True)

    with pytest.raises(
        NotImplementedError, match=r"callout\.io_callback: ordered=True.*symbolic shape \(n,\).*threaded"
    ):
        export_for(ordered, spec)
    bind("call")
    x = np.arange(3, dtype=np.float32)
    assert np.array_equal(loaded(export_for(callout.threaded(ordered), spec)).call(x), x + 1)
    (program,) = export_for(ordered, spec, shapes=[{"n": 3}]).programs
    assert np.array_equal(program[1].call(x), x + 1)


def test_a_symbolic_program_is_exported_again_for_known_shapes(bind):
    (size,) = jax.export.symbolic_shape("n")
    spec = jax.ShapeDtypeStruct((size, 2), jnp.float32)

    def f(x):
        callout.tap("t", x.mean())
        return callout.pure_callback("c", spec, x) * x.shape[0]

    symbolic = loaded(export_for(f, spec))
    assert symbolic.uses_global_constants
    bind("t", "c")
    for rows in (3, 17):
        x = np.arange(2.0 * rows, dtype=np.float32).reshape(rows, 2)
        exported = export_for(symbolic.call, jax.ShapeDtypeStruct(x.shape, x.dtype), for_plugin="cpu")
        assert not exported.uses_global_constants
        assert "?" not in exported.mlir_module()
        assert callout.exported_names(exported) == ("c", "t")
        np.testing.assert_array_equal(loaded(exported).call(x), (x + 1) * rows)
    assert export_for(symbolic.call, spec).uses_global_constants


def test_names_of_a_program():
    exported = export_for(everything, F32)
    assert callout.exported_names(exported) == callout.exported_names(loaded(exported)) == NAMES
    assert callout.exported_names(export_for(lambda x: x, F32)) == ()


def test_an_unbound_name_is_an_error_that_lists_all_names(bind):
    program = loaded(export_for(everything, F32))
    bind("io", "tap")
    with pytest.raises(callout.UnboundNameError) as info, callout.reraise():
        program.call(1.0)
    assert str(info.value) == (
        "callout: no callback is bound to the name 'call'; the program needs: 'call' (not bound) 'debug' (not bound) 'io' "
        "'tap' 'tap.ordered' (not bound); registered names: 'io' 'tap'"
    )


def anonymous(x):
    return x


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: callout.pure_callback(anonymous, F32, x), "callout.pure_callback: .*'test_export.anonymous'"),
        (lambda x: callout.io_callback(anonymous, F32, x), "callout.io_callback: .*'test_export.anonymous'"),
        (lambda x: callout.tap(anonymous, x, ordered=True), "callout.tap .*'test_export.anonymous'"),
        (lambda x: callout.tap(callout.sinks.Null(name="nil"), x), "callout.tap 'nil': .*'nil'"),
        (lambda x: callout.debug_callback(anonymous, x), "callout.debug_callback: .*'test_export.anonymous'"),
        (lambda x: callout.debug_print("x {}", x), r"callout.debug_callback: .*debug_print\('x \{\}'\)"),
    ],
)
def test_a_function_without_a_name_is_refused(f, message):
    with pytest.raises(ValueError, match=message) as info:
        export_for(f, F32)
    assert "bind it by callout.register(name, fn), in the process that loads the program" in str(info.value)


def test_the_same_function_runs_before_and_after_it_was_refused():
    f = jax.jit(lambda x: callout.pure_callback(anonymous, F32, x))
    assert float(f(1.0)) == 1
    with pytest.raises(ValueError, match="was not passed as one"):
        callout.export(f)(F32)
    assert float(f(2.0)) == 2


def on_devices(count):
    return NamedSharding(Mesh(np.array(jax.devices()[:count]), ("d",)), P("d"))


@pytest.mark.collectives
@pytest.mark.devices(4)
@pytest.mark.parametrize("devices", [1, 4])
def test_exported_for_one_device_or_four_and_run_on_four(bind, devices):
    x = jax.device_put(jnp.arange(8.0), on_devices(4))

    def f(x):
        x = callout.tap("t", x)
        return callout.io_callback("c", jax.ShapeDtypeStruct(x.shape, x.dtype), x, ordered=True)

    exported = export_for(f, jax.device_put(jnp.arange(8.0), on_devices(devices)))
    assert exported.nr_devices == devices
    bind("t", "c")
    np.testing.assert_array_equal(jax.jit(lambda x: loaded(exported).call(x) * 2)(x), (np.arange(8.0) + 1) * 2)
    callout.barrier_wait()
    assert sorted(bind) == [("c", list(range(8))), ("t", list(range(8)))]


@pytest.mark.devices(4)
def test_local_taps_exported_for_one_device_run_on_four(bind):
    exported = export_for(lambda x: callout.tap("t", x, sharding="local"), jax.ShapeDtypeStruct((8,), jnp.float32))
    bind("t")
    jax.jit(lambda x: loaded(exported).call(x) + 1)(jax.device_put(jnp.arange(8.0), on_devices(4)))
    callout.barrier_wait()
    assert sorted(bind) == [("t", [i, i + 1]) for i in (0, 2, 4, 6)]


@pytest.mark.devices(4)
def test_shard_map_in_a_program_and_around_it(bind):
    sharding = on_devices(4)
    x = jax.device_put(jnp.arange(8.0), sharding)

    def over(f):
        return jax.shard_map(f, mesh=sharding.mesh, in_specs=P("d"), out_specs=P("d"), check_vma=False)

    inside = loaded(export_for(over(unordered), x))
    around = over(loaded(export_for(unordered, jax.ShapeDtypeStruct((2,), jnp.float32))).call)
    bind("t", "c")
    for call in (inside.call, around):
        np.testing.assert_array_equal(jax.jit(call)(x), np.arange(8.0) + 1)
        callout.barrier_wait()
        assert sorted(value for name, value in bind if name == "c") == [[i, i + 1] for i in (0, 2, 4, 6)]
        bind.clear()


@pytest.mark.parametrize("version", ["0.9.0", "1.0.0", "1.13.0", None])
def test_versions(bind, version):
    exported = export_for(everything, F32, stablehlo_version=version)
    default = jax.export.export(jax.jit(lambda x: x))(F32)
    expected = version or artifacts.version_of(default.mlir_module_serialized)
    assert artifacts.version_of(exported.mlir_module_serialized) == expected
    bind_everything(bind)
    assert float(loaded(exported).call(1.0)) == 3


@pytest.mark.parametrize("version", ["1.13", "v1.13.0", "", 3])
def test_a_version_that_is_none_is_refused(version):
    with pytest.raises(ValueError, match=r"stablehlo_version must look like '1\.13\.0', got"):
        callout.export(jax.jit(everything), stablehlo_version=version)


@pytest.mark.parametrize("version", ["99.0.0", "0.8.0"])
def test_a_version_that_this_jaxlib_does_not_write_is_refused(version):
    with pytest.raises(ValueError, match=rf"this jaxlib writes StableHLO .*, and not stablehlo_version='{version}'"):
        callout.export(jax.jit(everything), stablehlo_version=version)


def test_a_program_too_new_for_the_version_is_rejected():
    small = jax.ShapeDtypeStruct((2,), jnp.float8_e8m0fnu)
    with pytest.raises(ValueError, match=r"this program cannot be written as StableHLO 0\.9\.0"):
        export_for(lambda x: callout.tap("t", x), small, stablehlo_version="0.9.0")


def test_the_version_of_a_platform():
    exported = export_for(everything, F32, for_plugin="cpu")
    assert artifacts.version_of(exported.mlir_module_serialized) == "1.13.3"  # the version of the CPU plugin
    with pytest.raises(ValueError, match="for_plugin='abacus' is no platform of this process"):
        callout.export(jax.jit(everything), for_plugin="abacus")
    with pytest.raises(ValueError, match="pass one of them"):
        callout.export(jax.jit(everything), for_plugin="cpu", stablehlo_version="1.13.0")
    with pytest.raises(TypeError, match="for_plugin must be a path or the name of a platform, got 3"):
        callout.export(jax.jit(everything), for_plugin=3)


def test_the_version_of_a_plugin(monkeypatch, tmp_path):
    with pytest.raises(
        ValueError, match=r"does not tell its StableHLO version: .*nothing\.so.* stablehlo_version sets it"
    ):
        callout.export(jax.jit(everything), for_plugin=str(tmp_path / "nothing.so"))
    script = "print('a log line'); import sys; print('StableHLO', *[1, 13, 3])"
    monkeypatch.setattr(_jax_compat, "PRINT_PLUGIN_VERSION", script)
    exported = export_for(everything, F32, for_plugin="./a_plugin.so")
    assert artifacts.version_of(exported.mlir_module_serialized) == "1.13.3"
    monkeypatch.setattr(_jax_compat, "PRINT_PLUGIN_VERSION", "print('StableHLO', 99, 0, 0)")
    newest = export_for(everything, F32, for_plugin="./a_plugin.so")
    assert artifacts.version_of(newest.mlir_module_serialized) == artifacts.version_of(
        export_for(everything, F32).mlir_module_serialized
    )
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no python"))
    with pytest.raises(ValueError, match="No such file"):
        callout.export(jax.jit(everything), for_plugin="./a_plugin.so")


@pytest.mark.cpu_only("it is about the handlers that XLA:CPU has")
def test_a_custom_call_without_a_provider_warns():
    doubles = jax.ffi.ffi_call("doubles", jax.ShapeDtypeStruct((3,), jnp.float32))
    x = jax.ShapeDtypeStruct((3,), jnp.float32)
    with pytest.warns(UserWarning, match=r"calls 'doubles', which neither .* has: register it there .*--handler"):
        exported = export_for(lambda x: doubles(x), x, for_plugin="cpu")
    assert exported.platforms == ("cpu",)
    (b,) = jax.export.symbolic_shape("b")
    several = callout.export(jax.jit(lambda x, y: doubles(x) + y.sum()), for_plugin="cpu", shapes=[{"b": 2}, {"b": 3}])
    with pytest.warns(UserWarning, match="calls 'doubles'") as caught:
        several(x, jax.ShapeDtypeStruct((b,), jnp.float32))
    assert {each.filename for each in caught} == {__file__}
    matrix = jax.ShapeDtypeStruct((2, 3, 3), jnp.float32)
    export_for(lambda a: (jnp.linalg.inv(a), jnp.linalg.svd(a), jnp.linalg.eigh(a)), matrix, for_plugin="cpu")


def test_other_custom_calls_stay_jax_s_affair():
    def f(x):
        return jax.ffi.ffi_call("somebody.else", F32)(callout.tap("t", x))

    with pytest.raises(ValueError, match=r"somebody\.else"):
        export_for(f, F32)
    allowed = [jax.export.DisabledSafetyCheck.custom_call("somebody.else")]
    assert callout.exported_names(export_for(f, F32, disabled_checks=allowed)) == ("t",)


def test_export_accepts_only_jitted_functions(bind):
    with pytest.raises(ValueError, match="must be the result of `jit`"):
        callout.export(everything)
    assert callout.exported_names(callout.export(callout.jit(everything))(F32)) == NAMES


def test_programs_call_programs(bind):
    inner = loaded(export_for(unordered, F32))
    outer = loaded(export_for(lambda x: callout.tap("t2", inner.call(x)), F32))
    assert callout.exported_names(outer) == ("c", "t", "t2")
    bind("c", "t", "t2")
    assert float(outer.call(1.0)) == 2


def test_arguments_are_those_of_jax():
    ours, theirs = (inspect.signature(function).parameters for function in (callout.export, jax.export.export))
    assert {name for name in theirs if not name.startswith("_")} - {"fun_jit"} <= set(ours)


def test_several_shapes_are_exact_programs_in_one_file(bind):
    (b,) = jax.export.symbolic_shape("b")
    f = jax.jit(lambda x, y: callout.tap("t", x.mean(axis=0)) + y)
    exported = callout.export(f, shapes=[{"b": 3}, {"b": 4}])(jax.ShapeDtypeStruct((2 * b, 5), jnp.float32), F32)
    assert callout.exported_names(exported) == ("t",)
    assert [values for values, _ in exported.programs] == [{"b": 3}, {"b": 4}]
    assert [each.in_avals[0].shape for _, each in exported.programs] == [(6, 5), (8, 5)]
    assert not any(each.uses_global_constants for _, each in exported.programs)
    file = exported.serialize()
    assert file.startswith(b"callout.programs 1\n")
    assert all(bytes(each.serialize()) in file for _, each in exported.programs)


def test_programs_for_several_shapes_promote_weak_types():
    (b,) = jax.export.symbolic_shape("b")
    f = jax.jit(lambda x: x + jnp.ones((), jnp.bfloat16))
    x = jax.ShapeDtypeStruct((b,), jnp.float32, weak_type=True)
    (program,) = (each for _, each in callout.export(f, shapes=[{"b": 3}])(x).programs)
    assert program.out_avals[0].dtype == callout.export(f)(x).out_avals[0].dtype == jnp.bfloat16


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([], "shapes= is empty"),
        ([{"c": 1}], "the symbolic dimensions are 'b', and shapes= has {'c': 1}"),
        ([{"b": -1}], "shapes= has -1 for 'b'; expected a size"),
        ([{"b": True}], "shapes= has True for 'b'; expected a size"),
        ([{"b": 3.0}], "shapes= has 3.0 for 'b'; expected a size"),
        ([{"b": 3}, {"b": np.int64(3)}], "shapes= has the same shape twice"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes, message):
    (b,) = jax.export.symbolic_shape("b")
    with pytest.raises(ValueError, match=re.escape(message)):
        callout.export(jax.jit(jnp.sin), shapes=shapes)(jax.ShapeDtypeStruct((b,), jnp.float32))


def test_shapes_may_be_integers_of_numpy():
    (b,) = jax.export.symbolic_shape("b")
    like = jax.ShapeDtypeStruct((b,), jnp.float32)
    exported = callout.export(jax.jit(jnp.sin), shapes=[{"b": np.int64(3)}, {"b": np.uint8(4)}])(like)
    assert [{name: type(size) for name, size in values.items()} for values, _ in exported.programs] == [{"b": int}] * 2
    assert [each.in_avals[0].shape for _, each in exported.programs] == [(3,), (4,)]


def test_shapes_need_symbolic_dimensions():
    with pytest.raises(ValueError, match="is for arguments with symbolic dimensions"):
        callout.export(jax.jit(jnp.sin), shapes=[{"b": 3}])(F32)
