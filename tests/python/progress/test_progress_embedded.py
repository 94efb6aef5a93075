# SPDX-License-Identifier: Apache-2.0
"""Tests embedded descriptions of bars: whatever a program contains, it only draws a bar."""

import io
import json
import urllib.parse
from contextlib import redirect_stderr

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout.progress import _bars, _embedded
from callout.progress._bars import FIRST, LAST
from jax import lax

TQDM = {"desc": "far", "leave": None, "mininterval": 0}
TOLD = {"where": "w", "print_rate": None, "tqdm_type": "std", "devices": "each", "only_process": 0, "tqdm": TQDM}
LOOP = {"names": [], "total": 10, "scale": 1, "rest": 0, "parts": 1, "is_mapped": False, "total_told": 10}


def payload(told=None, loop=None, parts=(False, False), version=1, **tqdm):
    settings = {**TOLD, "tqdm": {**TQDM, **tqdm}, **(told or {})}
    return urllib.parse.quote(json.dumps([version, settings, {**LOOP, **(loop or {})}, list(parts)]), safe="")


def head(steps, flags):
    return np.array([0, 0, 2**31 + 7, 0, 0, 0, 0, 0, steps, flags], np.uint32)


def run(text, *messages):
    """Runs a program with a bar that `text` describes."""

    def tell(x):
        for message in messages:
            leaves = jax.tree.leaves(message)
            callout.tap(f"progress_bar:{text}", tuple(map(jnp.asarray, leaves)), ordered=True)
        return x

    drawn = io.StringIO()
    with redirect_stderr(drawn):
        jax.jit(tell)(1.0)
        callout.barrier_wait()
    return drawn.getvalue()


WHOLE = (head(0, FIRST),), (head(10, LAST),)


def test_an_honest_bar_is_drawn():
    assert "far: 100%|" in run(payload(), *WHOLE)


@pytest.mark.parametrize(
    "bar_format",
    [
        "{bar.__class__}",
        "{bar.__class__.__init__.__globals__[os].environ}",
        "{desc.__class__}",
        "{n[0]}",
        "{}",
        "{0}",
        "{secret}",
        "{bar:1000000000}",
        "{bar:1000}",
        "{bar!r}",
        "{n:1000000000}",
        "{n:.1000000000f}",
        "{n:{ncols}}",
        "{n:{bar.__class__}}",
        "{eta:%1000000000Y}",
        "{eta:%H:%M" + "%E" * 600 + "}",
        "{desc!r}",
        "{bar",
        "}",
        "x" * 2000,
        "\x1b]0;title\x07{bar}",
    ],
)
def test_formats_have_the_documented_fields_and_nothing_else(bar_format):
    with pytest.raises(callout.TapError, match="a program carries a bar whose bar_format is refused"):
        run(payload(bar_format=bar_format), *WHOLE)


@pytest.mark.parametrize(
    "bar_format",
    [
        "{l_bar}{bar}{r_bar}",
        "{desc}: {percentage:3.0f}%|{bar:10}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]",
        "{bar:-10b}{bar:30u} {n:>10} {n:,} {elapsed_s:.2f} {eta:%d/%m %H:%M:%S} {{braces}} {unit!s}",
    ],
)
def test_formats_that_tqdm_documents_are_drawn(bar_format):
    text = run(payload(bar_format=bar_format), *WHOLE)
    assert text.count("\r") >= 2


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("desc", "x" * 257),
        ("desc", "\x1b[2J"),
        ("desc", "\x07"),
        ("desc", 3),
        ("unit", "x" * 257),
        ("unit", None),
        ("ncols", 300_000_000),
        ("ncols", -1),
        ("ncols", 1.5),
        ("nrows", 10**9),
        ("position", 10**9),
        ("ascii", "#"),
        ("ascii", "#" * 300),
        ("colour", "x" * 300),
        ("unit_divisor", 0),
        ("unit_scale", 1e300),
        ("initial", 1e300),
        ("initial", float("nan")),
        ("smoothing", 2),
        ("miniters", "1"),
        ("mininterval", float("nan")),
        ("postfix", {str(i): i for i in range(65)}),
        ("postfix", {"a": [1]}),
        ("postfix", "x" * 300),
        ("postfix", [1]),
        ("leave", "yes"),
        ("disable", 1),
        ("file", 1),
        ("gui", True),
        ("iterable", [1]),
        ("total", 3),
        ("lock_args", [True]),
        ("__class__", 1),
    ],
    ids=str,
)
def test_every_setting_of_tqdm_is_bounded(member, value):
    with pytest.raises(callout.TapError, match="a program carries a bar whose"):
        run(payload(**{member: value}), *WHOLE)


