# SPDX-License-Identifier: Apache-2.0
"""Tests the flags of `callout.host_callback`, its callback flavors, and `install`."""

import importlib
import logging
import sys
import threading
import traceback

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import pytest


def failing(value, transforms):
    raise KeyError(f"bad {value}")


def test_inline_taps_run_in_the_callers_stack(seen, settings, capsys):
    settings("jax_host_callback_inline", True)
    stacks = []

    def tap(value, transforms, **kwargs):
        names = [frame.name for frame in traceback.extract_stack()]
        stacks.append((threading.get_ident(), names, transforms, kwargs))
        seen.append(value.tolist())

    here = threading.get_ident()
    assert hcb.id_tap(tap, 1.0, tap_with_device=True) == 1
    ((thread, names, transforms, kwargs),) = stacks
    assert thread == here
    assert "test_inline_taps_run_in_the_callers_stack" in names
    assert (transforms, kwargs) == ((), {"device": jax.devices()[0]})
    jax.vmap(lambda x: hcb.id_tap(tap, x))(jnp.arange(2))
    assert stacks[1][2] == (("batch", {"batch_dims": (0,)}),)
    hcb.id_print(7)
    assert capsys.readouterr().out == "7\n"
    jax.jit(lambda x: hcb.id_tap(tap, x))(3.0)
    hcb.barrier_wait()
    assert stacks[2][0] != here
    assert seen == [1.0, [0, 1], 3.0]


def test_an_inline_tap_runs_after_queued_ones(seen, settings):
    f = jax.jit(lambda x: jax.lax.fori_loop(0, 200, lambda i, v: hcb.id_tap(seen.tap, v + 1), x))
    settings("host_callback_inline", True)
    f(0)
    hcb.id_tap(seen.tap, -1)
    assert seen == [*range(1, 201), -1]


def test_inline_taps_raise_in_the_caller(settings):
    settings("host_callback_inline", True)
    with pytest.raises(KeyError, match="bad 1"):
        hcb.id_tap(failing, 1)
    hcb.barrier_wait()


@pytest.mark.parametrize("name", ["queue_bytes", "jax_host_callback_max_queue_byte_size"])
def test_queues_below_16_mb_are_refused(name):
    with pytest.raises(ValueError, match=r"expected at least 16000000 \(16 MB\), got 15999999"):
        callout.config.update(name, 15_999_999)


@pytest.mark.parametrize("value", [True, False])
def test_the_outfeed_flag_is_accepted(value):
    callout.config.update("jax_host_callback_outfeed", value)
    assert callout.config.host_callback_outfeed is value
    callout.config.update("jax_host_callback_outfeed", False)


def test_messages_of_the_module(caplog):
    def failing_here(value, transforms):
        raise KeyError(f"bad {value}")

    with caplog.at_level(logging.DEBUG, "callout.host_callback"):
        jax.jit(lambda x: hcb.id_tap(failing_here, x))(jnp.arange(3))
        with pytest.raises(hcb.CallbackException):
            hcb.barrier_wait("mine")
    texts = [(r.name, r.levelname, r.getMessage()) for r in caplog.records]
    assert ("callout.host_callback", "DEBUG", "barrier_wait[mine]: start") in texts
    assert any(t[1] == "DEBUG" and t[2].startswith("barrier_wait[mine]: done") for t in texts)
    assert any(t[1] == "DEBUG" and t[2].endswith("received from device 0: s32[3]") for t in texts)
    (error,) = [t for t in texts if t[1] == "ERROR"]
    assert error[0] == "callout.host_callback"
    assert "KeyError: 'bad [0 1 2]'" in error[2]
    assert "in failing_here\n" in error[2]


def test_without_debug_nothing_is_reported(caplog):
    hcb.id_tap(lambda value, transforms: None, 1.0)
    hcb.barrier_wait()
    assert caplog.records == []


@pytest.mark.parametrize("flavor", list(hcb.CallbackFlavor))
@pytest.mark.parametrize("run", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_flavors_of_taps(seen, settings, flavor, run):
    settings("jax_host_callback_legacy", False)
    got = []

    def tap(value, transforms):
        got.append((value.tolist(), transforms))
        return "ignored"

    assert run(lambda x: hcb.id_tap(tap, x, callback_flavor=flavor))(2.0) == 2
    assert run(lambda x: hcb.id_tap(tap, x, result=x + 1, callback_flavor=flavor))(3.0) == 4
    hcb.barrier_wait()
    # XLA may drop a pure callback without results.
    expected = [] if flavor is hcb.CallbackFlavor.PURE and run is jax.jit else [(2.0, ()), (3.0, ())]
    assert got == expected


@pytest.mark.parametrize("flavor", list(hcb.CallbackFlavor))
def test_flavors_of_taps_have_the_options_of_their_function(settings, flavor):
    settings("host_callback_legacy", False)
    kinds = []
    hcb.id_tap(callout.options(lambda v, _: kinds.append(type(v)), args="jax"), jnp.ones(3), callback_flavor=flavor)
    hcb.barrier_wait()
    assert [issubclass(kind, jax.Array) for kind in kinds] == [True]


@pytest.mark.parametrize("flavor", [hcb.CallbackFlavor.IO_CALLBACK, hcb.CallbackFlavor.PURE])
def test_flavors_of_calls(settings, flavor):
    settings("host_callback_legacy", False)
    f = jax.jit(lambda x: hcb.call(lambda v: v * 2, x, result_shape=x, callback_flavor=flavor))
    assert f(2.0) == 4
    hcb.barrier_wait()


def test_flavors_print(settings, capsys):
    settings("host_callback_legacy", False)
    jax.jit(lambda x: hcb.id_print((x, [x]), what="w"))(1.0)
    hcb.barrier_wait()
    assert capsys.readouterr().out == "what: w\n( 1. [ 1. ] )\n"


def test_unsupported_arguments_of_flavors_are_rejected(settings):
    settings("host_callback_legacy", False)
    with pytest.raises(NotImplementedError, match="`tap_with_device` and `call_with_device`"):
        hcb.id_tap(print, 1.0, tap_with_device=True)
    with pytest.raises(NotImplementedError, match="`tap_with_device` and `call_with_device`"):
        hcb.call(print, 1.0, call_with_device=True)
    with pytest.raises(NotImplementedError, match="`DEBUG` flavor of callback only when the `result_shape` is None"):
        hcb.call(print, 1.0, result_shape=1.0, callback_flavor=hcb.CallbackFlavor.DEBUG)
    seen = []
    assert hcb.call(lambda v: seen.append(v), 1.0, callback_flavor=hcb.CallbackFlavor.DEBUG) is None
    assert len(seen) == 1


def test_flavors_are_ignored_with_the_originals_behaviour(seen):
    jax.jit(lambda x: hcb.id_tap(seen.tap, x, callback_flavor=hcb.CallbackFlavor.PURE))(1.0)
    hcb.barrier_wait()
    assert seen == [1.0]


def test_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "jax.experimental.host_callback", raising=False)
    monkeypatch.setattr(jax.experimental, "host_callback", None, raising=False)
    hcb.install()
    hcb.install()
    from jax.experimental import host_callback

    assert host_callback is hcb
    assert importlib.import_module("jax.experimental.host_callback") is hcb
