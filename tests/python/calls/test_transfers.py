# SPDX-License-Identifier: Apache-2.0
"""Tests programs for a TPU on a CPU: their sends and receives become calls of the functions that JAX would have called."""

import ctypes
import dataclasses
import fcntl
import functools
import os
import pickle
import select
import sys
import threading

import callout
import callout.host
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
import tpu_programs
from callout import _jax_compat
from callout._export import artifacts, host_transfers
from callout._primitives.fallback import host_functions
from jax.extend import backend as jex_backend
from jax.interpreters import mlir
from switching import switching_after
from tpu_programs import NAMED, NUMBERS, PARTS, PROGRAMS, Program

pytestmark = [
    pytest.mark.cpu_only("it runs programs for a TPU on a CPU"),
    pytest.mark.native_only("it is about programs for a TPU, which go by JAX's callbacks in any case"),
]


class Backend:
    """A client of a TPU that keeps the functions to call, and their channels."""

    def __init__(self):
        self.made = []

    def make_python_callback_from_host_send_and_recv(self, function, operands, results, sent, received, _serializer):
        self.made.append((function, operands, results, sent, received))
        return function


@pytest.fixture
def backend(monkeypatch):
    found = Backend()
    monkeypatch.setattr(jex_backend, "get_backend", lambda platform: found)
    callout.register(NAMED, tpu_programs.double)
    yield found
    found.made.clear()
    callout.unregister(NAMED)


class OnCpu:
    """A program for a TPU that runs on this CPU."""

    def __init__(self, backend, function, spec):
        traced = function.trace(spec)
        lowered = traced.lower(lowering_platforms=("tpu",))
        self.text = lowered.as_text()
        self.names = {}
        for function_of_jax, _, _, sent, received in backend.made:
            name = host_transfers.channels_name(sent, received)
            self.names[name] = (sent, received)
            callout.register(name, lambda *arrays, call=function_of_jax: self.call(call, arrays))
        self.threads = set()
        self.sent = backend.made
        self._run = _runnable(self.text, function, spec, self.names)

    def call(self, function, arrays):
        self.threads.add(threading.get_ident())
        outs = function(*arrays)
        assert isinstance(outs, tuple)  # JAX rejects anything else
        return outs[0] if len(outs) == 1 else outs or None

    def __call__(self, x):
        out = jax.block_until_ready(self._run(x))
        callout.barrier_wait()
        return out

    def close(self):
        for name in self.names:
            callout.unregister(name)


def _runnable(text, function, spec, names):
    """Makes a function of a rewritten program as JAX does: an exported program with another module."""
    artifact = callout.host.rewrite_host_transfers(text, names=names)
    with artifacts.opened(artifact) as module:
        (main,) = [
            op
            for op in module.body.operations
            if op.operation.name == "func.func" and "main" in str(op.attributes["sym_name"])
        ]
        tokens = sum(argument.type == mlir.token_type() for argument in main.regions[0].blocks[0].arguments)
        artifacts.remove_tokens(module, [True] * tokens)
        artifact = artifacts.closed(module, artifacts.version_of(artifact))
    outs = jax.eval_shape(function, spec)
    stand_in = jax.jit(lambda x: jax.tree.map(lambda out: jnp.zeros(out.shape, out.dtype), outs), keep_unused=True)
    exported = jax.export.export(stand_in)(jax.ShapeDtypeStruct(spec.shape, spec.dtype, sharding=spec.sharding))
    return jax.jit(dataclasses.replace(exported, mlir_module_serialized=artifact).call)


@pytest.fixture
def on_cpu(backend):
    running = []

    def run(program, note):
        backend.made.clear()
        function, spec = tpu_programs.jitted(program, note, platforms.devices(4) if program.mesh else None)
        running.append(OnCpu(backend, function, spec))
        argument = np.arange(8, dtype=np.float32)
        return running[-1], argument if spec.sharding is None else jax.device_put(argument, spec.sharding)

    yield run
    for one in running:
        one.close()


def plain(value):
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value if isinstance(value, str) else np.asarray(value).tolist()


RUNS = [program for program in PROGRAMS if program.result is not None]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_sends_and_receives_the_minimum(backend, program):
    devices = jax.devices()
    if program.mesh and len(devices) < 4:
        pytest.skip("needs 4 devices")
    function, spec = tpu_programs.jitted(program, lambda *_: None, devices if program.mesh else None)
    text = function.trace(spec).lower(lowering_platforms=("tpu",)).as_text()
    assert (text.count("stablehlo.send"), text.count("stablehlo.recv")) == (program.sends, program.receives)
    assert "custom_call" not in text.replace("custom_call @Sharding", "")
    channels = [channel for made in backend.made for channel in (*made[3], *made[4])]
    assert len(set(channels)) == len(channels) == program.sends + program.receives
    assert all(f"handle = {channel}," in text for channel in channels)


