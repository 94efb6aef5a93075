# SPDX-License-Identifier: Apache-2.0
"""Chooses callbacks at random: what must not be where is decided here, by what the manual says is refused."""

from __future__ import annotations

import dataclasses
import importlib.util
import random
from collections.abc import Iterator

import prelude

LEAVING = {"every", "min_interval", "only_process", "only_device"}  # settings that leave records out
KEYED = {"pure", "io", "debug", "tap"}  # whose operand may be PRNG keys; a foreign function's is, if it is of integers
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
    lanes: int = 0  # how many vmaps it is inside of
    uneven: bool = False  # inside a cond or while loop that lanes of a vmap decide
    shards: bool = False
    remat: bool = False
    rule: bool = False  # inside a custom rule
    loops: int = 0  # how often pos grew
    devices: int = 0  # of the program's meshes; 0: there are none
    spread: int = 0  # the devices that its arguments are on, if they are several
    wide: bool = False
    located: bool = False  # JAX refuses a custom_jvp around what makes a Ref

    @property
    def derivative(self) -> bool:
        return self.reverse or self.forward

    def inside(self, **changes: object) -> Scope:
        return dataclasses.replace(self, depth=self.depth + 1, **changes)


def site(random: random.Random, scope: Scope, number: int) -> dict[str, object]:
    """The attributes of a callback: which, with what dtype, options and settings."""
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
    if scope.uneven and not scope.rule:  # they run for the lanes that are there
        kinds += ["tap", "tap", "debug", *([] if scope.remat else ["io"])]
    if not scope.uneven:
        kinds += ["tap", "tap", "debug", "debug", "print", "hcb_tap"]
        if not scope.lanes:
            kinds += ["sink", "named_tap", "hcb_print"]
        if not scope.derivative and not scope.remat and not scope.rule and not scope.shards and not scope.located:
            kinds.append("ref_tap")
        # In a shard_map an io callback's result may vary where what its rule is for does not, and JAX compares the two.
        if not scope.remat and not (scope.rule and scope.shards):
            kinds += ["io", "io"]
            if not scope.lanes and not scope.derivative:
                kinds.append("hcb_call")
    return kinds


def _dtype(random: random.Random, scope: Scope, what: str) -> str:
    if what == "ffi" and random.random() < 0.3:
        return "uint32"  # of PRNG keys
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
    """Of callout.options."""
    chosen = [{"numpy_only": True}, {"name": f"named{number}"}]
    if what in ("pure", "io"):
        chosen.append({"zero_copy": True})
    if what != "buffer":
        chosen.append({"args": "jax"})
    if what in ("pure", "io", "debug") and scope.spread and not scope.shards:
        chosen.append({"device_index": random.randrange(scope.spread)})
    return random.choice(chosen)


def _settings(random: random.Random, scope: Scope, attrs: dict[str, object]) -> dict[str, object]:
    """The arguments of a call; what is no number or text among them is in `attrs`."""
    what, settings, pick = attrs["what"], {}, random.choice
    if what in ("pure", "buffer"):
        # Of an operand that has the axes of some vmaps only, "legacy_vectorized" does not say which.
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
    return settings


def bar(random: random.Random, numbers: Iterator[int]) -> dict[str, object]:
    """The attributes of a loop that may have a bar."""
    return {"bar": next(numbers)} if random.random() < 0.2 else {}


def _sending(random: random.Random, scope: Scope) -> dict[str, object]:
    """What a tap leaves out. Where it is not the program that decides which ones, only what leaves out none or all."""
    some = [{"sample": 1.0}, {"only_process": 0}, {"only_process": 1}, {"every": 1}]
    some += [{"on_full": "drop_newest"}, {"on_full": "fail"}]
    if not scope.shards:
        some += [{"only_device": 0}, {"only_device": 1}]
    if not (scope.lanes or scope.derivative or scope.shards or scope.remat):
        some += [{"every": 2}, {"every": 3}, {"min_interval": 3600.0}] * 2
    return random.choice(some)


def _sender(random: random.Random, scope: Scope) -> dict[str, object]:
    """Which device sends a value. What the shards are of one that XLA spreads is XLA's choice."""
    if not scope.devices:
        return random.choice(({}, {"sharding": "gather"}, {"sharding": "local"}, {"device_index": 0}))
    return random.choice(({}, {"sharding": "gather"}, {"device_index": 1} if scope.spread else {}))
