# SPDX-License-Identifier: Apache-2.0
"""Runs a program and compares it with its oracle."""

from __future__ import annotations

import collections
import dataclasses
import gc
import itertools
import logging
import re
import traceback
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boxes
import callout
import choosing
import numpy as np
import oracle
import prelude
import printing
from callout._base import errors
from callout._primitives import eager
from syntax import Program, Stmt, sites, statements, within

DERIVATIVES = {"jvp", "vjp"}
RULES = {"custom_jvp", "custom_vjp"}


class Difference(Exception):  # noqa: N818 - what is looked for
    """A program did not do what its oracle says."""

    def __init__(self, kind: str, text: str, found: Any = None, of: Any = None):
        super().__init__(text)
        self.kind = kind
        self.found, self.of = found, of  # the finding, and a function that gets it from the results and events of a run


class Alike(Exception):  # noqa: N818
    """A program's result is wrong, but equal to the result with JAX's own callbacks: a bug of XLA's."""


class Refused(Exception):  # noqa: N818
    """The program is rejected with JAX's own callbacks, or without any, and with Callout's, too."""


def compiled(program: Program, callbacks: str) -> Any:
    text = printing.source(program, callbacks)
    text = text[: text.index("\n\ninputs = ")]
    namespace = dict(vars(prelude))
    exec(compile(text, "<program>", "exec"), namespace)
    return namespace["program"]


announce: Callable[[str], object] = str
"""Called with the kind of callbacks that is about to run: a process that crashes or hangs cannot report it later."""


def ran(program: Program, callbacks: str = "callout") -> list[np.ndarray]:
    """Returns the results with Callout's callbacks, with JAX's ("jax", or only "debug"), or without callbacks ("none")."""
    announce(callbacks)
    prelude.forget()
    ours = callbacks == "callout"
    prelude.failing.update([program.fails] if program.fails and ours else [])
    mode = "jit" if program.mode == "threaded" and not ours else program.mode
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
        return prelude.run(compiled(program, callbacks), program.inputs, mode, program.runs, program.wide)


def check(program: Program) -> None:
    """Raises Difference, Alike, Refused, or TooLarge."""
    try:
        _check(program)
    except Difference as difference:
        if difference.kind != "result" and not difference.kind.startswith("events"):
            raise
        ours = difference.found
        if prelude.ON_CUDA and program.mode == "donate" and _confuses_donated(program):
            raise Alike(f"with an input that is donated and returned twice: {difference}") from None
        try:
            theirs = difference.of(ran(program, callbacks="jax"), prelude.events)
        except Exception:  # noqa: BLE001 - it has limits of its own
            raise difference from None
        if theirs == ours:
            raise Alike(str(difference)) from None
        raise


# XLA:GPU gives two donated inputs of one size one buffer where a program returns one of them twice, with or without
# callbacks: jit(lambda n, x: (x, x, (n * 2).astype(int8)), donate_argnums=(0, 1)) finds x in n.
def _confuses_donated(program: Program) -> bool:
    """Returns true if the results are right without donation, and an input occurs twice among them."""
    expected = oracle.expected(program).results
    counts = [sum(np.array_equal(result, value) for result in expected) for value in program.inputs]
    if max(counts, default=0) < 2:
        return False
    kept = ran(dataclasses.replace(program, mode="jit"))
    return all(np.array_equal(want, got) for want, got in zip(expected, kept, strict=True))


def _check(program: Program) -> None:
    run = oracle.expected(program)
    results, expected = run.results, run.events
    before, messages = _counters(), Messages()
    try:
        with messages:
            found = ran(program)
    except Exception as error:  # noqa: BLE001 - whatever the program raises
        _refused(program, error)
    by_site = {stmt.attrs["site"]: stmt for stmt in sites(program)}
    if program.fails and not _as_it_should(program, by_site):
        return
    _compare_values(results, found)
    heard = list(prelude.events)
    for site in set(by_site) & set(prelude.sinks):
        heard += prelude.written(site, by_site[site].attrs["dtype"])
    _compare_counters(by_site, before, _counters(), dict(prelude.calls))
    _compare_warnings(program, by_site, expected, messages)
    _compare_bars(program, run.bars)
    doubtful = _doubtful(program)
    jax_events = _with_jax(program) if doubtful else None
    _compare_events(program, by_site, expected, heard, doubtful, jax_events)
    if not doubtful:
        threaded = program.mode == "threaded" and not messages.of("keeps JAX's ordered effects")
        _compare_order(program, by_site, expected, heard, threaded)


