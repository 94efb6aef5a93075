# SPDX-License-Identifier: Apache-2.0
"""Tests jax.numpy.linalg in programs that run without Python: the host gives their runtime LAPACK's handlers."""

import functools
import re
import subprocess
from ctypes.util import find_library
from pathlib import Path

import command
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import platforms
import pytest
from callout._export import export
from jax import lax

MISSING = command.missing() or ("" if find_library("openblas") or find_library("lapack") else "no LAPACK is installed")
pytestmark = [pytest.mark.skipif(bool(MISSING), reason=MISSING or "there is one"), pytest.mark.cpu_only(platforms.HOST)]

DTYPES = ["float32", "float64", "complex64", "complex128"]


def _matrices(dtype, *shape):
    numbers = np.random.default_rng(0)
    made = numbers.normal(size=shape)
    if np.issubdtype(dtype, np.complexfloating):
        made = made + 1j * numbers.normal(size=shape)
    return made.astype(dtype)


def _hermitian(a):
    return a + jnp.conj(jnp.swapaxes(a, -1, -2))


def _positive(a):
    return a @ jnp.conj(jnp.swapaxes(a, -1, -2)) + 4 * jnp.eye(a.shape[-1], dtype=a.dtype)


def _rebuilt(decompose, rebuild):
    """Composes a decomposition with a function of its factors that does not depend on signs and phases."""
    return lambda a: rebuild(*decompose(a))


def _from_eigh(w, v):
    return w, (v * w[..., None, :].astype(v.dtype)) @ jnp.conj(jnp.swapaxes(v, -1, -2))


def _from_svd(u, s, vt):
    k = s.shape[-1]
    return s, (u[..., :, :k] * s[..., None, :].astype(u.dtype)) @ vt[..., :k, :]


def _qr_pivoted(a):
    q, r, pivots = lax.linalg.qr(a, pivoting=True, full_matrices=False)
    return q @ r, pivots


def _eig(a):
    w, v = jnp.linalg.eig(a)
    return jnp.sort(w), a.astype(v.dtype) @ v - v * w[..., None, :]


def _schur(a):
    t, v = lax.linalg.schur(a)
    return v @ t @ jnp.conj(jnp.swapaxes(v, -1, -2)), jnp.diagonal(
        v @ jnp.conj(jnp.swapaxes(v, -1, -2)), axis1=-2, axis2=-1
    )


def _tridiagonal(lower):
    def run(a):
        _, d, e, _ = lax.linalg.tridiagonal(_hermitian(a), lower=lower)
        return d, jnp.abs(e)

    return run


