# SPDX-License-Identifier: Apache-2.0
"""Tests random embedded descriptions of bars: they are rejected, or drawn within bounds."""

import contextlib
import io
import os
import random

import numpy as np
import pytest
from callout.progress import _bars, _embedded
from callout.progress._bars import FIRST, LAST
from callout.progress._settings import make_settings

ROUNDS = int(os.environ.get("CALLOUT_FUZZ_ROUNDS", "40"))  # for each seed; ci/nightly.sh sets both
FIRST_SEED = int(os.environ.get("CALLOUT_FUZZ_SEED", "0"))
LONGEST = 600_000  # characters that a bar may draw for a message: some hundred fields of at most 999 columns

FIELDS = sorted(_embedded._FIELDS)
PIECES = [
    "{",
    "}",
    "{{",
    "}}",
    ":",
    "!r",
    "!s",
    ".",
    "[",
    "]",
    "__class__",
    "%",
    "%Y",
    "999",
    "1000",
    ">",
    "0",
    ",",
    "f",
    "d",
    "b",
    " ",
]
NUMBERS = [
    0,
    1,
    -1,
    2,
    10,
    1000,
    1023,
    1024,
    1025,
    10**4,
    10**9,
    2**63,
    2**64,
    1e18,
    1e300,
    -1e300,
    0.5,
    float("inf"),
    float("nan"),
]


def text(rng):
    return "".join(
        rng.choice(["a", "ä", "\n", "\t", "\x1b[1m", "\x1b[2J", "{n}", " " * 100]) for _ in range(rng.randrange(4))
    )


def bar_format(rng):
    parts = []
    for _ in range(rng.randrange(1, 6)):
        if rng.random() < 0.7:
            spec = rng.choice(["", "", ":10", ":.1f", ":>5", ":999", ":-10b", ":%H", ":,"])
            parts.append("{" + rng.choice(FIELDS) + spec + "}")
        else:
            parts.append(rng.choice(PIECES))
    return "".join(parts)


def value(rng, name):
    makers = [
        lambda: rng.choice(NUMBERS),
        lambda: rng.choice([True, False, None]),
        lambda: text(rng),
        lambda: {text(rng): rng.choice([*NUMBERS, text(rng)])},
        lambda: [rng.choice(NUMBERS)],
    ]
    if name == "bar_format" and rng.random() < 0.9:
        return bar_format(rng)
    return rng.choice(makers)()


def bar(rng):
    names = rng.sample(sorted(_embedded._TQDM), rng.randrange(5)) + rng.choice([[], [], ["file"], ["gui"]])
    tqdm = {name: value(rng, name) for name in names}
    told = {"where": "w", "print_rate": None, "tqdm_type": "std", "devices": "each", "only_process": 0, "tqdm": tqdm}
    loop = {
        "names": ["loss"][: rng.randrange(2)],
        "total": rng.choice([None, 10, 0]),
        "scale": 1,
        "rest": 0,
        "parts": 1,
    }
    loop |= {"is_mapped": False, "total_told": 10}
    if rng.random() < 0.2:
        some = rng.choice([told, loop])
        some[rng.choice(sorted(some))] = value(rng, "")
    return told, loop


def head(steps, flags, number):
    return np.array([0, 0, number, 7, 0, 0, 0, 0, steps, flags], np.uint32)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + 10))
def test_accepted_bars_are_drawn_within_bounds(seed):
    rng = random.Random(seed)
    drawn = 0
    for round_ in range(ROUNDS):
        told, loop = bar(rng)
        try:
            _embedded.check_bar(told, loop, [False, False])
        except ValueError:
            continue
        more = {key: each for key, each in told.items() if key != "where"}
        read = {key: each for key, each in loop.items() if key not in ("names", "total_told")}
        out = io.StringIO()
        # A format may still not fit its values, such as "{desc:f}"; this is an error of the tap.
        misfits = (ValueError, TypeError, ZeroDivisionError, KeyError, Warning)
        with contextlib.redirect_stderr(out), contextlib.suppress(*misfits):
            made = _bars.Loop(make_settings("w", loop["total_told"], **more), loop["names"], **read)
            fields = [np.float32(1.5)] * len(loop["names"])
            made((head(0, FIRST, round_ + 1), None, None, fields))
            made((head(10, LAST, round_ + 1), None, None, fields))
            drawn += 1
        assert len(out.getvalue()) <= LONGEST, (told, loop)
    _bars.board.close()
    assert drawn > 0
