# SPDX-License-Identifier: Apache-2.0
"""Tests Print with format strings, against Python's own format(), and on a terminal."""

import fcntl
import os
import pty
import re
import select
import struct
import sys
import tempfile
import termios
import time
from concurrent.futures import ThreadPoolExecutor

import callout
import jax
import jax.numpy as jnp
import limited
import ml_dtypes
import numpy as np
import pytest
from callout import sinks
from hypothesis import example, given, settings
from hypothesis import strategies as st


def printed(fmt, *values, name=None, **kwargs):
    """Returns the text that a Print writes for the values, tapped one after the other."""
    with tempfile.TemporaryFile() as file:
        sink = sinks.Print(fmt, fd=file.fileno(), **kwargs)
        for value in values:
            callout.tap(sink, value, name=name)
        callout.barrier_wait()
        file.seek(0)
        return file.read().decode()


def specs(types):
    """Generates format specifications, most of them valid."""
    fill = st.sampled_from(["", *[f + a for f in ("", "*", "0", "é", "=") for a in "<>=^"]])
    return st.tuples(
        fill,
        st.sampled_from(["", "", "+", "-", " "]),
        st.sampled_from(["", "", "z"]),
        st.sampled_from(["", "", "#"]),
        st.sampled_from(["", "", "0"]),
        st.sampled_from(["", "1", "7", "12", "30"]),
        st.sampled_from(["", "", ",", "_"]),
        st.sampled_from(["", "", ".0", ".1", ".3", ".12", ".20"]),
        st.sampled_from(types),
    ).map("".join)


def python_format(value, spec):
    """Returns format(value, spec), or None if that is an error."""
    try:
        return format(value, spec)
    except (ValueError, OverflowError):
        return None


def check(array, spec):
    if not spec:
        return  # NumPy's str, tested below
    expected = python_format(array.item(), spec)
    if expected is None:
        with pytest.raises(ValueError, match="cannot print with the format"):
            printed(f"{{:{spec}}}", array)
        return
    assert printed(f"[{{:{spec}}}]", array) == f"[{expected}]\n"


TYPES = ["", "", *"dboxXneEfFgG%", "s"]
doubles = st.floats() | st.sampled_from([0.0, -0.0, 1.0, 0.5, 1e16, 123456.789, 9.9999e-5, -0.0004, 1e22, 5e-324, 9.5])


@pytest.mark.slow
@settings(deadline=None, max_examples=600)
@given(doubles, specs(TYPES))
def test_floats_are_formatted_as_python_does(value, spec):
    with jax.enable_x64(True):
        check(np.float64(value), spec)


@settings(deadline=None, max_examples=300)
@given(
    st.integers(-(2**63), 2**63 - 1).map(np.int64) | st.integers(0, 2**64 - 1).map(np.uint64)
    | st.integers(-1000, 100_000).map(np.int32) | st.booleans().map(np.bool_),
    specs(TYPES),
)  # fmt: skip
def test_integers_are_formatted_as_python_does(value, spec):
    with jax.enable_x64(True):
        check(value, spec)


@settings(deadline=None, max_examples=100)
@given(st.integers(32, 126) | st.sampled_from([0xE9, 0x20AC, 0x1F600]), specs(["c"]))
def test_characters(value, spec):
    check(np.int32(value), spec)


@settings(deadline=None, max_examples=200)
@given(st.complex_numbers(allow_nan=False, allow_infinity=False) | st.sampled_from([0j, 2j, -0.0 + 1j]), specs(TYPES))
def test_complex_numbers_are_formatted_as_python_does(value, spec):
    with jax.enable_x64(True):
        check(np.complex128(value), spec)


@settings(deadline=None, max_examples=200)
@given(st.floats(width=32), specs(["", "f", "e", "g", "%"]))
def test_small_floats_are_formatted_as_python_does(value, spec):
    check(np.float32(value), spec)
    with np.errstate(over="ignore"):
        check(np.float32(value).astype(ml_dtypes.bfloat16), spec)
        check(np.float16(value), spec)


