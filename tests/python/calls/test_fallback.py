# SPDX-License-Identifier: Apache-2.0
"""Tests every entry point by JAX's own callbacks: end to end on a CPU, and programs for platforms that are absent here."""

import contextlib
import os
import re

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
import settings
from callout._primitives import buffer
from callout._primitives.fallback import policy
from callout.buffer_callback import buffer_callback
from jax import lax
from jax.extend import backend as jex_backend
from located import found

F32 = jax.ShapeDtypeStruct((), jnp.float32)


@pytest.fixture(autouse=True)
def always():
    with settings.fallback("always"):
        yield


@pytest.fixture
def auto(always):
    callout.config.fallback = "auto"


@pytest.fixture
def named():
    callout.register("test_fallback.double", lambda x: x * 2)
    yield "test_fallback.double"
    callout.unregister("test_fallback.double")


def lowered(f, *args, platforms=("tpu",)):
    return jax.jit(f).trace(*args).lower(lowering_platforms=platforms).as_text()


def double(x):
    return np.float32(x * 2)


class Everything:
    """A program with every entry point, and the values that its callbacks received."""

    def __init__(self, named, path):
        self.named, self.got, self.sink = named, [], callout.sinks.JsonLines(path)

    def note(self, kind):
        return lambda *values: self.got.append((kind, *(float(np.ravel(value)[0]) for value in values)))

    def __call__(self, x):
        x = callout.pure_callback(double, F32, x)
        x = callout.pure_callback(self.named, F32, x)
        x = callout.io_callback(double, F32, x, ordered=True)
        x = callout.io_callback(lambda v: np.float32(v + 1), F32, x)
        x = callout.tap(self.note("ordered"), x, ordered=True)
        callout.debug_callback(self.note("debug"), x, ordered=True)
        callout.debug_print("printed {}", x)
        callout.tap(self.note("thinned"), x, every=2)
        callout.tap(self.sink, {"x": x}, step=jnp.int32(7))
        x = callout.watch(x, "test_fallback")
        x = callout.error_if(x, x < 0, "below zero: {}", x)
        x = callout.warn_if(x, x < 0, "below zero: {}", x)
        x = hcb.id_tap(lambda value, transforms: self.note("id_tap")(value), x)
        return hcb.call(double, x, result_shape=F32)


def test_every_entry_point(named, tmp_path, capsys):
    everything = Everything(named, tmp_path / "x.jsonl")
    f = jax.jit(everything)
    assert "callout.v1" not in f.lower(1.0).as_text()
    assert [float(f(1.0)), float(f(2.0))] == [18, 34]
    hcb.barrier_wait()
    got = {kind: [value for key, value in everything.got if key == kind] for kind, _ in everything.got}
    assert got == {"ordered": [9, 17], "debug": [9, 17], "thinned": [9], "id_tap": [9, 17]}
    assert everything.got.index(("ordered", 9)) < everything.got.index(("debug", 9))  # program order
    assert capsys.readouterr().out.splitlines() == ["printed 9.0", "printed 17.0"]
    everything.sink.close()
    lines = (tmp_path / "x.jsonl").read_text().splitlines()
    assert [re.findall(r'"step": ?(\d+)|"x": ?([\d.]+)', line) for line in lines] == [
        [("7", ""), ("", "9")],
        [("7", ""), ("", "17")],
    ]
    assert callout.stats()["watches"]["test_fallback"]["calls"] == 2
    with pytest.raises(callout.CheckError, match="below zero: -7"):
        jax.block_until_ready(f(-1.0))
    with contextlib.suppress(jax.errors.JaxRuntimeError, ExceptionGroup):  # JAX raises the error again, now or at exit
        jax.effects_barrier()


def test_transformations_loops_and_threaded_programs(received, screen):
    def body(c, x):
        x = callout.pure_callback(lambda v: np.float32(v * 3), F32, x, vmap_method="sequential")
        return c + callout.tap(received.tap, x), x

    def f(x):
        return lax.scan(callout.progress.scan_tqdm(2, file=screen)(lambda c, i: body(c, x[i])), 0.0, jnp.arange(2))[0]

    assert jax.vmap(f)(jnp.ones((2, 2))).tolist() == [6, 6]
    callout.barrier_wait()
    assert [value.tolist() for value in received] == [[3, 3], [3, 3]]
    assert "2/2" in screen.getvalue()
    received.clear()
    grad = jax.jit(jax.grad(lambda x: jnp.sin(callout.tap(received.tap, x * 2))))
    assert float(grad(0.0)) == 2
    callout.barrier_wait()
    assert [float(value) for value in received] == [0]
    received.clear()
    threaded = jax.jit(callout.threaded(lambda x: [callout.tap(received.tap, x + i) for i in range(3)][-1]))
    assert float(threaded(1.0)) == 3
    callout.barrier_wait()
    assert [float(value) for value in received] == [1, 2, 3]


