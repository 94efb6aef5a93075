# SPDX-License-Identifier: Apache-2.0
"""Tests the fuzzer of programs: it finds faults, shrinks their programs, and finds nothing in correct programs."""

import dataclasses
import os
import runpy
import sys
import sysconfig
from pathlib import Path

import callout
import checking
import drawing
import limited
import numpy as np
import prelude
import printing
import pytest
import seeds
import shrinking
from short_programs import a_site, hasty
from syntax import INTEGER, SCALAR, VECTOR, Program, Region, Stmt, Var, sites


def tap_beside_others() -> Program:
    n, x, v = Var("n0", INTEGER), Var("x1", SCALAR), Var("x2", VECTOR)
    y, z, inner, tapped = (Var(f"x{i}", SCALAR) for i in range(3, 7))
    doubled = Stmt("op", (z,), (y,), (), {"op": "scale", "by": 2})
    body = Region((inner,), (a_site(1, inner, tapped),), (tapped,))
    jitted = Stmt("jit", (Var("x7", SCALAR),), (z,), (body,), {"options": {}})
    first = a_site(0, x, y, "debug")
    return Program(
        Region((n, x, v), (first, doubled, jitted), (Var("x7", SCALAR),)),
        (np.int32(1), np.float32(3), np.ones(4, np.float32)),
    )


# Python 3.13t never releases functions that are not nested in another, such as those of programs.
KEEPS_FUNCTIONS = sys.version_info[:2] == (3, 13) and bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


@pytest.fixture(autouse=True)
def nothing_is_left():
    def live():
        counts = checking.live()
        return {**counts, "callbacks": 0} if KEEPS_FUNCTIONS else counts

    before = live()
    yield
    assert live() == before


def test_programs_match_their_oracles():
    for seed in range(4):
        try:
            checking.check(seeds.draw(seed))
        except (checking.TooLarge, checking.Refused, checking.Alike):
            pass


@pytest.mark.parametrize("policy", drawing.POLICIES)
def test_each_policy_matches_the_oracle(policy):
    n, x, v, inner = Var("n0", INTEGER), Var("x1", SCALAR), Var("x2", VECTOR), Var("x3", SCALAR)
    body = (
        a_site(0, inner, Var("x4", SCALAR)),
        Stmt("op", (Var("x5", SCALAR),), (Var("x4", SCALAR),), (), {"op": "name", "by": "kept"}),
        Stmt("op", (Var("x6", SCALAR),), (Var("x5", SCALAR), inner), (), {"op": "mul"}),
    )
    region = Region((inner,), body, (Var("x6", SCALAR),))
    remat = Stmt("remat", (Var("x8", SCALAR),), (Var("x7", SCALAR),), (region,), {"policy": policy, "options": {}})
    outer = Region((Var("x7", SCALAR),), (remat,), (Var("x8", SCALAR),))
    outs = (Var("x9", SCALAR), Var("x10", SCALAR))
    derivative = Stmt("vjp", outs, (x, x), (outer,), {"form": "vjp_"})
    checking.check(
        Program(Region((n, x, v), (derivative,), outs), (np.int32(1), np.float32(3), np.ones(4, np.float32)))
    )


def test_a_check_that_is_done_elsewhere_is_found(monkeypatch):
    n, x, v, y = Var("n0", INTEGER), Var("x1", SCALAR), Var("x2", VECTOR), Var("x3", SCALAR)
    inputs = (np.int32(1), np.float32(-3), np.arange(4, dtype=np.float32))
    program = Program(Region((n, x, v), (a_site(0, x, y, "check"),), (y,)), inputs)
    checking.check(program)
    monkeypatch.setattr(prelude, "checked", lambda site, pos, e, kind: callout.error_if(e, pos == 0, "no"))
    with pytest.raises(checking.Difference, match="check failed: no"):
        checking.check(program)


def test_shards_of_another_mesh_are_those_of_the_first():
    x = np.arange(4, dtype=np.float32)

    def shards(**options):
        return prelude.shard_map_(np.int32(0), 4, lambda pos, x: (x * 8 + pos,), [True], 1, x, **options)[0].tolist()

    assert shards(rows=2) == shards() == [0, 9, 18, 27]


def test_programs_are_the_same_for_the_same_seed():
    assert printing.source(seeds.draw(7)) == printing.source(seeds.draw(7)) != printing.source(seeds.draw(8))


