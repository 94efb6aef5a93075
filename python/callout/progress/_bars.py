# SPDX-License-Identifier: Apache-2.0
"""The bars on the host: loops send messages, and the Python delivery thread turns messages into calls of tqdm.

A message is (head, ids, lanes, fields). `head`, u32[10], has the eight words of progress_bar.h, which identify an
execution of a loop, then the number of steps since the last message, then flags. `ids` are the ids of a PBar; `lanes`
has the steps of each id where these differ. Each execution has a bar of its own, or one bar for each id.

A program that fails leaves its bars open, and no message reports the failure. So bars end when another program begins
on their device. If two programs run there at once, the next message of the first one opens its bars again where they
were.
"""

from __future__ import annotations

import collections
import contextlib
import threading
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from .._base import barrier, lifetime
from ._settings import Settings, loop_class

FIRST, LAST = 1, 2
SINGLE = 4  # one step of an eager loop, or of a loop that could not be cut into chunks: not marked as first or last
REST = 8  # the remainder of a `map` with a batch_size, which is unordered and may come at any time

_MAX_SHOWN = 256
_MAX_BARS = 4096  # open at once; programs choose how many bars they open


class Loop:
    """Describes how messages of a loop are read: how much a step counts, and how bars look."""

    def __init__(
        self,
        settings: Settings,
        names: Sequence[str],
        *,
        total: int | None,
        scale: int = 1,
        rest: int = 0,
        parts: int = 1,
        is_mapped: bool = False,
    ):
        self.settings = settings
        self.names = tuple(names)
        self.total = total
        self.scale = scale  # how much a step of the compiled loop counts
        self.rest = rest  # steps behind the compiled loop
        self.parts = parts  # devices that run the loop, each on its own
        self.is_mapped = is_mapped  # True for a `map` with a batch_size
        self.rounds: dict[tuple[int, int], int] = {}  # executions by run and device

    def __call__(self, value: Any) -> None:
        """Shows a message's progress. Thread-safe."""
        if self.settings.only_process is None or jax.process_index() == self.settings.only_process:
            board.take(self, *value)

    def is_sum(self) -> bool:
        return self.parts > 1 and self.settings.devices == "sum"

    def new_bar(self, done: int, index: int | None, device: int) -> Any:
        """Returns a tqdm that has done `done` steps. `index`: the bar's number in a PBar."""
        options = {"miniters": 1, **self.settings.tqdm}  # tqdm would guess it from steps that come one by one
        if done:
            options["initial"] = options.get("initial", 0) + done
        if index is not None:
            options["position"] = index + options.get("position", 0)
        is_one_of_many = index is not None or (self.parts > 1 and not self.is_sum())
        if is_one_of_many and options.get("leave", True) is None:
            options["leave"] = True  # tqdm would leave only the uppermost bar on the screen
        if self.parts > 1 and not self.is_sum():
            place = f"device {device}"
            options["desc"] = f"{options['desc']} [{place}]" if options.get("desc") else place
        total = self.total * self.parts if self.total is not None and self.is_sum() else self.total
        bar = loop_class(self.settings.tqdm_type)(total=total, **options)
        if bar.leave is None and hasattr(bar, "container"):
            bar.leave = bar.pos == 0  # tqdm does so on terminals, but not in notebooks
        return bar

    def digest(self) -> tuple[Any, ...]:
        """Returns values that distinguish the loop from others in a program's text."""
        shown = (self.settings.print_rate, self.settings.tqdm_type, self.settings.devices, sorted(self.settings.tqdm))
        return (*shown, self.names, self.total, self.scale, self.rest, self.parts, self.is_mapped)