class Messages(logging.Handler):
    """Collects the messages that the package logs."""

    def __init__(self) -> None:
        super().__init__()
        self._texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._texts.append(record.getMessage())

    def __enter__(self) -> None:
        logging.getLogger("callout").addHandler(self)

    def __exit__(self, *error: object) -> None:
        logging.getLogger("callout").removeHandler(self)

    def of(self, text: str) -> bool:
        return any(text in message for message in self._texts)

    def found(self, pattern: str) -> list[tuple[int, ...]]:
        """Returns the numbers in every match of `pattern`."""
        return [tuple(map(int, match.groups())) for text in self._texts for match in re.finditer(pattern, text)]


# Parts of errors that are JAX's or XLA's. In a shard_map, results of our calls vary, and JAX rejects some uses of such
# values; results of its own calls do not vary, and are accepted. JAX 0.10 rejects a loop over a Ref under
# jax.vmap(in_axes=1) if the loop is not dead, without callbacks, too; and under two vmaps if the loop contains
# jax.custom_batching.sequential_vmap. XLA:GPU rejects a slice of 4-bit numbers that begins within a byte, or gives
# jax.debug.callback wrong numbers. JAX does not expose the devices of several meshes, which a call with `sharding=`
# needs, and JAX's own calls, too. A jit that does not use its spread operands runs on one device, where a tap with
# `device_index=1` is invalid.
JAX_REFUSES = (
    "is not one of the program's 1 device(s)",
    "Invalid shape for `swap`",
    "manual axis types",
    "varying manual axes",
    "{V:",
    "Triggering __jax_array__() during abstractification",
    "Non-byte-aligned dimension in slice",
    "mesh should be the same across the entire program",
)


def _refused(program: Program, error: Exception) -> None:
    text, notes = "".join(traceback.format_exception(error)), ""
    if any(words in text for words in JAX_REFUSES) or (prelude.ON_SOFTWARE_GPU and "NCCL operation" in text):
        raise Refused(str(error)) from None
    for callbacks in ("none", "debug", "jax"):
        try:
            ran(program, callbacks=callbacks)
        except type(error) as other:
            raise Refused(f"with callbacks of kind {callbacks}: {other}") from None
        except Exception as other:  # noqa: BLE001
            notes += f"\nwith callbacks of kind {callbacks}: {type(other).__name__}: {str(other)[:200]}"
    where = "callout" if str(Path(callout.__file__).parent) in text else "jax"
    kind = f"raised {type(error).__name__} in {where}: {str(error)[:30]}"
    raise Difference(kind, f"{kind}\n{type(error).__name__}: {error}{notes}") from error


def _as_it_should(program: Program, by_site: dict[int, Stmt]) -> bool:
    """Checks the errors of a program with a callback that raises; returns whether the program has results nevertheless."""
    tap = program.fails[0] in by_site and by_site[program.fails[0]].attrs["what"] in prelude.IDENTITIES
    *runs, barrier = prelude.raised
    for error in runs:
        if isinstance(error, (NotImplementedError, TypeError, ValueError)) and not isinstance(error, prelude.Wrong):
            _refused(program, error)
    want = [not tap] * program.runs + [tap] if program.fails[0] in by_site else [False] * (program.runs + 1)
    if [isinstance(error, prelude.Wrong) for error in (*runs, barrier)] != want:
        text = f"callback of site {program.fails[0]} raises at {program.fails[1]}: expected an error from {want}, got "
        raise Difference("errors", text + f"{prelude.raised}", None)
    return tap


def _compare_values(expected: list[np.ndarray], found: list[np.ndarray]) -> None:
    for i, (want, got) in enumerate(zip(expected, found, strict=True)):
        if want.shape != got.shape or not np.array_equal(want, got):
            text = f"result {i}: expected {want.tolist()}, got {got.tolist()}"
            raise Difference("result", text, got.tolist(), lambda results, _, i=i: results[i].tolist())


def _counters() -> dict[str, dict[str, Any]]:
    return {label: dict(row) for label, row in callout.stats()["callbacks"].items()}


def _label(stmt: Stmt) -> str:
    site = stmt.attrs["site"]
    return stmt.attrs.get("options", {}).get("name") or f"site{site}"


def _compare_counters(by_site: dict[int, Stmt], before: Any, after: Any, called: dict[int, int]) -> None:
    for site, stmt in by_site.items():
        if stmt.attrs["what"] in ("sink", "watch", "print", "hcb_print", *prelude.NATIVE):
            continue
        names = [label for label in after if label.split(".")[-1] == _label(stmt)]
        counters = [("calls", called.get(site, 0)), ("drops", 0)]
        if site not in prelude.failing:
            counters.append(("errors", 0))
        if not choosing.LEAVING & stmt.attrs["settings"].keys():
            counters.append(("skips", 0))
        for counter, want in counters:
            got = sum(after[name][counter] - before.get(name, {}).get(counter, 0) for name in names)
            if got != want:
                raise Difference("stats", f"stats of site {site}: expected {counter} = {want}, got {got}")


