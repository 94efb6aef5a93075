# SPDX-License-Identifier: Apache-2.0
"""Draws programs, runs them and compares the outcome with the oracle's. Usage: python tests/programs --help.

Programs run in a worker process: a program that crashes or hangs is a finding like any other. With
CALLOUT_TEST_PLATFORM=cuda, programs run on JAX's default GPU, and differences are compared with JAX's own callbacks
there.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

SILENCE = 120.0  # seconds without output after which a worker may hang
IDLE = 0.5  # processor seconds that a hanging worker may use in that time
BATCH = 50  # programs between two counts of live objects


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="programs", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1, help="the first program's; the next is one more")
    parser.add_argument("--count", type=int, default=0, help="end after so many programs")
    parser.add_argument("--show", action="store_true", help="print the program of --seed, and run it")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--shrink", type=float, default=60, help="seconds to spend on making a finding shorter")
    return parser.parse_args()


def is_stuck(used: Sequence[float], seconds: float) -> bool:
    """Returns true if a worker hangs, by the processor time that it had used at each silence of `seconds`.

    A worker hangs if it used none since the last silence, or more than `seconds` in all. A worker that is only slow,
    because the machine is loaded, does neither.
    """
    return used[-1] - used[-2] < IDLE or used[-1] - used[0] > seconds


class Worker:
    """A process that runs programs and writes the outcome of each as a line of JSON."""

    def __init__(self, seed: int, options: argparse.Namespace):
        command = [
            sys.executable,
            str(Path(__file__).parent),
            "--worker",
            f"--seed={seed}",
            f"--shrink={options.shrink}",
        ]
        quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}  # silences XLA's warnings about shardings
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=quiet)
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._running = "callout"
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def word(self, seconds: float) -> dict[str, object] | None:
        """Returns the worker's next line; None if it ended. Raises TimeoutError if it hangs."""
        used = [self._used()]
        while True:
            try:
                line = self._lines.get(timeout=seconds)
            except queue.Empty:
                used.append(self._used())
                if is_stuck(used, seconds):
                    raise TimeoutError from None
                continue
            word = json.loads(line) if line else None
            if word is None or "running" not in word:
                return word
            self._running = word["running"]
            used = [self._used()]

    def _used(self) -> float:
        """Returns the processor seconds that the worker and its finished children have used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def alike(self) -> str:
        """Returns the kind of callbacks that ran last, if not Callout's: a failure with JAX's or none is not Callout's."""
        return "" if self._running == "callout" else f"with callbacks of kind {self._running}"

    def end(self) -> int:
        self._process.kill()
        return self._process.wait()

    def ended(self) -> int:
        return self._process.wait()


@dataclasses.dataclass
class Tally:
    counts: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    reasons: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    findings: int = 0

    def end(self, seed: int, worker: Worker, text: str) -> None:
        """Records that a program ended its process."""
        if alike := worker.alike():
            self.counts["as JAX"] += 1
            self.reasons[f"seed {seed} {text}, {alike}"] += 1
        else:
            self.finding(seed, f"{text} (again: python tests/programs --show --seed={seed})")

    def finding(self, seed: int, text: str, source: str = "") -> None:
        self.findings += 1
        print(f"FINDING: program {seed}: {text}\n{source}", flush=True)


def explore(options: argparse.Namespace) -> int:
    start, seed, tally = time.monotonic(), options.seed, Tally()
    end = start + options.seconds
    worker = Worker(seed, options)
    while time.monotonic() < end and not (options.count and seed - options.seed >= options.count):
        try:
            word = worker.word(SILENCE + options.shrink)
        except TimeoutError:
            worker.end()
            tally.end(seed, worker, "hangs")
            seed += 1
            worker = Worker(seed, options)
            continue
        if word is None:
            tally.end(seed, worker, f"ends the process with {worker.ended()}")
            seed += 1
            worker = Worker(seed, options)
        elif "finding" in word:
            tally.finding(seed, word["finding"], word.get("source", ""))
        else:
            tally.counts[word["outcome"]] += 1
            tally.reasons.update([word["reason"]] if word.get("reason") else [])
            seed = word["seed"] + 1
    worker.end()
    minutes = (time.monotonic() - start) / 60
    total = sum(tally.counts.values())
    for reason, n in tally.reasons.most_common(8):
        print(f"programs: JAX's own callbacks do the same, {n} times: {reason}")
    outcomes = ", ".join(f"{n} {outcome}" for outcome, n in sorted(tally.counts.items()))
    print(
        f"programs: {total} from seed {options.seed} in {minutes:.1f} min ({total / minutes:.0f} a minute): {outcomes}"
    )
    print(f"programs: {tally.findings} findings")
    return 1 if tally.findings else 0


def work(options: argparse.Namespace) -> None:
    import checking
    import printing
    import seeds
    import shrinking

    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # the output of programs must not reach the parent process

    def say(**word: object) -> None:
        out.write(json.dumps(word) + "\n")

    def kind_of(program: object) -> str:
        try:
            checking.check(program)
        except checking.Difference as difference:
            return difference.kind
        except Exception as error:  # noqa: BLE001 - a smaller program may be none
            return type(error).__name__
        return ""

    checking.announce = lambda callbacks: say(running=callbacks)
    seed, alive = options.seed, checking.live()
    while True:
        program = seeds.draw(seed)
        outcome, reason = "passed", ""
        try:
            checking.check(program)
        except checking.TooLarge:
            outcome = "too large"
        except checking.Alike as alike:
            outcome, reason = "as JAX", f"seed {seed}: {alike}"[:200]
        except checking.Refused as refused:
            outcome, reason = "refused", str(refused).splitlines()[0][:100]
        except checking.Difference as difference:
            outcome, what = "failed", difference.kind
            short = shrinking.shrunk(program, lambda smaller, what=what: kind_of(smaller) == what, options.shrink)
            say(finding=str(difference)[:2000], source=printing.source(short) + _again(checking, short))
        if (seed + 1) % BATCH == 0:
            now = checking.live()
            if any(now[name] > alive[name] for name in alive):
                say(finding=f"after programs up to this one, alive: {now}, before: {alive}")
            alive = now
        say(seed=seed, outcome=outcome, reason=reason)
        seed += 1


def _again(checking: object, program: object) -> str:
    try:
        checking.check(program)
    except Exception as error:  # noqa: BLE001
        return f"# {type(error).__name__}: {str(error)[:1500]}\n"
    return "# passes when run again\n"


def show(options: argparse.Namespace) -> None:
    import checking
    import printing
    import seeds

    program = seeds.draw(options.seed)
    print(printing.standalone(program), flush=True)
    checking.check(program)


if __name__ == "__main__":
    chosen = arguments()
    if chosen.worker:
        work(chosen)
    elif chosen.show:
        show(chosen)
    else:
        sys.exit(explore(chosen))
