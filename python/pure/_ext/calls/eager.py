# SPDX-License-Identifier: Apache-2.0
"""Calls that are waited for, by JAX's own callbacks and outside of programs; and taps that run in their caller."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Sequence

import numpy as np

from .. import log
from ..delivery.delivery import delivery
from ..delivery.record import Record, SiteInfo
from ..dtypes import total_bytes
from ..failures import FORKED, Failure, as_error, code_of, describe, fail, text_of
from ..process import forks
from ..process.in_flight import CALL, Scope
from .callback import Callback, Specs


def call_eager(
    callback: Callback, arrays: Sequence[np.ndarray], result_specs: Specs, device_ordinal: int, ordered: bool
) -> list[np.ndarray]:
    """Calls it here, after the taps of the device that came before if it is ordered."""
    if ordered:
        delivery.drain_device(callback, device_ordinal)
    start = time.perf_counter()
    results: list[np.ndarray] | None = None
    try:
        with Scope(CALL, callback._id, device_ordinal):
            if forks._is_child:
                fail(9, FORKED)
            results = callback.call(arrays, result_specs, device_ordinal)
        return results
    except BaseException as error:
        failure = Failure(code_of(error), text_of(error))
        callback.add_tap_error(device_ordinal, failure)
        _log(describe(callback, device_ordinal, failure.text))
        if not issubclass(type(error), Failure):
            raise
        raised = as_error(failure.code, describe(callback, device_ordinal, failure.text))
    finally:
        bytes_ = total_bytes(arrays) + (total_bytes(results) if results else 0)
        callback.counters.ran(bytes_, time.perf_counter() - start, results is None)
    raise raised


def _log(text: str) -> None:
    """Tells the logger of a call that failed."""
    if log.is_enabled(logging.DEBUG):
        from callout._base import errors

        with contextlib.suppress(Exception):  # whatever handlers and filters raise
            errors.log_failed_call(text)


def tap_inline(
    callback: Callback, arrays: Sequence[np.ndarray], label: str, leaf_names: Sequence[str], device_ordinal: int
) -> None:
    """Calls the tap's function in this thread, after those that are queued."""
    if callback.is_native:
        raise TypeError("callout: a sink cannot be called inline")
    delivery.drain_device(callback, device_ordinal)
    info = SiteInfo(label or callback.label, list(leaf_names), has_offsets=False, has_step=False)
    owned = [np.array(array, order="C") for array in arrays]
    failed = True
    try:
        callback.deliver(Record(info, owned, (), device_ordinal, 0, None, 0))
        failed = False
    except Failure as failure:
        raise as_error(failure.code, failure.text) from None
    except BaseException as error:
        text_of(error)  # it is the last error from now on
        raise
    finally:
        callback.counters.ran(0, 0.0, failed)