def _compare_warnings(program: Program, by_site: dict[int, Stmt], expected: list[Any], messages: Messages) -> None:
    """Checks that checks warn exactly where the oracle evaluates them, and that watches find nothing."""
    if noticed := messages.found(r"watch 'site(\d+)"):
        raise Difference("warnings", f"watches of sites {noticed} found something in finite values")
    warned = set(messages.found(r"site (\d+) warns at (\d+)"))
    there = {(e.site, e.pos) for e in expected if by_site[e.site].attrs.get("check") in ("warn", "warn_if")}
    if warned - there:
        raise Difference("warnings", f"checks warned at {sorted(warned - there)}, where the program does not get to")
    plain = _plain(program) - _skipped(program)
    if silent := ({site for site, _ in there} & plain) - {site for site, _ in warned}:
        raise Difference("warnings", f"checks of sites {sorted(silent)} never warned")


def _plain(program: Program) -> set[int]:
    """Returns sites whose values are outside of derivatives, rules and recomputation."""
    return {
        stmt.attrs["site"]
        for stmt, path in within(program.main, DERIVATIVES | RULES | {"remat"})
        if stmt.kind == "site" and not path
    }


def _doubtful(program: Program) -> set[int]:
    """Returns sites whose number of events the manual leaves to JAX: in rules, and where values are recomputed."""
    found = set()
    for stmt, path in within(program.main, DERIVATIVES | RULES | {"remat"}):
        if stmt.kind == "site" and DERIVATIVES & set(path) and (RULES | {"remat"}) & set(path):
            found.add(stmt.attrs["site"])
    return found


def _with_jax(program: Program) -> list[Any] | None:
    """Returns the events with JAX's own callbacks; None if these do not support the program."""
    try:
        ran(program, callbacks="jax")
    except Exception:  # noqa: BLE001 - it has limits of its own
        return None
    return list(prelude.events)


def _compare_events(program, by_site, expected, heard, doubtful, jax_events) -> None:
    # Outside of jit, each run may compile its loops anew.
    several = program.mode == "eager" or _unrolled(program) or any(map(_is_ordered, _looks(program)))
    skipped = _skipped(program)
    located = {stmt.attrs["site"] for stmt, path in within(program.main, {"located"}) if stmt.kind == "site" and path}
    for site, stmt in by_site.items():
        what = stmt.attrs["what"]
        if what not in prelude.OBSERVED and not stmt.attrs["settings"].get("has_side_effect"):
            continue  # XLA may drop, merge and repeat such calls
        if several and choosing.LEAVING & stmt.attrs["settings"].keys():
            continue  # the site is compiled several times, and each copy counts for itself
        want = [(e.site, e.pos, e.value) for e in expected if e.site == site] * program.runs
        want = collections.Counter(_sent(stmt, want))
        got = _of_site(heard, site)
        if site in doubtful:
            if jax_events is None:
                continue
            theirs = [event for event in jax_events if event[0] == site]
            # Under vmap of cond and while, JAX's callbacks also run for lanes that are not active.
            there = [event for event in theirs if event[1] in {e.pos for e in expected if e.site == site}]
            if got in (collections.Counter(_sent(stmt, theirs)), collections.Counter(_sent(stmt, there))):
                continue
            # A checkpoint stores the values that a located function inside of it computed.
            if site in located and want <= got <= collections.Counter(theirs):
                continue
        if got != want and not (site in skipped and got <= want):
            lost, more = want - got, got - want
            text = f"events of site {site} ({what}): missing {_some(lost)}, unexpected {_some(more)}"
            raise Difference(f"events of {what}", text, got, lambda _, events, site=site: _of_site(events, site))


def _compare_bars(program: Program, expected: list[tuple[int, int]]) -> None:
    """Checks that each run of a loop has a bar that ends at its last step; skips loops without this guarantee."""
    if program.mode not in ("jit", "donate", "aot"):
        return
    certain = {
        stmt.attrs["bar"]
        for stmt, around in within(program.main, {"cond", "vmap", "shard_map", "remat", "map"} | DERIVATIVES | RULES)
        if stmt.attrs.get("bar") is not None and not around and not stmt.attrs.get("options")
    }
    certain -= {stmt.attrs.get("bar") for look in _conditions(program) for stmt in look}
    want = collections.Counter(bar for bar in expected * program.runs if bar[0] in certain)
    got = collections.Counter(bar for bar in prelude.bars() if bar[0] in certain)
    if got != want:
        raise Difference("bars", f"bars: expected {dict(want)}, got {dict(got)} in {prelude.drawn[0].getvalue()!r}")


