# SPDX-License-Identifier: Apache-2.0
"""The end of a program in the place of JAX's token, where JAX's C++ makes the results: see callout/_callbacks/fast_path.py.

Programs that go by JAX's callbacks are dispatched by Python, which makes tokens; these are for those that do not.
"""

from __future__ import annotations

import threading
from typing import Any

_known = threading.local()


class ProgramEnd:
    """The end of a program, in the place of JAX's token."""

    def __init__(self, result: Any):
        self.result: Any = result

    def block_until_ready(self) -> None:
        """Waits for it."""
        from callout._callbacks import fast_path

        wait_for: Any = fast_path.wait_for
        wait_for(self)


class EndMarker:
    """What `mark_end` has to know of a program."""

    def __init__(self, devices: tuple[Any, ...], token_set: Any, remember: Any):
        self.devices = devices
        self.token_set = token_set
        self.remember = remember


def mark_end(marker: EndMarker, results: tuple[Any, ...]) -> Any:
    """The one result of a program, which stands for the program's end from now on."""
    outputs = marker.token_set.output_runtime_tokens
    end = ProgramEnd(results[0])
    for device in marker.devices:
        outputs[device] = end
    if getattr(_known, "outputs", None) is not outputs:
        marker.remember(outputs)
        _known.outputs = outputs
    return results[0]


def translate_errors_of(jitted: object, *made_of: object) -> bool:
    """False: errors of JAX's C++ path stay as they are. Programs with JAX's callbacks do not take it."""
    del jitted, made_of
    return False


def translate_errors_of_all(kind: type) -> None:
    """Does so for all jitted functions there are, of the type that they have: nothing."""
    del kind


def _nothing(*_: Any) -> None:
    return None


def host_callback() -> object:
    """What every program with native calls carries: there are none."""
    return _nothing


def lend_host_callback_handler(capsule: object) -> None:
    """Takes the handler for native calls, of which there are none."""
    del capsule
