# SPDX-License-Identifier: Apache-2.0
"""Tests callout.cpp, C++ source as JAX functions: transformations, checks when traced, errors, the cache of libraries."""

import copy
import gc
import os
import shutil
import subprocess
import sys
import textwrap

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

pytestmark = pytest.mark.usefixtures("cache")

SOURCE = """
#include <stdexcept>
#include "callout/kernel.h"

void scale(callout::In<float> x, callout::Attr<"factor", float> factor, callout::Out<float> y) {
  for (int64_t i = 0; i < x.size(); ++i) y[i] = factor * x[i];
}
CALLOUT_KERNEL(scale);

callout::Error rows(callout::In<float, 2> x, callout::Attr<"which", callout::List<int64_t>> which,
                    callout::Attr<"text", callout::Text> text, callout::Out<float, 2> y) {
  for (int64_t i = 0; i < which->size(); ++i) {
    if (which.value[i] >= x.dim(0)) return callout::Error(text->data);
    for (int64_t j = 0; j < x.dim(1); ++j) y(i, j) = x(which.value[i], j);
  }
  return {};
}
CALLOUT_KERNEL(rows);

void both(callout::In<double, 1> x, const callout::Scratch& scratch, callout::Out<double, 0> sum,
          callout::Out<double, 1> c) {
  double* copy = scratch.Get<double>(x.size());
  double total = 0;
  for (int64_t i = 0; i < x.size(); ++i) c[i] = total += copy[i] = x[i];
  sum = total;
}
CALLOUT_KERNEL(both);

void throws(callout::In<int32_t, 0> x, callout::Out<int32_t, 0> y) {
  if (x > 0) throw std::out_of_range("too far");
  y = x;
}
CALLOUT_KERNEL(throws);

extern "C" __attribute__((visibility("default"))) int32_t plain(void** ptrs, const int64_t* dims) {
  for (int64_t i = 0; i < dims[0]; ++i) ((float*)ptrs[1])[i] = ((float*)ptrs[0])[i] + *(double*)ptrs[2];
  return 0;
}
"""


@pytest.fixture(scope="module")
def module(cache):
    del cache
    return callout.cpp.load_inline(SOURCE, name="tests")


def test_functions_are_those_that_describe_themselves(module):
    assert {"scale", "rows", "both", "throws"} <= set(dir(module))
    assert "plain" not in dir(module)
    with pytest.raises(AttributeError, match=r"'tests' has no function 'nope'; there are: both, rows, scale, throws"):
        module.nope  # noqa: B018


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy])
def test_a_copy_of_a_module_has_the_same_functions(module, way):
    assert way(module.scale) is module.scale
    assert way(module).scale is module.scale
    assert repr(way(module)) == repr(module)


@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3, 4)], ids=str)
def test_eager_jit_and_loops(module, shape):
    x = jnp.arange(float(np.prod(shape, dtype=int))).reshape(shape).astype(jnp.float32)
    expected = np.asarray(x) * 3
    np.testing.assert_array_equal(module.scale(x, factor=3), expected)
    np.testing.assert_array_equal(jax.jit(lambda v: module.scale(v, factor=3.0))(x), expected)
    loop = jax.jit(lambda v: lax.fori_loop(0, 4, lambda _, c: module.scale(c, factor=2.0), v))
    np.testing.assert_array_equal(loop(x), np.asarray(x) * 16)


def test_lists_texts_and_computed_result_shapes(module):
    rows = module.rows.options(out=lambda x, which, text: jax.ShapeDtypeStruct((len(which), x.shape[1]), x.dtype))
    x = jnp.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(jax.jit(lambda v: rows(v, which=[2, 0], text="none"))(x), [[4, 5], [0, 1]])
    with (
        pytest.raises(callout.CallbackError, match=r"'tests\.rows' failed on device 0: no such row"),
        callout.reraise(),
    ):
        jax.block_until_ready(rows(x, which=(3,), text="no such row"))


