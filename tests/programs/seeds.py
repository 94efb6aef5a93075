# SPDX-License-Identifier: Apache-2.0
"""Makes the program of a seed."""

from __future__ import annotations

import dataclasses
import random

import boxes
import choosing
import drawing
import oracle
from syntax import Program, statements, within


def draw(seed: int) -> Program:
    drawer = drawing.Drawer(seed)
    program = drawer.program()
    return _failing(program, drawer.random) if drawer.random.random() < 0.12 and not drawer.devices else program


def _failing(program: Program, chance: random.Random) -> Program:
    """Lets one callback of the program raise, if possible.

    With several devices, none does: they would wait for each other.
    """
    if any(stmt.kind == "located" for stmt in statements(program.main)):
        return program  # values after a failed call may be NaN
    plain = {
        stmt.attrs["site"]
        for stmt, path in within(program.main, {"jvp", "vjp", "remat"})
        if stmt.kind == "site" and not path and stmt.attrs["what"] in ("io", "debug", "tap", "named_tap")
        if not stmt.attrs["settings"].keys() & choosing.LEAVING
        # The error of an eager numpy_only callback whose result is unused appears only at JAX's barrier.
        if not (program.mode == "eager" and stmt.attrs.get("options", {}).get("numpy_only"))
    }
    try:
        events = [(event.site, event.pos) for event in oracle.expected(program).events if event.site in plain]
    except boxes.TooLarge:
        return program
    return dataclasses.replace(program, fails=chance.choice(events)) if events else program