class _Shown:
    """Holds the bars of one execution of a loop, or, with devices="sum", of the executions on all devices."""

    def __init__(self, loop: Loop, run: int, device: int, shared: Any = None):
        self.loop, self.run, self.device, self.shared = loop, run, device, shared
        self.unfinished = 1 if shared is None else loop.parts
        self.bars: list[Any] = []
        self.done: list[int] = []
        self.refreshed: dict[int, Any] = {}  # the steps of a bar when `show` last drew it
        self.ids: list[int] | None = None
        self.is_broken = False

    def advance(
        self, steps: Sequence[int], ids: list[int] | None, fields: Sequence[Sequence[Any]], begun_ns: int = 0
    ) -> None:
        """Advances and draws the bars. `steps`: one number, or one for each bar. `fields`: the values of each bar."""
        if self.is_broken:
            return
        try:
            self._draw(steps, ids, fields, begun_ns)
        except BaseException:
            self._give_up()
            raise

    def _draw(
        self, steps: Sequence[int], ids: list[int] | None, fields: Sequence[Sequence[Any]], begun_ns: int
    ) -> None:
        if not self.done:
            self.ids = ids
            self.done = [0] * (1 if ids is None else len(ids))
        if not self.bars:
            self._open(begun_ns)
        for i, bar in enumerate(self.bars):
            made = steps[i if len(steps) > 1 else 0]
            self.done[i] += made
            if fields:
                bar.set_postfix(dict(zip(self.loop.names, fields[i], strict=True)), refresh=False)
            if made:
                bar.update(made)

    def _open(self, begun_ns: int) -> None:
        self.refreshed.clear()
        indices: Sequence[int | None] = [None] if self.ids is None else self.ids
        for done, index in zip(self.done, indices, strict=True):
            bar = self.loop.new_bar(done, index, self.device)
            if begun_ns and hasattr(bar, "start_t"):  # the message was queued for a while
                bar.start_t -= max(0, time.monotonic_ns() - begun_ns) / 1e9
            self.bars.append(bar)

    def show(self) -> None:
        """Draws the bars whose last steps tqdm has not drawn, because it draws at intervals and waits for another step."""
        try:
            for i, bar in enumerate(self.bars):
                made = getattr(bar, "n", None)
                if made not in (getattr(bar, "last_print_n", made), self.refreshed.get(i)):
                    bar.refresh()
                    self.refreshed[i] = made
        except BaseException:
            self._give_up()
            raise

    def lacks(self) -> bool:
        """Returns True if the total is known and not reached."""
        return self.loop.total is not None and min(self.done, default=0) < self.loop.total

    def close(self) -> None:
        """Ends the bars; a later message opens them again."""
        try:
            while self.bars:
                self.bars.pop(0).close()
        except BaseException:
            self._give_up()
            raise

    def _give_up(self) -> None:
        """Drops the bars after an exception in tqdm, and releases tqdm's lock, which the exception may have left locked.

        This thread may release the lock, because it is in no other tqdm.
        """
        self.is_broken = True
        for bar in self.bars:
            bar.disable = True  # the bar's destructor would draw
        self.bars.clear()
        lock = loop_class(self.loop.settings.tqdm_type).get_lock()
        with contextlib.suppress(RuntimeError, AssertionError):  # raised by a lock that is not locked
            while True:
                lock.release()


