# SPDX-License-Identifier: Apache-2.0
"""What sinks share, and those that do next to nothing."""

from __future__ import annotations

from collections.abc import Sequence

from ..calls.callback import Callback
from ..delivery.record import Record
from ..failures import INVALID_ARGUMENT, Failure, as_error, code_of, text_of


class Sink(Callback):
    """The target of taps; a program cannot wait for it."""

    worker = "native"
    refusal = "a sink takes taps; it cannot be called for a result"


class NullSink(Sink):
    """Takes and forgets."""

    def deliver(self, record: Record) -> None:
        """Forgets it."""


class TeeSink(Sink):
    """One record for several sinks, in their order."""

    def __init__(self, label: str, receivers: Sequence[Callback]):
        super().__init__(label)
        self._receivers = list(receivers)

    def deliver(self, record: Record) -> None:
        """A sink that fails keeps it from no other."""
        failures = []
        bytes_ = sum(array.nbytes for array in record.arrays)
        for receiver in self._receivers:
            failed = True
            try:
                receiver.deliver(record)
                failed = False
            except Exception as error:  # noqa: BLE001 - told below
                failures.append((receiver, error))
            receiver.counters.ran(bytes_, 0.0, failed)
        self._tell(failures)

    def flush(self) -> None:
        """Each of them."""
        failures = []
        for receiver in self._receivers:
            try:
                receiver.flush()
            except Exception as error:  # noqa: BLE001 - told below
                receiver.counters.add("errors")
                failures.append((receiver, error))
        self._tell(failures)

    def _tell(self, failures: list[tuple[Callback, Exception]]) -> None:
        if not failures:
            return
        receiver, error = failures[0]
        text = f"sink '{receiver.label}': {text_of(error)}"
        if len(failures) > 1:
            text += f" (and {len(failures) - 1} more of the {len(self._receivers)} sinks failed)"
        raise Failure(code_of(error), text)


def make_tee_sink(label: str, receivers: Sequence[Callback]) -> Callback:
    """Makes a sink that hands what it gets to these sinks."""
    if not receivers:
        raise as_error(INVALID_ARGUMENT, f"callout: the tee '{label}' has no receivers")
    for receiver in receivers:
        if not receiver.is_native:
            raise as_error(
                INVALID_ARGUMENT,
                f"callout: the tee '{label}' delivers without Python; '{receiver.label}' is a Python function",
            )
    return TeeSink(label, receivers)
