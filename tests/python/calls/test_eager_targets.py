# SPDX-License-Identifier: Apache-2.0
"""Tests that eager calls and taps have the targets and primitives of those in programs, and leave no target behind."""

import callout
import jax
import jax.numpy as jnp
import pytest
from callout import host_callback
from callout._primitives import eager
from callout._primitives.call import call_p, io_p
from callout._primitives.debug import debug_p
from callout._primitives.tap import tap_p
from callout._targets import target
from callout.host_callback._host_call import host_call_p

F32 = jax.ShapeDtypeStruct((), jnp.float32)


def same(value):
    return value


OPERATIONS = {
    "pure_callback": (call_p, lambda x: callout.pure_callback(same, F32, x)),
    "io_callback": (io_p, lambda x: callout.io_callback(same, F32, x)),
    "debug_callback": (debug_p, lambda x: callout.debug_callback(same, x)),
    "tap": (tap_p, lambda x: callout.tap(same, x)),
    "tap to a sink": (tap_p, lambda x: callout.tap(callout.sinks.Null(), x)),
    "tap with a step": (tap_p, lambda x: callout.tap(same, x, step=1)),
    "id_tap": (tap_p, lambda x: host_callback.id_tap(lambda value, _: None, x)),
    "call": (host_call_p, lambda x: host_callback.call(same, x, result_shape=F32)),
}


@pytest.fixture(params=OPERATIONS)
def operation(request):
    return OPERATIONS[request.param]


def test_eager_operations_bind_the_parameters_of_traced_ones(operation, monkeypatch):
    primitive, operate = operation
    traced = jax.make_jaxpr(operate)(jnp.float32(1)).eqns[0]
    assert traced.primitive is primitive
    evaluate, seen = eager._evaluations[primitive], []

    def note(args, params):
        seen.append(params)
        return evaluate(args, params)

    monkeypatch.setitem(eager._evaluations, primitive, note)
    operate(jnp.float32(1))
    callout.barrier_wait()
    (params,) = seen
    assert params.keys() == traced.params.keys()
    for name in ("kind", "label", "signature"):
        assert getattr(params["target"], name) == getattr(traced.params["target"], name)
    for name in params.keys() - {"target"}:
        assert params[name] == traced.params[name]


@pytest.mark.parametrize("name", ["pure_callback", "io_callback", "debug_callback", "tap", "tap to a sink"])
def test_an_eager_operation_makes_no_target_that_programs_find(name, monkeypatch):
    def refuse(*_):
        raise AssertionError("an eager operation looked for a target of programs")

    monkeypatch.setattr(target, "interned", refuse)
    _, operate = OPERATIONS[name]
    operate(jnp.float32(1))
    callout.barrier_wait()


def test_programs_share_the_target_of_a_function():
    def trace():
        return jax.make_jaxpr(lambda x: callout.pure_callback(same, F32, x))(jnp.float32(1)).eqns[0].params["target"]

    assert trace() is trace()
