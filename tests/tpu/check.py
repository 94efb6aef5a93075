# SPDX-License-Identifier: Apache-2.0
"""Compiles programs with callbacks for TPUs on a machine without one, and checks the results, for `ci/tpu_check.sh`.

Usage: check.py [--topology NAME]... [--text FOLDER]. It needs JAX and the libtpu that JAX pins. Nothing runs: libtpu
compiles for a given topology.
"""

import argparse
import collections
import dataclasses
import os
import re
import sys
import time
from pathlib import Path

# Without these variables, libtpu asks a server of Google's cloud for its location.
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-4")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")  # no device is held that another process could want
os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "support"))

TOPOLOGIES = ("v4:2x2x1", "v5e:2x2", "v5p:2x2x1", "v6e:2x2", "tpu7x:2x2x1")
HANDLER = "pjrt_rendezvous"
COLLECTIVES = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")
_OPERATION = re.compile(r"^\s*(?:ROOT )?%\S+ = .*? ([a-z][a-z0-9-]*)\(", re.MULTILINE)
_HANDLERS = re.compile(r'_xla_host_transfer_handler_name="([^"]*)",_xla_host_transfer_rendezvous="(\d+)"')
NOT_KNOWN = (
    "that a program runs, and what a transfer costs",
    "that the runtime calls the host once for each send, and in which order for several (XLA promises none)",
    "that a program counts as ended only when its sends have been taken, which a barrier relies on, as JAX's "
    "io_callback without results does",
    "what a failing callback does to a program that waits for it",
    "programs over several hosts",
)


@dataclasses.dataclass(frozen=True)
class Found:
    """The operations of a compiled program."""

    sends: int
    receives: int
    collectives: int
    channels: frozenset[int]
    problems: tuple[str, ...] = ()


def find(text: str) -> Found:
    """Counts the operations in the text of a compiled program. An operation in a loop counts once."""
    counts = collections.Counter(_OPERATION.findall(text))
    collectives = sum(counts[kind] + counts[f"{kind}-start"] for kind in COLLECTIVES)
    problems = [
        f"{counts[kind]} {kind}, {counts[f'{kind}-done']} {kind}-done"
        for kind in ("send", "recv")
        if counts[kind] != counts[f"{kind}-done"]
    ]
    handlers = _HANDLERS.findall(text)
    problems += sorted({f"host transfers go to {name!r}" for name, _ in handlers if name != HANDLER})
    problems += sorted(
        {f"calls {name}" for name in re.findall(r'custom_call_target="(callout[^"]*|xla_ffi[^"]*)"', text)}
    )
    channels = frozenset(int(channel) for _, channel in handlers)
    return Found(counts["send"], counts["recv"], collectives, channels, tuple(problems))


def compare(program, lowered: str, found: Found) -> list[str]:
    """Returns the differences to `program`; empty if there are none. `lowered`: the StableHLO that was compiled."""
    problems = list(found.problems)
    for kind, expected, compiled in (("send", program.sends, found.sends), ("recv", program.receives, found.receives)):
        written = lowered.count(f"stablehlo.{kind}")
        if not expected == written == compiled:
            problems.append(f"{kind}: expected {expected}, written {written}, compiled {compiled}")
    if bool(found.collectives) != program.gathers:
        problems.append(f"{found.collectives} collectives, expected {'some' if program.gathers else 'none'}")
    channels = {int(channel) for channel in re.findall(r"channel_handle<handle = (\d+), type = [23]>", lowered)}
    if channels != found.channels:
        problems.append(f"channels: written {sorted(channels)}, compiled {sorted(found.channels)}")
    return problems


def compile_one(program, devices, folder: Path | None) -> tuple[str, bool]:
    """Returns a cell of the table, and whether it is right."""
    import tpu_programs

    function, spec = tpu_programs.jitted(program, lambda *_: None, devices)
    lowered = function.trace(spec).lower(lowering_platforms=("tpu",))
    text = lowered.compile().as_text()
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{re.sub('[^a-z]+', '-', program.name.lower())}.hlo").write_text(text)
    found = find(text)
    problems = compare(program, lowered.as_text(), found)
    cell = f"{found.sends}/{found.receives}/{found.collectives}"
    return (f"{cell} FAILED: {'; '.join(problems)}", False) if problems else (cell, True)


def check(topology: str, programs, folder: Path | None) -> dict[str, tuple[str, bool | None]]:
    """Returns a column of the table. None: the program was not compiled."""
    from jax.experimental import topologies

    try:
        devices = topologies.get_topology_desc(platform="tpu", topology_name=topology).devices
    except Exception as error:  # noqa: BLE001 - whatever libtpu does not know
        return {program.name: (f"NOT RUN: {_line(error)}", None) for program in programs}
    cells: dict[str, tuple[str, bool | None]] = {}
    for program in programs:
        try:
            cells[program.name] = compile_one(program, devices, folder and folder / topology.replace(":", "-"))
        except Exception as error:  # noqa: BLE001 - it is a cell of the table
            cells[program.name] = (f"FAILED: {_line(error)}", False)
    return cells


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]


def refusals() -> list[str]:
    """Returns the features that are rejected for a TPU, with the error."""
    import callout
    import jax
    import jax.numpy as jnp
    from callout.buffer_callback import buffer_callback

    out = jax.ShapeDtypeStruct((), jnp.float32)
    try:
        jax.jit(buffer_callback(lambda ctx, result, x: None, out)).trace(out).lower(lowering_platforms=("tpu",))
    except NotImplementedError as error:
        return [f"callout {callout.__version__}: buffer_callback and native functions: {_line(error)}"]
    raise AssertionError("buffer_callback was lowered for a TPU")


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--topology", action="append", help=f"default: {', '.join(TOPOLOGIES)}")
    parser.add_argument("--text", type=Path, help="a folder for the compiled programs")
    chosen = parser.parse_args()
    begin = time.monotonic()
    import callout
    import jax
    import libtpu
    import tpu_programs

    callout.register(tpu_programs.NAMED, tpu_programs.double)
    names = chosen.topology or TOPOLOGIES
    columns = {name: check(name, tpu_programs.PROGRAMS, chosen.text) for name in names}
    print("sends / receives / collectives of the compiled programs; an operation in a loop counts once\n")
    print(f"| program | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for program in tpu_programs.PROGRAMS:
        print(f"| {program.name} | {' | '.join(columns[name][program.name][0] for name in names)} |")
    for line in refusals():
        print(f"\nskipped: {line}")
    print("\nnot known without a TPU:", *NOT_KNOWN, sep="\n- ")
    states = collections.Counter(state for column in columns.values() for _, state in column.values())
    print(
        f"\ntpu-check: JAX {jax.__version__}, libtpu {libtpu.__version__}: {states[True]} ok, {states[False]} FAILED, "
        f"{states[None]} NOT RUN, in {time.monotonic() - begin:.0f} s"
    )
    return int(states[True] == 0 or states[False] > 0 or states[None] > 0)


if __name__ == "__main__":
    sys.exit(main())
