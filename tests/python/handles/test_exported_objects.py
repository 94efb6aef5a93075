# SPDX-License-Identifier: Apache-2.0
"""Tests exported programs whose arguments are objects of the host: the exported program takes their handles."""

import json
from pathlib import Path

import callout
import failing
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout import sinks

pytestmark = [
    pytest.mark.native_only("programs read objects by a handler of XLA FFI"),
]


@jax.jit
def train(stop, rate, log, w):
    def step(w, x):
        w = w - rate.get() * (w - x)
        return callout.tap(log, w), None

    w, _, steps = callout.scan(step, w, jnp.ones(5), stop=stop)
    return w, steps


def loaded(export):
    return jax.export.deserialize(export.serialize())


def test_a_loaded_program_takes_handles(tmp_path):
    stop, rate = callout.StopFlag(), callout.HostValue(0.5)
    program = loaded(callout.export(train)(stop, rate, sinks.JsonLines(tmp_path / "exported"), 0.0))
    assert [aval.str_short() for aval in program.in_avals[:3]] == ["uint32[4]"] * 3
    assert callout.exported_names(program) == ()
    for run in range(2):
        log = sinks.JsonLines(tmp_path / str(run))
        w, steps = program.call(stop.handle, rate.handle, log.handle, 0.0)
        assert (float(w), int(steps)) == (0.96875, 5)
        callout.barrier_wait()
        assert [json.loads(line)["value"] for line in log_lines(log)] == [0.5, 0.75, 0.875, 0.9375, 0.96875]
    rate.set(1.0)
    assert float(program.call(stop.handle, rate.handle, log.handle, 0.0)[0]) == 1
    stop.set()
    assert int(program.call(stop.handle, rate.handle, log.handle, 0.0)[1]) == 0
    callout.barrier_wait()


def log_lines(sink):
    return Path(sink.path).read_text().splitlines()


def test_inputs_have_the_names_of_the_arguments():
    text = callout.export(train)(callout.StopFlag(), callout.HostValue(0.5), sinks.Null(), 0.0).mlir_module()
    assert all(f'loc("{name}")' in text for name in ("stop", "rate", "log", "w"))


def test_arguments_by_keyword_and_in_pytrees():
    program = jax.jit(lambda w, *, objects: w * objects["rate"].get())
    rate = callout.HostValue(2.0)
    exported = loaded(callout.export(program)(3.0, objects={"rate": rate}))
    assert float(exported.call(3.0, objects={"rate": rate.handle})) == 6


def test_arguments_may_be_none():
    program = jax.jit(lambda nothing, rate, w: w * rate.get() if nothing is None else w)
    exported = loaded(callout.export(program)(None, callout.HostValue(2.0), 3.0))
    assert float(exported.call(None, callout.HostValue(2.0).handle, 3.0)) == 6


def test_functions():
    seen = []
    program = loaded(callout.export(jax.jit(lambda log, x: callout.tap(log, x)))(sinks.Null(), 1.0))
    program.call(sinks.Null().handle, 1.0)
    with pytest.raises(ValueError, match="was not passed as one"):
        callout.export(jax.jit(lambda log, x: callout.tap(log, x)))(sinks.Function(seen.append), 1.0)


def test_a_handle_that_is_none_is_refused():
    program = loaded(callout.export(jax.jit(lambda rate: rate.get()))(callout.HostValue(1.0)))
    with failing.fails("HostValue: its leaf is no handle of this process"):
        program.call(np.zeros(4, np.uint32))


def test_handles_are_for_the_host():
    with pytest.raises(TypeError, match=r"callout\.StopFlag\.handle inside a function that JAX traces"):
        jax.jit(lambda stop: stop.handle)(callout.StopFlag())
    with pytest.raises(TypeError, match=r"callout\.sinks\.Null\.handle inside a function that JAX traces"):
        jax.jit(lambda sink: sink.handle)(sinks.Null())
