# SPDX-License-Identifier: Apache-2.0
"""Callout beside JAX, Equinox, jax-tvm-ffi and jax-tqdm, in one run on one machine.

Usage: python benchmarks/python/run.py [--rounds 9] [--only GROUP,...] [--full] [--out build/bench]
Prints tables and writes results.json and benchmarks.md to the output folder. Exit status 1 if a result was wrong.
tables.py makes the tables of docs/benchmarks.md of stored results.
"""

import argparse
import sys
from pathlib import Path

import buffers
import chains
import checks
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
from report import Report

GROUPS = (
    "loop",
    "dispatch",
    "chains",
    "growth",
    "dropins",
    "eager",
    "fallback",
    "devices",
    "contention",
    "kernels",
    "buffers",
    "foreign",
    "host_callback",
    "sinks",
    "progress",
    "checks",
    "located_nans",
    "service",
    "memory",
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default=",".join(GROUPS), help="groups, separated by commas")
    parser.add_argument("--full", action="store_true", help="1e7 taps and 1e4 compilations instead of 1e6 and 200")
    parser.add_argument("--out", type=Path, default=ROOT / "build/bench")
    return parser.parse_args()


def measure(report: Report, groups: set[str], options: argparse.Namespace, floor: Path) -> None:
    if "loop" in groups:
        report.rows += loop.run(options.rounds, options.out, report.skipped)
    if "dispatch" in groups:
        report.rows += dispatch.run(options.rounds, report.skipped)
    if "chains" in groups:
        report.rows += chains.run(options.rounds)
    if "growth" in groups:
        report.rows += growth.run(min(options.rounds, 3))
    if "dropins" in groups:
        report.rows += dropins.run(options.rounds)
    if "eager" in groups:
        report.rows += eager.run(options.rounds)
    if "fallback" in groups:
        report.rows += fallback.run(options.rounds, options.out)
    if "devices" in groups:
        report.rows += devices.run(options.rounds)
    if "contention" in groups:
        report.rows += contention.run(options.rounds, options.out, report.skipped)
    if "kernels" in groups:
        report.rows += kernels.run(options.rounds, options.out, floor, report.skipped)
    if "buffers" in groups:
        report.rows += buffers.run(options.rounds)
    if "foreign" in groups:
        report.rows += foreign.run(options.rounds)
    if "host_callback" in groups:
        report.rows += host_callbacks.run(options.rounds)
    if "sinks" in groups:
        report.rows += recording.run(options.rounds)
    if "checks" in groups:
        report.rows += checks.run(options.rounds, report.skipped)
    if "located_nans" in groups:
        report.rows += located_nans.run(options.rounds)
    if "progress" in groups:
        report.rows += progress.run(options.rounds, report.skipped)
    if "service" in groups:
        report.rows += service.run(options.rounds)
    if "memory" in groups:
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
    measure(report, set(options.only.split(",")), options, floor)
    print("\n" + report.text())
    report.write(options.out)
    print(f"\nwrote {options.out / 'results.json'} and benchmarks.md")
    if refused := report.refused():
        sys.exit("refused:\n" + "\n".join(refused))


if __name__ == "__main__":
    main()
