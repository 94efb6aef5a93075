# SPDX-License-Identifier: Apache-2.0
"""Chooses callbacks at random: what must not be where is decided here, by what the manual says is refused."""

from __future__ import annotations

import dataclasses
import importlib.util
import random
from collections.abc import Iterator

import prelude

METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized")
NUMBA = ["numba"] if importlib.util.find_spec("numba") else []
# What is written for the host's memory: on CUDA a Buffer and a foreign function's operands are the device's.
NOT_HERE = {"buffer", "ffi"} if prelude.ON_CUDA else set()


@dataclasses.dataclass(frozen=True)
class Scope:
    """What surrounds a region."""

    depth: int = 0
    reverse: bool = False  # a cotangent will flow through it: no while loop with a bound from the program
    forward: bool = False  # a tangent will: no custom_vjp
    lanes: bool = False  # inside vmap
    uneven: bool = False  # inside a cond or while loop that lanes of a vmap decide
    shards: bool = False
    remat: bool = False
    rule: bool = False  # inside a custom rule
    loops: int = 0  # how often pos grew

    @property
    def derivative(self) -> bool:
        return self.reverse or self.forward

    def inside(self, **changes: object) -> Scope:
        return dataclasses.replace(self, depth=self.depth + 1, **changes)


def site(random: random.Random, scope: Scope, number: int, on_several_devices: bool) -> dict[str, object]:
    """The attributes of a callback: which, with what dtype, options and settings."""
    pick = random.choice
    kinds = ["pure", "pure", "buffer", "buffer", "watch", "watch", "check", "cpp", "ffi", *NUMBA]
    kinds = [kind for kind in kinds if kind not in NOT_HERE]
    if scope.uneven and not scope.rule:  # they run for the lanes that are there
        kinds += ["tap", "tap", "debug", *([] if scope.remat else ["io"])]
    if not scope.uneven:
        kinds += ["tap", "tap", "debug", "debug", "print", "hcb_tap"]
        if not scope.lanes:
            kinds += ["sink", "named_tap"]
        if not scope.derivative and not scope.remat and not scope.rule and not scope.shards:
            kinds.append("ref_tap")
        # In a shard_map an io callback's result may vary where what its rule is for does not, and JAX compares the two.
        if not scope.remat and not (scope.rule and scope.shards):
            kinds += ["io", "io"]
            if not scope.lanes and not scope.derivative:
                kinds.append("hcb_call")
    what = pick(kinds)
    dtype = "float32" if random.random() < 0.5 else pick(list(prelude.MODULUS))
    if dtype in ("int4", "uint4", "uint2") and (what in ("buffer", "watch") or on_several_devices):
        dtype = "float32"  # XLA loses elements of less than a byte when it reshards them
    if what == "print" or what in prelude.NATIVE:
        dtype = pick(("float32", "int32")) if what == "print" else "float32"
    attrs = {"site": number, "what": what, "dtype": dtype, "modulus": prelude.MODULUS[dtype]}
    settings: dict[str, object] = {}
    if what in ("pure", "buffer"):
        settings["vmap_method"] = pick(METHODS)
    if what in prelude.NATIVE:
        attrs["method"] = pick(METHODS if what == "ffi" else (*METHODS, "parallel"))
    if what in prelude.WITH_RESULT and scope.derivative:
        attrs["stop"] = True
    if (
        what in ("tap", "sink", "named_tap", "debug", "io")
        and random.random() < 0.3
        and not (scope.shards or scope.derivative or (scope.lanes and what != "tap"))
    ):
        settings["ordered"] = True
    if what in ("pure", "io", "buffer", "debug", "tap") and random.random() < 0.3:
        attrs["options"] = pick(({"numpy_only": True}, {"name": f"named{attrs['site']}"}))
        if what in ("pure", "io") and random.random() < 0.3:
            attrs["options"] = {"zero_copy": True}
    if what in ("tap", "sink", "named_tap") and random.random() < 0.3:
        settings.update(_sending(random, scope))
    return {**attrs, "settings": settings}


def bar(random: random.Random, numbers: Iterator[int]) -> dict[str, object]:
    """The attributes of a loop that may have a bar."""
    return {"bar": next(numbers)} if random.random() < 0.2 else {}


def _sending(random: random.Random, scope: Scope) -> dict[str, object]:
    """What a tap leaves out. Where it is not the program that decides which ones, only what leaves out none or all."""
    some = [{"sample": 1.0}, {"only_process": 0}, {"only_process": 1}, {"on_full": "drop_newest"}, {"every": 1}]
    if not (scope.lanes or scope.derivative or scope.shards or scope.remat):
        some += [{"every": 2}, {"every": 3}, {"min_interval": 3600.0}] * 2
    return random.choice(some)
