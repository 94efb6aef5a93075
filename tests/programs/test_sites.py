# SPDX-License-Identifier: Apache-2.0
"""Tests that each kind of callback, dtype and setting that the fuzzer of programs draws does what the oracle says."""

import dataclasses
import random

import callout
import checking
import choosing
import drawing
import numpy as np
import prelude
import pytest
from short_programs import a_site, hasty, one_site
from syntax import INTEGER, SCALAR, VECTOR, Program, Region, Stmt, Type, Var


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = checking.live()
    yield
    assert checking.live() == before


@pytest.mark.parametrize("what", ["numba", "ffi", "cpp", "ref_tap", "check", "hcb_print"])
def test_sites_of_each_kind_match_the_oracle(what):
    if what == "numba":
        pytest.importorskip("numba")
    n, x, v, y, z = Var("n0", INTEGER), Var("x1", SCALAR), Var("x2", VECTOR), Var("x3", SCALAR), Var("x4", VECTOR)
    more = {"method": "expand_dims"} if what in prelude.NATIVE else {}
    body = (a_site(0, x, y, what, **more), a_site(1, v, z, what, **more))
    inputs = (np.int32(1), np.float32(-3), np.arange(4, dtype=np.float32))
    checking.check(Program(Region((n, x, v), body, (y, z)), inputs))
    assert [event[0] for event in prelude.events] == ([0, 1] * 2 if what in ("ref_tap", "hcb_print") else [])


@pytest.mark.parametrize("dtype", [*prelude.MODULUS, *prelude.WIDE])
def test_sites_of_each_dtype_match_the_oracle(dtype):
    n, x, v, y, z = Var("n0", INTEGER), Var("x1", SCALAR), Var("x2", VECTOR), Var("x3", SCALAR), Var("x4", VECTOR)
    more = {"dtype": dtype, "modulus": (prelude.MODULUS | prelude.WIDE)[dtype], "options": {"args": "jax"}}
    body = (a_site(0, x, y, "io", **more), a_site(1, v, z, **more))
    inputs = (np.int32(1), np.float32(-3), np.arange(4, dtype=np.float32))
    checking.check(Program(Region((n, x, v), body, (y, z)), inputs, wide=dtype in prelude.WIDE))
    assert sorted(event[0] for event in prelude.events) == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("what", "settings"),
    [
        ("tap", {"sharding": "local", "device_index": 0, "with_index": True}),
        ("tap", {"only_device": 1, "on_full": "fail"}),
        ("hcb_tap", {"tap_with_device": True}),
        ("hcb_call", {"call_with_device": True}),
        ("buffer", {"input_output_aliases": {1: 0}, "has_side_effect": True}),
    ],
)
def test_settings_match_the_oracle(what, settings):
    n, x, v, y = Var("n0", INTEGER), Var("x1", SCALAR), Var("x2", VECTOR), Var("x3", SCALAR)
    inputs = (np.int32(1), np.float32(-3), np.arange(4, dtype=np.float32))
    checking.check(Program(Region((n, x, v), (a_site(0, x, y, what, settings=settings),), (y,)), inputs))
    assert len(prelude.events) == (0 if "only_device" in settings else 2)


@pytest.mark.parametrize("kind", ["error", "check", "nan", "off", "warn", "warn_if"])
def test_checks_of_each_kind_match_the_oracle(kind):
    checking.check(one_site("check", check=kind))


def test_a_check_that_never_warns_is_found(monkeypatch):
    monkeypatch.setattr(callout, "warn_if", lambda x, *_, **__: x)
    with pytest.raises(checking.Difference, match=r"checks of sites \[0\] never warned"):
        checking.check(one_site("check", check="warn_if"))


def test_a_check_that_warns_elsewhere_is_found(monkeypatch):
    warn_if = callout.warn_if
    monkeypatch.setattr(callout, "warn_if", lambda *args, pos, **more: warn_if(*args, pos=pos + 1, **more))
    with pytest.raises(checking.Difference, match=r"checks warned at \[\(0, 1\)\]"):
        checking.check(one_site("check", check="warn_if"))


@pytest.mark.parametrize("what", ["pure", "io", "debug", "tap", "ffi"])
def test_keys_are_heard_and_answered_as_the_numbers_in_them(what):
    checking.check(one_site(what, dtype="uint32", keyed=what != "ffi", method="expand_dims"))
    assert len(prelude.events) == (0 if what == "ffi" else 2)


@pytest.mark.parametrize("what", ["pure", "io", "cpp", "numba"])
def test_calls_on_a_named_device_match_the_oracle(what):
    if what == "numba":
        pytest.importorskip("numba")
    checking.check(dataclasses.replace(one_site(what, on=0, method="legacy_vectorized"), mode="eager"))


@pytest.mark.parametrize("use", ["used", "ignored"])
def test_results_of_taps_match_the_oracle(use):
    checking.check(one_site("tap", result=use))
    assert len(prelude.events) == 2


@pytest.mark.parametrize(("lanes", "drawn"), [(0, True), (1, True), (2, False)])
def test_functions_can_tell_which_lanes_their_operands_have(lanes, drawn):
    sites = [choosing.site(random.Random(seed), choosing.Scope(lanes=lanes), 0) for seed in range(300)]
    heard = [site["settings"]["vmap_method"] for site in sites if site["what"] in ("pure", "buffer")]
    assert ("legacy_vectorized" in heard) == drawn
    assert "expand_dims" in heard


def two_in_shards() -> Program:
    n, x, v, out = Var("n0", INTEGER), Var("x1", SCALAR), Var("x2", VECTOR), Var("x3", VECTOR)
    whole, first, second = (Var(f"x{i}", Type("f", (2,))) for i in (4, 5, 6))
    body = tuple(
        a_site(site, x, y, settings={"ordered": True}) for site, (x, y) in enumerate([(whole, first), (first, second)])
    )
    attrs = {"n": 2, "split": (True,), "options": {}}
    spread = Stmt("shard_map", (out,), (v,), (Region((whole,), body, (second,)),), attrs)
    return Program(Region((n, x, v), (spread,), (out,)), (np.int32(1), np.float32(3), np.arange(4, dtype=np.float32)))


@pytest.mark.skipif(2 not in drawing.DEVICES, reason="needs two devices")
def test_ordered_callbacks_of_each_shard_are_in_order(monkeypatch):
    checking.check(two_in_shards())
    monkeypatch.setattr(prelude, "tapped", hasty)
    with pytest.raises(checking.Difference, match="order of ordered"):
        checking.check(two_in_shards())