class MyError(Exception):
    pass


def test_errors_are_those_of_the_native_path():
    def fail(_):
        raise MyError("mine")

    f = jax.jit(lambda x: callout.pure_callback(fail, F32, x))
    for _ in range(3):
        with pytest.raises(MyError, match=r"callback '.*fail' failed on device 0: MyError: mine"):
            jax.block_until_ready(f(1.0))
        with pytest.raises(MyError, match=r"^mine$"), callout.reraise():
            jax.block_until_ready(f(1.0))
    with pytest.raises(callout.ResultError, match="does not fit"):
        jax.block_until_ready(jax.jit(lambda x: callout.pure_callback(lambda v: np.ones(3), F32, x))(1.0))
    with pytest.raises(callout.UnboundNameError, match=r"nobody.bound.this"):
        jax.block_until_ready(jax.jit(lambda x: callout.pure_callback("nobody.bound.this", F32, x))(1.0))
    jax.jit(lambda x: callout.tap(fail, x))(1.0)
    with pytest.raises(callout.TapError):
        callout.barrier_wait()


def test_an_error_that_is_not_utf8_arrives():
    """Uses a text that would end the process with JAX's own pure_callback."""
    text = os.fsdecode(b"no \xff")

    def refuse(x):
        raise LookupError(text)

    refuse.__qualname__ = text
    with pytest.raises(LookupError, match=r"no \\udcff") as refused:
        jax.block_until_ready(jax.jit(lambda x: callout.pure_callback(refuse, F32, x))(1.0))
    assert refused.value.__cause__.args == (text,)


def test_native_only_features_are_rejected(cache):
    source = '#include "callout/kernel.h"\nvoid f(callout::In<float> x, callout::Out<float> y) {}\nCALLOUT_KERNEL(f);'
    native = callout.cpp.load_inline(source, {"f": {}})
    for call, label in ((buffer_callback(lambda ctx, out, x: None, F32), r"\S*<lambda>:\d+"), (native.f, r"inline\.f")):
        refusal = rf"'{label}' needs callout's native path.*config\.fallback = 'always'.*callout\.pure_callback"
        with pytest.raises(NotImplementedError, match=refusal) as info:
            jax.jit(call)(jnp.float32(1))
        assert "platform_dependent" not in str(info.value), "the platform has a native path"