def deaf(site, rank, **options):
    """Returns a tap function that does not record its record."""

    def tap(value, *, transforms=()):
        prelude.calls[site] = prelude.calls.get(site, 0) + 1

    tap.__qualname__ = f"site{site}"
    return tap


def test_a_lost_event_is_found_and_its_program_made_short(monkeypatch):
    program = tap_beside_others()
    checking.check(program)
    monkeypatch.setattr(prelude, "tapped", deaf)

    def fails(candidate: Program) -> bool:
        try:
            checking.check(candidate)
        except checking.Difference as difference:
            return difference.kind == "events of tap"
        return False

    assert fails(program)
    short = shrinking.shrunk(program, fails)
    assert [stmt.attrs["site"] for stmt in sites(short)] == [1]
    assert [stmt.kind for stmt in short.main.body] in (["site"], ["op", "site"])


def test_a_wrong_value_is_found(monkeypatch):
    tap = callout.tap
    monkeypatch.setattr(callout, "tap", lambda *args, **more: [x + 1 for x in tap(*args, **more)])
    with pytest.raises(checking.Difference, match=r"result 0: expected 6.0, got 7.0"):
        checking.check(tap_beside_others())


def tap_in_a_loop(**settings: object) -> Program:
    n, x, v, inner = Var("n0", INTEGER), Var("x1", SCALAR), Var("x2", VECTOR), Var("x3", SCALAR)
    tapped, out = Var("x4", SCALAR), Var("x5", SCALAR)
    body = Region((inner,), (a_site(0, inner, tapped, settings=settings),), (tapped,))
    loop = Stmt("scan", (out,), (x,), (body,), {"n": 3, "carried": 1, "options": {}})
    return Program(Region((n, x, v), (loop,), (out,)), (np.int32(1), np.float32(3), np.ones(4, np.float32)))


@pytest.mark.parametrize("settings", [{}, {"ordered": True}])
def test_a_wrong_order_is_found(monkeypatch, settings):
    checking.check(tap_in_a_loop(**settings))
    monkeypatch.setattr(prelude, "tapped", hasty)
    with pytest.raises(checking.Difference, match="order of ") as found:
        checking.check(tap_in_a_loop(**settings))
    assert found.value.kind == "order"


@pytest.mark.parametrize("counter", ["calls", "drops", "errors", "skips"])
def test_a_wrong_counter_is_found(monkeypatch, counter):
    stats, told = callout.stats, []

    def stats_with_one_more():
        told.append(stats())
        for row in told[-1]["callbacks"].values():
            row[counter] += len(told)
        return told[-1]

    checking.check(tap_in_a_loop())
    monkeypatch.setattr(callout, "stats", stats_with_one_more)
    with pytest.raises(checking.Difference, match=f"stats of site 0: expected {counter} = ") as found:
        checking.check(tap_in_a_loop())
    assert found.value.kind == "stats"


def test_differences_with_jax_callbacks_too_are_not_findings(monkeypatch):
    wrap = prelude.wrap
    monkeypatch.setattr(prelude, "wrap", lambda x, modulus=8: wrap(x, modulus) + 1)
    with pytest.raises(checking.Alike, match=r"result 0: expected 6.0, got 7.0"):
        checking.check(tap_beside_others())


def test_failures_without_callbacks_are_not_findings(monkeypatch):
    def wrap(x, modulus=8):
        raise LookupError("whoever calls")

    monkeypatch.setattr(prelude, "wrap", wrap)
    with pytest.raises(checking.Refused, match="of kind none: whoever calls"):
        checking.check(tap_beside_others())


def test_failures_only_with_our_callbacks_are_found(monkeypatch):
    def tap(*args, **more):
        raise LookupError("ours")

    monkeypatch.setattr(callout, "tap", tap)
    with pytest.raises(checking.Difference, match="raised LookupError in jax: ours"):
        checking.check(tap_beside_others())


@pytest.mark.parametrize("site", [0, 1])
def test_errors_of_callbacks_arrive_in_each_run(site):
    checking.check(dataclasses.replace(tap_beside_others(), fails=(site, 0), runs=3))


def test_an_error_that_does_not_arrive_is_found():
    with pytest.raises(checking.Difference, match="expected an error"):
        checking.check(dataclasses.replace(tap_beside_others(), fails=(0, 5)))


