# SPDX-License-Identifier: Apache-2.0
"""The site of a tap: in a program that goes by JAX's callbacks, or outside of programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import live
from ..failures import FAILED_PRECONDITION, FORKED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, Failure, as_error
from ..process import forks
from ..process.exit import process_index
from ..process.in_flight import WAITING_FOR_ROOM, Scope
from ..tables import TARGET_ATTRIBUTES
from .bounded_queue import CLOSED, EXCEED, FULL, GIVE_UP, TAKEN, WAIT
from .delivery import delivery
from .record import Record, SiteInfo, charged_bytes
from .throttle import Throttle

if TYPE_CHECKING:
    from ..calls.callback import Callback

_ROWS = {row["name"]: row for row in TARGET_ATTRIBUTES["callout.v1.tap"]}
_DEFAULTS: dict[str, Any] = {name: "" if row["type"] == "string" else row["fallback"] for name, row in _ROWS.items()}


class _Site:
    """Lives as long as anything that is on its way from it."""

    _live = live.sites  # at exit the module has no names any more

    def __init__(self, attributes: Mapping[str, Any], label: str):
        said = {**_DEFAULTS, **attributes}
        self.info = SiteInfo(
            said["label"] or label, said["leaves"].split("\n"), bool(said["offsets"]), bool(said["step"])
        )
        self.throttle = Throttle(said)
        self.policy: str = _ROWS["on_full"]["choices"][said["on_full"]]
        self.only_device: int = said["only_device"]
        self.only_process: int = said["only_process"]
        self._id = live.new_id()
        live.sites[self._id] = None

    def __del__(self) -> None:
        self._live.pop(getattr(self, "_id", 0), None)


class EagerTap:
    """The site of a tap outside of programs. It keeps no callback alive."""

    def __init__(self, like: Callback, attributes: Mapping[str, Any]):
        """`attributes`: those of callout.v1.tap, encoded."""
        self._site = _Site(attributes, like.label)
        self._worker = like.worker
        self._inspects = like.inspects
        self._counters = like.counters

    def admit(self, device_ordinal: int, step: int | None) -> bool:
        """Whether a record of the device is to be sent. One that is not is counted, as in programs."""
        site = self._site
        if site.only_device >= 0 and device_ordinal != site.only_device:
            return False
        if site.only_process >= 0 and process_index() != site.only_process:
            return False
        if site.throttle.admit(device_ordinal, step):
            return True
        self._counters.add("skips")
        return False

    def send(self, callback: Callback, arrays: Sequence[np.ndarray], device_ordinal: int, step: int | None) -> None:
        """Sends a record that was admitted.

        The last array is where the value begins in a larger one, if the site has offsets.
        """
        self._check_count(callback, len(arrays))
        if self._inspects and not (arrays := self._inspected(callback, arrays, device_ordinal, step)):
            return
        if forks._is_child:
            raise as_error(FAILED_PRECONDITION, FORKED)
        if arrays is _NOTICE:
            arrays = ()
        charged = charged_bytes(arrays)
        outcome = self._push(callback, arrays, charged, device_ordinal, step)
        if outcome != TAKEN:
            self._drop(outcome, charged, device_ordinal)

    def _check_count(self, callback: Callback, count: int) -> None:
        """Refuses a record of another number of arrays than the site's: an exported program may send anything."""
        info = self._site.info
        expected = len(info.leaf_names) + info.has_offsets
        is_empty = count == 0 and info.leaf_names == [""] and not info.has_offsets
        if count != expected and not is_empty:
            text = f"expected {expected} operands (attributes `leaves`, `offsets`), got {count}"
            raise as_error(INVALID_ARGUMENT, f"callout: tap '{info.label}': {text}")
        try:
            callback.check_tap(0 if is_empty else len(info.leaf_names))
        except Failure as failure:
            raise as_error(failure.code, f"callout: tap '{info.label}': {failure.text}") from None

    def _split(self, arrays: Sequence[np.ndarray]) -> tuple[Sequence[np.ndarray], Sequence[int]]:
        if not self._site.info.has_offsets or not len(arrays):
            return arrays, ()
        return arrays[:-1], np.asarray(arrays[-1]).ravel().tolist()

    def _inspected(
        self, callback: Callback, arrays: Sequence[np.ndarray], ordinal: int, step: int | None
    ) -> Sequence[np.ndarray]:
        """What is left to send of a record that the callback looks at first; nothing, or a notice without arrays."""
        site = self._site
        values, offsets = self._split(arrays)
        unsent = site.throttle.take_unsent(ordinal)
        failed = True
        wanted = 0
        try:
            record = Record(site.info, values, offsets, ordinal, 0, step if site.info.has_step else None, unsent)
            wanted = callback.inspect(record)
            failed = False
        except Failure as failure:
            raise as_error(failure.code, failure.text) from None
        finally:
            callback.counters.ran(charged_bytes(values) - charged_bytes(()), 0.0, failed)
        return (_NONE, _NOTICE, arrays)[wanted]

    def _push(
        self, callback: Callback, arrays: Sequence[np.ndarray], charged: int, ordinal: int, step: int | None
    ) -> int:
        if delivery.is_closed:
            return CLOSED
        site = self._site
        # Copied before there is a place in the queue, since nothing may be in it that is not whole.
        owned = [np.array(array, order="C") for array in arrays]
        values, offsets = self._split(owned)
        record = Record(site.info, values, offsets, ordinal, 0, step if site.info.has_step else None, 0)
        channel = delivery.channel(self._worker, ordinal)
        queue, thread = channel.queue, channel.thread
        with thread.lock:
            outcome = queue.reserve(charged, GIVE_UP)
            if outcome == FULL and site.policy == "block":
                with Scope(WAITING_FOR_ROOM, callback._id, ordinal):
                    outcome = queue.reserve(charged, WAIT if thread.makes_room() else EXCEED)
            if outcome == TAKEN:
                record.unsent = site.throttle.take_unsent(ordinal)
                queue.push(callback, record, charged)
                thread.wake()
        return outcome

    def _drop(self, outcome: int, charged: int, ordinal: int) -> None:
        if not self._inspects:  # else the record is counted, and those before it
            self._site.throttle.add_unsent(ordinal, 1)
        self._counters.add("drops")
        if outcome == CLOSED:
            delivery.refused += 1
        elif self._site.policy == "fail":
            raise as_error(
                RESOURCE_EXHAUSTED,
                'the tap queue is full and the tap was made with on_full="fail": no room for the '
                f"{charged} bytes of its record. {delivery.describe_queues()}",
            )


_NONE: Sequence[np.ndarray] = ()
_NOTICE: Sequence[np.ndarray] = [np.zeros(0, np.bool_)]
