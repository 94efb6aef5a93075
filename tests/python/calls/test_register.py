# SPDX-License-Identifier: Apache-2.0
"""Tests registered names: Python functions, native functions and sinks; native ones are called without Python."""

import ctypes
import gc
import json
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest

F32 = jax.ShapeDtypeStruct((), jnp.float32)
SOURCE = Path(__file__).parents[1] / "support" / "native_callbacks.cc"


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("native") / "libnative_callbacks.so"
    subprocess.run(
        ["c++", "-std=c++20", "-O1", "-shared", "-fPIC", f"-I{callout.include_dir()}", str(SOURCE), "-o", str(path)],
        check=True,
    )
    return path


@pytest.fixture
def register(request):
    names = []

    def bind(name, fn, **kwargs):
        callout.register(name, fn, **kwargs)
        names.append(name)

    yield bind
    for name in set(names):
        callout.unregister(name)


def test_typed_view_function(register, library):
    register("scale", f"{library}:scale")
    f = jax.jit(lambda x: callout.pure_callback("scale", jax.ShapeDtypeStruct(x.shape, x.dtype), x))
    np.testing.assert_array_equal(f(jnp.arange(4.0)), np.arange(4.0) * 2)
    np.testing.assert_array_equal(
        callout.pure_callback("scale", jax.ShapeDtypeStruct((4,), "float32"), jnp.arange(4.0)), np.arange(4.0) * 2
    )
    assert callout.stats()["callbacks"]["scale"]["calls"] == 2


def test_pointers_function(register, library):
    register("add_columns", f"{library}:add_columns")
    f = jax.jit(lambda x: callout.pure_callback("add_columns", jax.ShapeDtypeStruct(x.shape[:1], x.dtype), x))
    np.testing.assert_array_equal(f(jnp.arange(6.0).reshape(2, 3)), [3, 12])


def test_native_functions_run_without_the_gil(register, library):
    register("wait_for_flag", f"{library}:wait_for_flag")
    flag = ctypes.CDLL(str(library)).set_flag
    out = []
    f = jax.jit(lambda x: callout.pure_callback("wait_for_flag", F32, x)).lower(jnp.float32(1)).compile()
    thread = threading.Thread(target=lambda: out.append(float(f(jnp.float32(1)))))
    thread.start()
    flag()  # the flag is set only if the callback does not hold the GIL
    thread.join(30)
    assert not thread.is_alive()
    assert out == [1]


@pytest.mark.native_only(platforms.RUN)
def test_device_and_run(register, library):
    register("where", f"{library}:where")
    f = jax.jit(lambda: callout.pure_callback("where", jax.ShapeDtypeStruct((2,), "int32")))
    device, has_run = f()
    assert (int(device), int(has_run)) == (0, 1)


@pytest.mark.native_only(platforms.DEVICE)
@pytest.mark.devices(2)
def test_the_device_is_that_of_the_program(register, library):
    register("where", f"{library}:where")
    g = jax.jit(lambda x: callout.pure_callback("where", jax.ShapeDtypeStruct((2,), "int32"), x))
    assert int(g(jax.device_put(jnp.float32(1), jax.devices()[1]))[0]) == 1


@pytest.mark.parametrize(
    ("symbol", "message"),
    [
        ("throws_standard", "std: on purpose"),
        ("throws_int", "not a std::exception"),
        ("plain_throws_int", "not a std::exception"),
        ("plain_returns_7", "returned error code 7"),
        ("wrong_type", "argument 0: expected XLA element type 5, got 11"),
        ("wrong_index", "argument 3 asked for, but the call has 1"),
    ],
)
def test_native_errors_are_named(register, library, symbol, message):
    register(symbol, f"{library}:{symbol}")
    f = jax.jit(lambda x: callout.pure_callback(symbol, F32, x))
    for _ in range(3):
        with pytest.raises(Exception, match=message) as info:
            f(1.0).block_until_ready()
        assert f"callback '{symbol}' failed on device 0" in str(info.value)
    with pytest.raises(callout.CallbackError, match=message):
        callout.pure_callback(symbol, F32, 1.0)
    assert float(jax.jit(lambda x: x + 1)(1.0)) == 2


def test_native_tap(register, library):
    register("accumulate", f"{library}:accumulate")
    total = ctypes.CDLL(str(library)).total
    total.restype = ctypes.c_double
    start = total()
    f = jax.jit(lambda x: jax.lax.fori_loop(0, 100, lambda i, c: callout.tap("accumulate", c) + 1, x))
    f(0.0)
    callout.barrier_wait()
    assert total() - start == sum(range(100))


def test_python_function_by_name(register):
    got = []
    register("my.python", lambda x, y: (x + y, x * y))
    register("my.tap", got.append)
    f = jax.jit(lambda x: callout.tap("my.tap", callout.pure_callback("my.python", {"a": F32, "b": F32}, x, x + 1)))
    out = f(2.0)
    assert (float(out["a"]), float(out["b"])) == (5, 6)
    callout.barrier_wait()
    assert got == [(5, 6)]
    with pytest.raises(TypeError, match="positional arguments only"):
        callout.pure_callback("my.python", F32, 1.0, y=2.0)


