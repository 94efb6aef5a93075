# SPDX-License-Identifier: Apache-2.0
"""Tests JAX's persistent compilation cache: a second process takes the entries that the first one wrote."""

import importlib.util

import jax
import pytest

# JAX 0.10 never writes programs that have host callbacks, which make a program wait for Python functions that may use
# JAX. There, the cache keeps taps, native functions and numpy_only functions.
KEEPS_HOST_CALLBACKS = tuple(map(int, jax.__version__.split(".")[:2])) >= (0, 11)

SETUP = '''
hits, misses = [], []
def listen(event, **_):
    (hits if event.endswith("/cache_hits") else misses if event.endswith("/cache_misses") else []).append(event)
jax.monitoring.register_event_listener(listen)
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
got = []
import callout.host_callback as hcb
def add(v): return v + 1
def note(v): got.append(float(v))
quick = callout.options(add, numpy_only=True)
seen = callout.options(note, numpy_only=True)
import ctypes
@ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int64))
def native(pointers, _):
    x, y = (ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float)) for pointer in pointers[:2])
    y[0] = x[0] + 1
    return 0
class Record(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("abi_version", ctypes.c_uint32), ("kind", ctypes.c_uint32),
                ("fn", ctypes.c_void_p)]
record = Record(ctypes.sizeof(Record), 1, 1, ctypes.cast(native, ctypes.c_void_p))
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
callout.register("native", new(ctypes.addressof(record), b"callout_function", None))
CPP = """
#include "callout/kernel.h"
void plus(callout::In<float> x, callout::Out<float> y) { for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] + 1; }
CALLOUT_KERNEL(plus);
"""
def built(**how): return callout.cpp.load_inline(CPP, **how).plus.options(vmap_method="parallel")
def with_numba():
    import numba
    step = 1
    @numba.njit
    def plus(x, out):
        out[()] = x[()] + step
    return callout.numba.numba_kernel(plus, F32)
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
one = np.float32(1)
def spread(v=8.0):
    return jax.device_put(np.arange(v, dtype=np.float32), NamedSharding(Mesh(np.array(jax.devices()), ("d",)), P("d")))
def same(x): return jax.ShapeDtypeStruct(x.shape, x.dtype)
def run_it(f, arg, kind="here"):
    arg = jax.block_until_ready(arg)
    got.clear(), hits.clear(), misses.clear()
    out = jax.block_until_ready(jax.jit(f)(arg))
    seen = f"{kind}: hits {len(hits)} misses {len(misses)}"  # the barrier has small programs of its own
    callout.barrier_wait()
    print(seen, "out", np.asarray(out).sum(), "got", got, flush=True)
'''

RUN = "run_it(f, one)"

# kind: (f, argument, whether it has a host callback, the output at the end)
KINDS = {
    "tap": ("lambda x: callout.tap(note, x + 1)", "one", False, "out 2.0 got [2.0]"),
    "ordered tap": ("lambda x: callout.tap(note, x + 1, ordered=True)", "one", False, "out 2.0 got [2.0]"),
    "tap with keywords": (
        "lambda x: callout.tap(lambda v, device, index: got.append((device.id, index)), x, with_device=True, "
        "with_index=True)",
        "one",
        False,
        "out 1.0 got [(0, ())]",
    ),
    "sink": ("lambda x: callout.tap(callout.sinks.Null(), x)", "one", False, "out 1.0 got []"),
    "pure_callback": ("lambda x: callout.pure_callback(add, same(x), x)", "one", True, "out 2.0 got []"),
    "numpy_only": ("lambda x: callout.pure_callback(quick, same(x), x)", "one", False, "out 2.0 got []"),
    "native": ("lambda x: callout.pure_callback('native', same(x), x)", "one", False, "out 2.0 got []"),
    "io_callback": ("lambda x: callout.io_callback(add, same(x), x)", "one", True, "out 2.0 got []"),
    "ordered io_callback": (
        "lambda x: callout.io_callback(add, same(x), x, ordered=True)",
        "one",
        True,
        "out 2.0 got []",
    ),
    "debug_callback": ("lambda x: (callout.debug_callback(note, x), x)[1]", "one", True, "out 1.0 got [1.0]"),
    "debug_callback, numpy_only": (
        "lambda x: (callout.debug_callback(seen, x), x)[1]",
        "one",
        False,
        "out 1.0 got [1.0]",
    ),
    "debug_print": ("lambda x: (callout.debug_print('x {}', x), x)[1]", "one", False, "out 1.0 got []"),
    "id_print": ("lambda x: hcb.id_print((x, x), what='x', n=2)", "one", False, "out 2.0 got []"),
    "id_print of a list": ("lambda x: hcb.id_print(x, what=[1])", "one", False, "out 1.0 got []"),
    "loop": (
        "lambda x: jax.lax.fori_loop(0, 3, lambda i, c: callout.tap(note, c) + 1, x)",
        "one",
        False,
        "out 4.0 got [1.0, 2.0, 3.0]",
    ),
    "batched": (
        "jax.vmap(lambda x: callout.pure_callback(quick, same(x), x, vmap_method='sequential'))",
        "np.ones(3, np.float32)",
        False,
        "out 6.0 got []",
    ),
    "gathered tap": (
        "lambda x: callout.tap(lambda v: got.append(v.tolist()), x * 2)",
        "spread()",
        False,
        "out 56.0 got [[0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]]",
    ),
    "local tap": (
        "lambda x: callout.tap(lambda v: got.append(v.shape), x, sharding='local')",
        "spread()",
        False,
        "out 28.0 got [(2,), (2,), (2,), (2,)]",
    ),
    "gathered call": ("lambda x: callout.pure_callback(add, same(x), x)", "spread()", True, "out 36.0 got []"),
    "C++ source": ("built()", "one", False, "out 2.0 got []"),
    "C++ source, embedded": ("built(embed=True)", "one", False, "out 2.0 got []"),
    "C++ source, lanes": ("jax.vmap(built())", "np.ones(3, np.float32)", False, "out 6.0 got []"),
    "gathered numpy_only": ("lambda x: callout.pure_callback(quick, same(x), x)", "spread()", False, "out 36.0 got []"),
}
if importlib.util.find_spec("numba"):
    KINDS["Numba"] = ("with_numba()", "one", False, "out 2.0 got []")


