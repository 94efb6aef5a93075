# SPDX-License-Identifier: Apache-2.0
"""Tests native functions over several processes: exports, machines without Numba or disk space, one thread at a time."""

import subprocess
import sys
import textwrap

import pytest

SOURCE = """
SOURCE = '''
#include "callout/kernel.h"
void twice(callout::In<float> x, callout::Out<float> y) { for (int64_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i]; }
CALLOUT_KERNEL(twice);
'''
"""

KERNEL = """
import numba
@numba.njit
def thrice(x, out):
    out[:] = 3 * x
V = jax.ShapeDtypeStruct((3,), jnp.float32)
kernel = callout.numba.numba_kernel(thrice, V)
"""

LOAD = """
program = jax.export.deserialize(open(PATH, "rb").read())
print(callout.exported_names(program))
"""

RUN = """
print(jax.jit(program.call)(jnp.arange(3.0)).tolist())
"""


def without_source(path):
    return f"PATH = {str(path)!r}\n" + LOAD


@pytest.mark.slow
def test_an_embedded_function_runs_without_its_source(run, tmp_path):
    path = tmp_path / "program"
    cache = {"CALLOUT_CACHE_DIR": str(tmp_path / "cache")}
    made = run(
        SOURCE
        + f"""
f = callout.cpp.load_inline(SOURCE, embed=True).twice
open({str(path)!r}, "wb").write(callout.export(jax.jit(f))(jnp.arange(3.0)).serialize())
""",
        **cache,
    )
    assert made.code == 0, made.err
    there = {"CALLOUT_CACHE_DIR": str(tmp_path / "nothing"), "CXX": "/no/compiler", "TMPDIR": str(tmp_path / "absent")}
    loaded = run(without_source(path) + RUN, **there)
    assert (loaded.code, loaded.out.splitlines()) == (0, ["()", "[0.0, 2.0, 4.0]"]), loaded.err
    assert not (tmp_path / "nothing").exists(), "nothing is written"
    refused = run(without_source(path) + RUN, CALLOUT_EMBEDDED_CODE="0")
    assert refused.code != 0
    assert "this process does not run code that programs carry" in refused.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("define", "function", "bind"),
    [
        (SOURCE + "m = callout.cpp.load_inline(SOURCE)\n", "m.twice", ""),
        (KERNEL, "kernel", "kernel.prepare(V)\n"),
    ],
    ids=["cpp", "numba"],
)
def test_an_exported_program_finds_code_that_was_built_again(run, tmp_path, define, function, bind):
    if "numba" in define:
        pytest.importorskip("numba")
    path = tmp_path / "program"
    write = f'open({str(path)!r}, "wb").write(callout.export(jax.jit({function}))(jnp.arange(3.0)).serialize())'
    cache = {"CALLOUT_CACHE_DIR": str(tmp_path / "cache")}
    made = run(define + write, **cache)
    assert made.code == 0, made.err
    unbound = run(without_source(path) + RUN)
    assert unbound.code != 0
    assert "no callback is bound to the name 'native:" in unbound.err
    assert "build the same from the same source" in unbound.err
    loaded = run(define + bind + without_source(path) + RUN, **cache)
    assert loaded.code == 0, loaded.err
    assert loaded.out.splitlines()[1] == ("[0.0, 2.0, 4.0]" if "twice" in function else "[0.0, 3.0, 6.0]")


def test_without_numba_the_first_use_names_the_package(run):
    done = run("""
    sys.modules["numba"] = None  # as if it were not installed
    import callout.numba
    try:
        callout.numba.numba_kernel(lambda x, out: None, F32)
    except ImportError as error:
        print(error)
    """)
    assert (done.code, done.out) == (
        0,
        "callout.numba needs Numba, which is not installed (pip install callout[numba])\n",
    ), done.err


@pytest.mark.slow
def test_the_workqueue_layer_gets_one_kernel_at_a_time(run):
    pytest.importorskip("numba")
    done = run(
        """
        import numba
        @numba.njit(parallel=True)
        def double(x, out):
            for i in numba.prange(x.size):
                out[i] = 2 * x[i]
        V = jax.ShapeDtypeStruct((4096,), jnp.float32)
        f = jax.jit(callout.numba.numba_kernel(double, V))
        x = jnp.arange(4096.0)
        right = []
        def work():
            right.append(all(np.array_equal(f(x), 2 * np.asarray(x)) for _ in range(300)))
        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads], [thread.join() for thread in threads]
        print(numba.threading_layer(), right)
        """,
        NUMBA_THREADING_LAYER="workqueue",
        NUMBA_NUM_THREADS="2",
    )
    assert (done.code, done.out) == (0, "workqueue [True, True, True, True]\n"), done.err


def test_a_temporary_cache_is_removed_only_by_its_process(run, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "tmp").mkdir()
    done = run(
        SOURCE
        + """
import warnings
warnings.simplefilter("ignore")
twice = callout.cpp.load_inline(SOURCE).twice
left = lambda: [name for name in os.listdir(os.environ["TMPDIR"]) if name.startswith("callout-cpp-")]
print(len(left()))
pid = os.fork()
if pid == 0:
    import atexit
    atexit._run_exitfuncs()
    os._exit(0)
os.waitpid(pid, 0)
print(len(left()), twice(jnp.arange(3.0)).tolist())
""",
        CALLOUT_CACHE_DIR=str(tmp_path / "file"),
        TMPDIR=str(tmp_path / "tmp"),
    )
    assert (done.code, done.out) == (0, "1\n1 [0.0, 2.0, 4.0]\n"), done.err
    assert "cannot be used" in done.err
    assert list((tmp_path / "tmp").glob("callout-*")) == []


def test_a_full_disk_costs_the_cache_only(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "import callout, jax.numpy as jnp\n"
        + textwrap.dedent(SOURCE)
        + "print(callout.cpp.load_inline(SOURCE).twice(jnp.arange(3.0)).tolist())\n"
    )
    (tmp_path / "cache").mkdir()
    mount = f"mount -t tmpfs -o size=1m tmpfs {tmp_path}/cache"
    allowed = subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True, check=False)
    if allowed.returncode:
        pytest.skip("this machine does not let users mount a small file system")
    command = f"{mount} && CALLOUT_CACHE_DIR={tmp_path}/cache {sys.executable} {script} && ls -A {tmp_path}/cache/cpp"
    done = subprocess.run(["unshare", "-rm", "sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[0.0, 2.0, 4.0]\n"), done.stderr
    assert "cannot be used" in done.stderr
    assert "KB are free" in done.stderr


def test_a_lapack_target_works_before_any_linear_algebra(run):
    done = run("""
        like = jax.ShapeDtypeStruct((2, 2), jnp.float32)
        potrf = callout.ffi.ffi_call("lapack_spotrf_ffi", (like, jax.ShapeDtypeStruct((), jnp.int32)))
        factor, info = jax.jit(lambda a: potrf(a, uplo=np.uint8(ord("L"))))(jnp.array([[4.0, 0.0], [0.0, 9.0]]))
        print(factor.diagonal().tolist(), int(info))
    """)
    assert done.code == 0, done.err
    assert done.out == "[2.0, 3.0] 0\n"