def test_sink_by_name(register, tmp_path):
    sink = callout.sinks.JsonLines(tmp_path / "a.jsonl", fields=False)
    register("log", sink)
    jax.jit(lambda x: callout.tap("log", {"loss": x}))(1.5)
    callout.barrier_wait()
    assert (tmp_path / "a.jsonl").read_text() == '{"name": "log", "loss": 1.5}\n'


def test_capsule(register):
    register("capsule", _capsule_of_plus_one())
    assert float(jax.jit(lambda x: callout.pure_callback("capsule", F32, x))(1.0)) == 2


_keep_alive = []


def _capsule_of_plus_one():
    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int64))
    def plus_one(pointers, _):
        ctypes.cast(pointers[1], ctypes.POINTER(ctypes.c_float))[0] = (
            ctypes.cast(pointers[0], ctypes.POINTER(ctypes.c_float))[0] + 1
        )
        return 0

    class Record(ctypes.Structure):
        _fields_ = [
            ("struct_size", ctypes.c_size_t),
            ("abi_version", ctypes.c_uint32),
            ("kind", ctypes.c_uint32),
            ("fn", ctypes.c_void_p),
        ]

    record = Record(ctypes.sizeof(Record), 1, 1, ctypes.cast(plus_one, ctypes.c_void_p))
    _keep_alive.extend([plus_one, record])
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(record), b"callout_function", None)


