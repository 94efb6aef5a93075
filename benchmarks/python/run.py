# SPDX-License-Identifier: Apache-2.0
"""Measures Callout beside JAX, Equinox, jax-tvm-ffi and jax-tqdm, in one run on one machine.

Usage: python benchmarks/python/run.py [--rounds 9] [--only GROUP,...] [--full] [--out build/bench]
Prints tables and writes results.json and benchmarks.md to the output folder. Exits with 1 if a result was wrong.
tables.py makes the tables of docs/performance.md and benchmarks/results.md from stored results.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import buffers
import chains
import checks
import chunks
import contention
import devices
import dispatch
import dropins
import eager
import environment
import fallback
import foreign
import growth
import host_callbacks
import kernels
import located_nans
import loop
import memory
import native
import progress
import recording
import service
import targets
from floor import ROOT
from report import Report, Row

# The groups. Each makes rows of the report from the options, the path of the floor's library and the skipped
# contenders.
GROUPS: dict[str, Callable[[argparse.Namespace, Path, dict[str, str]], list[Row]]] = {
    "loop": lambda options, floor, skipped: loop.run(options.rounds, options.out, skipped),
    "dispatch": lambda options, floor, skipped: dispatch.run(options.rounds, skipped),
    "chains": lambda options, floor, skipped: chains.run(options.rounds),
    "growth": lambda options, floor, skipped: growth.run(min(options.rounds, 3)),
    "dropins": lambda options, floor, skipped: dropins.run(options.rounds),
    "eager": lambda options, floor, skipped: eager.run(options.rounds),
    "fallback": lambda options, floor, skipped: fallback.run(options.rounds, options.out),
    "devices": lambda options, floor, skipped: devices.run(options.rounds),
    "contention": lambda options, floor, skipped: contention.run(options.rounds, options.out, skipped),
    "kernels": lambda options, floor, skipped: kernels.run(options.rounds, options.out, floor, skipped),
    "buffers": lambda options, floor, skipped: buffers.run(options.rounds),
    "foreign": lambda options, floor, skipped: foreign.run(options.rounds),
    "host_callback": lambda options, floor, skipped: host_callbacks.run(options.rounds),
    "sinks": lambda options, floor, skipped: recording.run(options.rounds),
    "checks": lambda options, floor, skipped: checks.run(options.rounds, skipped),
    "located_nans": lambda options, floor, skipped: located_nans.run(options.rounds),
    "chunks": lambda options, floor, skipped: chunks.run(options.rounds, options.out),
    "progress": lambda options, floor, skipped: progress.run(options.rounds, skipped),
    "service": lambda options, floor, skipped: service.run(options.rounds),
}
MEMORY = "memory"  # measured last, in its own processes; a table instead of rows


def groups(text: str) -> set[str]:
    """Returns the groups that `--only` names."""
    chosen = set(text.split(","))
    if unknown := sorted(chosen - {*GROUPS, MEMORY}):
        raise argparse.ArgumentTypeError(
            f"no group {', '.join(map(repr, unknown))}; there are {', '.join([*GROUPS, MEMORY])}"
        )
    return chosen


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", type=groups, default={*GROUPS, MEMORY}, help="groups, separated by commas")
    parser.add_argument("--full", action="store_true", help="1e7 taps and 1e4 compilations instead of 1e6 and 200")
    parser.add_argument("--out", type=Path, default=ROOT / "build/bench")
    return parser.parse_args()


def measure(report: Report, options: argparse.Namespace, floor: Path) -> None:
    for name, run in GROUPS.items():
        if name in options.only:
            report.rows += run(options, floor, report.skipped)
    if MEMORY in options.only:
        report.memory = memory.run(options.full)
    report.verdicts = targets.verdicts(report.rows)


def main() -> None:
    options = arguments()
    described = environment.describe()
    print("\n".join(f"{key:12} {value}" for key, value in described.items()), flush=True)
    if warning := environment.busy():
        described["warning"] = warning
        print(f"WARNING: {warning}", flush=True)
    floor = native.register(options.out)
    skipped = native.register_tvm(options.out)
    for target, why in skipped.items():
        print(f"skipped: {target}: {why}", flush=True)
    report = Report(described, skipped)
    measure(report, options, floor)
    print("\n" + report.text())
    report.write(options.out)
    print(f"\nwrote {options.out / 'results.json'} and benchmarks.md")
    if refused := report.refused():
        sys.exit("refused:\n" + "\n".join(refused))


if __name__ == "__main__":
    main()