def in_cache(run, folder, *parts):
    """Runs a program with its cache in `folder`."""
    program = "\n".join([f"sys.argv[1:] = [{str(folder)!r}]", SETUP, *parts])
    own = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "CALLOUT_CACHE_DIR": str(folder / "callout")}
    done = run(program, timeout=300, **own)
    assert (done.code, done.err) == (0, ""), done.err
    return done.out


@pytest.fixture
def cached(run, tmp_path):
    return lambda *parts: in_cache(run, tmp_path, *parts)


@pytest.fixture(scope="module")
def two_processes(run, tmp_path_factory):
    """Returns the outputs of two processes that run all kinds."""
    folder = tmp_path_factory.mktemp("cache")
    programs = [f"run_it({f}, {arg}, {kind!r})" for kind, (f, arg, *_) in KINDS.items()]
    outs = [in_cache(run, folder, *programs) for _ in range(2)]
    lines = [[line for line in out.splitlines() if ": hits " in line] for out in outs]
    return [dict(line.split(": ", 1) for line in process) for process in lines]


@pytest.mark.parametrize("kind", KINDS)
def test_the_second_process_hits(two_processes, kind):
    _, _, has_host_callback, end = KINDS[kind]
    first, second = (process[kind] for process in two_processes)
    writes = KEEPS_HOST_CALLBACKS or not has_host_callback
    assert first == f"hits 0 misses {int(writes)} {end}"
    assert second == f"hits {int(writes)} misses 0 {end}"


@pytest.mark.slow
def test_a_cache_hit_calls_the_right_function(cached):
    """The first process has one function; the second has others of its name and module before and around it."""
    define = """
def make(factor):
    def scale(v): return v * factor
    return callout.options(scale, numpy_only=True)
"""
    run = """
def f(x): return callout.pure_callback(wanted, same(x), x)
"""
    first = cached(define, "wanted = make(2)", run, RUN)
    second = cached("\n\n\n", "def unrelated(v): return v", define, "other, wanted = make(3), make(2)", run, RUN)
    assert first == "here: hits 0 misses 1 out 2.0 got []\n"
    assert second == "here: hits 1 misses 0 out 2.0 got []\n"
    before = (
        "other = make(3)\nprint(jax.jit(lambda x: callout.pure_callback(other, same(x), x))(one))\nwanted = make(2)"
    )
    third = cached(define, before, run, RUN)
    assert third.startswith("3.0\n")
    assert third.endswith("out 2.0 got []\n")


@pytest.mark.slow
def test_two_functions_of_one_name_are_kept_apart(cached):
    program = """
def make(factor):
    def scale(v): return v * factor
    return callout.options(scale, numpy_only=True)
two, three = make(2), make(3)
def f(x):
    return callout.pure_callback(ORDER[0], same(x), x) + 10 * callout.pure_callback(ORDER[1], same(x), x)
"""
    first = cached(program.replace("ORDER", "(two, three)"), RUN)
    second = cached(program.replace("ORDER", "(two, three)"), RUN)
    swapped = cached(program.replace("ORDER", "(three, two)"), RUN)
    assert first == "here: hits 0 misses 1 out 32.0 got []\n"
    assert second == "here: hits 1 misses 0 out 32.0 got []\n"
    assert swapped == "here: hits 1 misses 0 out 23.0 got []\n"


@pytest.mark.slow
def test_an_exported_program_hits(cached):
    program = """
callout.register("add", add)
e = callout.export(jax.jit(lambda x: callout.tap("tap", callout.pure_callback("add", same(x), x), ordered=True)))(one)
callout.register("tap", note)
f = jax.export.deserialize(e.serialize()).call
"""
    first, second = (cached(program, RUN) for _ in range(2))
    assert first == "here: hits 0 misses 1 out 2.0 got [2.0]\n"
    assert second == "here: hits 1 misses 0 out 2.0 got [2.0]\n"