@settings(deadline=None, max_examples=200)
@given(st.floats() | doubles)
@example(1e-4)  # as a float32, a little less than 1e-4
def test_a_number_without_specification_is_numpys(value):
    with jax.enable_x64(True), np.errstate(over="ignore"):
        small = np.float32(value)
        got = printed("{}\n{}\n{}", (np.float64(value), small, np.complex128(complex(value, -1))))
    is_plain = not np.isfinite(small) or small == 0 or 1e-4 <= abs(float(small)) < 1e16  # the rule before NumPy 2.3
    shortest = np.format_float_positional if is_plain else np.format_float_scientific
    expected = shortest(small, trim="0" if is_plain else "-", **({} if is_plain else {"exp_digits": 2}))
    assert got.splitlines() == [str(np.float64(value)), expected, str(np.complex128(complex(value, -1)))]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(60, dtype=np.float32).reshape(3, 20) / 7, np.arange(12).reshape(2, 3, 2), np.zeros((0, 3)),
        np.asarray([True, False]), np.arange(2000.0, dtype=np.float32), np.arange(1, 41, dtype=np.complex64) * (1 - 0.5j),
        np.float32([1e-7, 1, np.nan]), np.int8([[-1], [100]]),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)  # fmt: skip
@pytest.mark.parametrize("spec", ["", ">9", ".2e", "+.3g"])
def test_arrays_are_laid_out_as_numpys(array, spec):
    array = np.asarray(jnp.asarray(array))
    if not spec and array.dtype.kind == "c":
        expected = "[" + " ".join(str(x).strip("()") for x in array.tolist()) + "]"  # NumPy aligns the two parts
    elif not spec:
        expected = str(array)
    else:
        expected = np.array2string(array, formatter={"all": lambda x: format(x.item(), spec)})
    assert printed(f"{{:{spec}}}" if spec else "{}", array) == expected + "\n"


def test_elements_of_less_than_a_byte():
    assert printed("{:+d}", np.asarray([-8, 7, 0], ml_dtypes.int4)) == "[-8 +7 +0]\n"
    assert printed("{:.2f}", np.asarray([0.5, -6], ml_dtypes.float4_e2m1fn)) == "[0.50 -6.00]\n"


def test_fields_are_leaves_by_name_and_by_place():
    value = {"a": {"b": 1, "list": (2, 3)}, "x": jnp.float32(0.5)}
    assert printed("{a.b} {a[b]} {a.list.1:03d} {a.list[0]} {x:%}", value) == "1 1 003 2 50.000000%\n"
    assert printed("{} {} {}|{{}}", (1, 2.5, True)) == "1 2.5 True|{}\n"
    assert printed("{2} {0}", (1, 2.5, True)) == "True 1\n"
    assert printed("{} {value:.1f}", 1.25) == "1.25 1.2\n"
    assert printed("{value} {value:>12}|", {"a": 1, "b": 2.5}) == "a=1 b=2.5    a=1 b=2.5|\n"
    assert printed("{x!s:>6}", {"x": True}) == "  True\n"
    assert printed("no field", 1) == "no field\n"


def test_fields_of_the_record():
    before = time.time()
    text = printed("{name:>6} {step} {device} {run} {time:.6f} {time:%Y-%m-%d} {time}", 1.0, 2.0, name="loss")
    first, second = text.splitlines()
    name, step, device, run, seconds, day, *moment = first.split()
    assert (name, step, device, run) == ("loss", "0", "0", "0")
    assert before - 1 < float(seconds) < time.time() + 1
    local = time.localtime(float(seconds))
    assert (day, moment) == (time.strftime("%Y-%m-%d", local), time.strftime("%Y-%m-%d %H:%M:%S", local).split())
    assert second.split()[1] == "1"
    # Leaves take precedence over placeholders.
    assert printed("{name} {step}", {"name": 3, "step": jnp.int32(7)}) == "3 7\n"
    assert printed("{step:>3}|{value}", {"step": jnp.int32(7), "x": 1}) == "  7|step=7 x=1\n"


