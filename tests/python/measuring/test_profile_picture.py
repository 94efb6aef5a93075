# SPDX-License-Identifier: Apache-2.0
"""Pictures of profiles."""

import builtins

import callout
import pytest
from callout._measuring.profile import picture
from profiled import F32, double, loop, named


def end_in_ns(figure):
    timeline, levels = figure.axes
    unit = levels.get_xlabel().rpartition("(")[2].rstrip(")")
    return timeline.get_xlim()[1] * {name: size for size, name in picture._UNITS}[unit]


def test_a_picture_is_drawn(tmp_path, received):
    pytest.importorskip("matplotlib")
    tap = named(received.tap, "a tap")
    with callout.profile() as profile:
        loop(lambda x: callout.pure_callback(named(double, "a call"), F32, callout.tap(tap, x)) / 2, 20)
    figure = profile.picture(tmp_path / "timeline.png", title="A title")
    assert (tmp_path / "timeline.png").read_bytes().startswith(b"\x89PNG")
    timeline, levels = figure.axes
    assert [label.get_text() for label in timeline.get_yticklabels()] == [row.name for row in profile.rows]
    legend = [text.get_text() for text in timeline.get_legend().get_texts()]
    assert {"a tap", "a call", "waits for the GIL"} <= set(legend)
    assert levels.get_xlabel().startswith("time since the profile began")
    with pytest.raises(ValueError, match="between"):
        profile.picture(between=(2, 1))
    until_the_end = profile.picture(between=(0, float("inf")))
    assert end_in_ns(until_the_end) == pytest.approx(end_in_ns(figure))


def test_an_empty_profile_has_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    with callout.profile() as profile:
        pass
    profile.picture(tmp_path / "empty.png")


def test_a_picture_without_matplotlib_says_how_to_get_it(monkeypatch):
    with callout.profile() as profile:
        pass
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        profile.picture("nothing.png")
