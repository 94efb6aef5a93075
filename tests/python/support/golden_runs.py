# SPDX-License-Identifier: Apache-2.0
"""Exports and runs the programs of golden_programs.py.

`python tests/python/support/golden_runs.py` in the folder of the repository writes the programs that have no file in
tests/python/golden yet, with the values that they returned and sent, by the oldest supported JAX. An existing file is
never written again, because users have programs like it.
"""

import contextlib
import dataclasses
import io
import json
import logging
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import callout
import ffi_calls
import jax
import numpy as np
from callout._export import artifacts, host_transfers
from callout._export.export import MAGIC
from core_only import has_core
from golden_findings import FINDINGS
from golden_programs import CASES, TRANSFERS, Case, mesh
from jax.extend import mlir as jax_mlir
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

FOLDER = Path(__file__).parents[1] / "golden"
STABLEHLO = "1.13.0"  # the version that the CPU plugin reads
_TRANSFERRED = {"transfers": Case(lambda x, y: x + y[0, 0], (np.float32(2), np.ones((2, 3), np.float32)))}

# The functions to which the names of calls are bound, for any shapes.
CALLS: dict[str, Callable[..., Any]] = {
    "add_one": lambda x: x + np.array(1, x.dtype),
    "io.add_one": lambda x: x + np.array(1, x.dtype),
    "ordered.add_one": lambda x: x + np.array(1, x.dtype),
    "sum": lambda x, y: x + y,
    "three": lambda x: (x * np.float32(2), (x > 1).astype(np.int32), np.float32(7)),
    "same": lambda x: x,
    "none": lambda *_: None,
    "ordered.none": lambda *_: None,
    "tap": lambda *_: None,
    "ordered.tap": lambda *_: None,
    "sink": lambda *_: None,
    "channels:1,2->3": lambda x, y: x + y.sum(dtype=np.float32),
}
# The remainder of its batches loses its loop in a file, so the place where the remainder is counted may change.
_DRAWN_OTHERWISE = {"progress_map_batches"}
_PURE = {"add_one", "sum", "three", "same"}  # XLA decides how often it calls these

NATIVE = """#include <stdint.h>
int32_t add_one(void** ptrs, const int64_t* dims, void* stream) {
  const float* x = ptrs[0];
  float* y = ptrs[1];
  for (int64_t i = 0; i < dims[0]; ++i) y[i] = x[i] + 1;
  return 0;
}
"""


def all_cases() -> dict[str, Case]:
    """Returns the traced programs, and those that are text."""
    return {**CASES, **FINDINGS, **_TRANSFERRED}


def file_of(name: str) -> Path:
    return FOLDER / f"{name}.bin"


def expected() -> dict[str, Any]:
    """Returns the recorded outcome of each program, from the time when its file was written."""
    found: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text())
    return found


