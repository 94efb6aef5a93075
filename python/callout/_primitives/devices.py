# SPDX-License-Identifier: Apache-2.0
"""The device that a call names (`sharding=`), as a parameter from which JAX knows that it must say which devices there are.

JAX tells the devices that a program is compiled for only where it finds a primitive that asks for them, and then refuses
more than one mesh ("mesh should be the same across the entire program"). So it is a primitive of its own, which no program
runs: it is in a jaxpr among the parameters of just these calls, where JAX looks, too. It stays with the call, whatever
program becomes of it: an eager operation, the body of a loop, a rule.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.extend.core

from .. import _jax_compat
from .jaxprs import opened

known_devices_p = jax.extend.core.Primitive("callout_known_devices")
known_devices_p.multiple_results = True
known_devices_p.def_abstract_eval(list)
_jax_compat.require_devices(known_devices_p)


class NamedDevice(NamedTuple):
    """A sharding over one device, with what asks for the program's devices."""

    sharding: jax.sharding.Sharding
    mark: Any


def named_device(sharding: jax.sharding.Sharding | None) -> NamedDevice | None:
    """Returns the parameter of a call with this sharding."""
    return None if sharding is None else NamedDevice(sharding, _mark())


@functools.cache
def _mark() -> Any:
    return opened(jax.make_jaxpr(known_devices_p.bind)())
