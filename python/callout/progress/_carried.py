# SPDX-License-Identifier: Apache-2.0
"""A progress bar as text, which an exported program carries: whoever loads the program draws it, or does not.

"progress_bar:" and percent-encoded JSON: what the bar was told, how its messages are read, and which parts they have.
"""

from __future__ import annotations

import json
import pickle
import urllib.parse
from collections.abc import Callable
from typing import Any, NoReturn

import jax

from .. import _ext
from .._targets.target import Target, Transforms
from ._bars import Loop
from ._limits import MOST_PAYLOAD, check_bar, check_message
from ._settings import make_settings

_SETTINGS = ("where", "print_rate", "tqdm_type", "devices", "only_process", "tqdm")
_LOOP = ("names", "total", "scale", "rest", "parts", "is_mapped")


class LoopTarget(Target):
    """Makes a loop the target of a tap."""

    __slots__ = ("_parts", "loop")

    def __init__(self, loop: Loop, value: Any):
        desc = loop.settings.tqdm.get("desc")
        label = f"callout.progress.{desc}" if desc else "callout.progress"
        tree = jax.tree.structure(value)
        super().__init__(object(), label, True, lambda _: _callback(label, loop, tree), (str(tree), *loop.digest()))
        self.loop = loop
        self._parts = [value[1] is not None, value[2] is not None]

    def __reduce__(self) -> NoReturn:
        raise pickle.PicklingError(
            f"callout: the progress bar '{self.label}' is drawn by this process, and so is that of a compiled program. Pass "
            "the program on by callout.export: it then carries its bar"
        )

    def exported_name(self, where: str, transforms: Transforms = ()) -> str:
        """Returns the name that goes into an exported program. ValueError if text cannot say it all."""
        del transforms
        told = {name: getattr(self.loop.settings, name) for name in _SETTINGS}
        read = {name: getattr(self.loop, name) for name in _LOOP}
        try:
            text = json.dumps([1, told, {**read, "total_told": self.loop.settings.total}, self._parts])
        except TypeError as error:
            raise ValueError(
                f"{where}: an exported program carries its bar as text, and one of {dict(self.loop.settings.tqdm)} "
                f"cannot be written: {error}"
            ) from None
        payload = urllib.parse.quote(text, safe="")
        check_bar(*_parsed(payload))  # a loader would refuse it
        return _ext.progress_bar_prefix + payload


def carried_bar(payload: str) -> _ext.Callback:
    """Makes the callback of a bar that came with a program. The core calls it, with what stands behind "progress_bar:"."""
    told, read, parts = _parsed(payload)
    check_bar(told, read, parts)
    settings = make_settings(told.pop("where"), read.pop("total_told"), **told)
    value = (0, 0 if parts[0] else None, 0 if parts[1] else None, (0,) * len(read["names"]))
    loop = Loop(settings, read.pop("names"), **read)

    def take(message: Any) -> None:
        check_message(*message)
        loop(message)

    return _callback("callout.progress", take, jax.tree.structure(value))


def _parsed(payload: str) -> Any:
    """Returns the items behind the format's number. ValueError for what is none of this format."""
    if len(payload) > MOST_PAYLOAD:
        raise ValueError(
            f"callout.progress: a program carries a progress bar of {len(payload)} characters; expected at most "
            f"{MOST_PAYLOAD}"
        )
    try:
        version, *rest = json.loads(urllib.parse.unquote(payload))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"callout.progress: cannot read the progress bar that a program carries: {error}") from None
    if version != 1 or len(rest) != 3:
        raise ValueError(f"callout.progress: a program carries a progress bar of format {version!r:.40}; known: 1")
    return rest


def _callback(label: str, function: Callable[[Any], None], tree: Any) -> _ext.Callback:
    return _ext.make_python_callback(
        label=label,
        function=function,
        unflatten_value=tree.unflatten,
        numpy_only=True,
    )
