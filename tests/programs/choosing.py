# SPDX-License-Identifier: Apache-2.0
"""Chooses callbacks at random, and excludes combinations that the manual says are rejected."""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
import random
from collections.abc import Iterator

import prelude

LEAVING = {"every", "min_interval", "only_process", "only_device"}  # settings that leave records out
KEYED = {"pure", "io", "debug", "tap"}  # may take PRNG keys; a foreign function takes keys if it takes integers
METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized")
NUMBA = ["numba"] if importlib.util.find_spec("numba") else []
# Callbacks that use the host's memory: on CUDA, a Buffer and a foreign function's operands are in the device's memory.
NOT_HERE = {"buffer", "ffi"} if prelude.ON_CUDA else set()


@dataclasses.dataclass(frozen=True)
class Scope:
    """The surroundings of a region."""

    depth: int = 0
    reverse: bool = False  # a cotangent will flow through the region: no while loop with a bound from the program
    forward: bool = False  # a tangent will flow through the region: no custom_vjp
    lanes: int = 0  # number of vmaps around the region
    uneven: bool = False  # inside a cond or while loop whose predicate differs between lanes
    shards: bool = False
    remat: bool = False
    rule: bool = False  # inside a custom rule
    loops: int = 0  # number of loops that pos encodes
    devices: int = 0  # devices of the program's meshes; 0: no meshes
    spread: int = 0  # number of devices that the arguments are spread over; 0 or 1: not spread
    wide: bool = False
    located: bool = False  # in a located function; JAX rejects a custom_jvp around the creation of a Ref

    @property
    def derivative(self) -> bool:
        return self.reverse or self.forward

    def inside(self, **changes: object) -> Scope:
        return dataclasses.replace(self, depth=self.depth + 1, **changes)


def site(random: random.Random, scope: Scope, number: int) -> dict[str, object]:
    """Chooses the attributes of a callback: kind, dtype, options and settings."""
    what = random.choice(_kinds(scope))
    dtype = _dtype(random, scope, what)
    attrs = {"site": number, "what": what, "dtype": dtype, "modulus": (prelude.MODULUS | prelude.WIDE)[dtype]}
    settings = _settings(random, scope, attrs)
    if what in prelude.WITH_RESULT and scope.derivative:
        attrs["stop"] = True
    if what in KEYED and dtype == "uint32":
        attrs["keyed"] = random.random() < 0.5
    if what == "check":
        attrs["check"] = random.choice(("error", "error", "check", "nan", "off", "warn", "warn_if"))
    if what in ("tap", "sink", "named_tap") and random.random() < 0.3:
        attrs["result"] = random.choice(("used", "ignored"))
    if what in ("pure", "io", "buffer", "debug", "tap") and random.random() < 0.4:
        attrs["options"] = _options(random, scope, what, number)
    return {**attrs, "settings": settings}


def _kinds(scope: Scope) -> list[str]:
    kinds = ["pure", "pure", "buffer", "buffer", "watch", "watch", "check", "cpp", "ffi", *NUMBA]
    kinds = [kind for kind in kinds if kind not in NOT_HERE]
    if scope.uneven and not scope.rule:  # these callbacks run for the active lanes
        kinds += ["tap", "tap", "debug", *([] if scope.remat else ["io"])]
    if not scope.uneven:
        kinds += ["tap", "tap", "debug", "debug", "print", "hcb_tap"]
        if not scope.lanes:
            kinds += ["sink", "named_tap", "hcb_print"]
        if not scope.derivative and not scope.remat and not scope.rule and not scope.shards and not scope.located:
            kinds.append("ref_tap")
        # In a shard_map, the result of an io callback may vary over axes over which the primal of its rule does not,
        # and JAX compares the two.
        if not scope.remat and not (scope.rule and scope.shards):
            kinds += ["io", "io"]
            if not scope.lanes and not scope.derivative:
                kinds.append("hcb_call")
    return kinds


def _dtype(random: random.Random, scope: Scope, what: str) -> str:
    if what == "ffi" and random.random() < 0.3:
        return "uint32"  # the dtype of PRNG keys' data
    if what in KEYED and random.random() < 0.1:
        return "uint32"
    if what in prelude.NATIVE:
        return "float32"
    if what in ("print", "hcb_print"):
        return random.choice(("float32", "int32"))
    if scope.wide and random.random() < 0.4:
        return random.choice(list(prelude.WIDE))
    dtype = "float32" if random.random() < 0.5 else random.choice(list(prelude.MODULUS))
    if dtype in prelude.NARROW and (what in ("buffer", "watch") or scope.devices):
        return "float32"  # XLA loses elements of less than a byte when it reshards them
    return dtype


