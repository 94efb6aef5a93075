# SPDX-License-Identifier: Apache-2.0
"""Tests `callout run --cache` and `--json`: compiled programs in a folder that processes share."""

import json
import subprocess
from pathlib import Path

import c_api
import callout
import command
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest

pytestmark = [
    pytest.mark.skipif(bool(command.missing()), reason=command.missing() or "there is one"),
    pytest.mark.cpu_only(platforms.HOST),
]

X = np.linspace(0, 1, 128 * 128, dtype=np.float32).reshape(128, 128)


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    return f"twice={command.build_library(tmp_path_factory.mktemp('cache'), command.TWICE)}:twice"


@pytest.fixture
def program(tmp_path):
    @jax.jit
    def f(x):
        callout.tap("seen", x[0, 1])
        return x @ x

    return command.Program(tmp_path, f, X)


def _run(program, *flags):
    flags = ["--cache", str(program.folder / "cache"), "--json", *flags]
    done = program.run(X, bind=["seen=null"], flags=flags)
    assert done.code == 0, done.err
    np.testing.assert_allclose(done.results[0], X @ X, rtol=1e-4)
    return json.loads(done.out)


def _model(x):
    """Uses the parts of models: a loop, products, fused operations, linear algebra, a call and a tap."""
    h = jax.lax.fori_loop(0, 3, lambda _, h: jnp.tanh(h @ x) * 0.5, x)
    h = h @ jnp.linalg.inv(jnp.eye(len(x)) * 4 + h)
    h = callout.pure_callback("twice", jax.ShapeDtypeStruct(h.shape, h.dtype), h)
    callout.tap("seen", h[0, 1])
    return jax.nn.softmax(h + x)


@pytest.mark.parametrize("first", ["compile", "run"])
def test_a_model_in_the_cache_runs(tmp_path, twice, first):
    callout.register("twice", lambda h: 2 * h)
    callout.register("seen", callout.sinks.Null())
    try:
        expected = jax.jit(_model)(X)
    finally:
        callout.unregister("twice")
        callout.unregister("seen")
    program = command.Program(tmp_path, jax.jit(_model), X)
    cache = ["--cache", str(tmp_path / "cache")]
    if first == "compile":
        done = program.command("compile", program.path, *cache)
        assert done.code == 0, done.err
    for _ in range(3):
        done = program.run(X, bind=["seen=null", twice], flags=cache)
        if done.code == 2 and "LAPACK" in done.err:
            pytest.skip("no LAPACK is installed")
        assert done.code == 0, done.err
        np.testing.assert_allclose(done.results[0], expected, rtol=1e-4)


def test_a_program_is_compiled_once(program):
    first = _run(program)
    assert first["cache"] == "miss"
    second = _run(program, "--repeat", "3")
    assert second["cache"] == "hit"
    assert second["results"] == first["results"]
    assert second["results"][0]["type"] == "f32[128,128]"
    np.testing.assert_allclose(second["results"][0]["values"], X @ X, rtol=1e-4)
    assert len(second["nanoseconds"]) == 3
    assert second["callbacks"]["seen"]["calls"] == 3


def test_json_reports_a_missing_cache(program):
    done = program.run(X, bind=["seen=null"], flags=["--json"])
    assert json.loads(done.out)["cache"] is None


@pytest.mark.parametrize(
    "damage", [lambda b: b"", lambda b: b[:-1], lambda b: b[:100], lambda b: b[:-9] + b"xxxxxxxxx"]
)
def test_damaged_files_are_compiled_again(program, damage):
    _run(program)
    (file,) = (program.folder / "cache").iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert _run(program)["cache"] == "miss"
    assert _run(program)["cache"] == "hit"


def test_a_folder_that_others_may_write_to_is_refused(program):
    _run(program)
    (program.folder / "cache").chmod(0o777)
    done = program.run(X, bind=["seen=null"], flags=["--cache", str(program.folder / "cache")])
    assert done.code == 2
    assert "others may write to the cache" in done.err