PROGRAMS = {
    "lu": lambda a: lax.linalg.lu(a),
    "det": jnp.linalg.det,
    "inverse": jnp.linalg.inv,
    "solve": lambda a: jnp.linalg.solve(a, a[..., :2]),
    "cholesky": lambda a: jnp.linalg.cholesky(_positive(a)),
    "cholesky, upper": lambda a: jnp.linalg.cholesky(_positive(a), upper=True),
    "cholesky of what has none": lambda a: jnp.linalg.cholesky(-_positive(a)),
    "triangular": lambda a: lax.linalg.triangular_solve(a, a[..., :3], left_side=True, lower=True),
    "triangular, transposed": lambda a: lax.linalg.triangular_solve(
        a, jnp.swapaxes(a[..., :3], -1, -2), lower=False, transpose_a=True, conjugate_a=True, unit_diagonal=True
    ),
    "qr": _rebuilt(jnp.linalg.qr, lambda q, r: (q @ r, jnp.abs(r))),
    "qr, complete": _rebuilt(functools.partial(jnp.linalg.qr, mode="complete"), lambda q, r: q @ r),
    "qr, pivoted": _qr_pivoted,
    "eigh": lambda a: _rebuilt(jnp.linalg.eigh, _from_eigh)(_hermitian(a)),
    "eigvalsh": lambda a: jnp.linalg.eigvalsh(_hermitian(a), UPLO="U"),
    "eig": _eig,
    "eigvals": lambda a: jnp.sort(jnp.linalg.eigvals(a)),
    "schur": _schur,
    "svd": _rebuilt(jnp.linalg.svd, _from_svd),
    "svd, thin": _rebuilt(functools.partial(jnp.linalg.svd, full_matrices=False), _from_svd),
    "singular values": functools.partial(jnp.linalg.svd, compute_uv=False),
    "svd by qr": _rebuilt(functools.partial(lax.linalg.svd, algorithm=lax.linalg.SvdAlgorithm.QR), _from_svd),
    "hessenberg": lambda a: jnp.abs(lax.linalg.hessenberg(a)[0][..., 0]),
    "tridiagonal": _tridiagonal(True),
    "tridiagonal, upper": _tridiagonal(False),
    "tridiagonal solve": lambda a: lax.linalg.tridiagonal_solve(a[..., 0], a[..., 1] + 4, a[..., 2], a[..., :2]),
    "expm": jsl.expm,
    "least squares": lambda a: jnp.linalg.pinv(a),
    "gradient": jax.grad(lambda a: jnp.real(jnp.linalg.slogdet(_positive(a))[1]).sum()),
}
_NOT_COMPLEX = {"gradient"}  # JAX differentiates complex functions only if they are holomorphic


def _runs(dtype):
    return {name: f for name, f in PROGRAMS.items() if not (dtype.startswith("complex") and name in _NOT_COMPLEX)}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_linalg_matches_jax(tmp_path, dtype):
    with jax.enable_x64(True):
        programs = _runs(dtype)
        a = _matrices(dtype, 3, 5, 5)

        @jax.jit
        def f(a):
            return {name: program(a) for name, program in programs.items()}

        expected = f(a)
        done = command.Program(tmp_path, f, a).run(a)
    assert done.code == 0, done.err
    places = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(expected)]
    tolerance = {"rtol": 2e-3, "atol": 2e-3} if dtype in ("float32", "complex64") else {"rtol": 1e-9, "atol": 1e-9}
    assert len(done.results) == len(places)
    for place, got, want in zip(places, done.results, jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(got, np.asarray(want), err_msg=place, **tolerance)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 0, 3, 4), (0, 4), (4, 0), (1, 1)])
def test_shapes_of_all_kinds_decompose(tmp_path, shape):
    a = _matrices("float32", *shape)

    @jax.jit
    def f(a):
        q, r = jnp.linalg.qr(a)
        u, s, vt = jnp.linalg.svd(a, full_matrices=False)
        return lax.linalg.lu(a)[0], q @ r, s, (u * s[..., None, :]) @ vt

    done = command.Program(tmp_path, f, a).run(a)
    assert done.code == 0, done.err
    for got, want in zip(done.results, f(a), strict=True):
        np.testing.assert_allclose(got, np.asarray(want), rtol=1e-4, atol=1e-5)


def test_without_a_lapack_the_program_does_not_compile(tmp_path, monkeypatch):
    a = _matrices("float32", 3, 3)
    program = command.Program(tmp_path, jax.jit(jnp.linalg.inv), a)
    monkeypatch.setenv("CALLOUT_LAPACK", "/no/such/liblapack.so")
    done = program.run(a)
    assert done.code != 0
    assert "CALLOUT_LAPACK names no LAPACK" in done.err
    assert "/no/such/liblapack.so" in done.err


def test_an_unregistered_function_is_named(tmp_path):
    f = jax.jit(lambda x: jax.ffi.ffi_call("nobody_has_this", jax.ShapeDtypeStruct(x.shape, x.dtype))(x))
    x = np.zeros(3, np.float32)
    done = command.Program(tmp_path, f, x, allowed=["nobody_has_this"]).run(x)
    assert done.code != 0
    assert "nobody_has_this" in done.err
    assert "Plugin::RegisterHandler" in done.err