class _Board:
    """Registers all open bars. Thread-safe, because there may be several delivery threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown: dict[Any, _Shown] = {}
        self._forgotten: collections.deque[Settings] = collections.deque()

    def take(self, loop: Loop, head: np.ndarray, ids: Any, lanes: Any, fields: Sequence[np.ndarray]) -> None:
        """Shows a message's progress."""
        words = head.tolist()
        flags = words[9]
        numbers = None if ids is None else [int(number) for number in ids.reshape(-1)]
        counts = words[8:9] if lanes is None or numbers is None else lanes.reshape(-1).tolist()
        extra = loop.rest if flags & LAST else 0
        steps = [int(count) * loop.scale + extra for count in counts]
        # A loop sends its first message before its first step, so the message has no fields yet.
        values = [] if flags & FIRST or not fields else _by_bar(fields, 1 if numbers is None else len(numbers))
        try:
            with self._lock:
                if flags & REST:
                    self._take_rest(loop, steps)
                    return
                key, shown = self._find(loop, words, flags)
                shown.advance(steps, numbers, values, _join(words[0:2]) if flags & FIRST else 0)
                if flags & LAST or (flags & SINGLE and loop.total is not None and not shown.lacks()):
                    self._finish(key, shown)
        finally:
            self._end_forgotten()

    def _find(self, loop: Loop, words: Sequence[int], flags: int) -> tuple[Any, _Shown]:
        number, run, device = _join(words[2:4]), _join(words[4:6]), words[6]
        if flags & FIRST:
            self._end_others(run, device)
        key = _single_key(loop) if flags & SINGLE else (id(loop), number)
        shown = self._shown.get(key)
        if shown is not None and flags & FIRST:  # left by a failed run that has no number
            shown.close()
            shown = None
        if shown is None and number and loop.is_sum():
            shown = self._share(loop, run, device)
        if shown is None:
            self._make_room()
            shown = _Shown(loop, run, device)
        shown.run, shown.device = run, device  # each single step may belong to another run
        self._shown[key] = shown
        return key, shown

    def _make_room(self) -> None:
        """Ends the oldest bars, if too many are open. The next message of a bar opens it again."""
        while self._shown and sum(max(1, len(shown.bars)) for shown in self._shown.values()) >= _MAX_BARS:
            self._shown.pop(next(iter(self._shown))).close()

    def _share(self, loop: Loop, run: int, device: int) -> _Shown:
        """Returns the bar of a sum, which is shared by the n-th execution on each device of a run."""
        loop.rounds = {place: count for place, count in loop.rounds.items() if place[0] == run}
        count = loop.rounds[run, device] = loop.rounds.get((run, device), 0) + 1
        shared = (id(loop), run, count)
        if shared not in self._shown:
            self._shown[shared] = _Shown(loop, run, device, shared)
        return self._shown[shared]

    def _finish(self, key: Any, shown: _Shown) -> None:
        self._shown.pop(key, None)
        shown.unfinished -= 1
        if shown.unfinished:
            return
        self._shown.pop(shown.shared, None)
        if shown.loop.is_mapped and shown.lacks():
            early = shown.loop.settings.early_rests
            if early:
                shown.advance([early.pop()], None, [])
                early.clear()
            else:
                self._shown[_rest_key(shown.loop)] = shown
                return
        shown.close()

    def _take_rest(self, loop: Loop, steps: Sequence[int]) -> None:
        if steps[0] == loop.settings.total:  # the map is shorter than its batch_size, and has no loop
            whole = _Shown(loop, 0, 0)
            whole.advance(steps, None, [])
            whole.close()
            return
        waiting = self._shown.pop(_rest_key(loop), None)
        if waiting is not None:
            waiting.advance(steps, None, [])
            waiting.close()
        elif loop.settings.total is not None:  # without a total, the bar does not wait for the remainder
            loop.settings.early_rests.append(steps[0])

    def _end_others(self, run: int, device: int) -> None:
        """Ends the bars of other runs on a device."""
        for shown in self._shown.values():
            if run and shown.run and shown.device == device and shown.run != run:
                shown.close()
        ended = [key for key, shown in self._shown.items() if not shown.bars]
        for key in ended[: max(0, len(self._shown) - _MAX_SHOWN)]:
            del self._shown[key]

    def forget(self, settings: Settings) -> None:
        """Ends the bar of eager steps, when no more steps can come.

        The garbage collector calls `forget`, perhaps in a thread that holds the lock and draws. So it must not wait for
        the lock.
        """
        self._forgotten.append(settings)
        self._end_forgotten()

    def _end_forgotten(self) -> None:
        """Ends the bars that `forget` named. If another thread has the lock, that thread ends them after unlocking it."""
        while self._forgotten and self._lock.acquire(blocking=False):
            try:
                while self._forgotten:
                    key = "single", id(self._forgotten.popleft())
                    shown = self._shown.get(key)
                    if shown is not None and shown.run == 0:
                        del self._shown[key]
                        shown.close()
            finally:
                self._lock.release()

    def show(self) -> None:
        """Draws all bars at their current steps."""
        with self._lock:
            for shown in self._shown.values():
                shown.show()
        self._end_forgotten()

    def close(self) -> None:
        """Ends all bars."""
        with self._lock:
            for shown in self._shown.values():
                shown.close()
            self._shown.clear()


def _single_key(loop: Loop) -> Any:
    return "single", id(loop.settings)


def _rest_key(loop: Loop) -> Any:
    return "rest", id(loop.settings)


def _join(words: Sequence[int]) -> int:
    return words[1] << 32 | words[0]


def _by_bar(fields: Sequence[np.ndarray], count: int) -> list[list[Any]]:
    """Returns the fields of each bar: the mean if several lanes of a `vmap` share the bar."""
    spread = [field.reshape(count if field.size % count == 0 else 1, -1) for field in fields]
    return [[_number(lanes[i % len(lanes)]) for lanes in spread] for i in range(count)]


def _number(values: np.ndarray) -> Any:
    if values.size == 1:
        return values.reshape(()).item()
    return float(np.mean(values.astype(np.float64)))


board = _Board()
barrier.after_delivery(board.show)
lifetime.at_end(board.close)
