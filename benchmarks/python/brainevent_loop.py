# SPDX-License-Identifier: Apache-2.0
"""Measures the loop with brainevent's numba_kernel, in brainevent's environment.

Usage: python brainevent_loop.py FLOOR_LIBRARY ROUNDS. Prints a line of JSON.
"""

import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import brainevent
import jax
import jax.numpy as jnp
import numba_copies
from floor import register_floor
from measure import Contender, Row, compare
from program import FLOOR, OPERANDS, CallLoop, Method, ffi, steps


def _identity(operand: str) -> Callable[[jax.Array], jax.Array]:
    kernel = numba_copies.copy_scalar if operand == "scalar" else numba_copies.copy_vector
    call = brainevent.numba_kernel(kernel, outs=jax.ShapeDtypeStruct(OPERANDS[operand], jnp.float32))

    def apply(x: jax.Array) -> jax.Array:
        [y] = jax.tree.leaves(call(x))
        return y

    return apply


def _row(operand: str, rounds: int) -> Row:
    methods = [
        Method("floor: C++ FFI handler", FLOOR, ffi("floor_copy")),
        Method("brainevent.numba_kernel", "brainevent", _identity(operand), slow=True),
    ]
    contenders = [
        Contender(m.label, m.role, CallLoop(m, OPERANDS[operand], steps(operand, m.slow), False, rest=1).play)
        for m in methods
    ]
    return compare(operand, operand, "us", contenders, rounds)


def main() -> None:
    register_floor(Path(sys.argv[1]))
    rows = {operand: _row(operand, int(sys.argv[2])).as_json() for operand in OPERANDS}
    print(json.dumps({"versions": {package: version(package) for package in ("brainevent", "jax")}, "rows": rows}))


if __name__ == "__main__":
    main()
