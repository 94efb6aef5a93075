# SPDX-License-Identifier: Apache-2.0
"""Tests the replacement of JAX's functions. tests/process/test_patched_jax.py tests the effects for users."""

import copy
import importlib
import inspect
import pickle
import threading
import traceback
from pathlib import Path

import callout
import pytest
from callout import _ext
from callout._base import errors, patches


def frames(error):
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def original(*args, **kwargs):
    """The docstring that a patched function keeps."""
    if args[-1:] == ("fail",):
        raise KeyError("original")
    return args, kwargs


@pytest.fixture
def theirs():
    """Makes a class of another library, whose method is to be patched."""

    class Base:
        def inherited(self):
            return "inherited"

    class Theirs(Base):
        def method(self, x):
            return x + 1

    return Theirs


@pytest.fixture
def patch(monkeypatch):
    """Returns a function that makes a patch of the given places, for this test."""

    def make(*places, **more):
        name = f"test {len(patches.TABLE)}"
        texts = dict.fromkeys(("setting", "home", "replaces", "what", "when", "without"), "")
        entry = patches.Patch(name, **{**texts, "home": "_base.errors", **more})
        monkeypatch.setitem(patches.TABLE, name, entry)
        monkeypatch.setattr(errors, "hooked", lambda: list(places))
        return name

    for state in ("_ensured", "_switched_off", "_hooks"):
        monkeypatch.setattr(patches, state, vars(patches)[state].copy())
    return make


def test_a_hook_without_parts_is_the_original():
    hook = _ext.Hook(original)
    assert hook(1, b=2) == ((1,), {"b": 2})
    assert hook.__wrapped__ is hook.callout_original is original
    assert (hook.__name__, inspect.signature(hook)) == ("original", inspect.signature(original))
    with pytest.raises(TypeError):
        _ext.Hook(1)


def test_the_result_of_before_replaces_the_call():
    def before(inner, *args, **kwargs):
        assert inner is original
        return NotImplemented if args == (1,) else (args, "ours", kwargs)

    hook = _ext.Hook(original, before=before)
    assert hook(1, b=2) == ((1,), {"b": 2})
    assert hook(2, b=2) == ((2,), "ours", {"b": 2})
    hook.active = False
    assert hook(2) == ((2,), {})


def test_after_sees_the_result_and_failed_the_exception():
    seen = []
    hook = _ext.Hook(original, after=lambda *args: seen.append(args), failed=lambda *args: seen.append(args))
    assert hook(1) == ((1,), {})
    with pytest.raises(KeyError, match="original") as info:
        hook("fail")
    assert seen == [(((1,), {}), 1), (info.value, "fail")]


def test_errors_of_after_and_failed_are_raised():
    def refuse(*_):
        raise ValueError("ours")

    for argument, part in ((1, "after"), ("fail", "failed"), (1, "before")):
        with pytest.raises(ValueError, match="ours"):
            _ext.Hook(original, **{part: refuse})(argument)


def test_tracebacks_have_no_frame_of_a_hook():
    parts = {"before": lambda *_: NotImplemented, "after": print, "failed": lambda *_: None}
    for active in (True, False):
        hook = _ext.Hook(original, **parts)
        hook.active = active
        with pytest.raises(KeyError) as info:
            hook("fail")
        assert frames(info.value)[1:] == ["original"]


def test_a_hook_in_a_class_is_a_method(theirs):
    theirs.method = _ext.Hook(theirs.method, after=lambda result, instance, x: seen.append((result, instance, x)))
    seen = []
    instance = theirs()
    assert instance.method(1) == 2
    assert seen == [(2, instance, 1)]
    assert theirs.method(instance, 1) == 2
    assert len(seen) == 2


class Method:
    """A callable class that pickle finds by its name."""

    def method(self, x):
        return x + 1


