# SPDX-License-Identifier: Apache-2.0
"""The timeline as a picture: rows of spans, a colour a callback, and below them how full the queues were."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import tables
from .recording import KIND, WORKERS, Recording

# Easy to tell apart, also for most of those who see colours differently; then grey for all others.
_COLOURS = ("#3b6fb6", "#e08a2c", "#4a9d6b", "#8a63b0", "#c9b83a", "#d1719d", "#48a9c2", "#8c5a3c")
_OTHER = "#a8adb4"
_QUEUE_COLOURS = ("#3d4854", "#9a5b52", "#5f7f5a", "#6b7fa3", "#a1884f", "#86688f")
_INK, _FAINT = "#22272e", "#d9dde2"
# Inside of others: what held them up.
_WAITS = {
    "wait for room": ("#c5303a", "waits for room in the queue"),
    "wait for taps": ("#f0747c", "waits for earlier taps"),
    "wait for GIL": ("#22272e", "waits for the GIL"),
    "copy": ("#ffffff", "copies arguments or results"),
}
_FULL, _THIN = 0.72, 0.26  # heights of bars, of a row's 1
_WIDE = 3  # pixels: bars that are told apart
_PIXELS_AN_INCH = 110
_MOST_ARROWS = 120
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))


def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "callout.profile: a picture needs Matplotlib, which is not installed: pip install matplotlib"
        ) from error
    return Figure


def _merged(begin: np.ndarray, end: np.ndarray, gap: float) -> list[tuple[float, float]]:
    """Returns (begin, width) of spans, sorted by begin; those closer than `gap`, which nobody can tell apart, are one."""
    if not len(begin):
        return []
    reach = np.maximum.accumulate(end)
    first = np.concatenate(([True], begin[1:] - reach[:-1] > gap))
    begins = begin[first]
    ends = np.maximum.reduceat(end, np.flatnonzero(first))
    return list(zip(begins.tolist(), np.maximum(ends - begins, gap).tolist(), strict=True))


class _Picture:
    def __init__(self, recording: Recording, width: float, between: tuple[float, float] | None):
        raw = recording.raw
        self.recording = recording
        self.width = width
        spans = raw[(raw["kind"] != KIND["queue"])]
        first = int(spans["begin"].min()) if len(spans) else 0
        last = int(spans["end"].max()) if len(spans) else int(recording.core.duration_ns)
        margin = max(1, (last - first) // 100)
        self.begin, self.end = (first - margin, last + margin)
        if between is not None:
            self.begin, self.end = (
                int(second * 1e9) if np.isfinite(second) else end
                for second, end in zip(between, (self.begin, self.end), strict=True)
            )
        if self.end <= self.begin:
            raise ValueError(f"callout.profile: picture: `between` must be (begin, end) in seconds, got {between!r}")
        self.unit, self.unit_name = next(
            each for each in _UNITS if self.end - self.begin >= 2 * each[0] or each[0] == 1
        )
        self.pixel = (self.end - self.begin) / self.unit / (width * _PIXELS_AN_INCH)
        self.order = self._labels_by_time()
        self.figure: Any = None

    def _labels_by_time(self) -> list[int]:
        raw = self.recording.raw
        spans = raw[np.isin(raw["kind"], [KIND[kind] for kind in ("call", "tap", "delivery", "flush", "phase")])]
        seconds = np.bincount(
            spans["label"], (spans["end"] - spans["begin"]).astype(np.float64), len(self.recording.labels)
        )
        used = np.unique(spans["label"])
        return sorted((int(label) for label in used), key=lambda label: -seconds[label])

    def colour(self, label: int) -> str:
        place = self.order.index(label) if label in self.order else len(_COLOURS)
        return _COLOURS[place] if place < len(_COLOURS) else _OTHER

    def times(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(values.astype(np.float64) / self.unit)

    def bars(self, axes: Any) -> None:
        raw, row_of = self.recording.raw, self.recording.row_of
        seen = (raw["end"] >= self.begin) & (raw["begin"] <= self.end)
        full = [KIND[kind] for kind in ("call", "tap", "delivery", "flush", "function", "phase")]
        colours = {label: self.colour(label) for label in range(len(self.recording.labels))}
        colour_of = np.array([colours[label] for label in range(len(self.recording.labels))], object)
        for number in range(len(self.recording.rows)):
            own = raw[seen & (row_of == number)]
            bars = own[np.isin(own["kind"], full)]
            for colour in dict.fromkeys((*_COLOURS, _OTHER)):
                some = bars[colour_of[bars["label"]] == colour] if len(bars) else bars
                self._bars_of(axes, some, number, _FULL, colour)
            for kind, (colour, _) in _WAITS.items():
                self._bars_of(axes, own[own["kind"] == KIND[kind]], number, _THIN, colour)
            self._drops(axes, own[own["kind"] == KIND["drop"]], number)

    def _bars_of(self, axes: Any, events: np.ndarray, row: int, height: float, colour: str) -> None:
        begin, end = self.times(events["begin"]), self.times(events["end"])
        wide = end - begin > _WIDE * self.pixel
        place = (row - height / 2, height)
        if wide.any():
            spans = list(zip(begin[wide].tolist(), (end - begin)[wide].tolist(), strict=True))
            edge = {"edgecolor": "white", "linewidth": 0.5} if height == _FULL else {"linewidth": 0}
            axes.broken_barh(spans, place, facecolor=colour, zorder=2, **edge)
        if height == _FULL:  # what is narrow, and inside of others, would hide them
            spans = _merged(begin[~wide], end[~wide], self.pixel)
            axes.broken_barh(spans, place, facecolor=colour, linewidth=0, zorder=2)

    def _drops(self, axes: Any, drops: np.ndarray, row: int) -> None:
        if len(drops):
            places = self.times(drops["begin"])
            axes.plot(places, np.full(len(places), row - 0.44), "v", color="#c5303a", markersize=4, zorder=4)

    def arrows(self, axes: Any) -> None:
        """Draws arrows from taps to their deliveries, where there are few enough to see."""
        raw, row_of = self.recording.raw, self.recording.row_of
        seen = (raw["flow"] != 0) & (raw["begin"] >= self.begin) & (raw["begin"] <= self.end)
        where = np.flatnonzero(seen)
        taps = {int(raw["flow"][i]): i for i in where if raw["kind"][i] == KIND["tap"]}
        ends = [i for i in where if raw["kind"][i] == KIND["delivery"] and int(raw["flow"][i]) in taps]
        if len(ends) > _MOST_ARROWS:
            return
        for end in ends:
            tap = taps[int(raw["flow"][end])]
            x = self.times(np.array([raw["begin"][tap], raw["begin"][end]]))
            y = (int(row_of[tap]) + _FULL / 2, int(row_of[end]) - _FULL / 2)
            style = {"arrowstyle": "-", "connectionstyle": "arc3,rad=0.0", "linewidth": 0.7, "alpha": 0.45}
            axes.annotate(
                "", (x[1], y[1]), (x[0], y[0]), arrowprops={**style, "color": _INK, "shrinkA": 0, "shrinkB": 0}
            )

    def levels(self, axes: Any) -> None:
        raw = self.recording.raw
        samples = raw[np.isin(raw["kind"], (KIND["queue"], KIND["tap"]))]
        when = np.where(samples["kind"] == KIND["tap"], samples["queued"], samples["begin"])
        queues = sorted(
            {(int(each["worker"]), int(each["device"])) for each in np.unique(samples[["worker", "device"]])}
        )
        top = float(samples["level"].max()) if len(samples) else 0.0
        factor, unit = next(((each, name) for each, name in _BYTES if top >= each), (1.0, "B"))
        for number, (worker, device) in enumerate(queues):
            own = (samples["worker"] == worker) & (samples["device"] == device)
            order = np.argsort(when[own], kind="stable")
            x = self.times(when[own][order])
            y = samples["level"][own][order].astype(np.float64) / factor
            x, y = _thinned(np.append(x, self.end / self.unit), np.append(y, y[-1]), self.pixel)
            colour = _QUEUE_COLOURS[number % len(_QUEUE_COLOURS)]
            axes.fill_between(x, y, step="post", color=colour, alpha=0.15, linewidth=0)
            line = "-" if WORKERS[worker] == "python" else (0, (3, 1.5))
            name = f"{WORKERS[worker]}, device {device}"
            axes.step(x, y, where="post", color=colour, linewidth=1.2, linestyle=line, label=name)
        axes.set_ylabel(f"queues ({unit})")
        axes.set_ylim(bottom=0)
        if queues:
            axes.legend(
                loc="lower left", bbox_to_anchor=(0, 0.98), ncols=6, fontsize=8, frameon=False, borderaxespad=0.2
            )


_BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def _thinned(x: np.ndarray, y: np.ndarray, pixel: float) -> tuple[np.ndarray, np.ndarray]:
    """Keeps of the samples in one pixel the largest and the last."""
    places = np.floor(x / pixel)
    last = np.flatnonzero(np.concatenate((places[1:] != places[:-1], [True])))
    starts = np.concatenate(([0], last[:-1] + 1))
    peaks = np.maximum.reduceat(y, starts)
    return np.repeat(x[starts], 2), np.column_stack((peaks, y[last])).ravel()


def _legend(picture: _Picture, axes: Any) -> None:
    from matplotlib.patches import Patch

    recording = picture.recording
    handles: list[Any] = [
        Patch(facecolor=picture.colour(label), label=recording.labels[label] or "(other)")
        for label in picture.order[: len(_COLOURS)]
    ]
    others = len(picture.order) - len(_COLOURS)
    if others > 0:
        handles.append(Patch(facecolor=_OTHER, label=f"{others} more"))
    kinds = set(recording.raw["kind"].tolist())
    handles += [
        Patch(facecolor=colour, edgecolor=_OTHER, linewidth=0.6, label=text)
        for kind, (colour, text) in _WAITS.items()
        if KIND[kind] in kinds
    ]
    if KIND["drop"] in kinds:
        from matplotlib.lines import Line2D

        handles.append(Line2D([], [], marker="v", color="#c5303a", linestyle="", markersize=4, label="dropped"))
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, fontsize=8, frameon=False)


def _style(picture: _Picture, axes: Any, levels: Any) -> None:
    rows = picture.recording.rows
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [row.name for row in rows], fontsize=9)
    for number, row in enumerate(rows):
        if number % 2 == 0:
            axes.axhspan(number - 0.5, number + 0.5, color="#f4f6f8", zorder=0, linewidth=0)
        if number and rows[number - 1].group != row.group:
            axes.axhline(number - 0.5, color=_FAINT, linewidth=1, zorder=1)
    axes.tick_params(axis="x", labelbottom=False, length=0)
    axes.tick_params(axis="y", length=0)
    levels.set_xlabel(f"time since the profile began ({picture.unit_name})")
    levels.set_xlim(picture.begin / picture.unit, picture.end / picture.unit)
    for each in (axes, levels):
        each.grid(axis="x", color=_FAINT, linewidth=0.6, zorder=1)
        each.set_axisbelow(True)
        each.spines[["top", "right", "left"]].set_visible(False)
        each.spines["bottom"].set_color(_FAINT)
        each.tick_params(colors=_INK)


def draw(
    recording: Recording,
    *,
    title: str | None = None,
    width: float = 14.0,
    between: tuple[float, float] | None = None,
) -> Any:
    """Returns a Matplotlib figure. No global state of Matplotlib is touched."""
    figure_class = _figure_class()
    picture = _Picture(recording, width, between)
    rows = max(1, len(recording.rows))
    legend_lines = -(-(min(len(picture.order), len(_COLOURS) + 1) + len(_WAITS)) // 4)
    height = 2.6 + 0.42 * rows + 0.2 * legend_lines
    figure = figure_class(figsize=(width, height), dpi=_PIXELS_AN_INCH, layout="constrained", facecolor="white")
    axes, levels = figure.subplots(2, 1, sharex=True, height_ratios=(0.42 * rows + 0.2, 1.2))
    picture.bars(axes)
    picture.arrows(axes)
    picture.levels(levels)
    _style(picture, axes, levels)
    _legend(picture, axes)
    length = tables.duration((picture.end - picture.begin) * 1e-9)
    figure.suptitle(title or f"Callbacks of {length}", x=0.01, ha="left", fontsize=12, color=_INK, weight="bold")
    return figure