@pytest.mark.parametrize("program", RUNS, ids=lambda program: program.name)
def test_sent_values_arrive_and_results_are_right(on_cpu, program):
    got = []
    run, argument = on_cpu(program, lambda *values: got.append(plain(values[0] if len(values) == 1 else values)))
    assert plain(run(argument)) == program.result
    if program.arrived is not None:
        assert (got if program.in_order else sorted(got)) == program.arrived
    assert run.threads


def test_a_tree_travels_in_one_array_whatever_its_dtypes(on_cpu, tmp_path):
    got = []
    (program,) = [program for program in PROGRAMS if program.make is tpu_programs.tree]
    run, argument = on_cpu(program, got.append)
    (made,) = run.sent
    assert str(made[1][0]).startswith("u32[20]")  # 2 halves, 8 flags, 8 numbers, nothing, 1 small number, and the step
    run(argument)
    (value,) = got
    assert {key: (array.dtype.name, plain(array)) for key, array in value.items()} == {
        "half": ("bfloat16", [0, 0.5]),
        "flag": ("bool", [False] * 6 + [True] * 2),
        "number": ("float32", NUMBERS),
        "nothing": ("float32", []),
        "small": ("int8", -3),
    }


def test_each_shard_is_sent_by_its_device(on_cpu):
    got = []

    def make(_):
        return lambda x: callout.tap(
            lambda v, device: got.append((device, plain(v))), x, sharding="local", with_device=True
        )

    run, argument = on_cpu(Program("shards", make, 1, 0, "shard_map"), None)
    run(argument)
    expected = zip(platforms.devices(4), PARTS, strict=True)
    assert sorted((device.id, value) for device, value in got) == [(device.id, value) for device, value in expected]


def test_two_dimensional_and_replicated_shards_are_sent_as_placed(backend):
    kinds = (jax.sharding.AxisType.Explicit,) * 2
    mesh = jax.sharding.Mesh(np.array(platforms.devices(4)).reshape(2, 2), ("x", "y"), axis_types=kinds)
    each = ((jax.P("x", "y"), "f32[4,3]", False), (jax.P(None, "y"), "f32[8,3]", True), (jax.P(), "f32[8,6]", False))
    for spec, shape, is_ordered in each:
        backend.made.clear()
        value = jax.ShapeDtypeStruct((8, 6), jnp.float32, sharding=jax.NamedSharding(mesh, spec))
        tap = jax.jit(functools.partial(callout.tap, print, sharding="local", ordered=is_ordered))
        text = tap.trace(value).lower(lowering_platforms=("tpu",)).as_text()
        (made,) = backend.made
        assert str(made[1][0]).startswith(shape)
        assert "manual_computation" in text


def test_the_next_barrier_raises_a_failure_without_a_waiter(on_cpu):
    def make(options):
        return Program("unbound", lambda _: lambda x: callout.tap("nobody.bound.this", x, **options), 1, 0)

    run, argument = on_cpu(make({}), None)
    jax.block_until_ready(run._run(argument))
    with pytest.raises(callout.UnboundNameError, match=r"nobody\.bound\.this"):
        callout.barrier_wait()
    run, argument = on_cpu(make({"on_full": "fail"}), None)
    with pytest.raises(callout.CallbackError, match=r"nobody\.bound\.this"):
        run(argument)


def test_malformed_arrays_are_the_next_barriers_error():
    site = {"callback": "odd", "label": "odd", "leaves": "", "step": False}
    told = host_functions.FallbackCall(
        host_functions.TAP, "odd", "tpu", site, threaded=False, results=(), ordinals=(0, 1), is_deferred=True
    )
    packed = (4, [(np.dtype(np.float32), (4,)), (np.dtype(np.uint32), ())])
    for layout, arrays in ((None, []), (None, [np.ones(2, np.float32)]), (packed, [np.ones(2, np.uint32)])):
        assert host_functions.tap(dataclasses.replace(told, packed=layout))(*arrays) == ()
        with pytest.raises(TypeError, match="the program sent"):
            callout.barrier_wait()


def test_several_sends_are_acknowledged(backend):
    """XLA does not define the order of several sends, so the program waits."""
    wide = jax.ShapeDtypeStruct((3,), jnp.complex64), jax.ShapeDtypeStruct((2,), jnp.int4)
    tap = jax.jit(lambda x, y: callout.tap(print, (x, y)))
    text = tap.trace(*wide).lower(lowering_platforms=("tpu",)).as_text()
    assert (text.count("stablehlo.send"), text.count("stablehlo.recv")) == (2, 1)
    assert [[str(shape) for shape in made[1]] for made in backend.made] == [["c64[3]{0}", "s4[2]{0}"]]
    alone = jax.jit(lambda x: callout.tap(print, x)).trace(wide[0]).lower(lowering_platforms=("tpu",)).as_text()
    assert (alone.count("stablehlo.send"), alone.count("stablehlo.recv")) == (1, 0)


def travelled(function):
    """Returns a function after JAX's pickle, as the process that runs the program gets it."""
    return pickle.loads(_jax_compat.dumps(function))