class Bound(contextlib.ExitStack):
    """Binds the names that programs call, for the length of a block.

    `notes` has the values that their callbacks received.
    """

    def __init__(self, folder: Path):
        super().__init__()
        self.functions: dict[str, Any] = {}
        self.notes: list[tuple[str, list[str]]] = []
        if has_core():
            self._bind_native(folder)
        for name, fn in CALLS.items():
            self._bind(name, fn if name in _PURE else self._noting(name, fn))

    def _bind_native(self, folder: Path) -> None:
        (folder / "native.c").write_text(NATIVE)
        command = ["cc", "-O1", "-shared", "-fPIC", str(folder / "native.c"), "-o", str(folder / "libnative.so")]
        subprocess.run(command, check=True)
        self._bind("native", f"{folder / 'libnative.so'}:add_one")

    def _bind(self, name: str, fn: Any) -> None:
        self.functions[name] = fn
        callout.register(name, fn)
        self.callback(callout.unregister, name)

    def _noting(self, name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
        def note(*leaves: Any) -> Any:
            given = leaves[0] if len(leaves) == 1 else leaves
            self.notes.append((name, described(given)))
            return fn(*leaves)

        return note


def placed(value: Any, spec: P | None) -> Any:
    """Places the argument of a sharded program on its devices."""
    return value if spec is None else jax.device_put(value, NamedSharding(mesh(), spec))


def arguments_of(one: Case) -> list[Any]:
    """Returns the arguments of a case's program."""
    specs = one.sharded or (None,) * len(one.arguments)
    return [placed(value, spec) for value, spec in zip(one.arguments, specs, strict=True)]


def exported(name: str, one: Case) -> bytes:
    """Returns the content of a case's file."""
    shapes = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=getattr(x, "sharding", None)), arguments_of(one)
    )
    if one.shape is not None:
        (size,) = jax.export.symbolic_shape(one.shape)
        shapes = [jax.ShapeDtypeStruct((size,), each.dtype) for each in shapes]
    if one.shapes:
        return callout.export(jax.jit(one.program), stablehlo_version=STABLEHLO, shapes=one.shapes)(*shapes).serialize()
    done = callout.export(jax.jit(one.program), platforms=one.platforms, stablehlo_version=STABLEHLO)(*shapes)
    if name in _TRANSFERRED:
        artifact = jax_mlir.serialize_portable_artifact(TRANSFERS, STABLEHLO)
        with artifacts.opened(artifact) as module:
            host_transfers.rewrite(module)
            artifacts.write_names(module)
            done = dataclasses.replace(done, mlir_module_serialized=artifacts.closed(module, STABLEHLO))
    return bytes(done.serialize(vjp_order=1 if one.has_vjp else 0))


def described(tree: Any) -> list[str]:
    """Describes arrays as text: dtype, shape and values."""

    def text(leaf: Any) -> str:
        leaf = np.asarray(leaf)
        shown = leaf if leaf.dtype.isbuiltin else leaf.astype(np.float64)
        return f"{leaf.dtype.name}{list(leaf.shape)} {shown.tolist()}"

    return [text(leaf) for leaf in jax.tree.leaves(tree)]


def drawn(text: str) -> list[str]:
    """Returns the last frame of each bar, without times and rates, sorted."""
    frames: dict[str, str] = {}
    for frame in re.split(r"[\r\n]", re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)):
        before, _, behind = frame.strip().partition(" [")
        place = re.search(r" *(\d+%\||[\d.]+it$)", before)
        if place is not None:
            fields = re.findall(r"[a-z]+=[^,]+(?=[,\]])", behind)
            full = re.sub("##+", "#", before)  # a bar gets shorter to make room for its rate
            frames[before[: place.start()]] = f"{full} {fields}"
    return sorted(frames.values())


def watched(before: Any) -> dict[str, Any]:
    """Returns the findings of watches since `before`."""

    def fields(name: str, counts: Any) -> dict[str, Any]:
        old = before.get(name, {"calls": 0, "elements": 0, "nan": 0, "inf": 0})
        found = {key: counts[key] - old[key] for key in ("calls", "elements", "nan", "inf")}
        first = counts["first"] or {}
        return {**found, **{key: first[key] for key in ("step", "leaf", "shape", "index", "kind") if key in first}}

    changed = {name: counts for name, counts in callout.stats()["watches"].items() if counts != before.get(name)}
    return {name: fields(name, counts) for name, counts in changed.items()}


