# SPDX-License-Identifier: Apache-2.0
"""Statistics in Prometheus' text exposition format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .. import _ext


class Family(NamedTuple):
    """How a table of counters is told."""

    name: str
    label: str  # of the counters' keys
    text: str


def _escape(text: str) -> str:
    # A lone surrogate cannot be written as UTF-8.
    readable = text.encode("utf-8", "replace").decode()
    return readable.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _sample(name: str, labels: Mapping[str, object], value: float) -> str:
    inner = ",".join(f'{key}="{_escape(str(each))}"' for key, each in labels.items())
    return f"{name}{{{inner}}} {value!r}"


def _family(name: str, kind: str, text: str, samples: Iterator[tuple[Mapping[str, object], float]]) -> list[str]:
    lines = [_sample(name, labels, value) for labels, value in samples]
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}", *lines] if lines else []


def exposition(stats: Mapping[str, Any], more: Mapping[str, Family]) -> str:
    """Returns what `callout.stats()` has, as text to serve or to write to a file. `more`: tables of counters besides."""
    lines: list[str] = []
    for key, name, kind, text, _ in _ext.callback_metrics():
        callbacks = (({"callback": label}, each[key]) for label, each in stats["callbacks"].items())
        lines += _family(f"callout_callback_{name}", kind, text, callbacks)
    for key, name, kind, text, _ in _ext.queue_metrics():
        queues = (({"worker": each["worker"], "device": each["device"]}, each[key]) for each in stats["queues"])
        lines += _family(f"callout_queue_{name}", kind, text, queues)
    live = (({"kind": kind}, count) for kind, count in stats["live"].items())
    lines += _family("callout_live_objects", "gauge", "Objects of the core that exist now.", live)
    for key, family in more.items():
        counts = (({family.label: each}, count) for each, count in stats[key].items())
        lines += _family(family.name, "counter", family.text, counts)
    kernels = (({"event": event}, count) for event, count in stats.get("kernels", {}).items())
    text = "GPU kernels: launches that went through the core, images loaded, calls recorded, recordings replayed."
    lines += _family("callout_gpu_kernels_total", "counter", text, kernels)
    return "\n".join(lines) + "\n"