def _of_site(events: Any, site: int) -> collections.Counter[Any]:
    return collections.Counter(event for event in events if event[0] == site)


def _sent(stmt: Stmt, events: list[Any]) -> list[Any]:
    """Returns the events of a tap that its settings let through."""
    settings = stmt.attrs["settings"]
    sender = settings.get("device_index", 0)
    if settings.get("only_process") == 1 or settings.get("only_device", sender) != sender:
        return []
    if stmt.attrs.get("step") and "every" in settings:
        return [event for event in events if event[1] % settings["every"] == 0]
    return events[:1] if "min_interval" in settings else events[:: settings.get("every", 1)]


def _some(counter: collections.Counter[Any]) -> str:
    shown = [f"{key[1:]} x {n}" for key, n in itertools.islice(counter.items(), 6)]
    return f"{sum(counter.values())}: {', '.join(shown)}"


def _unrolled(program: Program) -> bool:
    return any("unroll" in stmt.attrs.get("options", {}) for stmt in statements(program.main))


def _looks(program: Program) -> list[list[Stmt]]:
    """Returns the sites of each while loop's condition."""
    return [[stmt for stmt in look if stmt.kind == "site"] for look in _conditions(program)]


def _conditions(program: Program) -> list[list[Stmt]]:
    loops = [stmt for stmt in statements(program.main) if stmt.kind == "while" and len(stmt.regions) > 1]
    return [list(statements(stmt.regions[1])) for stmt in loops]


def _is_ordered(look: list[Stmt]) -> bool:
    """Returns true if a condition has an ordered callback:

    JAX then has the condition twice, before the loop and in it.
    """
    return any(stmt.attrs["what"].startswith("hcb_") or stmt.attrs["settings"].get("ordered") for stmt in look)


def _skipped(program: Program) -> set[int]:
    """Returns sites of conditions that XLA does not evaluate if it knows the number of steps."""
    return {stmt.attrs["site"] for look in _looks(program) if not _is_ordered(look) for stmt in look}


def _compare_order(program, by_site, expected, heard, threaded) -> None:
    """Checks that ordered events are in program order in each lane, and those of one site on one device in any case."""
    path = {(e.site, e.pos): e.lanes for e in expected}
    lanes = set(path.values())
    kinds = ("tap", "ref_tap", "named_tap", "hcb_tap")
    taps = {site for site, stmt in by_site.items() if stmt.attrs["what"] in kinds}
    inline = {
        site for site, stmt in by_site.items() if stmt.attrs["what"] in ("debug", "io", "hcb_call")
    }  # prints come last
    taps -= {site for site in taps if choosing.LEAVING & by_site[site].attrs["settings"].keys()} | _skipped(program)
    inline -= _skipped(program)
    ordered = {site for site in taps | inline if by_site[site].attrs["settings"].get("ordered")}
    groups = [("ordered", ordered)]
    if threaded:  # a call waits for the earlier taps if the call itself is ordered
        groups = [("taps", taps | ordered), ("calls", inline)]
    everything = [stmt for stmt, _ in within(program.main, set())]
    if not _unrolled(program) and not {stmt.kind for stmt in everything} & (DERIVATIVES | {"shard_map", "remat"}):
        groups += [(f"site {site}", {site}) for site in taps | inline]
    for name, group in groups:
        for lane in lanes:
            want = [(e.site, e.pos) for e in expected if e.site in group and e.lanes == lane] * program.runs
            got = [event[:2] for event in heard if event[0] in group and path[event[:2]] == lane]
            if got != want:
                raise Difference("order", f"order of {name} in lanes {lane}: expected {want}, got {got}")


def _release_refused() -> None:
    """Releases traces that did not end: JAX keeps those that captured an array in the registry of weakref.finalize."""
    for each in list(weakref.finalize._registry):
        kept = each.peek()
        if kept is not None and getattr(kept[1], "__name__", "") == "finalize_const":
            each.detach()


def live() -> dict[str, int]:
    """Counts live objects after everything that can be released was."""
    prelude.forget()
    for native in (prelude.compiled, prelude.kernel, prelude.foreign, prelude.foreign_of_keys):
        native.cache_clear()
    errors.clear()
    eager.forget_taps()
    counts: dict[str, int] = {}
    for _ in range(4):
        last = counts
        prelude.jax.clear_caches()
        _release_refused()
        gc.collect()
        callout.barrier_wait()
        counts = {kind: callout.stats()["live"][kind] for kind in ("callbacks", "sites", "blocks")}
        if counts == last:
            break
    return counts


TooLarge = boxes.TooLarge
