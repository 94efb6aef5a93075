# SPDX-License-Identifier: Apache-2.0
"""The picture: what the taps wrote down while the program ran, and what C++ made of its last epoch."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from .training import History

INK, SOFT, FAINT = "#1f2933", "#6b7885", "#e3e8ed"
BLUE, ORANGE, GREEN = "#2b6cb0", "#dd6b20", "#2f855a"
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": SOFT,
    "axes.edgecolor": SOFT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "grid.color": FAINT,
    "grid.linewidth": 0.8,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": SOFT,
    "ytick.labelcolor": SOFT,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
}


def _smooth(values: np.ndarray, width: int = 21) -> np.ndarray:
    """A running median: a line through noise that no single batch moves."""
    padded = np.pad(values, width // 2, mode="edge")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, width), axis=1)


def _curve(ax, steps: np.ndarray, values: np.ndarray, color: str, title: str) -> None:
    ax.plot(steps, values, color=color, linewidth=0.7, alpha=0.3)
    line = _smooth(values)
    ax.plot(steps, line, color=color, linewidth=2)
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(mpl.ticker.FormatStrFormatter("%g"))
    ax.yaxis.set_minor_formatter(mpl.ticker.NullFormatter())
    ax.set_title(title)
    ax.margins(x=0.01)


def _scores(ax, steps: np.ndarray, history: History) -> None:
    for values, color, name, offset in (
        (history.scores[:, 2], GREEN, "ROC AUC", 0),
        (history.scores[:, 0], BLUE, "F1", -9),
    ):
        ax.plot(steps, values, color=color, linewidth=2)
        ax.annotate(
            f"{name} {values[-1]:.3f}",
            (steps[-1], values[-1]),
            xytext=(7, offset),
            textcoords="offset points",
            color=color,
            va="center",
            fontweight="bold",
            annotation_clip=False,
        )
    ax.set_ylim(max(0.8, float(history.scores[0, 0]) - 0.02), 1.005)
    ax.set_title("Held-out scores, one scikit-learn call an epoch")
    ax.set_xlabel("step")
    ax.margins(x=0.01)


def _confusion(ax, matrix: np.ndarray) -> None:
    off = matrix - np.diag(np.diag(matrix))
    shades = LinearSegmentedColormap.from_list("shades", ["#ffffff", "#fbd38d", ORANGE])
    ax.imshow(off, cmap=shades, vmin=0, vmax=max(3, off.max()))
    for i, j in np.ndindex(matrix.shape):
        if i == j:
            ax.add_patch(plt.Rectangle((j - 0.5, i - 0.5), 1, 1, color="#dbe9f6", linewidth=0))
        if matrix[i, j]:
            ax.text(j, i, matrix[i, j], ha="center", va="center", fontsize=9, color=INK)
    ax.set_xticks(range(len(matrix)))
    ax.set_yticks(range(len(matrix)))
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.set_xlabel("predicted")
    ax.set_ylabel("true")
    ax.set_title(f"Confusion in C++: {int(off.sum())} of {int(matrix.sum())} wrong")


def _reliability(ax, calibration: np.ndarray) -> None:
    count, confidence, right = calibration.T
    used = count > 0
    x, y = confidence[used] / count[used], right[used] / count[used]
    error = float(np.sum(count[used] * np.abs(x - y)) / count.sum())
    ax.plot([0, 1], [0, 1], color=SOFT, linewidth=1, linestyle=(0, (4, 3)))
    ax.plot(x, y, color=BLUE, linewidth=1.2, alpha=0.6)
    ax.scatter(x, y, s=18 + 340 * count[used] / count.sum(), color=BLUE, alpha=0.85, linewidth=0, clip_on=False, zorder=3)
    ax.set_xlim(0, 1.02)
    ax.set_ylim(0, 1.02)
    ax.set_aspect("equal")
    ax.set_xlabel("confidence")
    ax.set_ylabel("share that is right")
    ax.set_title(f"Calibration in C++: error {error:.3f}")


def draw(records: list[dict], history: History, summary: str, path: Path) -> None:
    """Loss and gradient norm come from the file that the tap wrote, the rest from the program's results."""
    train = [r for r in records if r["name"] == "train"]
    steps, loss, norm = (np.array([r[key] for r in train]) for key in ("step", "loss", "grad_norm"))
    test_steps = np.array([r["step"] for r in records if r["name"] == "test"])
    with mpl.rc_context(STYLE):
        figure = plt.figure(figsize=(13, 8.2), facecolor="white")
        grid = figure.add_gridspec(
            3, 2, width_ratios=(1.75, 1), left=0.055, right=0.975, top=0.855, bottom=0.065, hspace=0.42, wspace=0.24
        )
        left = [figure.add_subplot(grid[row, 0]) for row in range(3)]
        _curve(left[0], steps, loss, BLUE, "Loss, every 10th step, tapped to a file")
        _curve(left[1], steps, norm, ORANGE, "Gradient norm")
        _scores(left[2], test_steps, history)
        right = grid[:, 1].subgridspec(2, 1, hspace=0.3, height_ratios=(1.15, 1))
        _confusion(figure.add_subplot(right[0]), history.confusion[-1])
        _reliability(figure.add_subplot(right[1]), history.calibration[-1])
        figure.text(0.055, 0.945, "A classifier, watched from inside its compiled program", fontsize=18, fontweight="bold")
        figure.text(0.055, 0.91, summary, fontsize=11, color=SOFT)
        figure.savefig(path, dpi=160)
        plt.close(figure)