def test_processes_share_a_cache(program):
    given = program.folder / "given.npz"
    np.savez(given, X)
    line = [
        command.COMMAND,
        "run",
        program.path,
        "--arg",
        given,
        "--bind",
        "seen=null",
        "--plugin",
        c_api.plugin_path(),
    ]
    line += ["--cache", program.folder / "cache", "--json"]
    processes = [subprocess.Popen(list(map(str, line)), stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for process in processes:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        np.testing.assert_allclose(json.loads(out)["results"][0]["values"], X @ X, rtol=1e-4)
    assert [file.suffix for file in (program.folder / "cache").iterdir()] == [".executable"]
    assert _run(program)["cache"] == "hit"


def test_linalg_is_found_in_a_cache(tmp_path):
    a = np.eye(3, dtype=np.float32) * 2
    program = command.Program(tmp_path, jax.jit(jnp.linalg.inv), a)
    for word in ("miss", "hit"):
        done = program.run(a, flags=["--cache", str(tmp_path / "cache"), "--json"])
        if done.code == 2 and "LAPACK" in done.err:
            pytest.skip("no LAPACK is installed")
        assert done.code == 0, done.err
        assert json.loads(done.out)["cache"] == word
        np.testing.assert_allclose(done.results[0], np.eye(3) / 2)


def _plugin(folder, body):
    """Builds a copy of the CPU plugin that runs `body` when it compiles."""
    real = Path(c_api.plugin_path())
    code, plugin = folder / "plugin.c", folder / "plugin.so"
    code.write_text(f"""
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pjrt_c_api.h"

static PJRT_Error* Compile(PJRT_Client_Compile_Args* args) {{ {body} }}

const PJRT_Api* GetPjrtApi(void) {{
  static PJRT_Api table;
  const PJRT_Api* (*get)(void) = (const PJRT_Api* (*)(void))dlsym(dlopen("{real}", RTLD_NOW), "GetPjrtApi");
  table = *get();
  table.PJRT_Client_Compile = &Compile;
  return &table;
}}
""")
    subprocess.run(["cc", "-shared", "-fPIC", "-I", real.parent / "include", code, "-o", plugin], check=True)
    return plugin


@pytest.mark.parametrize("first", ["", "signal.signal(signal.SIGCHLD, signal.SIG_IGN)"])
def test_a_crash_of_the_plugin_is_an_error_of_compile(program, tmp_path, first):
    plugin = _plugin(tmp_path, "abort();")
    done = command.run_command("compile", program.path, "--cache", tmp_path / "cache", "--plugin", plugin, first=first)
    assert done.code == 2
    process = f"the process that read and compiled the program '{program.path}'"
    assert f"{process} was ended by signal 6 (Aborted)" in done.err
    assert str(plugin) in done.err


def test_compile_ends_with_its_caller(program, tmp_path):
    plugin = _plugin(tmp_path, 'alarm(300); write(1, "in\\n", 3); for (;;) pause();')
    line = [command.COMMAND, "compile", program.path, "--cache", tmp_path / "cache", "--plugin", plugin]
    process = subprocess.Popen(list(map(str, line)), stderr=subprocess.PIPE, text=True)
    while process.stderr.readline() != "in\n":
        assert process.poll() is None, "it compiles"
    process.kill()
    process.communicate(timeout=100)  # returns after the child has closed its output, too


def test_compile_fails_if_the_program_is_not_cached(program, tmp_path):
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); signal.signal(signal.SIGXFSZ, signal.SIG_IGN)"
    flags = ["--cache", tmp_path / "cache", "--plugin", c_api.plugin_path()]
    done = command.run_command("compile", program.path, *flags, first=limit)
    assert (done.code, done.out) == (2, "")
    assert f"{program.path} was compiled, but is not in the cache '{tmp_path / 'cache'}'" in done.err
    assert not list((tmp_path / "cache").iterdir())
    assert command.run_command("compile", program.path, *flags).code == 0
