# SPDX-License-Identifier: Apache-2.0
"""The core in Python, of the wheel without C++: the whole interface of the extension, on systems that are not Linux."""

import ast
import errno
import importlib.util
import inspect
import itertools
import json
import logging
import os
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

# What a system other than Linux does not have.
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
    """The core in Python, as a package of its own."""
    spec = importlib.util.spec_from_file_location("pure_core", PURE / "__init__.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["pure_core"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tap(pure):
    """Sends a value to a callback of the core in Python, and waits until it is delivered: what failed."""

    def tap(callback, label):
        pure.EagerTap(callback, {"label": label}).send(callback, [np.float32(1)], 0, None)
        assert pure.drain(60.0) == []
        return pure.take_delivery_errors()[1]

    return tap


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs a program with the package of the pure-Python wheel, and returns what it printed."""
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
    """(name, node) of the functions and classes of the stub."""
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name, node


def stub_signature(node):
    """[(name, kind, has a default)]; of what is positional only, no name."""
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


def is_property(node):
    return any(getattr(d, "id", getattr(d, "attr", "")) in ("property", "setter") for d in node.decorator_list)


def test_every_name_of_the_extension_is_there_with_its_parameters(pure):
    for name, node in stub_definitions():
        if isinstance(node, ast.FunctionDef):
            assert signature(getattr(pure, name)) == stub_signature(node), name
    values = [node.target.id for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.AnnAssign)]
    assert values
    for name in values:
        assert hasattr(pure, name), name


def test_every_class_of_the_extension_has_its_members_with_their_parameters(pure):
    for name, node in stub_definitions():
        if not isinstance(node, ast.ClassDef):
            continue
        cls = getattr(pure, name)
        made = cls.__init__
        members = [member for member in node.body if isinstance(member, ast.FunctionDef)]
        assert members
        for member in members:
            what = f"{name}.{member.name}"
            if is_property(member):
                assert hasattr(cls, member.name) or f"self.{member.name}" in inspect.getsource(made), what
            else:
                assert signature(getattr(cls, member.name)) == stub_signature(member), what


def test_the_extension_has_no_names_that_the_core_in_python_adds(pure):
    there = {name for name, _ in stub_definitions()}
    there |= {node.target.id for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.AnnAssign)}
    public = {name for name, value in vars(pure).items() if name[0] != "_" and not inspect.ismodule(value)}
    assert public - {"annotations", "Any"} == there


def test_devices_that_reach_a_tap_first_at_once_share_its_place(pure, monkeypatch):
    both = threading.Barrier(2, timeout=60)
    host_tap = sys.modules["pure_core.delivery.host_tap"]
    monkeypatch.setattr(host_tap, "EagerTap", lambda *args: (both.wait(), pure.EagerTap(*args))[1])
    got, failed = [], []
    told = types.SimpleNamespace(first_ordinal=lambda: both.wait() and 0, fail=lambda *error: failed.append(error))
    callback = pure.make_python_callback("x", lambda value: got.append(float(value)))
    tap = pure.HostTap(told, callback, "x", {"label": "x", "every": 3}, False, [], None, (), False)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(tap, 2 * [np.float32(7)]))
    tap(np.float32(8))
    tap(np.float32(9))
    assert pure.drain(60.0) == []
    assert (got, failed) == ([7.0, 9.0], [])


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
    for in_all in ("", ", 2 in all"):
        monkeypatch.setattr(os, "write", full)
        why = f"cannot write to '{path}': No space left on device; 1 records are lost{in_all}"
        assert tap(sink, "two") == [f"callout: callback 'log' failed: {why}"]
        monkeypatch.setattr(os, "write", written)
    assert tap(sink, "three") == []
    sink.file.close()
    assert path.read_text() == '{"name": "one", "value": 1}\n{"name": "three", "value": 1}\n'


def test_a_file_that_cannot_be_renamed_goes_on(pure, tap, tmp_path, monkeypatch):
    path = tmp_path / "log"
    sink = pure.make_sink("log", "jsonl", [("path", str(path)), ("fields", "false"), ("rotate_bytes", "60")])

    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    assert [tap(sink, name) for name in ("one", "two")] == [[], []]
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", refuse)
        why = f"cannot rotate '{path}': Permission denied"
        assert tap(sink, "three") == [f"callout: callback 'log' failed on device 0: {why}"]
    assert [tap(sink, name) for name in ("four", "five")] == [[], []]
    sink.file.close()
    files = (tmp_path / "log.1", path)
    names = [[json.loads(line)["name"] for line in file.read_text().splitlines()] for file in files]
    assert names == [["one", "two", "three", "four"], ["five"]]


def test_calls_taps_and_sinks_work_where_there_is_nothing_of_unix(run, tmp_path):
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
}


def test_what_is_not_there_is_refused_by_name(run):
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


def test_what_is_tapped_where_no_thread_can_be_started_is_delivered(run):
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


def test_a_forked_child_is_told_and_the_parent_goes_on(run):
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
        (channel,) = _ext._delivery._all()
        with channel.thread.lock:  # as its thread may have it
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


def test_a_call_without_progress_is_reported(run):
    out = run(
        """
        import logging, threading, callout, jax, jax.numpy as jnp, numpy as np
        reported = threading.Event()
        class Take(logging.Handler):
            def emit(self, record):
                self.text = record.getMessage()
                reported.set()
        take = Take(logging.ERROR)
        logging.getLogger("callout").addHandler(take)
        callout.config.hang_report_s = 0.05
        def wait(value):
            assert reported.wait(60)
            return value
        jax.jit(lambda x: callout.pure_callback(callout.options(wait, name="slow"), x, x))(jnp.float32(1))
        print(take.text.splitlines()[0])
        """
    )
    assert out.startswith("hang report: callback 'slow' has made no progress for ")
    assert "in a callback that its program waits for" in out