@pytest.mark.cpu_only("the software GPU has no collectives")
def test_several_devices(received):
    devices = platforms.devices(4)
    mesh = jax.sharding.Mesh(np.array(devices), ("d",))
    x = jax.device_put(jnp.arange(8.0), jax.NamedSharding(mesh, jax.P("d")))
    where = []

    def tapped(x):
        callout.tap(lambda value, device: where.append(device), x, with_device=True)
        return callout.error_if(x, x > 100, "too big: {}", x)

    @jax.jit
    def f(x):
        callout.tap(lambda value: received.append(value.shape), x, ordered=True)
        callout.tap(lambda value: received.append(value.shape), x, sharding="local")
        x = callout.pure_callback(lambda v: v + 1, jax.ShapeDtypeStruct((8,), jnp.float32), x)
        return jax.shard_map(tapped, mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d"))(x)

    assert f(x).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    callout.barrier_wait()
    assert sorted(received) == [(2,)] * 4 + [(8,)]
    assert sorted(device.id for device in where) == [device.id for device in devices]
    jax.block_until_ready(f(x * 100))  # no device waits for one that failed
    with pytest.raises(callout.CheckError, match="too big"):
        callout.barrier_wait()


@pytest.mark.collectives
@pytest.mark.filterwarnings("error::callout.NonFiniteWarning")
def test_padding_is_not_checked_for_nan():
    mesh = jax.sharding.Mesh(np.array(platforms.devices(4)), ("d",))
    uneven = jax.NamedSharding(mesh, jax.P("d"))
    f = callout.locate_nans(lambda x: jnp.log(jax.lax.with_sharding_constraint(x, uneven)), stop=True)
    assert jax.block_until_ready(jax.jit(f)(jnp.ones(6))).tolist() == [0] * 6
    callout.barrier_wait()


def test_the_place_where_nan_begins_is_reported():
    def f(x):
        return jax.lax.scan(lambda carry, row: (carry, jnp.log(row)), 0.0, x)[1]  # by JAX's own

    located = jax.jit(callout.locate_nans(f))
    assert "callout.v1" not in located.lower(jnp.ones((3, 2))).as_text()

    def run(x):
        jax.block_until_ready(located(x))
        callout.barrier_wait()
        return x

    for _ in range(2):
        (text,), _ = found(run, jnp.ones((3, 2)).at[2, 1].set(-4))
        assert f"NaN at {__file__}:" in text
        assert "# by JAX's own`; log, forward; f32[2] at [1], step 2, device 0; inputs: f32[2] -4.0" in text


def test_programs_for_a_tpu_need_no_backend(auto, named, tmp_path):
    everything = Everything(named, tmp_path / "x.jsonl")
    text = lowered(everything, 1.0)
    assert "custom_call" not in text
    channels = re.findall(r"channel_handle<handle = (\d+), type = ([23])>", text)
    assert len(set(channels)) == len(channels)
    # Each callback sends once. Two taps, watch and warn_if receive nothing: they cannot fail and are not ordered.
    assert [text.count(f"stablehlo.{op}") for op in ("send", "recv")] == [14, 14 - 4]
    everything.sink.close()

    def twice(x):
        for _ in range(2):  # each call has channels of its own
            x, _ = callout.pure_callback(lambda v: (v, np.zeros((0, 2))), (F32, jax.ShapeDtypeStruct((0, 2), "f4")), x)
        callout.debug_callback(lambda: None)
        return x

    text = lowered(twice, 1.0)
    assert text.count("stablehlo.send") == 3
    assert text.count("stablehlo.recv") == 3  # empty results are not received


class Backend:
    """A client with the one method that JAX needs to lower programs for a TPU."""

    def __init__(self):
        self.made = []

    def make_python_callback_from_host_send_and_recv(self, function, operands, results, sent, received, _serializer):
        self.made.append((function, [str(shape) for shape in (*operands, *results)], [*sent, *received]))
        return function


def test_functions_are_attached_if_a_backend_exists(auto, monkeypatch, received):
    backend = Backend()
    monkeypatch.setattr(jex_backend, "get_backend", lambda platform: backend)

    def f(x):
        x = callout.pure_callback(lambda v: v + 1, jax.ShapeDtypeStruct((2,), jnp.float32), x)
        callout.tap(received.tap, x, ordered=True)
        callout.io_callback(lambda: received.append("io"), None)
        return x

    text = lowered(f, np.ones(2, np.float32))
    (call, *_), (tap, *_), (io, *_) = backend.made
    assert [made[1] for made in backend.made] == [["f32[2]{0}"] * 2, ["f32[2]{0}", "f32[]"], ["f32[]"] * 2]
    assert sorted(channel for made in backend.made for channel in made[2]) == sorted(
        int(channel) for channel in re.findall(r"channel_handle<handle = (\d+)", text)
    )
    value = np.array([1, 2], np.float32)
    assert call(value)[0].tolist() == [2, 3]
    assert len(io(np.zeros((), np.float32))) == len(tap(value)) == 1  # the token that says that they are done
    callout.barrier_wait()
    assert [received[0], received[1].tolist()] == ["io", [1, 2]]


def test_platforms_side_by_side(auto):
    def f(x):
        return callout.tap(print, callout.pure_callback(lambda v: v, F32, x), ordered=True)

    text = lowered(f, 1.0, platforms=("cpu", "tpu", "rocm"))
    assert [text.count(name) for name in ("@callout.v1.call(", "@callout.v1.tap(", "python_gpu_callback(")] == [1, 1, 2]
    assert text.count("stablehlo.send") == 2
    assert lowered(f, 1.0, platforms=("rocm",)).count("xla_ffi_python_gpu_callback(") == 2
    callout.config.fallback = "always"
    text = lowered(f, 1.0, platforms=("cpu", "cuda"))
    assert "callout.v1" not in text
    assert [text.count(f"xla_ffi_python_{kind}_callback(") for kind in ("cpu", "gpu")] == [2, 2]


def test_buffer_callbacks_on_rocm_are_jaxs_own(auto):
    call = buffer_callback(lambda ctx, out, x: None, F32, has_side_effect=True, input_output_aliases={0: 0})
    text = lowered(call, 1.0, platforms=("rocm",))
    assert "callout.v1" not in text
    assert re.search(r"@xla_buffer_python_gpu_callback\(%\w+\).*has_side_effect = true.*output_operand_aliases", text)
    with pytest.raises(NotImplementedError, match="not supported on platform rocm; supported: cpu, cuda"):
        lowered(call, 1.0, platforms=("cpu", "rocm"))
    with pytest.raises(NotImplementedError, match="not supported on platform rocm; supported: cpu, cuda"):
        lowered(buffer_callback("unbound", F32), 1.0, platforms=("rocm",))
    callout.config.fallback = "off"
    with pytest.raises(NotImplementedError, match=r'platform rocm.*config.fallback = "auto"'):
        lowered(lambda x: call(x), 1.0, platforms=("rocm",))


@pytest.mark.cpu_only("it runs JAX's buffer callbacks on the host")
def test_functions_of_jax_buffer_callbacks_get_their_structure(auto):
    def fill(ctx, out, pair, *, y):
        assert type(ctx).__module__ != callout.buffer_callback.ExecutionContext.__module__
        np.asarray(out["sum"])[...] = np.asarray(pair[0]) + np.asarray(y)
        np.asarray(out["difference"][0])[...] = np.asarray(pair[0]) - np.asarray(y)

    def add_in_place(ctx, out, held):
        np.asarray(held)[...] += 1
        np.asarray(out)[...] = np.asarray(held)

    def fails(ctx, out, x):
        raise KeyError("of the user")

    def by_jax(f, *args):
        """Runs by JAX the one call of a program that was traced for another platform."""
        (eqn,) = [eqn for eqn in jax.make_jaxpr(f)(*args).eqns if eqn.primitive is buffer.buffer_p]
        told = {name: eqn.params[name] for name in ("has_side_effect", "aliases", "capturable")}
        return buffer.by_jax(eqn.params["target"], eqn.params["result_avals"], **told)

    x, y = np.float32(5), np.float32(3)
    both = buffer_callback(fill, {"sum": F32, "difference": (F32,)})
    assert [float(out) for out in by_jax(lambda x, y: both((x,), y=y), x, y)(x, y)] == [2, 8]
    out = by_jax(lambda x: buffer_callback(add_in_place, F32)(jax.new_ref(x)), x)(x)
    assert [float(each) for each in out] == [6, 6]
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=r"callback '.*fails' failed: KeyError: 'of the user'"
    ) as caught:
        jax.block_until_ready(by_jax(buffer_callback(fails, F32), x)(x))
    assert isinstance(caught.value.__cause__, KeyError)