def test_several_results_and_scratch(module):
    with jax.enable_x64(True):
        total, sums = jax.jit(module.both)(jnp.arange(4.0))
        assert (float(total), sums.tolist()) == (6, [0, 1, 3, 6])


def test_exceptions_have_their_text(module):
    assert int(module.throws(0)) == 0
    with pytest.raises(callout.CallbackError, match="too far"), callout.reraise():
        jax.block_until_ready(jax.jit(module.throws)(1))


def test_plain_functions_need_their_results_declared():
    plain = callout.cpp.load_inline(SOURCE, ["plain"]).plain
    x = jnp.arange(3.0)
    with pytest.raises(TypeError, match=r"'plain': say what it returns"):
        plain(x)
    same = plain.options(out=lambda v, **_: v)
    np.testing.assert_array_equal(same(x, c=0.5), [0.5, 1.5, 2.5])


@pytest.mark.parametrize("method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all"])
def test_vmap(module, method):
    scale = module.scale.options(vmap_method=method)
    x = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(jax.vmap(lambda v: scale(v, factor=2.0))(x), np.asarray(x) * 2)
    np.testing.assert_array_equal(jax.vmap(jax.vmap(lambda v: scale(v, factor=2.0)), in_axes=1)(x), np.asarray(x).T * 2)
    with pytest.raises(NotImplementedError, match="vmap_method"):
        jax.vmap(lambda v: module.scale(v, factor=2.0))(x)


def test_derivative_rules(module):
    def jvp(primals, tangents, factor):
        return module.scale(*primals, factor=factor), module.scale(*tangents, factor=factor)

    forward = module.scale.options(jvp=jvp)
    out, tangent = jax.jvp(lambda v: forward(v, factor=3.0), (jnp.ones(2),), (jnp.full(2, 2.0),))
    assert (out.tolist(), tangent.tolist()) == ([3, 3], [6, 6])
    reverse = module.scale.options(
        vjp=(lambda x, factor: (module.scale(x, factor=factor), factor), lambda factor, ct: (ct * factor,))
    )
    assert jax.jit(jax.grad(lambda v: reverse(v, factor=3.0).sum()))(jnp.ones(2)).tolist() == [3, 3]
    with pytest.raises(ValueError, match="jvp= or vjp="):
        jax.grad(lambda v: module.scale(v, factor=3.0).sum())(jnp.ones(2))