class Found(logging.Handler):
    """Collects log records and warnings in a block."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def __enter__(self) -> Self:
        logging.getLogger("callout").addHandler(self)
        self._warnings = warnings.catch_warnings(record=True)
        self._warned = self._warnings.__enter__()
        warnings.simplefilter("always")
        return self

    def __exit__(self, *_: object) -> None:
        self._warnings.__exit__(None, None, None)
        self.texts += [str(each.message) for each in self._warned or ()]
        logging.getLogger("callout").removeHandler(self)


def failure(error: Exception) -> str:
    """Returns the part of an error that the program itself determines."""
    text = str(error)
    begins = [text.index(each) for each in ("check failed: ", "locate_nans: ") if each in text]
    return text[min(begins, default=0) :].splitlines()[0]


def outcome(one: Case, call: Callable[..., Any]) -> dict[str, Any]:
    """Returns the results of a program, or its error."""
    try:
        result = described(jax.block_until_ready(jax.jit(call)(*arguments_of(one))))
    except RuntimeError as error:
        if not one.fails:
            raise
        with contextlib.suppress(RuntimeError):
            callout.barrier_wait()
        return {"failed": failure(error)}
    if one.has_vjp:
        result += described(jax.grad(call)(*arguments_of(one)))
    return {"result": result}


def run(name: str, call: Callable[..., Any], bound: Bound) -> dict[str, Any]:
    """Returns the results, records, prints, bars and findings of a program; those without an order are sorted."""
    one = all_cases()[name]
    bound.notes.clear()
    before = callout.stats()["watches"]
    out, err, said = io.StringIO(), io.StringIO(), Found()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), jax.enable_x64(one.x64), said:
        ended = outcome(one, call)
        callout.barrier_wait()
    ordered = [[name, *values] for name, values in bound.notes if name.startswith("ordered")]
    others = sorted([name, *values] for name, values in bound.notes if not name.startswith("ordered"))
    printed = out.getvalue().splitlines()
    found = {
        **ended,
        "records": ordered + others,
        "printed": sorted(printed) if one.sharded else printed,
        "drawn": [] if name in _DRAWN_OTHERWISE else drawn(err.getvalue()),
        "watched": watched(before),
        "said": said.texts if name in FINDINGS else [],  # "watched" has the findings of watches
    }
    kept: dict[str, Any] = json.loads(json.dumps({key: value for key, value in found.items() if value}))
    return kept


def loaded(name: str) -> Any:
    """Loads the program of a file; of several shapes, the program that fits the case's arguments."""
    file = file_of(name).read_bytes()
    if not file.startswith(MAGIC):
        return jax.export.deserialize(bytearray(file))
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(all_cases()[name].arguments)]
    programs = [jax.export.deserialize(bytearray(each)) for _, each in parts(file)]
    (fitting,) = [each for each in programs if [aval.shape for aval in each.in_avals] == shapes]
    return fitting


def parts(file: bytes) -> list[tuple[str, bytes]]:
    """Returns the labels and programs of a file of several shapes."""
    found, at = [], len(MAGIC)
    while at < len(file):
        both = []
        for _ in range(2):
            size = int.from_bytes(file[at : at + 8], "little")
            both.append(file[at + 8 : at + 8 + size])
            at += 8 + size
        found.append((both[0].decode(), both[1]))
    return found


def write() -> None:
    """Writes the missing files."""
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*")  # removes the paths of this machine
    jax.config.update("jax_include_full_tracebacks_in_locations", False)
    FOLDER.mkdir(exist_ok=True)
    known = expected() if (FOLDER / "expected.json").exists() else {}
    versions = {"callout": callout.__version__, "jax": jax.__version__, "stablehlo": STABLEHLO}
    with tempfile.TemporaryDirectory() as folder, Bound(Path(folder)) as bound:
        callout.config.cache_dir = folder
        ffi_calls.register(ffi_calls.build(Path(folder)))
        for name, one in all_cases().items():
            if file_of(name).exists():
                continue
            with jax.enable_x64(one.x64):
                file_of(name).write_bytes(exported(name, one))
            known[name] = {"by": versions}
            if one.platforms != ("cuda",):
                known[name].update(run(name, loaded(name).call, bound))
            print(name, json.dumps(known[name], ensure_ascii=False), file=sys.stderr)
    text = json.dumps(known, indent=1, sort_keys=True, ensure_ascii=False)
    (FOLDER / "expected.json").write_text(text + "\n")


if __name__ == "__main__":
    write()
