# SPDX-License-Identifier: Apache-2.0
"""The functions that programs call. They record their arguments."""

import ctypes
import functools
import io
import itertools
import json
import re
import subprocess
import tempfile
from pathlib import Path

import callout
import callout.ffi
import callout.numba
import jax
import numpy as np

FLOATS = ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
# float8_e8m0fnu has no zero.
FLOATS8 = ("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz")
INTEGERS = ("int4", "int8", "int16", "int32", "uint4", "uint8", "uint16", "uint32")
MODULUS = dict.fromkeys((*FLOATS, *FLOATS8, *INTEGERS, "complex64"), 8)
MODULUS |= {"bool": 2, "int2": 2, "uint2": 4, "float4_e2m1fn": 4}
WIDE = dict.fromkeys(("float64", "int64", "uint64", "complex128"), 8)  # in programs with jax_enable_x64
NARROW = {"int4", "uint4", "int2", "uint2", "float4_e2m1fn"}  # types of less than a byte
NATIVE = {"cpp", "numba", "ffi"}  # kinds that compute `answer` without Python and record nothing
WITH_RESULT = {"pure", "io", "buffer", "hcb_call", *NATIVE}
OBSERVED = {
    "io",
    "debug",
    "print",
    "tap",
    "ref_tap",
    "named_tap",
    "sink",
    "hcb_tap",
    "hcb_call",
    "hcb_print",
}  # kinds that run exactly as often as the program reaches them
IDENTITIES = {"tap", "ref_tap", "sink", "named_tap", "hcb_tap", "hcb_print", "watch", "check"}

events = []  # (site, pos, value), one for each lane, in the order of arrival
FOLDER = "folder"
calls = {}  # site: how often its function was called
failing = {}  # site: the position at which its function raises
raised = []  # errors of the runs of a program that fails, None for success; the barrier's error comes last
allowed = {}  # site: the positions at which its check may run
drawn = [io.StringIO()]  # where bars write; a bar of a failed program may end later, on a page of its own
names = []  # registered names
libraries = []  # libraries of foreign functions, which stay loaded
sinks = {}  # site: the file that receives its records


class Wrong(Exception):  # noqa: N818 - it has no other name
    """Raised by callbacks that fail."""


def answer(x, modulus):
    """Computes the result of a callback: x is a wrapped value of any dtype."""
    numbers = x.real if x.dtype.kind == "c" else x
    return np.asarray((numbers.astype(np.float32) * 3 + 1) % modulus).astype(x.dtype)


def note(site, pos, x, rank):
    """Records one event for each lane. The lanes are the leading axes of pos, and of x unless x has none of them."""
    pos, x = np.asarray(pos), np.asarray(x)
    x = x.real if x.dtype.kind == "c" else x
    x = x.astype(np.float32)
    if x.ndim - rank < pos.ndim:
        x = np.broadcast_to(x, (*pos.shape, *x.shape[x.ndim - rank :]))
    pos, x = np.broadcast_arrays(pos.reshape(*pos.shape, *[1] * rank), x) if pos.ndim else (pos, x)
    lanes = x.shape[: x.ndim - rank]
    events.extend(
        (site, int(pos[index].flat[0]), tuple(x[index].ravel().tolist()))
        for index in itertools.product(*map(range, lanes))
    )
    if site in failing and failing[site] in pos:
        raise Wrong(f"at {failing[site]}")


def unbatched(x, transforms, leaf):
    """Returns x with its batch axes in front, the outermost first."""
    dims = [t[1]["batch_dims"][leaf] for t in transforms if t[0] == "batch"]
    for place, dim in enumerate(reversed(dims)):
        x = np.expand_dims(x, place) if dim is None else np.moveaxis(x, dim + place, place)
    return x


def heard(site, rank, modulus, keyed=False, **options):
    """Returns the function of a call; `keyed`: the operand is PRNG keys; `options` are those of callout.options."""

    def call(pos, x):
        calls[site] = calls.get(site, 0) + 1
        pos, x = np.asarray(pos), unkeyed(x, keyed)
        note(site, pos, x, rank)
        y = answer(x, modulus)
        return np.broadcast_to(y, (*pos.shape, *y.shape[y.ndim - rank :])).copy()

    call.__qualname__ = f"site{site}"
    return callout.options(call, **options) if options else call


