# SPDX-License-Identifier: Apache-2.0
"""Tests that zero_copy=True functions leave no references to memory that XLA uses again."""

import gc
import sys
import traceback

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest

F4 = jax.ShapeDtypeStruct((4,), jnp.float32)


def program(callback, jitted=True, spec=F4):
    callback = callout.options(callback, zero_copy=True, name="zero")

    def f(x):
        return callout.pure_callback(callback, spec, x)

    return jax.jit(f) if jitted else f


def run(callback, jitted=True, spec=F4):
    """Returns the exception that ends the program; its links lead to the exceptions before it."""
    with pytest.raises(BaseException) as info, callout.reraise():  # noqa: PT011 - looked at by the tests
        jax.block_until_ready(program(callback, jitted, spec)(jnp.arange(4.0)))
    return info.value


def links_of(error):
    seen, links = {}, [error]
    while links:
        link = links.pop()
        if link is None or id(link) in seen:
            continue
        seen[id(link)] = link
        links += [link.__cause__, link.__context__, *getattr(link, "exceptions", ())]
    return list(seen.values())


def kept_arrays(error, file=__file__):
    """Returns arrays among the variables of finished frames of this file, in the tracebacks of the error and its links."""
    frames = [frame for link in links_of(error) for frame, _ in traceback.walk_tb(link.__traceback__)]
    return [
        (frame.f_code.co_name, name)
        for frame in frames
        if frame.f_code.co_filename == file and frame.f_code.co_name not in ("run", "f")
        for name, value in frame.f_locals.items()
        if isinstance(value, np.ndarray)
    ]


def reported_variables(error):
    """Returns the callback's variables in reports: those of a logger, or of pytest --showlocals."""
    reports = [traceback.TracebackException.from_exception(link, capture_locals=True) for link in links_of(error)]
    assert all("".join(report.format()) for report in reports)
    return [
        text
        for report in reports
        for frame in report.stack
        if frame.filename == __file__ and frame.name not in ("run", "f")
        for text in (frame.locals or {}).values()
    ]


def plainly(x):
    view = x[1:]
    raise ValueError(f"sum {view.sum()}")


def with_a_cause(x):
    def inner(x):
        view = x[1:]
        raise KeyError(float(view[0]))

    try:
        inner(x)
    except KeyError as error:
        raise ValueError("outer") from error


def with_a_context(x):
    def inner(x):
        view = x[1:]
        raise KeyError(float(view[0]))

    try:
        inner(x)
    except KeyError:
        raise ValueError("outer")  # noqa: B904 - the context is what is tested


def in_a_group(x):
    def inner(x):
        view = x[1:]
        raise KeyError(float(view[0]))

    errors = []
    for _ in range(2):
        try:
            inner(x)
        except KeyError as error:
            errors.append(error)
    raise ExceptionGroup("several", errors)


def in_a_generator(x):
    def generate(x):
        view = x[1:]
        yield view
        raise ValueError("late")

    return np.asarray(list(generate(x)))


def by_an_attribute(x):
    return x[1:].missing


def in_a_cycle(x):
    try:
        view = x[1:]
        raise ValueError(float(view[0]))
    except ValueError as error:
        cycle = [error]
        cycle.append(cycle)
        raise


FAILING = [plainly, with_a_cause, with_a_context, in_a_group, in_a_generator, by_an_attribute, in_a_cycle]


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("callback", FAILING, ids=lambda callback: callback.__name__)
def test_an_exception_keeps_no_array_and_arrives_as_itself(callback, jitted):
    error = run(callback, jitted)
    assert type(error) in (ValueError, ExceptionGroup, AttributeError)
    assert error is callout.last_error()
    assert "zero_copy" not in str(error)
    for link in links_of(error):
        assert not isinstance(getattr(link, "obj", None), np.ndarray)
    assert kept_arrays(error) == []
    assert [text for text in reported_variables(error) if "array(" in text] == []
    assert "plainly" in "".join(traceback.format_exception(run(plainly, jitted)))


