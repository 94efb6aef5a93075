# SPDX-License-Identifier: Apache-2.0
"""Programs of a few statements for the tests of the fuzzer, and faults to inject into them."""

import numpy as np
import prelude
from syntax import INTEGER, SCALAR, VECTOR, Program, Region, Stmt, Var


def a_site(site: int, x: Var, out: Var, what: str = "tap", **more: object) -> Stmt:
    attrs = {"site": site, "what": what, "dtype": "float32", "modulus": 8, "settings": {}, **more}
    return Stmt("site", (out,), (x,), (), attrs)


def one_site(what: str, **more: object) -> Program:
    n, x, v, y = Var("n0", INTEGER), Var("x1", SCALAR), Var("x2", VECTOR), Var("x3", SCALAR)
    if what in ("pure", "buffer"):
        more["settings"] = {"vmap_method": "sequential"}
    inputs = (np.int32(1), np.float32(-3), np.arange(4, dtype=np.float32))
    return Program(Region((n, x, v), (a_site(0, x, y, what, **more),), (y,)), inputs)


def hasty(site, rank, tapped=prelude.tapped):
    """Returns a tap function that records each record before its predecessor."""
    tap = tapped(site, rank)

    def tap_before_the_last(value, *, transforms=()):
        *before, last = [*prelude.events] or [None]
        tap(value, transforms=transforms)
        prelude.events[:] = [*before, prelude.events[-1], *([last] if last else [])]

    tap_before_the_last.__qualname__ = f"site{site}"
    return tap_before_the_last
