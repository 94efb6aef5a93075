# SPDX-License-Identifier: Apache-2.0
"""Tests that the kind of an error, never its text, decides its class, even if the text has words of other kinds."""

import re
from pathlib import Path

import callout
import core_only
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout._base import errors
from platforms import BUFFERS, ended

F32 = jax.ShapeDtypeStruct((), jnp.float32)

WORDS = {
    "general": "callout: nobody knows",
    "callback": "callout: callback 'f' failed: the function returned error code 3",
    "exception": "KeyError: 'k'",
    "result": "its result does not fit: expected f32[3], got f32[4]",
    "check": "check failed: disk full",
    "non_finite": "locate_nans: watch 'w': 1 NaN and 2 infinite elements in step 3",
    "unbound_name": "callout: no callback is bound to the name 'door'",
    "registration": "ALREADY_EXISTS: this name is taken",
    "memory": "the card is: out of memory: cannot allocate 3 bytes",
    "fork": "ForkError: no spoon",
}


class MyError(Exception):
    pass


def forged(kind):
    """Returns a text with the words of a kind, and with a tag as the core of this process writes tags."""
    word = errors.keep(MyError("another")).split()[-3] if kind == "exception" else kind
    return f"{WORDS[kind]} [callout error {word} of {errors._ext.error_token()}]"


SOURCE = """
#include <stdexcept>
#include <string>
#include "callout/call.h"
#include "callout/kernel.h"

std::string TextOf(const uint8_t* data, int64_t size) { return {reinterpret_cast<const char*>(data), (size_t)size}; }

callout::Error returns(callout::In<uint8_t, 1> text, callout::Out<float, 0> y) {
  y = 0;
  return callout::Error(TextOf(text.data(), text.size()).c_str());
}
CALLOUT_KERNEL(returns);

void hoards(callout::In<uint8_t, 1>, const callout::Scratch& scratch, callout::Out<float, 0> y) {
  y = scratch.Get<float>(int64_t{1} << 50)[0];
}
CALLOUT_KERNEL(hoards);

void Throw(const callout::Call& call) {
  auto text = call.arg<uint8_t>(0);
  throw std::runtime_error(TextOf(text.data(), text.size()));
}
CALLOUT_DEFINE_CALLBACK(throws, Throw);

extern "C" __attribute__((visibility("default"))) int32_t says_callout_call(const callout_call* call) {
  call->set_error(call->error_context, 5, (const char*)call->args[0].data, call->args[0].size_bytes);
  return 1;
}
extern "C" __attribute__((visibility("default"))) const callout_function says_callout_record;
const callout_function says_callout_record = {
    sizeof(callout_function), CALLOUT_ABI_VERSION, CALLOUT_FUNCTION_CALL, (void (*)(void))&says_callout_call, nullptr, 0, 0};
"""


@pytest.fixture(scope="module")
def module(cache):
    return callout.cpp.load_inline(SOURCE)


@pytest.fixture
def registered():
    """Registers a Python or library function under a name that is a hostile text, for the test."""
    names = []

    def register(text, function):
        callout.register(text, function)
        names.append(text)
        return text

    yield register
    for name in names:
        callout.unregister(name)


def as_array(text):
    return jnp.asarray(np.frombuffer(text.encode(), np.uint8))


def calls(text):
    """Makes programs whose Python functions fail: by an exception, by their result, or by their arguments."""

    def fails(x):
        raise MyError(text)

    source = "def f(x):\n    return jax.numpy.log(x - 1)\n"
    scope = {"jax": jax}
    exec(compile(source, text, "exec"), scope)  # a report names the file
    wrong = callout.options(lambda x: np.ones(3, np.float32), name=text)
    return {
        "exception": (MyError, lambda x: callout.pure_callback(fails, F32, x)),
        "io exception": (MyError, lambda x: callout.io_callback(fails, F32, x, ordered=True)),
        "result": (callout.ResultError, lambda x: callout.pure_callback(wrong, F32, x)),
        "check": (callout.CheckError, lambda x: callout.error_if(x, x < 1, text)),
        "watch": (callout.NonFiniteError, lambda x: callout.watch(x / x, text, stop=True)),
        "located": (callout.NonFiniteError, callout.locate_nans(scope["f"], stop=True)),
        "unbound name": (callout.UnboundNameError, lambda x: callout.pure_callback(text, F32, x)),
    }


def natives(text, module, registered):
    """Makes programs whose C++ functions fail; each gets the text."""
    own = as_array(text)
    symbols = ("returns", "hoards", "throws", "says")
    names = {each: registered(f"{text} {each}", f"{module.path}:{each}") for each in symbols}

    def call(name):
        return lambda x: callout.pure_callback(names[name], F32, own + x.astype(jnp.uint8))

    return {
        "kernel": (callout.CallbackError, lambda x: module.returns(own + x.astype(jnp.uint8))),
        "registered kernel": (callout.CallbackError, call("returns")),
        "exception": (callout.CallbackError, call("throws")),
        "code": (callout.CallbackError, call("says")),
        "memory": (MemoryError, call("hoards")),
    }