# Doubles of handlers in plain C++, for an older XLA FFI than this jaxlib's header: a plugin rejects handlers that are
# newer than itself.
DOUBLES = """
#include "xla/ffi/api/c_api.h"

extern "C" XLA_FFI_Error* Doubles(XLA_FFI_CallFrame* frame) {
  auto* extension = frame->extension_start;
  if (extension != nullptr && extension->type == XLA_FFI_Extension_Metadata) {
    XLA_FFI_Metadata* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata;
    metadata->api_version.major_version = 0;
    metadata->api_version.minor_version = 1;
    metadata->traits = 0;
    return nullptr;
  }
  const auto* from = static_cast<const XLA_FFI_Buffer*>(frame->args.args[0]);
  const auto* to = static_cast<const XLA_FFI_Buffer*>(frame->rets.rets[0]);
  for (int64_t i = 0; i < from->dims[0]; ++i) {
    static_cast<float*>(to->data)[i] = 2 * static_cast<const float*>(from->data)[i];
  }
  return nullptr;
}
"""


def test_export_knows_the_hosts_targets():
    source = (Path(__file__).parents[3] / "src" / "host" / "lapack" / "custom_calls.cc").read_text()
    letters = {"REAL": "sd", "COMPLEX": "cz", "ALL": "sdcz"}
    has = re.findall(r'CALLOUT_LAPACK_(REAL|COMPLEX|ALL)\("(\w+)", \w+\)[,}]', source)
    assert len(has) > 10
    named = {f"lapack_{letter}{stem}_ffi" for kind, stem in has for letter in letters[kind]}
    assert named == export._HOST_TARGETS


def test_info_names_the_provider_of_custom_calls(tmp_path):
    a = _matrices("float32", 3, 3)
    doubles = jax.ffi.ffi_call("doubles", jax.ShapeDtypeStruct((3,), jnp.float32))
    program = command.Program(tmp_path, jax.jit(lambda a: doubles(jnp.linalg.eigvalsh(a))), a, allowed=["doubles"])
    done = program.info()
    assert done.code == 2
    assert "doubles" in done.err
    done = program.command("info", program.path, "--handler", f"doubles={_doubles(tmp_path)}:Doubles")
    assert done.code == 0, done.err
    assert re.search(r"  custom call 'lapack_ssyevd_ffi' \(f32\[3,3\]\) -> .*, given by LAPACK of '.+'\n", done.out)
    assert "  custom call 'doubles' (f32[3]) -> (f32[3]), given by the host\n" in done.out


def _doubles(folder):
    (folder / "doubles.cc").write_text(DOUBLES)
    library = folder / "libdoubles.so"
    flags = ["-std=c++17", "-O1", "-shared", "-fPIC", f"-I{jax.ffi.include_dir()}"]
    subprocess.run(["c++", *flags, str(folder / "doubles.cc"), "-o", str(library)], check=True)
    return library


def test_a_handler_of_a_library_is_given_to_the_command(tmp_path):
    library = _doubles(tmp_path)
    x = np.arange(3, dtype=np.float32)
    doubles = jax.ffi.ffi_call("doubles", jax.ShapeDtypeStruct(x.shape, x.dtype))
    program = command.Program(tmp_path, jax.jit(lambda x: doubles(x)), x, allowed=["doubles"])
    done = program.run(x, flags=["--handler", f"doubles={library}:Doubles"])
    assert done.code == 0, done.err
    np.testing.assert_array_equal(done.results[0], 2 * x)
    for flag, text in [
        ("doubles", "--handler: expected NAME=lib.so:SYMBOL, got 'doubles'"),
        (f"doubles={library}:no_such", "has no symbol 'no_such'"),
        ("doubles=/no/such.so:Doubles", "/no/such.so"),
    ]:
        done = program.run(x, flags=["--handler", flag])
        assert done.code == 2
        assert text in done.err