@pytest.mark.collectives
def test_several_devices(module):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("d",))
    x = jax.device_put(jnp.arange(4.0), jax.NamedSharding(mesh, jax.P("d")))
    np.testing.assert_array_equal(jax.jit(lambda v: module.scale(v, factor=2.0))(x), [0, 2, 4, 6])
    sharded = jax.shard_map(lambda v: module.scale(v, factor=2.0), mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d"))
    np.testing.assert_array_equal(jax.jit(sharded)(x), [0, 2, 4, 6])


def rows_of(module):
    return module.rows.options(out=lambda x, which, text: jax.ShapeDtypeStruct((len(which), 1), x.dtype))


WRONG = [
    (lambda m: m.throws(1.5), r"argument 0: expected int32 of rank 0, got 1.5"),
    (lambda m: m.throws(2**40), r"argument 0: expected int32 of rank 0, got 1099511627776"),
    (
        lambda m: m.scale(jnp.arange(3), factor=1),
        r"argument 0: expected float32 of any rank, got int32 of shape \(3,\)",
    ),
    (lambda m: rows_of(m)(jnp.ones(3), which=[0], text=""), r"argument 0: expected float32 of rank 2, got float32"),
    (lambda m: m.scale(factor=1.0), r"expected 1 arguments, got 0"),
    (lambda m: m.scale(jnp.ones(3)), r"expected the attributes \['factor'\], got \[\]"),
    (lambda m: m.scale(jnp.ones(3), factor=1.0, other=2), r"expected the attributes .*, got \['factor', 'other'\]"),
    (lambda m: m.scale(jnp.ones(3), factor="x"), r"attribute 'factor' must be a number, got 'x'"),
    (lambda m: m.scale(jnp.ones(3), factor=[1.0]), r"attribute 'factor' must be float32, got \[1.0\]"),
    (lambda m: rows_of(m)(jnp.ones((1, 1)), which=[0.5], text=""), r"attribute 'which' must be a list of int64"),
    (lambda m: rows_of(m)(jnp.ones((1, 1)), which=[0], text=3), r"attribute 'text' must be str, got 3"),
    (
        lambda m: m.scale.options(out=jax.ShapeDtypeStruct((3,), jnp.int32))(jnp.ones(3), factor=1.0),
        "result 0 is float32",
    ),
    (lambda m: m.scale.options(out=())(jnp.ones(3), factor=1.0), "the function has 1 results, `out` declares 0"),
]


@pytest.mark.parametrize(("use", "message"), WRONG, ids=range(len(WRONG)))
def test_calls_that_do_not_fit_are_refused_when_traced(module, use, message):
    with pytest.raises(TypeError, match=r"callout\.cpp '\w+': " + message):
        jax.make_jaxpr(lambda: use(module))()


def test_compiler_errors_show_the_users_lines():
    with pytest.raises(callout.cpp.CompileError, match=r"broken.cc:2:\d+: error") as caught:
        callout.cpp.load_inline("int fine;\nint x = ;\n", name="broken")
    assert "-std=c++20" in str(caught.value)
    with pytest.raises(callout.cpp.CompileError, match=r"(?s)cannot preprocess .*no_such_header"):
        callout.cpp.load_inline('#include "no_such_header.h"')
    with pytest.raises(callout.cpp.CompileError, match="mark one by CALLOUT_KERNEL"):
        callout.cpp.load_inline("int nothing;")
    with pytest.raises(callout.RegistrationError, match="exports neither 'nope'"):
        callout.cpp.load_inline(SOURCE, ["nope"])
    with pytest.raises(TypeError, match="the source must be a string"):
        callout.cpp.load_inline(3)


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setenv("CXX", "/no/such/compiler")
    with pytest.raises(callout.cpp.CompileError, match="CXX='/no/such/compiler' was not found"):
        callout.cpp.load_inline(SOURCE)
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(callout.cpp.CompileError, match=r"no C\+\+ compiler was found"):
        callout.cpp.load_inline(SOURCE)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("true", "true wrote no library: "),
        ('c++ "-O2', "is no command: No closing quotation"),
        (__file__, "was not found"),
    ],
)
def test_a_command_that_is_no_compiler_is_named(tmp_path, monkeypatch, command, message):
    monkeypatch.setitem(vars(callout.config), "cache_dir", str(tmp_path))
    monkeypatch.setenv("CXX", command)
    with pytest.raises(callout.cpp.CompileError, match=message):
        callout.cpp.load_inline(SOURCE)
    assert libraries(tmp_path) == []


def test_a_file_that_cannot_be_executed_is_named(tmp_path, monkeypatch):
    compiler = tmp_path / "compiler"
    compiler.write_bytes(b"\0")
    compiler.chmod(0o700)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(callout.cpp.CompileError, match="Exec format error"):
        callout.cpp.load_inline(SOURCE)


def test_a_blank_command_is_none(tmp_path, monkeypatch):
    monkeypatch.setitem(vars(callout.config), "cache_dir", str(tmp_path))
    monkeypatch.setenv("CXX", " ")
    assert float(callout.cpp.load_inline(SOURCE).scale(1.0, factor=2.0)) == 2