def test_rejections_name_the_reason_and_the_remedy(auto):
    def f(x):
        return callout.tap(print, x)

    with pytest.raises(NotImplementedError, match="not supported on platform METAL; supported: cpu, cuda"):
        lowered(f, 1.0, platforms=("METAL",))
    with pytest.raises(NotImplementedError, match="not supported on platform tpu"):
        lowered(buffer_callback(lambda ctx, out, x: None, F32), 1.0)
    callout.config.fallback = "off"
    with pytest.raises(NotImplementedError, match=r'platform tpu.*config.fallback = "auto"'):
        lowered(f, 1.0)
    with pytest.raises(ValueError, match=r"callout.config.fallback: expected auto, off or always, got 'on'"):
        callout.config.fallback = "on"


CPP = """
#include "callout/kernel.h"
void twice(callout::In<float> x, callout::Out<float> y) { *y.data() = 2 * *x.data(); }
CALLOUT_KERNEL(twice);
"""


def in_place(ctx, out, x):
    pass


NAMED = {
    "in_place'": lambda x: buffer_callback(in_place, F32)(x),
    "inline.twice'": lambda x: callout.cpp.load_inline(CPP).twice(x),
}
CARRIED = {
    "double'": lambda x: callout.pure_callback(double, F32, x),
    "'builtins.print'": lambda x: callout.tap(print, x),
    "'watch'": lambda x: callout.watch(x, "a;b"),
    "'check'": lambda x: callout.error_if(x, x > 0, "a;b"),
    "'id_print'": lambda x: hcb.id_print(x, what="a;b"),
    "print'": callout.threaded(lambda x: callout.tap(print, x, ordered=True)),
}


@pytest.mark.native_only("it has no native path on a CPU")
@pytest.mark.parametrize("platforms", [("tpu",), ("cpu", "rocm"), ("cpu", "tpu")])
@pytest.mark.parametrize("name", NAMED)
def test_unsupported_entry_points_are_rejected_with_the_remedy(auto, cache, name, platforms):
    with pytest.raises(NotImplementedError) as info:
        lowered(NAMED[name], 1.0, platforms=platforms)
    text = str(info.value)
    assert f"{name}: callbacks are not supported on platform {platforms[-1]}; supported: cpu" in text
    assert "callout.pure_callback with a Python function, and taps, go by JAX's own callbacks there" in text


@pytest.mark.native_only("it has no native path on a CPU")
@pytest.mark.parametrize("name", [*NAMED, *CARRIED])
def test_a_platform_without_callbacks_rejects_every_entry_point_by_name(auto, cache, name):
    with pytest.raises(NotImplementedError, match=f"{name}: callbacks are not supported on platform METAL") as info:
        lowered({**NAMED, **CARRIED}[name], 1.0, platforms=("METAL",))
    assert "a;b" not in str(info.value)  # the error has its name, without its options
    assert "JAX's own callbacks" not in str(info.value)


def test_one_warning_names_the_slower_path(auto, monkeypatch, caplog):
    monkeypatch.setattr(policy, "_warned", {})
    for _ in range(2):
        lowered(lambda x: callout.tap(print, x), 1.0)
    (record,) = caplog.records
    assert re.search(r"programs for tpu .*no native path there.* docs/fallback\.md", record.getMessage())
