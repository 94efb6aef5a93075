# SPDX-License-Identifier: Apache-2.0
"""`callout.stats` returns the counters of callbacks, queues and live objects, as tables and as Prometheus' text.

The text has Prometheus' exposition format, version 0.0.4.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from .. import _ext, _jax_compat
from .._base.barrier import drain
from .._base.resettable import with_reset
from . import tables

if TYPE_CHECKING:
    from .report import Report


@dataclasses.dataclass(frozen=True)
class Counts:
    """A table of counters that a module above adds to `stats()`."""

    key: str
    read: Callable[[], dict[str, int]]
    reset: Callable[[], None]
    family: Family


_tables_above: list[Counts] = []


def add(table: Counts) -> None:
    """Adds a table of counters to `stats()`."""
    _tables_above.append(table)


class WatchedPlace(TypedDict):
    """The first bad element under a watch's name."""

    step: int
    device: int
    run: int
    time: float
    leaf: str
    shape: str
    index: tuple[int, ...]
    shard: tuple[int, ...] | None
    kind: str


class WatchStats(TypedDict):
    """The counts of all watches with one name."""

    calls: int
    bad_calls: int
    elements: int
    nan: int
    inf: int
    first: WatchedPlace | None


class Stats(dict[str, Any]):
    """A dict of tables, which prints as text; `stats()` returns it."""

    def table(self) -> str:
        """Returns aligned tables of the callbacks, by falling host time, of the watches and of the queues."""
        callbacks, queues = self["callbacks"], self["queues"]
        parts = [_callback_table(callbacks) if callbacks else "No callback has run."]
        if self.get("watches"):
            parts.append(_watch_table(self["watches"]))
        if queues:
            parts.append(_queue_table(queues))
        if any(self.get("kernels", {}).values()):
            parts.append("GPU kernels: " + ", ".join(f"{count} {what}" for what, count in self["kernels"].items()))
        parts.append("live: " + ", ".join(f"{count} {kind}" for kind, count in self["live"].items()))
        return "\n\n".join(parts)

    def report(self) -> Report:
        """Returns a report on the counters: callbacks that take the time, queues that made programs wait, suggested changes.

        Its `str()` is the text, `findings` has the results, `facts` the numbers. The report of a profile contains more.
        """
        from .report import facts_of_stats, make_report

        return make_report(facts_of_stats(self, len(_jax_compat.devices_in_use())))

    def prometheus(self) -> str:
        """Returns the counters in Prometheus' text exposition format."""
        return exposition(self, {table.key: table.family for table in _tables_above})

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return tables.as_html(self.table())


def _metric_table(first: str, metrics: Iterable[Sequence[str]], rows: Iterable[tuple[str, Mapping[str, float]]]) -> str:
    """Writes a table with a column for each metric and a row for each label."""
    shown = [(key, column) for key, *_, column in metrics if column]
    cells = [(label, *(_cell(key, numbers[key]) for key, _ in shown)) for label, numbers in rows]
    return tables.aligned((first, *(column for _, column in shown)), cells)


def _cell(key: str, value: float) -> object:
    if key.endswith("bytes"):
        return tables.size(value)
    return tables.duration(value) if key.endswith("seconds") else value


def _callback_table(callbacks: Mapping[str, Mapping[str, float]]) -> str:
    metrics = list(_ext.callback_metrics())
    metrics.insert(1 + [key for key, *_ in metrics].index("host_seconds"), ("each_seconds", "each"))
    rows = [
        (label, {**one, "each_seconds": one["host_seconds"] / one["calls"] if one["calls"] else 0.0})
        for label, one in sorted(callbacks.items(), key=lambda item: -item[1]["host_seconds"])
    ]
    return _metric_table("callback", metrics, rows)


def _watch_table(watches: dict[str, WatchStats]) -> str:
    rows = []
    for name, one in watches.items():
        first = one["first"]
        place = "" if first is None else f"{first['kind']} at {list(first['index'])} of {first['shape']}"
        if first is not None:
            leaf = f"'{first['leaf']}', " if first["leaf"] else ""
            place += f", {leaf}step {first['step']}, device {first['device']}"
        rows.append((name, one["calls"], one["bad_calls"], one["nan"], one["inf"], place))
    return tables.aligned(("watch", "times", "bad", "NaN", "infinite", "first"), rows)