@pytest.mark.parametrize(
    ("fmt", "place", "message"),
    [
        ("a } b", 2, "a single '}'"), ("a {", 2, "without its '}'"), ("é {x", 2, "without its '}'"),
        ("{x!r}", 2, "only the conversion '!s' is known"), ("{x!s.}", 4, "expected ':' or '}'"),
        ("{} {0}", 3, "do not go together"), ("{0} {}", 4, "do not go together"), ("{a[0}", 0, r"a '\[' without its"),
        ("{x:{w}}", 3, "fields inside of a specification are not known"), ("{a{b}}", 2, "inside of a field"),
        ("{x:.}", 3, "missing precision"), ("{x:qq}", 3, "Invalid format specifier"), ("{x:,x}", 3, "Cannot specify ','"),
        ("{x:,_}", 3, "Cannot specify both"), ("{x:99999}", 3, "Too many decimal digits"),
    ],
)  # fmt: skip
def test_a_malformed_format_is_refused_with_its_place(fmt, place, message):
    with pytest.raises(ValueError, match=f"at character {place}: .*{message}"):
        sinks.Print(fmt)


def test_unknown_fields_are_an_error_when_traced():
    sink = sinks.Print("loss {losss:.3f}")
    with pytest.raises(
        ValueError, match=r"at character 5: there is no 'losss'; the value's leaves are 'acc', 'loss', and"
    ):
        jax.jit(lambda x: callout.tap(sink, {"loss": x, "acc": x}))(1.0)
    with pytest.raises(ValueError, match=r"the value is a single array, \{value\}"):
        callout.tap(sink, 1.0)
    with pytest.raises(ValueError, match=r"Unknown format code 'd' for object of type 'float' \(\{0\}\)"):
        callout.tap(sinks.Print("{:d}"), 1.0)
    with pytest.raises(ValueError, match="Unknown format code 'f' for object of type 'str'"):
        callout.tap(sinks.Print("{name:.2f}"), 1.0)
    with pytest.raises(ValueError, match="Invalid format specifier '%H'"):
        callout.tap(sinks.Print("{value:%H}"), 1.0)
    with pytest.raises(ValueError, match="there is no 'y'"):
        callout.tap(sinks.Tee(sinks.Print("{y}"), sinks.Null()), {"x": 1.0})


def test_unknown_fields_of_a_registered_print_fail_the_record():
    callout.register("print.y", sinks.Print("{y}"))
    try:
        callout.tap("print.y", {"x": 1.0})
        with pytest.raises(callout.TapError, match="there is no 'y'; the value's leaves are 'x'"):
            callout.barrier_wait()
    finally:
        callout.unregister("print.y")


class Terminal:
    """A pseudo-terminal: `read` returns the text written to `fd`."""

    def __init__(self, columns):
        self.reader, self.fd = pty.openpty()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def read(self):
        """Returns the text written so far."""
        os.write(self.fd, b"\x04END")
        return self._read_to_end()

    def read_during(self, run):
        """Returns the text that `run` writes, which may exceed the terminal's buffer, on which writers would block."""
        with ThreadPoolExecutor(1) as reader:
            text = reader.submit(self._read_to_end)
            run()
            os.write(self.fd, b"\x04END")
            return text.result()

    def _read_to_end(self):
        text = b""
        while not text.endswith(b"\x04END"):
            text += os.read(self.reader, 4096)
        return text[: -len(b"\x04END")].decode().replace("\r\n", "\n")

    def close(self):
        os.close(self.fd)
        os.close(self.reader)


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    made = Terminal(40)
    yield made
    made.close()