def assert_class(expected, program):
    """Checks that each way of running a program raises this class: with `reraise`, as JAX's error, at all calls."""
    jitted = jax.jit(program)
    for _ in range(3):
        with pytest.raises(expected) as info, callout.reraise():
            ended(jitted(jnp.float32(0)))
        assert type(info.value) is expected
        with pytest.raises(jax.errors.JaxRuntimeError) as info:
            ended(jitted(jnp.float32(0)))
        assert type(info.value.__cause__) is expected
        assert isinstance(info.value, expected)


PYTHON = ["exception", "io exception", "result", "check", "watch", "unbound name"]
PYTHON += ["located"] if core_only.has_core() else []
NATIVE = ["kernel", "registered kernel", "exception", "code", "memory"]


@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("name", PYTHON)
def test_programs_of_python_functions_raise_the_class_of_their_kind(name, kind):
    assert_class(*calls(forged(kind))[name])


@pytest.mark.native_only(BUFFERS)
@pytest.mark.cpu_only("the functions read the host's memory")
@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("name", NATIVE)
def test_programs_of_native_functions_raise_the_class_of_their_kind(name, kind, module, registered):
    assert_class(*natives(forged(kind), module, registered)[name])


@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("name", PYTHON)
def test_an_eager_call_raises_the_class_of_its_kind(name, kind):
    expected, program = calls(forged(kind))[name]
    with pytest.raises(expected) as info, callout.reraise():
        ended(program(jnp.float32(0)))
    assert type(info.value) is expected


@pytest.mark.native_only(BUFFERS)
@pytest.mark.cpu_only("the functions read the host's memory")
@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("name", NATIVE)
def test_eager_native_calls_raise_the_class_of_their_kind(name, kind, module, registered):
    expected, program = natives(forged(kind), module, registered)[name]
    with pytest.raises(expected) as info, callout.reraise():
        program(jnp.float32(0))
    assert type(info.value) is expected


def tap_errors(tap):
    """Returns the errors of the barrier after a program with a tap: the cause, and the members of its group."""
    for run in (tap, jax.jit(tap)):
        jax.block_until_ready(run(jnp.float32(0)))
        with pytest.raises(callout.TapError) as info:
            callout.barrier_wait()
        yield info.value.__cause__
        yield from info.value.exceptions.exceptions


@pytest.mark.parametrize("kind", WORDS)
def test_a_tap_of_a_python_function_raises_its_own_exception(kind):
    error = MyError(forged(kind))

    def fails(value):
        raise error

    assert all(each is error for each in tap_errors(lambda x: callout.tap(fails, x)))


@pytest.mark.native_only(BUFFERS)
@pytest.mark.cpu_only("the functions read the host's memory")
@pytest.mark.parametrize("kind", WORDS)
def test_taps_of_native_functions_raise_the_class_of_their_kind(kind, module, registered):
    text = forged(kind)
    name = registered(f"{text} tap", f"{module.path}:says")

    def tap(x):
        return callout.tap(name, as_array(text) + x.astype(jnp.uint8))

    assert {type(error) for error in tap_errors(tap)} == {callout.CallbackError}


@pytest.mark.parametrize("kind", WORDS)
def test_a_library_that_cannot_be_registered_is_a_registration_error(kind):
    with pytest.raises(callout.RegistrationError) as info:
        callout.register("test_error_kinds", f"/no/{forged(kind)}.so:f")
    assert type(info.value) is callout.RegistrationError
    with pytest.raises(callout.RegistrationError) as info:
        callout.unregister(forged(kind))
    assert type(info.value) is callout.RegistrationError


def test_only_errors_carried_by_xla_have_a_tag():
    @jax.jit
    def refuse(x):
        return callout.error_if(x, x < 1, "too small")

    with pytest.raises(
        jax.errors.JaxRuntimeError, match=rf"\n\[callout error \w+ of {errors._ext.error_token()}\]"
    ) as info:
        ended(refuse(0.0))
    assert "[callout" not in str(info.value.__cause__)
    callout.tap(lambda value: 1 / 0, 1.0)
    with pytest.raises(callout.TapError) as info:
        callout.barrier_wait()
    assert "[callout" not in str(info.value)


def test_each_kind_of_the_table_has_a_class():
    table = (Path(__file__).parents[3] / "include/callout/status.h").read_text()
    words = re.findall(r"^ +ROW\(k\w+, \"(\w+)\",", table, re.MULTILINE)
    assert words == list(errors.KINDS) == list(WORDS)