def test_hooks_are_pickled_by_name_or_as_their_original(patch):
    entries = {"key": original}
    places = patches.Place(Method, "method", after=print), patches.Place(entries, "key", before=lambda *_: "ours")
    before, name = Method.method, patch(*places)
    patches.ensure(name)
    try:
        pickled, pickled_entry = pickle.dumps(Method.method), pickle.dumps(entries["key"])
        assert pickle.loads(pickled) is Method.method is not before
        for hook in (Method.method, entries["key"]):
            assert copy.copy(hook) is copy.deepcopy(hook) is hook
    finally:
        patches.switch(name, False)
    assert pickle.loads(pickled) is before
    assert pickle.loads(pickled_entry) is original


def test_a_switch_installs_and_restores_only_needed_places(patch, theirs):
    before, entries = theirs.method, {"key": original}
    name = patch(
        patches.Place(theirs, "method", after=print),
        patches.Place(theirs, "inherited", before=lambda *_: "ours"),
        patches.Place(entries, "key", before=lambda *_: "ours"),
    )
    patches.switch(name, True)
    assert theirs.method is before  # nothing needed the patch yet
    patches.ensure(name)
    patches.ensure(name)
    assert name in patches.installed()
    assert (theirs().inherited(), entries["key"]()) == ("ours", "ours")
    assert theirs.method.callout_original is before
    patches.switch(name, False)
    assert name not in patches.installed()
    assert theirs.method is before
    assert entries == {"key": original}
    assert "inherited" not in vars(theirs)
    patches.ensure(name)
    assert theirs.method is before
    patches.switch(name, True)
    assert theirs.method.callout_original is before


def test_a_function_over_a_hook_stays(patch, theirs):
    name = patch(patches.Place(theirs, "method", before=lambda *_: "ours"))
    patches.ensure(name)
    ours = theirs.method
    theirs.method = over = lambda self, x: ours(self, x)
    patches.switch(name, False)
    assert theirs.method is over
    assert theirs().method(1) == 2  # the hook is installed and does nothing
    patches.switch(name, True)
    assert theirs.method is over
    assert theirs().method(1) == "ours"


def test_a_patch_for_other_versions_is_left_out(patch, theirs):
    before = theirs.method
    for versions in ({"first_jax": (99,)}, {"last_jax": (0, 9)}):
        patches.ensure(patch(patches.Place(theirs, "method", after=print), **versions))
        assert theirs.method is before
    newest = patches.Patch("", "", "", "", "", "", "", last_jax=(0, 12))
    assert newest.fits((0, 12, 1))
    assert not newest.fits((0, 13))


def test_another_copy_replaces_the_hook(patch, theirs):
    before = theirs.method
    name = patch(patches.Place(theirs, "method", before=lambda *_: "ours"))
    patches.ensure(name)
    first = theirs.method
    old = {key: vars(patches)[key] for key in ("_lock", "_ensured", "_switched_off", "_hooks", "TABLE")}
    try:
        again = importlib.reload(patches)
        again.TABLE[name] = old["TABLE"][name]
        again.ensure(name)
        assert theirs.method is not first
        assert theirs.method.callout_original is before
    finally:
        vars(patches).update(old)


def test_threads_that_need_a_patch_at_once_install_one_layer(patch, theirs):
    before = theirs.method
    for _ in range(20):
        theirs.method = before
        name = patch(patches.Place(theirs, "method", before=lambda *_: "ours"))
        start = threading.Barrier(8)
        answers = []

        def need(name=name, start=start, answers=answers):
            start.wait(60)
            patches.ensure(name)
            answers.append(theirs().method(1))

        threads = [threading.Thread(target=need) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == ["ours"] * 8
        assert theirs.method.callout_original is before


def test_the_documented_table_matches_the_code():
    text = (Path(__file__).parents[3] / "docs" / "patches.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert rows == list(patches.rows())
    for patch in patches.TABLE.values():
        assert getattr(callout.config, patch.setting) is True
        assert importlib.import_module(f"callout.{patch.home}").hooked()