@pytest.mark.parametrize(("kind", "findings"), [("jax", 0), ("callout", 1)])
def test_a_process_that_ends_in_our_callbacks_is_a_finding(tmp_path, kind, findings):
    """Simulates a worker that ends at its third program, while callbacks of a kind run."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys, types\n"
        "checking = types.ModuleType('checking')\n"
        "class Never(Exception): pass\n"
        "checking.TooLarge = checking.Alike = checking.Refused = checking.Difference = Never\n"
        "checking.live = dict\n"
        "def check(program):\n"
        "    checking.announce('callout')\n"
        "    if program == 5:\n"
        f"        checking.announce({kind!r})\n"
        "        os._exit(9)\n"
        "checking.check = check\n"
        "seeds = types.ModuleType('seeds')\n"
        "seeds.draw = int\n"
        "sys.modules.update(checking=checking, seeds=seeds, printing=seeds, shrinking=seeds)\n"
    )
    done = limited.run(
        [sys.executable, str(Path(__file__).parent), "--seed=3", "--count=4"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert f"programs: {findings} findings" in done.stdout, done.stdout + done.stderr
    assert "5: ends the process with 9" in done.stdout or "seed 5 ends the process with 9" in done.stdout
    assert done.returncode == findings


@pytest.mark.parametrize(("leaks", "findings"), [(True, 1), (False, 0)])
def test_an_object_that_is_left_alive_is_found(tmp_path, leaks, findings):
    """Simulates a worker whose programs leak a callback each; it counts live objects after the second."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, types\n"
        "def draw(seed):\n"
        "    import callout, numpy as np\n"
        "    from syntax import INTEGER, Program, Region, Var\n"
        f"    if {leaks}:\n"
        "        callout.register(f'kept{seed}', print)\n"
        "    n = Var('n0', INTEGER)\n"
        "    return Program(Region((n,), (), (n,)), (np.int32(1),))\n"
        "seeds = types.ModuleType('seeds')\n"
        "seeds.draw = draw\n"
        "sys.modules['seeds'] = seeds\n"
    )
    done = limited.run(
        [sys.executable, str(Path(__file__).parent), "--seed=48", "--count=2"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert f"programs: {findings} findings" in done.stdout, done.stdout + done.stderr
    assert ("after programs up to this one, alive: {'callbacks': 2" in done.stdout) == leaks
    assert done.returncode == findings


@pytest.mark.parametrize(
    ("used", "stuck"),
    [([1, 1], True), ([1, 4], False), ([1, 4, 7], False), ([1, 4, 4.25], True), ([1, 100, 150, 182], True)],
)
def test_a_slow_worker_does_not_count_as_hanging(used, stuck):
    main = runpy.run_path(str(Path(__file__).with_name("__main__.py")), run_name="programs")
    assert main["is_stuck"](used, 180) == stuck


def loop_with_bar() -> Program:
    n, x, v, carried, y = Var("n0", INTEGER), Var("x1", SCALAR), Var("x2", VECTOR), Var("x3", SCALAR), Var("x4", SCALAR)
    attrs = {"n": 3, "carried": 1, "bar": 0, "options": {}}
    loop = Stmt("scan", (y,), (x,), (Region((carried,), (), (carried,)),), attrs)
    return Program(Region((n, x, v), (loop,), (y,)), (np.int32(1), np.float32(3), np.ones(4, np.float32)))


def test_bars_of_loops_match_the_oracle():
    checking.check(loop_with_bar())
    assert prelude.bars() == [(0, 3), (0, 3)]


def test_a_bar_that_is_drawn_twice_is_one():
    prelude.drawn[0].write(
        "\rbar5:   0%|   | 0/2 [00:00<?, ?it/s]" + "\rbar5: 100%|###| 2/2 [00:00<00:00, 13.30it/s]" * 2 + "\n"
    )
    assert prelude.bars() == [(5, 2)]


def test_an_incomplete_bar_is_found(monkeypatch):
    monkeypatch.setattr(prelude, "bars", lambda: [(0, 3), (0, 2)])
    with pytest.raises(checking.Difference, match=r"bars: expected {\(0, 3\): 2}, got {\(0, 3\): 1, \(0, 2\): 1}"):
        checking.check(loop_with_bar())


def test_a_printed_program_runs_by_itself(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(printing.standalone(tap_beside_others()))
    done = limited.run([sys.executable, str(path)], capture_output=True, text=True, timeout=100, check=True)
    assert "(1, 0, (6.0,))" in done.stdout
