# SPDX-License-Identifier: Apache-2.0
"""Tests the core in Python, of the wheel without C++: rejected features, and systems other than Linux."""

import ast
import errno
import importlib.util
import inspect
import itertools
import logging
import os
import re
import shutil
import sys
import textwrap
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import limited
import numpy as np
import pytest

ROOT = next(folder for folder in Path(__file__).parents if (folder / "pyproject.toml").exists())
STUB = ROOT / "python/callout/_ext.pyi"
PURE = ROOT / "python/pure/_ext"

# Removes features that only Linux has.
ELSEWHERE = """
import sys
import jax
import numpy as np

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name in ("fcntl", "termios", "resource", "pwd", "grp", "tty", "pty", "curses", "posix", "_posixsubprocess"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in ("fcntl", "termios", "resource", "pwd", "grp", "tty", "pty"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Hide())
import os
for name in ("fork", "forkpty", "register_at_fork", "sched_getaffinity", "memfd_create", "pread", "getuid", "uname"):
    if hasattr(os, name):
        delattr(os, name)
"""


@pytest.fixture(scope="module")
def pure():
    """Imports the core in Python as a package of its own."""
    spec = importlib.util.spec_from_file_location("pure_core", PURE / "__init__.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["pure_core"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tap(pure):
    """Returns a function that taps a value to a callback of the core in Python, and returns the delivery's error."""

    def tap(callback, label):
        pure.EagerTap(callback, {"label": label}).send(callback, [np.float32(1)], 0, None)
        assert pure.drain(60.0) == []
        return [str(error) for error in pure.take_delivery_errors()[1]]

    return tap


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs a program with the package of the pure-Python wheel, and returns its output."""
    folder = tmp_path_factory.mktemp("pure")
    ignore = shutil.ignore_patterns("__pycache__", "_ext*")
    shutil.copytree(ROOT / "python/callout", folder / "callout", ignore=ignore)
    shutil.copytree(PURE, folder / "callout/_ext", ignore=shutil.ignore_patterns("__pycache__"))

    def run(program):
        environment = {name: value for name, value in os.environ.items() if name != "CALLOUT_FALLBACK"}
        done = limited.run(
            [sys.executable, "-W", "error::ResourceWarning", "-c", textwrap.dedent(program)],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=folder,
            check=False,
            env={**environment, "PYTHONPATH": str(folder), "JAX_PLATFORMS": "cpu"},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def stub_definitions():
    """Yields (name, node) of the functions and classes of the stub."""
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name, node


def stub_signature(node):
    """Returns [(name, kind, has a default)]; positional-only parameters have no name."""
    a = node.args
    positional = [*(("", "only") for _ in a.posonlyargs), *((p.arg, "either") for p in a.args)]
    first_default = len(positional) - len(a.defaults)
    found = [(name, kind, i >= first_default) for i, (name, kind) in enumerate(positional)]
    found += [(a.vararg.arg, "rest", False)] if a.vararg else []
    found += [(p.arg, "keyword", d is not None) for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True)]
    return found + ([(a.kwarg.arg, "keywords", False)] if a.kwarg else [])


KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "only",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "either",
    inspect.Parameter.VAR_POSITIONAL: "rest",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_KEYWORD: "keywords",
}


def signature(function):
    parameters = inspect.signature(function).parameters.values()
    return [
        ("" if p.kind is p.POSITIONAL_ONLY else p.name, KINDS[p.kind], p.default is not inspect.Parameter.empty)
        for p in parameters
    ]


def test_the_python_core_matches_the_stub(pure):
    defined = 0
    for name, node in stub_definitions():
        found = getattr(pure, name)
        if isinstance(node, ast.FunctionDef) and inspect.isfunction(found) and found.__module__ != "pure_core":
            assert signature(found) == stub_signature(node), name
            defined += 1
    assert defined > 20
    for name in [node.target.id for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.AnnAssign)]:
        assert hasattr(pure, name), name


def test_a_function_of_the_extension_only_is_rejected_by_name(pure):
    with pytest.raises(NotImplementedError, match="'make_something_new' of 'x' needs the C\\+\\+ core"):
        pure.make_something_new("x", 1)
    with pytest.raises(NotImplementedError, match="'x': the option 'new_option' needs the C\\+\\+ core"):
        pure.make_python_callback("x", print, new_option=True)


def test_options_unknown_to_the_python_core_are_rejected(pure, monkeypatch):
    table = sys.modules["pure_core.tables"].TARGET_ATTRIBUTES["callout.v1.tap"]
    row = {**table[-1], "name": "at_most_ns", "meaning": "send no longer than this", "fallback": 0, "choices": ()}
    monkeypatch.setitem(sys.modules["pure_core.tables"].TARGET_ATTRIBUTES, "callout.v1.tap", [*table, row])
    callback = pure.make_python_callback("x", print)
    said = {"label": "loss", "at_most_ns": 3}
    text = re.escape(
        "callout.tap 'loss': the option 'at_most' (at_most_ns = 3: send no longer than this) needs the C++ core"
    )
    with pytest.raises(NotImplementedError, match=text):
        pure.EagerTap(callback, said)
    with pytest.raises(NotImplementedError, match=text):
        pure.HostTap(None, callback, "x", said, False, False, [], None, (), False)
    pure.EagerTap(callback, {"label": "loss", "at_most_ns": 0})


def test_a_full_queue_has_its_program_wait_and_loses_nothing(pure, monkeypatch):
    monkeypatch.setattr(pure.the_queue, "capacity_bytes", 1000)
    inside, release, got = threading.Event(), threading.Event(), []

    def receive(value):
        inside.set()
        assert release.wait(60)
        got.append(float(value[0]))

    callback = pure.make_python_callback("slow", receive)
    site = pure.EagerTap(callback, {"label": "slow"})

    def send():
        for i in range(9):
            site.send(callback, [np.full(50, i, np.float32)], 0, None)

    blocked = pure.the_queue.blocked
    thread = threading.Thread(target=send)
    thread.start()
    assert inside.wait(60)
    while pure.the_queue.blocked == blocked:
        thread.join(0.01)
    assert thread.is_alive()
    release.set()
    thread.join(60)
    assert pure.drain(60.0) == []
    assert got == list(range(9))
    assert pure.queue_statistics()[0]["pending_bytes"] == 0


def test_devices_that_tap_first_at_once_share_a_site(pure):
    got, failed = [], []
    told = types.SimpleNamespace(first_ordinal=lambda: 0, fail=lambda *error: failed.append(error))
    pure.register_callback("bound later", pure.make_python_callback("x", lambda value: got.append(float(value))), True)
    tap = pure.HostTap(told, None, "bound later", {"label": "x"}, False, False, [], None, (), False)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(tap, [np.float32(7), np.float32(7)]))
    assert pure.drain(60.0) == []
    assert (got, failed) == ([7.0, 7.0], [])


def test_a_log_handler_that_raises_does_not_end_delivery(pure, tap, monkeypatch, capsys):
    class Broken(logging.Handler):
        def emit(self, record):
            raise RuntimeError("no handler")

    monkeypatch.setattr(logging.getLogger("callout"), "handlers", [Broken()])
    got = []
    assert tap(pure.make_python_callback("broken", lambda value: 1 / 0), "broken")
    assert tap(pure.make_python_callback("whole", got.append), "whole") == []
    assert len(got) == 1
    assert "callout: ERROR: callback 'broken' failed on device 0: " in capsys.readouterr().err


def test_a_record_that_is_written_in_part_is_cut_off(pure, tap, tmp_path, monkeypatch):
    path = tmp_path / "log"
    sink = pure.make_sink("log", "jsonl", [("path", str(path)), ("fields", "false")])
    written = os.write
    fails = itertools.cycle([False, True])

    def full(file, data):
        if next(fails):
            raise OSError(errno.ENOSPC, "No space left on device")
        return written(file, data[:9])

    assert tap(sink, "one") == []
    for _ in range(2):
        monkeypatch.setattr(os, "write", full)
        why = f"cannot write to '{path}': No space left on device; 1 records are lost"
        assert tap(sink, "two") == [f"callout: callback 'log' failed on device 0: {why}"]
        monkeypatch.setattr(os, "write", written)
    assert tap(sink, "three") == []
    pure.close_file(sink)
    assert path.read_text() == '{"name": "one", "value": 1}\n{"name": "three", "value": 1}\n'


def test_calls_taps_and_sinks_work_without_unix(run, tmp_path):
    out = run(
        ELSEWHERE
        + f"""
import callout, callout.host_callback
import jax.numpy as jnp

got = []
lines = callout.sinks.JsonLines({str(tmp_path / "lines.jsonl")!r}, fields=False)
def step(i, x):
    x = callout.pure_callback(lambda v: v + np.float32(1), x, x)
    return callout.tap(got.append, callout.tap(lines, x, name="x"))
jax.jit(lambda x: jax.lax.fori_loop(0, 3, step, x))(jnp.float32(0))
callout.barrier_wait(timeout=60)
lines.close()
print([float(value) for value in got], "fcntl" in sys.modules)
"""
    )
    assert out == "[1.0, 2.0, 3.0] False\n"
    assert (tmp_path / "lines.jsonl").read_text().splitlines()[-1] == '{"name": "x", "value": 3}'


REFUSED = {
    "buffer_callback": "callout.buffer_callback.buffer_callback(print, x)(x)",
    "a native function": 'callout.register("n", "lib.so:symbol")',
    "C++ source": 'callout.cpp.load_inline("", {"f": "f"})',
    "include_dir": "callout.include_dir()",
    "cmake_dir": "callout.cmake_dir()",
    "a profile": "callout.profile().__enter__()",
    "TensorBoard": 'callout.sinks.TensorBoard("folder")',
    "Statistics": "callout.sinks.Statistics()",
    "an option of a file": 'callout.sinks.JsonLines("file", rotate_bytes=1)',
    "a line that is updated": "callout.sinks.Print(update=True)",
    "several sinks in one": "callout.sinks.Tee(callout.sinks.Null(), callout.sinks.Null())",
    "hang reports": "callout.config.hang_report_s = 5.0",
    "every": "jax.jit(lambda x: callout.tap(print, x, every=2)).lower(x)",
    "min_interval": "jax.jit(lambda x: callout.tap(print, x, min_interval=1)).lower(x)",
    "sample": "jax.jit(lambda x: callout.tap(print, x, sample=0.5)).lower(x)",
    "on_full": "jax.jit(lambda x: callout.tap(print, x, on_full='fail')).lower(x)",
    "only_device": "jax.jit(lambda x: callout.tap(print, x, only_device=0)).lower(x)",
    "only_process": "callout.tap(print, x, only_process=0)",
    "every of a watch": "jax.jit(lambda x: callout.watch(x, every=2)).lower(x)",
    "places of NaN": "jax.jit(callout.locate_nans(jax.numpy.log)).lower(x)",
    "progress": "jax.jit(lambda x: jax.lax.fori_loop(0, 9, callout.progress(9)(lambda i, c: c + i), x)).lower(x)",
}


def test_missing_features_are_rejected_by_name(run):
    program = "import callout, jax\nx = jax.numpy.float32(0)\n"
    for code in REFUSED.values():
        program += f"try:\n    {code}\nexcept NotImplementedError as error:\n    print(error)\n"
    texts = run(program).splitlines()
    assert len(texts) == len(REFUSED), texts
    for what, text in zip(REFUSED, texts, strict=True):
        assert "pure-Python wheel" in text, what
        assert "docs/fallback.md" in text, what


def test_without_the_fallback_every_program_is_refused(run):
    out = run(
        """
        import callout, jax
        callout.config.fallback = "off"
        try:
            jax.jit(lambda x: callout.tap(print, x))(1.0)
        except NotImplementedError as error:
            print(error)
        """
    )
    assert out.startswith(
        "callout: 'builtins.print': callbacks are not supported on platform cpu; the pure-Python wheel has"
    )
    assert 'callout.config.fallback = "auto" has JAX\'s own callbacks carry Python functions and taps there\n' in out


def test_a_copy_of_a_programs_memory_is_the_callbacks_own(run):
    out = run(
        """
        import callout, jax, jax.numpy as jnp, numpy as np
        kept = []
        f = jax.jit(lambda x: jax.lax.fori_loop(0, 4, lambda i, c: callout.tap(kept.append, c) + 1, x))
        f(jnp.zeros(1000))
        callout.barrier_wait(timeout=60)
        print([int(value.sum()) for value in kept], all(value.flags.writeable for value in kept))
        """
    )
    assert out == "[0, 1000, 2000, 3000] True\n"


def test_a_process_ends_with_its_queue_delivered(run):
    out = run(
        """
        import callout, jax
        f = jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda i, c: callout.tap(print, c) + 1, x))
        f(0)
        """
    )
    assert out == "0\n1\n2\n"


def test_taps_are_delivered_if_no_thread_can_start(run):
    out = run(
        """
        import atexit, threading, callout, numpy as np
        def refuse(thread):
            raise RuntimeError("can't create new thread at interpreter shutdown")
        def late():
            threading.Thread.start = refuse
            callout.tap(print, np.float32(1))
        atexit.register(late)
        """
    )
    assert out == "1.0\n"


def test_a_forked_child_gets_an_error_and_the_parent_works(run):
    out = run(
        """
        import os, callout, jax, numpy as np
        callout.tap(lambda value: None, np.float32(1))
        child = os.fork()
        if child == 0:
            try:
                callout.tap(print, np.float32(1))
            except callout.ForkError:
                os._exit(7 if callout.stats()["queues"] else 8)
            os._exit(9)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        callout.barrier_wait(timeout=60)
        """
    )
    assert out == "7\n"


def test_a_forked_child_waits_for_no_lock_that_stayed_behind(run):
    out = run(
        """
        import os, signal, callout, numpy as np
        from callout import _ext
        callout.tap(lambda value: None, np.float32(1))
        callout.barrier_wait(timeout=60)
        with _ext.the_queue._changed:  # as its thread may have it
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                callout.config.queue_bytes = 32_000_000
                _ext.drain(60.0)
                os._exit(7)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert out == "7\n"