def _options(random: random.Random, scope: Scope, what: str, number: int) -> dict[str, object]:
    """Chooses settings of callout.options."""
    chosen = [{"numpy_only": True}, {"name": f"named{number}"}]
    if what in ("pure", "io"):
        chosen.append({"zero_copy": True})
    if what != "buffer":
        chosen.append({"args": "jax"})
    if what in ("pure", "io", "debug") and scope.spread and not scope.shards:
        chosen.append({"device_index": random.randrange(scope.spread)})
    return random.choice(chosen)


def _settings(random: random.Random, scope: Scope, attrs: dict[str, object]) -> dict[str, object]:
    """Chooses the arguments of a call; `attrs` gets those that are not numbers or text."""
    what, settings, pick = attrs["what"], {}, random.choice
    if what in ("pure", "buffer"):
        # "legacy_vectorized" is ambiguous for an operand that has the axes of only some vmaps.
        settings["vmap_method"] = pick(METHODS if scope.lanes < 2 else METHODS[:-1])
    if what in prelude.NATIVE:
        attrs["method"] = pick(METHODS if what == "ffi" else (*METHODS, "parallel"))
    if what == "buffer":
        if random.random() < 0.3:
            settings["input_output_aliases"] = {1: 0}
        if random.random() < 0.3 and not scope.remat and not scope.rule:
            settings["has_side_effect"] = True
    if (
        what in ("tap", "sink", "named_tap", "debug", "io")
        and random.random() < (0.6 if scope.shards else 0.3)
        and not (scope.derivative or (scope.lanes and what != "tap"))
    ):
        settings["ordered"] = True
    if what == "watch" and random.random() < 0.5:
        settings.update(pick(({"stop": True}, {"nan": False}, {"inf": False}, {"gradient": True}, {"every": 2})))
        attrs["step"] = random.random() < 0.3
    if what in ("pure", "io", "cpp", "numba") and not scope.shards and random.random() < 0.15:
        attrs["on"] = random.randrange(scope.spread or 1)
    if what in ("tap", "ref_tap") and random.random() < 0.2:
        settings[pick(("with_device", "with_index"))] = True
    if what in ("hcb_tap", "hcb_call") and random.random() < 0.3:
        settings["tap_with_device" if what == "hcb_tap" else "call_with_device"] = True
    if what in ("tap", "sink", "named_tap") and random.random() < 0.4:
        settings.update(_sending(random, scope))
        if random.random() < 0.3:
            attrs["step"] = True
            if "min_interval" not in settings and not scope.lanes:
                settings["every"] = pick((1, 2, 3))
        if not scope.shards and "ordered" not in settings:
            settings.update(_sender(random, scope))
    if what in ("tap", "sink", "named_tap"):
        settings.update(_flush_interval(random))
    return settings


def _flush_interval(random: random.Random) -> dict[str, object]:
    """Chooses whether loops collect the records of a tap. The draws of a copy leave the other choices as they are."""
    own = copy.copy(random)
    return {"flush_interval": own.choice((0, 1e-6, 0.05, 100.0))} if own.random() < 0.5 else {}


def bar(random: random.Random, numbers: Iterator[int]) -> dict[str, object]:
    """Returns the attributes of a loop, which may include a bar."""
    return {"bar": next(numbers)} if random.random() < 0.2 else {}


def _sending(random: random.Random, scope: Scope) -> dict[str, object]:
    """Chooses which records a tap skips. Where XLA, not the program, decides the order, the tap skips none or all."""
    some = [{"sample": 1.0}, {"only_process": 0}, {"only_process": 1}, {"every": 1}]
    some += [{"on_full": "drop_newest"}, {"on_full": "fail"}]
    if not scope.shards:
        some += [{"only_device": 0}, {"only_device": 1}]
    if not (scope.lanes or scope.derivative or scope.shards or scope.remat):
        some += [{"every": 2}, {"every": 3}, {"min_interval": 3600.0}] * 2
    return random.choice(some)


def _sender(random: random.Random, scope: Scope) -> dict[str, object]:
    """Chooses the device that sends a value. XLA chooses the shards of a value that it spreads itself."""
    if not scope.devices:
        return random.choice(({}, {"sharding": "gather"}, {"sharding": "local"}, {"device_index": 0}))
    return random.choice(({}, {"sharding": "gather"}, {"device_index": 1} if scope.spread else {}))