def key_of(x):
    """Returns PRNG keys whose data contains the numbers of x."""
    return jax.random.wrap_key_data(jax.numpy.stack([x, x * 0], -1), impl="threefry2x32")


def unkeyed(x, keyed):
    """Returns the numbers of x, or those in the data of keys."""
    return np.asarray(x)[..., 0] if keyed else np.asarray(x)


def told(site, rank, keyed=False, **options):
    """Returns the function of a callback without results; the parameters are those of `heard`."""

    def call(pos, x):
        calls[site] = calls.get(site, 0) + 1
        note(site, pos, unkeyed(x, keyed), rank)

    call.__qualname__ = f"site{site}"
    return callout.options(call, **options) if options else call


def tapped(site, rank, keyed=False, **options):
    """Returns the function of a tap that takes transforms, and a device and an index if the tap passes them."""

    def tap(value, *, transforms=(), device=None, index=None):
        calls[site] = calls.get(site, 0) + 1
        assert device is None or isinstance(device, jax.Device), device
        assert index is None or [len(place) for place in index] == [np.ndim(v) for v in value], index
        pos, x = (unbatched(np.asarray(v), transforms, leaf) for leaf, v in enumerate(value))
        note(site, pos, unkeyed(x, keyed), rank)

    tap.__qualname__ = f"site{site}"
    return callout.options(tap, **options) if options else tap


def checked(site, pos, e, kind="error"):
    """Fails the program, or corrupts e, if the check runs at a position where it must not run.

    A check that warns warns at each position; a check that is off never warns.
    """
    if kind == "warn_if":
        return callout.warn_if(e, pos >= 0, "site {site} warns at {pos}", site=site, pos=pos)
    if kind in ("warn", "off"):
        return callout.error_if(e, pos >= 0, "site {site} warns at {pos}", site=site, pos=pos, on_error=kind)
    strange = ~jax.numpy.isin(pos, np.array([*allowed[site], -1], np.int32))
    text = "site {site} is checked at {pos}"
    if kind == "check":
        callout.check(~strange, text, site=site, pos=pos)
        return e
    return callout.error_if(e, strange, text, site=site, pos=pos, on_error="nan" if kind == "nan" else "default")


def named(site, rank):
    def tap(value):
        calls[site] = calls.get(site, 0) + 1
        note(site, *value, rank)

    names.append(f"site{site}")
    callout.register(names[-1], tap, replace=True)
    return f"site{site}"


def buffered(site, rank, modulus, aliased=False, **options):
    def fill(ctx, out, pos, x):
        calls[site] = calls.get(site, 0) + 1
        assert not aliased or np.array_equal(np.asarray(out), np.broadcast_to(np.asarray(x), out.shape))
        note(site, np.asarray(pos).copy(), np.asarray(x).copy(), rank)
        np.asarray(out)[...] = answer(np.asarray(x), modulus)

    fill.__qualname__ = f"site{site}"
    return callout.options(fill, **options) if options else fill


def hcb_tapped(site, rank):
    def tap(value, transforms, **device):
        tapped_once(value, transforms=transforms, **device)

    tapped_once = tapped(site, rank)
    tap.__qualname__ = f"site{site}"
    return tap


def hcb_called(site, rank, modulus):
    call = heard(site, rank, modulus)

    def call_with_pair(value, device=None):
        assert device is None or isinstance(device, jax.Device), device
        return call(*value)

    call_with_pair.__qualname__ = f"site{site}"
    return call_with_pair


def lines(site):
    if FOLDER not in sinks:
        sinks[FOLDER] = tempfile.TemporaryDirectory()
    path = Path(sinks[FOLDER].name) / f"{site}.jsonl"
    path.unlink(missing_ok=True)
    sinks[site] = (path, callout.sinks.JsonLines(str(path), fields=False, name=f"site{site}"))
    return sinks[site][1]


def written(site, dtype):
    """Returns a sink's records as events."""
    for line in sinks[site][0].read_text().splitlines():
        record = json.loads(line)
        x = np.asarray(record["1"], np.float32)
        yield site, int(record["0"]), tuple((x[..., 0] if dtype.startswith("complex") else x).ravel().tolist())