def test_reports_show_the_arrays_of_other_errors():
    with pytest.raises(ValueError, match="sum") as info:
        plainly(np.arange(4.0))
    assert [text for text in reported_variables(info.value) if "array(" in text]


def test_handled_exceptions_keep_their_variables():
    def fails():
        mine = np.arange(3)
        raise KeyError(mine.size)

    try:
        fails()
    except KeyError as handled:
        run(plainly, jitted=False)
        (frame,) = [f for f, _ in traceback.walk_tb(handled.__traceback__) if f.f_code.co_name == "fails"]
        assert frame.f_locals["mine"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize(
    ("result", "spec", "message"),
    [
        (lambda x: x[1:], F4, r"expected f32\[4\], got f32\[3\]"),
        (lambda x: {"b": x[1:], "c": x}, {"a": F4}, "structure"),
        (lambda x: (x, x[1:]), (F4, F4), r"result 1 does not fit"),
        (lambda x: (v for v in [x]), F4, "does not fit"),
        (lambda x: None, {"a": F4}, "structure"),
    ],
)
def test_a_result_that_does_not_fit_is_not_kept(result, spec, message, jitted):
    package = callout.__path__[0]
    error = run(result, jitted, spec)
    assert isinstance(error, callout.ResultError)
    with pytest.raises(callout.ResultError, match=message):
        raise error
    for link in links_of(error):
        for frame, _ in traceback.walk_tb(link.__traceback__):
            if frame.f_code.co_filename.startswith(package) and frame.f_code.co_name in ("flatten", "explain"):
                assert not frame.f_locals


class CarrierError(Exception):
    pass


@pytest.mark.parametrize("jitted", [False, True])
def test_exceptions_with_an_argument_are_dropped_except_their_text(jitted):
    def carrying(x):
        raise CarrierError("carried", x[1:])

    error = run(carrying, jitted)
    assert type(error) is callout.CallbackError
    assert "CarrierError: ('carried'" in str(error)
    assert "Besides, it kept argument 0 (or a view of it) beyond its call, which zero_copy=True forbids" in str(error)
    last = callout.last_error()
    assert type(last) is callout.CallbackError
    assert not [e for e in gc.get_objects() if type(e) is CarrierError]


def test_arguments_in_a_cycle_are_collected_and_no_error():
    def callback(x):
        cycle = [x[1:]]
        cycle.append(cycle)
        return x

    np.testing.assert_array_equal(program(callback)(jnp.arange(4.0)), np.arange(4.0))


@pytest.mark.parametrize("keep", ["generator", "closure", "thread", "memoryview"])
def test_arrays_that_outlive_the_call_are_errors(keep):
    kept = []

    def callback(x):
        def generate():
            yield x

        kept.append({"generator": generate(), "closure": lambda: x, "thread": [x], "memoryview": memoryview(x)}[keep])
        return np.zeros(4, np.float32)

    error = run(callback)
    assert isinstance(error, callout.CallbackError)
    assert "kept argument 0" in str(error)
    kept.clear()


@pytest.mark.cpu_only("a Buffer on CUDA is no array of NumPy's")
def test_buffer_callbacks_drop_exceptions_that_carry_arrays():
    def callback(ctx, out, buffer):
        raise CarrierError("carried", np.asarray(buffer))

    f = jax.jit(callout.buffer_callback.buffer_callback(callback, F4))
    with pytest.raises(callout.CallbackError, match="Besides, it kept an array") as info, callout.reraise():
        f(jnp.arange(4.0)).block_until_ready()
    assert type(info.value) is callout.CallbackError
    assert type(callout.last_error()) is callout.CallbackError
    assert not [e for e in gc.get_objects() if type(e) is CarrierError]


def test_sys_knows_nothing_of_it():
    assert sys.exception() is None