@pytest.mark.parametrize(
    "given",
    [
        {"told": {"where": "x" * 300}},
        {"told": {"where": None}},
        {"told": {"print_rate": 0}},
        {"told": {"print_rate": 1.5}},
        {"told": {"only_process": "all"}},
        {"told": {"more": 1}},
        {"told": {"tqdm": []}},
        {"loop": {"names": ["x" * 300]}},
        {"loop": {"names": ["x"] * 65}},
        {"loop": {"names": {"a": 1}}},
        {"loop": {"names": [1]}},
        {"loop": {"total": -1}},
        {"loop": {"total": 2**70}},
        {"loop": {"total": 1e400}},
        {"loop": {"scale": 0}},
        {"loop": {"rest": -1}},
        {"loop": {"parts": 2**40}},
        {"loop": {"parts": True}},
        {"loop": {"is_mapped": 1}},
        {"loop": {"more": 1}},
        {"parts": (1, 0)},
        {"parts": (True,)},
    ],
    ids=str,
)
def test_every_other_member_is_bounded(given):
    with pytest.raises(callout.TapError, match="a program carries a bar whose"):
        run(payload(**given), *WHOLE)


@pytest.mark.parametrize(
    "text", ["", "1", "null", "[]", "[1]", "[1,1]", "[[1]]", "[" * 60000, "{}", "%", "[1,2,3,4,5]"]
)
def test_an_invalid_bar_is_an_error_of_the_tap(text):
    with pytest.raises(callout.TapError, match=r"callout\.progress: "):
        run(text, *WHOLE)


def test_a_payload_is_bounded():
    with pytest.raises(callout.TapError, match="expected at most 65536"):
        run(payload(desc="x") + "%20" * _embedded.MOST_PAYLOAD, *WHOLE)


BAR = payload(loop={"names": ["loss"]}, parts=(True, True))


@pytest.mark.parametrize(
    ("message", "match"),
    [
        ((np.zeros(9, np.uint32), [0], [0], [1.0]), "head"),
        ((np.zeros(10, np.float32), [0], [0], [1.0]), "head"),
        ((np.zeros((1, 10), np.uint32), [0], [0], [1.0]), "head"),
        ((head(1, FIRST), [10**9], [0], [1.0]), "ids"),
        ((head(1, FIRST), [-(10**9)], [0], [1.0]), "ids"),
        ((head(1, FIRST), [np.nan], [0], [1.0]), "ids"),
        ((head(1, FIRST), np.arange(2000), [0], [1.0]), "ids"),
        ((head(1, FIRST), np.zeros(0), [0], [1.0]), "ids"),
        ((head(1, FIRST), [0, 1, 2], [0, 1], [1.0]), "lanes"),
        ((head(1, FIRST), [0, 1, 2], np.zeros(2000), [1.0]), "lanes"),
        ((head(1, LAST), [0, 1, 2], [0], np.zeros(0)), "field"),
    ],
)
def test_invalid_messages_are_rejected(message, match):
    with pytest.raises(callout.TapError, match=f"a program carries a bar whose {match} is refused"):
        run(BAR, [np.asarray(part) for part in message])


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_message_with_wrong_operands_is_rejected(count):
    with pytest.raises(callout.TapError):
        run(BAR, [np.zeros(1, np.float32)] * count)


def test_open_bars_are_bounded(monkeypatch):
    monkeypatch.setattr(_bars, "_MAX_BARS", 8)
    messages = []
    for number in range(1, 40):
        words = head(1, 0)
        words[2:4] = number, 77
        messages.append((words,))
    run(payload(), *messages)
    opened = [shown for shown in _bars.board._shown.values() if shown.bars]
    assert len(opened) <= 8
    _bars.board.close()


def test_settings_of_a_user_are_valid_in_programs():
    told = _embedded.LoopTarget(
        _bars.Loop(
            callout.progress._settings.make_settings("w", 10, tqdm={"desc": "\x1b[1mbold\x1b[0m ä", "ncols": 80}),
            ("a",),
            total=10,
        ),
        (0, None, None, (0,)),
    )
    name = told.exported_name("here")
    _embedded.carried_bar(name.removeprefix("progress_bar:"))


def test_a_bar_that_a_loader_would_refuse_is_not_exported():
    bar = callout.progress.progress(desc="x" * 1000, tqdm_type="std")
    f = jax.jit(lambda x: lax.scan(bar(lambda c, _: (c + 1, None)), x, None, length=10)[0])
    with pytest.raises(ValueError, match="desc is refused: expected a text of at most 256 characters"):
        callout.export(f)(jnp.float32(0))