@functools.cache
def kernel(vmap_method, sharding=None):
    """Returns `answer` compiled by Numba."""
    import numba

    @numba.njit
    def answer(x, y):
        for i in range(x.size):
            y.flat[i] = (x.flat[i] * 3 + 1) % 8

    outs = lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype)  # noqa: E731
    return callout.numba.numba_kernel(answer, outs, vmap_method=vmap_method, sharding=sharding)


def affine():
    """Registers two FFI targets that compute `answer` without its modulus.

    `programs.affine_f32` takes floats, and `programs.affine_u32` the data of PRNG keys.
    """
    handlers = """
    #include "xla/ffi/api/ffi.h"

    namespace ffi = xla::ffi;

    template <ffi::DataType type>
    static ffi::Error Affine(ffi::Buffer<type> x, ffi::Result<ffi::Buffer<type>> y) {
      for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] * 3 + 1;
      return ffi::Error::Success();
    }
    XLA_FFI_DEFINE_HANDLER_SYMBOL(affine_f32, Affine<ffi::F32>,
                                  ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
    XLA_FFI_DEFINE_HANDLER_SYMBOL(affine_u32, Affine<ffi::U32>,
                                  ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::U32>>().Ret<ffi::Buffer<ffi::U32>>());
    """
    if libraries:
        return
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "affine.cc"), Path(folder, "libaffine.so")
        source.write_text(handlers)
        flags = ["-std=c++20", "-w", "-O1", "-shared", "-fPIC", f"-I{callout.ffi.include_dir()}"]
        subprocess.run(["c++", *flags, str(source), "-o", str(library)], check=True)
        libraries.append(ctypes.CDLL(str(library)))
    for dtype in ("f32", "u32"):
        target = callout.ffi.pycapsule(getattr(libraries[0], f"affine_{dtype}"))
        signature = f"(x: {dtype}[...]) -> (y: {dtype}[...])"
        callout.ffi.register_ffi_target(f"programs.affine_{dtype}", target, signature=signature)


@functools.cache
def foreign(vmap_method):
    """Returns `answer` as a foreign function."""
    affine()

    def call(x):
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return callout.ffi.ffi_call("programs.affine_f32", out, vmap_method=vmap_method)(x) % 8

    return call


@functools.cache
def foreign_of_keys(vmap_method):
    """Returns `answer` as a foreign function whose operand and result are PRNG keys."""
    affine()

    def call(x):
        keys = key_of(x)
        out = jax.ShapeDtypeStruct(keys.shape, keys.dtype)
        answers = callout.ffi.ffi_call("programs.affine_u32", out, vmap_method=vmap_method)(keys)
        return jax.random.key_data(answers)[..., 0] % 8

    return call


@functools.cache
def compiled(vmap_method, sharding=None):
    """Returns `answer` in C++."""
    module = callout.cpp.load_inline("""
    #include <cmath>
    #include "callout/kernel.h"

    void answer(callout::In<float> x, callout::Out<float> y) {
      for (int64_t i = 0; i < x.size(); ++i) y[i] = std::fmod(x[i] * 3 + 1, 8.0f);
    }
    CALLOUT_KERNEL(answer);
    """)
    return module.answer.options(vmap_method=vmap_method, sharding=sharding)


def printed(text):
    """Records the output of id_print, a line with the site and the pair, and of debug_print: @site pos [value]."""
    pair = re.compile(r"^site: (\d+).*\n\( (\S+)\s+([^()]*) \)\n", re.MULTILINE)
    for at, pos, value in pair.findall(text):
        events.append((int(at), int(pos), tuple(map(float, value.strip("[]").split()))))
    for line in pair.sub("", text).splitlines():
        at, pos, *value = line.replace("[", " ").replace("]", " ").split()
        events.append((int(at.removeprefix("@")), int(pos), tuple(map(float, value))))


def bars():
    """Returns the bars that ended, as (bar, steps), in the order of their ends."""
    last = (line.split("\r")[-1] for line in drawn[0].getvalue().split("\n"))
    ended = (re.match(r"bar(\d+): .*?(\d+)(?:/\d+ |it )\[", line) for line in last)
    # A while loop without steps has an empty bar, a scan without steps has none.
    return [(int(bar[1]), int(bar[2])) for bar in ended if bar and bar[2] != "0"]
