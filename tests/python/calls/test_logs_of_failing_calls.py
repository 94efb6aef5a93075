# SPDX-License-Identifier: Apache-2.0
"""Tests that each failing call logs one DEBUG record on the logger `callout`, with its name and exception."""

import contextlib
import dataclasses
import functools
import logging

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout.buffer_callback import buffer_callback

F32 = jax.ShapeDtypeStruct((), jnp.float32)


class NoSuchNumberError(Exception):
    pass


def refusal():
    """Makes a function for one test, so that objects that depend on it end with the test."""

    def refuse(*args):
        raise NoSuchNumberError("seven")

    return refuse


CALLS = {
    "pure": lambda refuse, x: callout.pure_callback(refuse, F32, x),
    "pure, zero copy": lambda refuse, x: callout.pure_callback(callout.options(refuse, zero_copy=True), F32, x),
    "io": lambda refuse, x: callout.io_callback(refuse, F32, x),
    "ordered io": lambda refuse, x: callout.io_callback(refuse, F32, x, ordered=True),
    "debug": lambda refuse, x: callout.debug_callback(refuse, x),
    "buffer": lambda refuse, x: buffer_callback(refuse, F32)(x),
    "host_callback": lambda refuse, x: hcb.call(refuse, x, result_shape=F32),
}


NATIVE = pytest.mark.native_only("JAX has no callback like it")
KINDS = [pytest.param(kind, marks=NATIVE if kind == "buffer" else ()) for kind in CALLS]


@dataclasses.dataclass
class Noted:
    """A copy of a log record without its exception, whose frames would keep the callback alive."""

    level: int
    message: str
    kind: type | None
    formatted: str

    @classmethod
    def of(cls, record):
        exception = record.exc_info and record.exc_info[0]
        return cls(record.levelno, record.getMessage(), exception, logging.Formatter().format(record))


@pytest.fixture
def failures():
    """Collects the logger's records about failures, and keeps them from handlers."""
    logger, noted = logging.getLogger("callout"), []

    def note(record):
        if "failed" in record.getMessage():
            noted.append(Noted.of(record))
        return False

    before = logger.level
    logger.addFilter(note)
    logger.setLevel(logging.DEBUG)
    yield noted
    logger.removeFilter(note)
    logger.setLevel(before)


def fail(call):
    def run():
        jax.block_until_ready(call(jnp.float32(1)))
        jax.effects_barrier()

    with pytest.raises(Exception, match="seven"), callout.reraise():
        run()
    with contextlib.suppress(Exception):  # if the wait for a result has raised, JAX raises the error once more
        jax.effects_barrier()


def forget_failures(kind):
    if kind == "host_callback":  # host_callback's barrier raises the errors, too
        with pytest.raises(hcb.CallbackException):
            hcb.barrier_wait()


@pytest.mark.parametrize("form", [jax.jit, lambda f: f], ids=["jit", "eager"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_failing_call_logs_one_record_with_name_and_exception(failures, kind, form):
    f = form(functools.partial(CALLS[kind], refusal()))
    for times in (1, 2, 3):  # the third call takes JAX's fast path
        fail(f)
        assert len(failures) == times
        assert failures[-1].level == logging.DEBUG
        assert failures[-1].message.startswith("callback '")
        assert failures[-1].message.endswith("refuse' failed on device 0: NoSuchNumberError: seven")
        assert failures[-1].kind is NoSuchNumberError
        assert failures[-1].formatted.count("in refuse") == 1  # the traceback occurs once
    forget_failures(kind)


def test_a_result_of_another_shape_is_logged_without_an_exception(failures):
    with pytest.raises(callout.ResultError), callout.reraise():
        jax.jit(lambda: callout.pure_callback(lambda: np.zeros(3, np.float32), F32))().block_until_ready()
    (record,) = failures
    assert "its result does not fit: " in record.message
    assert record.kind is None


def test_each_lane_of_a_loop_sends_until_one_fails(failures):
    calls = []

    def second_fails(x):
        calls.append(x.item())
        if len(calls) == 2:
            raise NoSuchNumberError
        return x

    f = jax.jit(jax.vmap(lambda x: callout.pure_callback(second_fails, F32, x, vmap_method="sequential")))
    with pytest.raises(NoSuchNumberError), callout.reraise():
        f(jnp.arange(4.0)).block_until_ready()
    assert len(failures) == 1


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING])
def test_nothing_is_logged_or_looked_up_below_the_level(failures, monkeypatch, level):
    logging.getLogger("callout").setLevel(level)
    monkeypatch.setattr(callout._base.errors, "log_failed_call", None)
    fail(jax.jit(functools.partial(CALLS["pure"], refusal())))
    assert failures == []


def test_a_filter_that_raises_hides_no_error(failures):
    def refuse_record(record):
        raise ValueError("no room in the log")

    logging.getLogger("callout").addFilter(refuse_record)
    try:
        fail(jax.jit(functools.partial(CALLS["pure"], refusal())))
    finally:
        logging.getLogger("callout").removeFilter(refuse_record)