@pytest.mark.parametrize("part", ["nothing", "the head", "half", "another byte", "no sums"])
def test_a_damaged_library_is_compiled_again(tmp_path, monkeypatch, part):
    monkeypatch.setitem(vars(callout.config), "cache_dir", str(tmp_path))
    source = f"{SOURCE} // {part}"
    with monkeypatch.context() as without_loading:
        without_loading.setattr(callout.cpp, "_open", lambda path, *_: path)
        library = callout.cpp.load_inline(source)
        whole = library.read_bytes()
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 1
        damaged = {"nothing": b"", "the head": whole[:1000], "half": whole[: len(whole) // 2], "another byte": flipped}
        library.unlink()
        library.write_bytes(damaged.get(part, whole))
        if part == "no sums":
            library.with_suffix(".sums").write_bytes(b"\xff")
    assert float(callout.cpp.load_inline(source).scale(1.0, factor=2.0)) == 2
    assert library.read_bytes() == whole
    assert len(library.with_suffix(".sums").read_text()) == 65


def test_a_damaged_library_that_was_built_elsewhere_is_named(tmp_path):
    for content, message in ((b"", "is no shared library"), (b"\x7fELF\x02\x01" + b"\xff" * 200, "is damaged")):
        library = tmp_path / f"{len(content)}.so"
        library.write_bytes(content)
        with pytest.raises(callout.cpp.CompileError, match=message):
            callout.cpp.load(library)


def libraries(folder):
    return sorted(path.name for path in (folder / "cpp").glob("*.so"))


@pytest.mark.slow
def test_a_library_is_compiled_once_for_each_content(tmp_path, monkeypatch):
    monkeypatch.setitem(vars(callout.config), "cache_dir", str(tmp_path))
    callout.cpp.load_inline(SOURCE)
    (first,) = libraries(tmp_path)
    written = (tmp_path / "cpp" / first).stat().st_mtime_ns
    callout.cpp.load_inline(SOURCE, ["scale"])
    assert libraries(tmp_path) == [first]
    assert (tmp_path / "cpp" / first).stat().st_mtime_ns == written
    callout.cpp.load_inline(SOURCE, flags=["-DMORE"])
    callout.cpp.load_inline(SOURCE + "int more;")
    assert len(libraries(tmp_path)) == 3


def test_a_changed_header_is_another_content(tmp_path, monkeypatch):
    monkeypatch.setitem(vars(callout.config), "cache_dir", str(tmp_path / "cache"))
    header, file = tmp_path / "factor.h", tmp_path / "uses.cc"
    file.write_text(
        '#include "callout/kernel.h"\n#include "factor.h"\n'
        "void times(callout::In<float> x, callout::Out<float> y) { y[0] = FACTOR * x[0]; }\nCALLOUT_KERNEL(times);\n"
    )
    for factor in (2, 3):
        header.write_text(f"#define FACTOR {factor}\n")
        module = callout.cpp.load(file, include_dirs=[str(tmp_path)])
        assert float(module.times(1.0)) == factor
    assert module.__name__ == "uses"
    with pytest.raises(FileNotFoundError, match=r"absent.cc is not a file"):
        callout.cpp.load([tmp_path / "absent.cc"])


def test_files_of_a_killed_compilation_are_removed(tmp_path, monkeypatch):
    monkeypatch.setitem(vars(callout.config), "cache_dir", str(tmp_path))
    callout.cpp.load_inline(SOURCE)
    (library,) = libraries(tmp_path)
    folder = tmp_path / "cpp"
    (folder / library).unlink()
    left = folder / f".{library[:-3]}.1.so"
    left.write_bytes(b"half")
    callout.cpp.load_inline(SOURCE)
    assert libraries(tmp_path) == [library]
    assert not left.exists()


def test_a_cache_folder_that_cannot_be_used_is_reported(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setitem(vars(callout.config), "cache_dir", str(tmp_path / "file"))
    module = callout.cpp.load_inline(SOURCE)
    assert float(module.scale(1.0, factor=2.0)) == 2
    assert "cannot be used" in caplog.text


@pytest.mark.slow
def test_two_processes_compile_the_same_source_at_once(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import sys, jax, callout
        source = open(sys.argv[1]).read()
        scale = callout.cpp.load_inline(source, name="shared").scale
        print(jax.jit(lambda x: scale(x, factor=2.0)).lower(1.0).as_text().split('callback = ')[1].split(',')[0])
        print(float(scale(3.0, factor=2.0)))
        """)
    )
    (tmp_path / "source.cc").write_text(SOURCE)
    command = [sys.executable, str(program), str(tmp_path / "source.cc")]
    environment = {**os.environ, "CALLOUT_CACHE_DIR": str(tmp_path / "cache")}
    pair = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    first, second = (process.communicate(timeout=120)[0].splitlines() for process in pair)
    assert first == second, "the same name in every process: the compilation cache hits"
    assert first[1] == "6.0"
    assert len(libraries(tmp_path / "cache")) == 1


def test_a_function_dies_with_its_program(module):
    del module
    before = callout.stats()["live"]["callbacks"]
    scale = callout.cpp.load_inline(SOURCE, ["scale"], name="short-lived").scale
    f = jax.jit(lambda x, scale=scale: scale(x, factor=2.0))
    del scale
    gc.collect()
    assert float(f(3.0)) == 6
    assert callout.stats()["live"]["callbacks"] == before + 1


def test_calls_inside_rules_inherit_the_vmap_method(module):
    def rules(method, inside):
        return module.scale.options(
            vmap_method=method,
            vjp=(lambda x, factor: (inside(x, factor=factor), factor), lambda factor, ct: (inside(ct, factor=factor),)),
        )

    batch = jnp.arange(6.0).reshape(3, 2)
    for method in ("broadcast_all", "sequential", "parallel"):
        times = rules(method, module.scale)
        grads = jax.vmap(jax.grad(lambda x, times=times: times(x, factor=3.0).sum()))(batch)
        np.testing.assert_array_equal(grads, np.full((3, 2), 3))
    with pytest.raises(NotImplementedError, match=r"vmap needs a vmap_method.* A call inside a derivative rule"):
        jax.vmap(jax.grad(lambda x: rules(None, module.scale)(x, factor=3.0).sum()))(batch)
    with pytest.raises(NotImplementedError, match="vmap needs a vmap_method"):
        jax.vmap(lambda x: module.scale(x, factor=3.0))(batch)  # outside of a rule, a call inherits no method


def test_python_calls_inside_rules_inherit_the_vmap_method(module):
    def in_python(x, factor):
        return callout.pure_callback(lambda v: v * np.float32(factor), jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    times = module.scale.options(
        vmap_method="sequential",
        jvp=lambda primals, tangents, factor: (module.scale(*primals, factor=factor), in_python(*tangents, factor)),
    )
    out = jax.vmap(lambda x: jax.jvp(lambda v: times(v, factor=3.0), (x,), (x,))[1])(jnp.arange(4.0))
    np.testing.assert_array_equal(out, 3 * np.arange(4.0))


@pytest.mark.skipif(shutil.which("clang++") is None, reason="clang++ is not installed")
def test_clang_compiles_kernels(tmp_path, monkeypatch):
    monkeypatch.setitem(vars(callout.config), "cache_dir", str(tmp_path))
    monkeypatch.setenv("CXX", "clang++")
    assert float(callout.cpp.load_inline(SOURCE).scale(1.0, factor=2.0)) == 2


@pytest.mark.parametrize(
    "text",
    [
        "the box does not fit: 3 > 2",
        "check failed: disk full",
        "no callback is bound to the door",
        "a ForkError: no spoon",
        "locate_nans: none",
        "the card is: out of memory",
    ],
)
def test_words_of_native_errors_do_not_decide_their_class(text):
    assert _class_of_error(text) == "CallbackError"


def _class_of_error(text):
    refuse = callout.cpp.load_inline(f"""
#include "callout/kernel.h"
callout::Error refuse(callout::In<float, 0> x, callout::Out<float, 0> y) {{ return callout::Error("{text}"); }}
CALLOUT_KERNEL(refuse);
""").refuse
    try:
        with callout.reraise():
            jax.jit(refuse)(1.0).block_until_ready()
    except (callout.CallbackError, MemoryError) as error:
        return type(error).__name__
    return None