def tap_once(sink, value, name=None):
    callout.tap(sink, value, name=name)
    callout.barrier_wait()


def test_update_writes_one_line_over(terminal):
    sink = sinks.Print("step {} loss {:.2f}", update=True, color=False, fd=terminal.fd)
    tap_once(sink, (1, 0.5))
    assert terminal.read() == "\rstep 1 loss 0.50\x1b[K"
    tap_once(sink, (2, 0.25))
    assert terminal.read() == "\rstep 2 loss 0.25\x1b[K"
    # If another sink writes to the terminal, it begins a new line and does not overwrite the update line.
    tap_once(sinks.Print("done", fd=terminal.fd, color=False), 0)
    assert terminal.read() == "\ndone\n"
    tap_once(sink, (3, 0.125))
    assert terminal.read() == "\rstep 3 loss 0.12\x1b[K"
    sink.__dict__.clear()  # destroys the sink
    jax.clear_caches()
    assert terminal.read() == "\n"


def test_only_the_last_record_of_a_batch_is_drawn(terminal):
    sink = sinks.Print("{}", update=True, color=False, fd=terminal.fd)
    program = jax.jit(lambda: jax.lax.fori_loop(0, 10_000, lambda i, c: callout.tap(sink, i) * 0 + c, 0))
    text = terminal.read_during(lambda: (program(), callout.barrier_wait()))
    assert text.endswith("\r9999\x1b[K")
    assert "\n" not in text
    assert text.count("\r") < 10_000


def test_update_fits_into_the_width(terminal):
    sink = sinks.Print("{}" + "é" * 50, update=True, color=True, fd=terminal.fd)
    tap_once(sink, 7)
    assert terminal.read() == "\r\x1b[36m7\x1b[0m" + "é" * 38 + "\x1b[K"
    tap_once(sinks.Print("{}", update=True, color=True, fd=terminal.fd), jnp.ones((2, 30)))
    text = terminal.read()
    assert re.sub(r"\x1b\[\w+", "", text) == "\r" + ("[[1. 1. 1. 1. 1. 1. 1. 1. 1. 1. 1. 1. 1. 1. ")[:39]
    assert text.endswith("\x1b[0m\x1b[K")


def test_colours_where_they_are_wanted(terminal, monkeypatch):
    def lines(*args, **kwargs):
        tap_once(sinks.Print(*args, fd=terminal.fd, **kwargs), {"x": 1.5}, name="n")
        return terminal.read()

    coloured = "\x1b[1mn\x1b[0m: \x1b[36m1.5\x1b[0m\n"
    assert lines("{name}: {x}") == coloured
    assert lines() == "n: x=1.5\n", "as it has always been"
    assert lines(color=True) == "\x1b[1mn\x1b[0m: x=\x1b[36m1.5\x1b[0m\n"
    assert lines("{name}: {x}", color=False) == "n: 1.5\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert lines("{name}: {x}") == "n: 1.5\n"
    assert lines("{name}: {x}", color=True) == coloured
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert lines("{name}: {x}", update=True) == "n: 1.5\n"
    assert printed("{name}: {x}", {"x": 1.5}, name="n", update=True) == "n: 1.5\n", "a file is no terminal"


def test_the_color_is_one_of_three():
    with pytest.raises(ValueError, match='color must be True, False or "auto", got 3'):
        sinks.Print(color=3)


PROGRAM = """
import callout, jax
sink = callout.sinks.Print("at {}", update=True, color=False)
jax.jit(lambda x: callout.tap(sink, x))(3)
callout.barrier_wait()
"""


def test_the_line_ends_with_the_process(terminal):
    env = {**os.environ, "JAX_PLATFORMS": "cpu"}
    limited.run([sys.executable, "-c", PROGRAM], stdout=terminal.fd, env=env, timeout=120, check=True)
    assert terminal.read() == "\rat 3\x1b[K\n"
    assert select.select([terminal.reader], [], [], 0)[0] == []