def lowered(backend, function, *specs):
    """Returns the function that JAX got for the one callback of a program."""
    backend.made.clear()
    jax.jit(function).trace(*specs).lower(lowering_platforms=("tpu",))
    (made,) = backend.made
    backend.made.clear()
    return made[0]


EIGHT = jax.ShapeDtypeStruct((8,), jnp.float32)


def test_functions_can_be_sent_to_another_process(backend, tmp_path):
    """The functions are pickled by value, so their records are written to a file."""
    path = tmp_path / "noted"

    def note(value, transforms):
        with path.open("a") as file:
            file.write(f"{sorted(value)} {value['x'].tolist()} {transforms}\n")

    def scaled(x, *, by):
        return (x * by, np.float32(by))

    def tap(x):
        return callout.tap(note, {"x": x, "n": jnp.int32(1)}, with_transforms=True)

    def call(x):
        return callout.pure_callback(functools.partial(scaled, by=3), (EIGHT, tpu_programs.F32), x)

    x = np.arange(8, dtype=np.float32)
    sent = travelled(lowered(backend, jax.vmap(tap), EIGHT))
    packed = np.concatenate([np.ones(1, np.uint32), x.view(np.uint32)])  # the leaves n and x
    assert sent(packed) == ()
    callout.barrier_wait()
    assert path.read_text().startswith("['n', 'x'] [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0] (('batch', ")
    results = travelled(lowered(backend, call, EIGHT))(x)
    assert [plain(result) for result in results] == [[3 * v for v in NUMBERS], 3]
    nothing = travelled(lowered(backend, lambda x: callout.io_callback(lambda: None, None), EIGHT))
    assert len(nothing(np.zeros((), np.float32))) == 1


def read_with_the_gil(pipe, lines):
    """Reads until `lines` lines have arrived, by calls that keep the GIL; returns the number that arrived."""
    libc, buffer, found = ctypes.PyDLL(None), ctypes.create_string_buffer(1 << 16), 0
    waited = (ctypes.c_int * 2)(pipe, select.POLLIN)  # a pollfd
    while found < lines and libc.poll(waited, ctypes.c_ulong(1), 20_000) == 1:
        size = libc.read(pipe, buffer, ctypes.c_size_t(len(buffer)))
        found += buffer.raw[:size].count(b"\n")
    return found


@pytest.mark.parametrize("tree", [False, True])
def test_a_tap_to_a_sink_needs_no_gil(backend, tmp_path, tree):
    """JAX calls with the GIL; everything after the call must work without it.

    The sink writes the first of two records to a full pipe. A thread that keeps the GIL reads the pipe until both
    records have arrived: if writing the second needed the GIL, it would never arrive.
    """
    path = tmp_path / "sink"
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    sink = callout.sinks.JsonLines(path, name="losses")
    tap = lowered(backend, lambda x: callout.tap(sink, {"a": x, "b": x} if tree else x), EIGHT)
    value = np.ones(16 if tree else 8, np.float32).view(np.uint32 if tree else np.float32)
    tap(value)  # finds the device
    callout.barrier_wait()
    assert os.read(pipe, 1 << 16).count(b"\n") == 1
    room = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
    assert os.write(pipe, bytes(room)) == room
    frames = []
    sys.setprofile(lambda frame, event, _: frames.append(frame.f_code) if event == "call" else None)
    try:
        tap(value)
        tap(value)
    finally:
        sys.setprofile(None)
    assert frames == []
    with switching_after(1000):
        lines = read_with_the_gil(pipe, 2)
    assert lines == 2
    sink.close()
    os.close(pipe)


def test_a_name_travels_as_a_name(backend):
    sent = _jax_compat.dumps(lowered(backend, lambda x: callout.pure_callback(NAMED, EIGHT, x), EIGHT))
    callout.register(NAMED, lambda x: x - 1, replace=True)
    assert plain(pickle.loads(sent)(np.ones(8, np.float32))[0]) == [0] * 8
    callout.unregister(NAMED)
    with pytest.raises(callout.CallbackError, match=NAMED):
        pickle.loads(sent)(np.ones(8, np.float32))
    callout.register(NAMED, tpu_programs.double)


def test_objects_of_this_process_are_rejected_by_name(backend, tmp_path):
    sink = callout.sinks.JsonLines(tmp_path / "x.jsonl", name="losses")
    tap = lowered(backend, lambda x: callout.tap(sink, x), EIGHT)
    with pytest.raises(pickle.PicklingError, match=r"'losses' cannot be sent .* callout\.register"):
        _jax_compat.dumps(tap)
    sink.close()
    lock = threading.Lock()

    def locked(x):
        with lock:
            return x

    call = lowered(backend, lambda x: callout.pure_callback(locked, EIGHT, x), EIGHT)
    with pytest.raises(pickle.PicklingError, match=r"locked' cannot be sent to the process .*: TypeError: .*lock"):
        _jax_compat.dumps(call)