@pytest.mark.parametrize("run", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_a_sink_by_name_writes_the_name(register, tmp_path, run):
    sink = callout.sinks.JsonLines(tmp_path / "log")
    register("train.loss", sink)
    run(lambda x: callout.tap("train.loss", x))(jnp.float32(1))
    run(lambda x: callout.tap("train.loss", x, name="other"))(jnp.float32(1))
    run(lambda x: callout.tap(callout.sinks.Tee("train.loss"), x))(jnp.float32(1))
    run(lambda x: callout.tap(sink, x))(jnp.float32(1))
    callout.barrier_wait()
    names = [json.loads(line)["name"] for line in (tmp_path / "log").read_text().splitlines()]
    assert names == ["train.loss", "other", "train.loss", "json_lines"]


def test_an_unbound_name_is_an_error_that_lists_the_names(register):
    register("bound.one", lambda x: x)
    f = jax.jit(lambda x: callout.pure_callback("not.bound", F32, x))
    for _ in range(2):
        with pytest.raises(
            Exception, match=r"no callback is bound to the name 'not.bound'; registered names: .*'bound.one'"
        ):
            f(1.0)
    with pytest.raises(callout.UnboundNameError, match=r"not\.bound"):
        callout.pure_callback("not.bound", F32, 1.0)
    with pytest.raises(callout.UnboundNameError, match=r"not\.bound"):
        callout.tap("not.bound", 1.0)


def test_rebinding(register):
    register("name", lambda x: x + 1)
    f = jax.jit(lambda x: callout.pure_callback("name", F32, x))
    assert float(f(1.0)) == 2
    with pytest.raises(callout.RegistrationError, match="already registered as 'name'"):
        callout.register("name", lambda x: x + 2)
    register("name", lambda x: x + 2, replace=True)
    assert float(jax.jit(lambda x: callout.pure_callback("name", F32, x))(1.0)) == 3


@pytest.mark.native_only("JAX's callbacks keep what the program was compiled with")
def test_compiled_programs_call_whoever_has_the_name_now(register):
    register("name", lambda x: x + 1)
    f = jax.jit(lambda x: callout.pure_callback("name", F32, x))
    assert float(f(1.0)) == 2
    register("name", lambda x: x + 2, replace=True)
    assert float(f(1.0)) == 3
    callout.unregister("name")
    assert float(f(1.0)) == 3
    register("name", lambda x: x + 3)
    assert float(f(1.0)) == 4


@pytest.mark.native_only("JAX's callbacks keep what the program was compiled with")
def test_two_runs_of_one_program_write_separate_files(register, tmp_path):
    @jax.jit
    def run():
        jax.lax.fori_loop(0, 5, lambda i, _: callout.tap("log", i), 0)

    files = [tmp_path / f"run{i}.jsonl" for i in range(2)]
    for path in files:
        register("log", callout.sinks.JsonLines(path), replace=True)
        run()
        callout.barrier_wait()
    assert [len(path.read_text().splitlines()) for path in files] == [5, 5]
    assert run._cache_size() == 1


@pytest.mark.native_only("JAX's callbacks keep what the program was compiled with")
def test_replaced_callbacks_are_let_go(register):
    class Function:
        def __call__(self, x):
            return x

    f = jax.jit(lambda x: callout.tap("taps", callout.pure_callback("calls", F32, x)))
    alive = []
    for _ in range(100):
        for name in ("calls", "taps"):
            function = Function()
            alive.append(weakref.ref(function))
            register(name, function, replace=True)
            del function
        f(1.0)
    callout.barrier_wait()
    gc.collect()
    assert sum(each() is not None for each in alive) == 2


@pytest.mark.parametrize(
    ("name", "fn", "message"),
    [
        ("", print, "must not be empty"),
        (3, print, "must be a string, got 3"),
        ("a\nb", print, "a name must be one line"),
        ("a\0b", print, "a name must be one line"),
        ("py:x", print, "must not begin with 'py:'"),
        ("id_print:x", print, "must not begin with .*'id_print:'"),
        ("n", 3, "expected a callable"),
        ("n", "no colon", r"expected \"path/lib.so:symbol\""),
        ("n", "/nowhere/lib.so:f", "cannot load shared library '/nowhere/lib.so'"),
    ],
)
def test_bad_registrations_are_named(name, fn, message):
    with pytest.raises(callout.RegistrationError, match=message):
        callout.register(name, fn)


def test_missing_symbol_is_named(library):
    with pytest.raises(callout.RegistrationError, match="exports neither 'nothing'"):
        callout.register("n", f"{library}:nothing")
    with pytest.raises(callout.RegistrationError, match="no callback is registered as 'n'"):
        callout.unregister("n")


def test_a_library_finds_the_core_through_the_table(library):
    import callout._ext

    core = ctypes.CDLL(
        next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libcallout.so" in line)
    )
    get_api = core.callout_get_api
    get_api.restype = ctypes.c_void_p
    assert get_api(1)
    assert not get_api(99)
    native = ctypes.CDLL(str(library))
    native.register_through_table.argtypes = [ctypes.c_void_p]
    assert native.register_through_table(get_api(1)) == 0
    assert native.register_through_table(get_api(1)) == 6  # ALREADY_EXISTS
    try:
        assert float(jax.jit(lambda x: callout.pure_callback("from.table", F32, x))(3.0)) == 6
    finally:
        callout.unregister("from.table")
    assert sys.modules["callout._ext"]


def test_an_unbound_name_in_a_program_has_its_class():
    f = callout.jit(lambda x: callout.pure_callback("not.bound", F32, x))
    with pytest.raises(callout.UnboundNameError, match=r"not\.bound"):
        f(1.0)


def test_an_unbound_name_suggests_a_similar_one(register):
    for name in ("test_register.halve", "test_register.double"):
        register(name, lambda x: x)
    with pytest.raises(
        callout.UnboundNameError, match=r"'test_register\.halve'; did you mean 'test_register\.halve'\?$"
    ):
        callout.pure_callback("test_register.halv", F32, jnp.float32(1))
    with pytest.raises(callout.UnboundNameError, match=r"registered names: .*'test_register\.halve'$"):
        callout.pure_callback("x", F32, jnp.float32(1))


def test_programs_with_native_names_can_be_exported(register, library):
    register("scale", f"{library}:scale")
    f = jax.jit(
        lambda x: callout.tap("scale.tap", callout.pure_callback("scale", jax.ShapeDtypeStruct(x.shape, x.dtype), x))
    )
    register("scale.tap", callout.sinks.Null(name="scale.tap"))
    checks = [jax.export.DisabledSafetyCheck.custom_call(f"callout.v1.{kind}") for kind in ("call", "tap")]
    exported = jax.export.export(f, disabled_checks=checks)(jnp.arange(3.0))
    np.testing.assert_array_equal(exported.call(jnp.arange(3.0)), np.arange(3.0) * 2)
    callout.barrier_wait()
    assert callout.stats()["callbacks"]["scale.tap"]["calls"] == 1


def test_a_sink_is_not_called_for_a_result(register):
    register("null.sink", callout.sinks.Null())
    with pytest.raises(callout.CallbackError, match="a sink takes taps"):
        callout.pure_callback("null.sink", F32, 1.0)


@pytest.mark.native_only(platforms.SYNCHRONOUS)
@pytest.mark.cpu_only("XLA:GPU calls the host in the thread that dispatches")
def test_numpy_only_holds_for_a_registered_name(register):
    release = threading.Event()
    register("slow", callout.options(lambda v: release.wait(30) and v, numpy_only=True))
    heavy = jax.jit(lambda m: callout.pure_callback("slow", F32, jnp.tanh(m @ m).sum()))
    out = heavy(jnp.ones((300, 300)))
    assert not out.is_ready()
    release.set()
    out.block_until_ready()


def test_a_registered_function_that_returns_none_is_named(register):
    register("none", lambda x: None)
    with pytest.raises(callout.ResultError, match=r"result 0 does not fit: expected f32\[\], got None"):
        callout.pure_callback("none", F32, 1.0)


def test_names_that_are_not_utf8_are_escaped():
    name = os.fsdecode(b"a\xff")
    callout.register(name, lambda x: 2 * x)
    try:
        assert float(jax.jit(lambda x: callout.pure_callback(name, x, x))(jnp.float32(2))) == 4
        with pytest.raises(callout.RegistrationError, match=r"already registered as 'a\\udcff'"):
            callout.register(name, print)
    finally:
        callout.unregister(name)