def _queue_table(queues: Sequence[Mapping[str, Any]]) -> str:
    rows = [(f"{each['worker']}, device {each['device']}", each) for each in queues]
    return _metric_table("queue", _ext.queue_metrics(), rows)


def _reset() -> None:
    """Resets all counters to zero; a tap that fails again is then logged again.

    Blocks until earlier records are counted. The current contents of queues and the live objects still count.
    """
    drain()
    _ext.reset_statistics()
    for table in _tables_above:
        table.reset()


@with_reset(_reset)
def stats() -> Stats:
    """Returns the counters of every callback by label, of every queue, and of live objects.

    Per callback: `calls` that ran (for taps: records delivered), `bytes` of their operands and results, `host_seconds`
    inside them, `drops` (records that did not fit into a full queue), `skips` (records that `every`, `min_interval` or
    `sample` left out), `errors`. Per queue: worker ("python" or "native"), device ordinal, bytes, and for records on
    their way from a GPU to the queue their number (`on_device`) and their memory (`pinned_bytes`). `live`: objects of
    the core that exist now. `watches`: the results of `callout.watch`, by name: `calls`, the number of `bad` ones,
    `elements`, `nan`, `inf`, and the `first` bad element: step, device, run, time (seconds since 1970), leaf, shape of
    the device's part, `index` in the whole value, the begin of the device's `shard` (None: the device has the whole
    value), and kind ("nan" or "inf"). `kernels`: for GPU kernels, `launches` through the core (without those that XLA
    replays from a command buffer) and images `loaded`; for `numba_cuda_callable(graph=True)`, calls that were
    `recorded`, and recordings that were `replayed`. Modules with counters of their own add a table, which their
    documentation describes. Thread-safe; the numbers may be from slightly different moments. `callout.stats.reset()`
    resets the counters.

    Returns:
        A dict of these tables. Its `str()` or `table()` is a readable text, `prometheus()` a text for Prometheus;
        `report()` explains the numbers, and suggests changes.

    Example:
        >>> third = callout.options(lambda x: x / 3, name="third")
        >>> y = jax.jit(lambda x: callout.pure_callback(third, x, x))(jnp.float32(3)).block_until_ready()
        >>> callout.stats()["callbacks"]["third"]["calls"]
        1
    """
    return Stats(
        callbacks=_ext.callback_statistics(),
        queues=_ext.queue_statistics(),
        live=_ext.live_counts(),
        **{table.key: table.read() for table in _tables_above},
        watches=_ext.watch_statistics(),
        kernels=dict(
            zip(
                ("launches", "loaded", "recorded", "replayed"),
                (*_ext.image_counts(), *_ext.recorded_call_counts()),
                strict=True,
            )
        ),
    )


def report() -> Report:
    """Returns a report on the counters since the process began: `print(callout.report())`.

    The report names callbacks that take the time, queues that made programs wait or lost records, and suggests changes.
    `profile.report()` contains more, from a profile. Thread-safe.

    Returns:
        An object whose `str()` is the text; `findings` has the results, `facts` the numbers.

    Example:
        >>> report = callout.report()
        >>> isinstance(str(report), str)
        True
    """
    return stats().report()


class Family(NamedTuple):
    """Describes a table of counters for Prometheus."""

    name: str
    label: str  # the name of the label that holds a counter's key
    text: str


def _escape(text: str) -> str:
    # UTF-8 cannot encode a lone surrogate.
    readable = text.encode("utf-8", "replace").decode()
    return readable.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _sample(name: str, labels: Mapping[str, object], value: float) -> str:
    inner = ",".join(f'{key}="{_escape(str(each))}"' for key, each in labels.items())
    return f"{name}{{{inner}}} {value!r}"


def _family(name: str, kind: str, text: str, samples: Iterator[tuple[Mapping[str, object], float]]) -> list[str]:
    lines = [_sample(name, labels, value) for labels, value in samples]
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}", *lines] if lines else []


def exposition(stats: Mapping[str, Any], more: Mapping[str, Family]) -> str:
    """Returns the counters as text to serve or to write to a file. `more`: the families of further tables."""
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
