# SPDX-License-Identifier: Apache-2.0
"""What JAX calls for a tap of a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..calls import registry
from ..dtypes import first_integer
from .eager_tap import EagerTap
from .packed import PackedLayout

if TYPE_CHECKING:
    from ..calls.callback import Callback


class HostTap:
    """What is kept of a tap in one program.

    The last operand is the number of the device among the program's if `ordinals` has several; the one before it the step,
    if the site has one. `threaded`: the first is a token, and the result.
    """

    def __init__(
        self,
        told: Any,
        callback: Callback | None,
        name: str,
        attributes: Mapping[str, Any],
        has_step: bool,
        ordinals: Sequence[int],
        packed: tuple[int, Sequence[Any]] | None,
        answer: tuple[Any, ...],
        threaded: bool,
    ):
        self._told = told
        self._callback = callback
        self._name = name
        self._attributes = attributes
        self._has_step = has_step
        self._ordinals = tuple(ordinals)
        self._layout = None if packed is None else PackedLayout(*packed)
        self._answer = answer
        self._threaded = threaded
        self._made: dict[None, tuple[Callback, EagerTap]] = {}

    @property
    def told(self) -> Any:
        """What it was made of."""
        return self._told

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        """Sends a record, if one is due."""
        ordinal = -1
        try:
            operands = arrays[self._threaded :] if self._layout is None else self._layout.arrays(arrays)
            ordinals = self._ordinals
            if not ordinals:
                ordinals = self._ordinals = (self._told.first_ordinal(),)
            if len(ordinals) > 1:
                ordinal, operands = ordinals[int(operands[-1])], operands[:-1]
            else:
                ordinal = ordinals[0]
            self._push(operands, ordinal)
        except BaseException as error:  # noqa: BLE001 - it is JAX's or the next barrier's
            self._told.fail(BaseException.with_traceback(error, None), ordinal)
        return (arrays[0],) if self._threaded else self._answer

    def _push(self, operands: Sequence[np.ndarray], ordinal: int) -> None:
        step = None
        if self._has_step:
            step, operands = first_integer(operands[-1]), operands[:-1]  # under vmap the first one counts
        callback, tap = self._made.get(None) or self._make()
        if tap.admit(ordinal, step):
            tap.send(callback, operands, ordinal, step)

    def _make(self) -> tuple[Callback, EagerTap]:
        """The callback and the site. Of devices that come first at once, all get those of one of them."""
        callback = registry.find(self._name) if self._callback is None else self._callback
        return self._made.setdefault(None, (callback, EagerTap(callback, self._attributes)))
