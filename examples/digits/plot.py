# SPDX-License-Identifier: Apache-2.0
"""Plots the records that taps wrote while the program ran, and the results of the C++ function."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from .training import History

INK, SOFT, FAINT = "#1f2933", "#6b7885", "#e3e8ed"
BLUE, ORANGE, GREEN = "#2b6cb0", "#dd6b20", "#2f855a"
FIRST, LAST = 5, 50  # epochs
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
    """Returns a running median, which no single batch moves much."""
    padded = np.pad(values, width // 2, mode="edge")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, width), axis=1)


def _curve(ax, steps: np.ndarray, values: np.ndarray, color: str, title: str) -> None:
    ax.plot(steps, values, color=color, linewidth=0.8, alpha=0.28)
    ax.plot(steps, _smooth(values), color=color, linewidth=2)
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(mpl.ticker.FormatStrFormatter("%g"))
    ax.yaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_minor_formatter(mpl.ticker.NullFormatter())
    ax.set_title(title)


def _scores(ax, steps: np.ndarray, scores: np.ndarray) -> None:
    for values, color, name, offset in ((scores[:, 2], GREEN, "ROC AUC", 9), (scores[:, 0], BLUE, "F1", -12)):
        ax.plot(steps, values, color=color, linewidth=2)
        ax.annotate(
            f"{name} {values[-1]:.3f}",
            (steps[-1], values[-1]),
            xytext=(0, offset),
            textcoords="offset points",
            color=color,
            ha="right",
            va="center",
            fontweight="bold",
        )
    ax.set_ylim(0.9, 1.015)
    ax.set_title("Test set, every epoch: a call of scikit-learn")
    ax.set_xlabel("step")


def _confusion(ax, matrices: np.ndarray) -> None:
    share = matrices.sum(axis=0) / matrices.sum(axis=(0, 2))[:, None] * 100  # % of each true digit
    off = share - np.diag(np.diag(share))
    off[off < 0.05] = 0
    shades = LinearSegmentedColormap.from_list("shades", ["#ffffff", "#fbd38d", ORANGE])
    ax.imshow(off, cmap=shades, vmin=0, vmax=max(2.0, off.max()))
    for i, j in np.ndindex(share.shape):
        if i == j:
            ax.add_patch(plt.Rectangle((j - 0.5, i - 0.5), 1, 1, color="#dbe9f6", linewidth=0))
        if share[i, j] >= 0.05:
            text = f"{share[i, j]:.0f}" if share[i, j] >= 99.95 else f"{share[i, j]:.1f}"
            ax.text(j, i, text, ha="center", va="center", fontsize=8.5, color=INK)
    ax.set_xticks(range(len(share)))
    ax.set_yticks(range(len(share)))
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.set_anchor("W")
    ax.set_xlabel("taken for")
    ax.set_ylabel("digit")
    ax.set_title(f"Mistakes, %, last {len(matrices)} epochs: a call of C++")


def _reliability(ax, calibration: np.ndarray) -> None:
    ax.plot([0, 1], [0, 1], color=SOFT, linewidth=1, linestyle=(0, (4, 3)))
    for part, color, name in (
        (calibration[:FIRST], ORANGE, f"first {FIRST} epochs"),
        (calibration[-LAST:], BLUE, f"last {LAST}"),
    ):
        count, confidence, right = part.sum(axis=0).T
        used = count >= 2 * len(part)  # bins with fewer predictions only hold a few digits
        ax.plot(
            (confidence[used] / count[used]),
            (right[used] / count[used]),
            color=color,
            linewidth=2,
            marker="o",
            markersize=6,
            markeredgecolor="white",
            label=name,
            clip_on=False,
        )
    ax.legend(frameon=False, loc="lower right", labelcolor="linecolor", handlelength=2)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_aspect("equal")
    ax.set_anchor("W")
    ax.set_xlabel("confidence")
    ax.set_ylabel("share that is right")
    ax.set_title("Confidence and truth: the same call")


def draw(records: list[dict], history: History, summary: str, path: Path) -> None:
    """Draws loss, gradient norm and scores from the file that the taps wrote, and the rest from the program's results."""
    train, test = ([r for r in records if r["name"] == name] for name in ("train", "test"))
    steps, loss, norm = (np.array([r[key] for r in train]) for key in ("step", "loss", "grad_norm"))
    test_steps = np.array([r["step"] for r in test])
    with mpl.rc_context(STYLE):
        figure = plt.figure(figsize=(13, 8.4), facecolor="white")
        grid = figure.add_gridspec(
            3, 2, width_ratios=(1.8, 1), left=0.05, right=0.975, top=0.855, bottom=0.065, hspace=0.42, wspace=0.2
        )
        left = [figure.add_subplot(grid[row, 0]) for row in range(3)]
        _curve(left[0], steps, loss, BLUE, "Loss, every 10th step: a tap to a file")
        _curve(left[1], steps, norm, ORANGE, "Gradient norm")
        _scores(left[2], test_steps, np.array([[r["f1"], r["log_loss"], r["auc"]] for r in test]))
        for ax in left:
            ax.set_xlim(0, test_steps[-1])
        right = grid[:, 1].subgridspec(2, 1, hspace=0.32)
        _confusion(figure.add_subplot(right[0]), history.confusion[-LAST:])
        _reliability(figure.add_subplot(right[1]), history.calibration)
        figure.text(
            0.05, 0.945, "A classifier, watched from inside its compiled program", fontsize=19, fontweight="bold"
        )
        figure.text(0.05, 0.911, summary, fontsize=11.5, color=SOFT)
        figure.savefig(path, dpi=160)
        plt.close(figure)
