# SPDX-License-Identifier: Apache-2.0
"""The table of all functions that Callout replaces in JAX; docs/patches.md shows it, too.

`import callout` replaces nothing. The first program that needs a patch installs it by `ensure`; a switch in
`callout.config` prevents or removes the patch. A patch consists of hooks (python/src/hook.cc) in the places of JAX's
functions. A hook forwards calls that do not concern Callout to the original, without a frame of Callout's in
tracebacks.

A new patch needs a line in `TABLE`, its `Places` in its home's `hooked()`, and an `ensure` where programs that need it
are traced.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import threading
import types
from collections.abc import Callable, Sequence
from typing import Any

from .. import _ext, _jax_compat


@dataclasses.dataclass(frozen=True)
class Patch:
    """Describes a patch: a line of the table."""

    name: str
    setting: str  # the switch in `callout.config`
    home: str  # the module whose `hooked()` returns the places
    replaces: str
    what: str  # the patch's effect
    when: str  # the event that installs the patch
    without: str  # the loss without the patch
    first_jax: tuple[int, ...] = (0, 10, 2)
    last_jax: tuple[int, ...] | None = None  # None: no upper limit

    def fits(self, version: tuple[int, ...]) -> bool:
        """Returns whether this JAX needs the patch. `last_jax` (0, 11) includes every version 0.11.x."""
        return version >= self.first_jax and (self.last_jax is None or version[: len(self.last_jax)] <= self.last_jax)


TABLE = {
    patch.name: patch
    for patch in (
        Patch(
            name="errors",
            setting="chain_errors",
            home="_base.errors",
            replaces="`JaxRuntimeError.__init__`; the function that makes what `jax.jit` returns, the method that reads "
            "such an object from a pickle, and the C function behind each",
            what="the error carries the callback's exception as `__cause__`, and is of its class too; a jitted function's "
            "later calls raise what its first one does",
            when="a program with a callback is compiled, a name is registered, or a callback fails",
            without="every compiled failure is a plain `JaxRuntimeError` or `ValueError`",
        ),
        Patch(
            name="tokens",
            setting="patch_tokens",
            home="_base.tokens",
            replaces="`set_output_runtime_token`, `set_token_result`, `get_token_input` and `block_until_ready` of JAX's "
            "`RuntimeTokenSet`",
            what="`barrier_wait` knows the programs of all threads; a failed ordered program does not fail those after it",
            when="a program with a tap, a flag, a host value, a debug callback, an io callback or a progress bar is "
            "traced or read",
            without="`barrier_wait` waits for the calling thread's programs only; after a failed ordered program the next "
            "one fails with its error",
        ),
        Patch(
            name="dispatch",
            setting="patch_dispatch",
            home="_callbacks.fast_path",
            replaces="the function that decides which programs C++ dispatches",
            what="programs whose effects are Callout's and unordered are dispatched as fast as those without effects",
            when="a program with a tap, a flag, a host value, a debug callback, an io callback or a progress bar is "
            "traced or read",
            without="dispatching such a program takes about 50 us more",
        ),
        Patch(
            name="batching",
            setting="patch_batching",
            home="_primitives.live_lanes",
            replaces="the rules for `vmap` of `cond` and of `while_loop`",
            what="taps, io and debug callbacks run for the lanes that took their branch or have not finished; lanes that "
            "have finished keep their values where the condition has an ordered callback of Callout's",
            when="a tap, a debug callback or an io callback is traced",
            without="taps always get the whole batch, debug callbacks run for all lanes, io callbacks are refused; lanes "
            "that have finished go on changing beside an ordered callback in the condition, as they do beside JAX's",
        ),
        Patch(
            name="tapped_values",
            setting="patch_tapped_values",
            home="_primitives.lowered_modules",
            replaces="the function that makes a program's module",
            what="what reads a tapped value on a CPU reads it from the tap, so that it is computed once; on CUDA the only "
            "result of a program with callbacks, or of a loop's step, is behind an optimization barrier; exported programs' "
            "calls are JAX's own callbacks on platforms without a native path; a call in the function of a reduction or a "
            "scatter is refused",
            when="a program with a callback is traced or read, or a name is registered; at the import where programs for a "
            "CPU have no native path",
            without="XLA:CPU computes a tapped value again in what reads it: a chain of n taps takes time and code as "
            "n * n; XLA:GPU's compiler ends the process where such a result is read by what computes callbacks' values; "
            "exported programs with callbacks do not compile on platforms without a native path; XLA's compiler ends the "
            "process where the function of a reduction or a scatter has a call",
        ),
        Patch(
            name="rule_lines",
            setting="patch_rule_lines",
            home="_callbacks.located_nans.user_lines",
            replaces="the rule that calls the second function of `jax.custom_vjp`",
            what="what `callout.locate_nans` finds in such a function has its own line",
            when="`callout.locate_nans` traces a function",
            without="it has the line of the call of the first one",
        ),
        Patch(
            name="loop_invariants",
            setting="patch_loop_invariants",
            home="_primitives.loop_invariants",
            replaces="the function that moves what no step changes out of a `scan` that JAX differentiates, and the rule "
            "that splits a `scan` inside `jax.checkpoint`",
            what="in the gradient of a loop, taps and callbacks that do not depend on the loop run once a step, as they do "
            "without the gradient",
            when="a tap, a flag, a host value, a debug callback, an io callback or a progress bar is traced",
            without="in the gradient of a loop, such callbacks run once before the loop, as JAX's do",
        ),
        Patch(
            name="loop_lowering",
            setting="patch_loop_lowering",
            home="_primitives.loop_lowering",
            replaces="the lowering rules of `scan` and `while_loop`",
            what="a loop with a progress bar, or with taps that have a flush interval, is compiled as a loop over chunks "
            "of steps",
            when="a progress bar, or a tap with a flush interval, is traced",
            without="a bar's message, and each record of a tap, is sent in its step",
        ),
    )
}


@dataclasses.dataclass(frozen=True)
class Place:
    """Names a function of JAX's, an attribute of a class or module or a value of a mapping, with the parts of its hook.

    `before(original, *args)` returns the result, or NotImplemented to call the original. `after(result, *args)` runs
    behind the original. `failed(exception, *args)` runs if the original raises, and may raise another exception.
    """

    holder: Any
    key: Any
    before: Callable[..., Any] | None = None
    after: Callable[..., Any] | None = None
    failed: Callable[..., Any] | None = None

    def get(self) -> Any:
        """Returns the function that is in the place now."""
        return self.holder[self.key] if hasattr(self.holder, "__setitem__") else getattr(self.holder, self.key)

    def put(self, function: Any) -> None:
        """Puts a function into the place."""
        if hasattr(self.holder, "__setitem__"):
            self.holder[self.key] = function
        else:
            setattr(self.holder, self.key, function)

    def name(self) -> str:
        """Returns "module:name", by which a pickle finds the place in another process; "" for a value of a mapping."""
        if isinstance(self.holder, types.ModuleType):
            return f"{self.holder.__name__}:{self.key}"
        if isinstance(self.holder, type):
            return f"{self.holder.__module__}:{self.holder.__qualname__}.{self.key}"
        return ""

    def is_inherited(self, function: Any) -> bool:
        """Returns whether a class inherits `function` from another class."""
        return any(vars(base).get(self.key) is function for base in getattr(self.holder, "__mro__", ())[1:])


class _Installed:
    """An installed hook."""

    def __init__(self, place: Place):
        self.place = place
        there = place.get()
        # Replace a hook of another copy of this module, so that hooks never stack.
        self.original = getattr(there, "callout_original", there)
        parts = {"before": place.before, "after": place.after, "failed": place.failed}
        self.hook = _ext.Hook(self.original, **parts, place=place.name())
        place.put(self.hook)

    def remove(self) -> bool:
        """Restores the original. Returns False, and only disables the hook, if other code has wrapped the hook since."""
        self.hook.active = False
        if self.place.get() is not self.hook:
            return False
        if self.place.is_inherited(self.original):
            delattr(self.place.holder, self.place.key)
        else:
            self.place.put(self.original)
        return True


_lock = threading.RLock()
_ensured: set[str] = set()
_switched_off: set[str] = set()
_hooks: dict[str, list[_Installed]] = {}


def ensure(*names: str) -> None:
    """Installs patches, unless they are installed, switched off or not for this JAX.

    **Thread-safe.**
    """
    for name in names:
        if name not in _ensured:
            with _lock:
                _install(name)
                _ensured.add(name)


def switch(name: str, enabled: bool) -> None:
    """Installs a patch if a program has needed it, or removes it.

    **Thread-safe.**
    """
    with _lock:
        if not enabled:
            _switched_off.add(name)
            _hooks[name] = [hook for hook in _hooks.get(name, ()) if not hook.remove()]
            return
        _switched_off.discard(name)
        if name in _ensured:
            _install(name)


def installed() -> tuple[str, ...]:
    """Returns the names of the patches that are installed and active."""
    with _lock:
        return tuple(filter(is_installed, TABLE))


def is_installed(name: str) -> bool:
    """Returns whether a patch is installed and active."""
    return any(one.hook.active for one in tuple(_hooks.get(name, ())))


def _install(name: str) -> None:
    patch = TABLE[name]
    if name in _switched_off or not patch.fits(_jax_compat.JAX_VERSION):
        return
    wrapped = _hooks.setdefault(name, [])
    for one in wrapped:
        one.hook.active = True
    there = {(id(one.place.holder), one.place.key) for one in wrapped}
    places: Sequence[Place] = importlib.import_module(f"callout.{patch.home}").hooked()
    wrapped.extend(_Installed(place) for place in places if (id(place.holder), place.key) not in there)


@functools.cache
def rows() -> tuple[str, ...]:
    """Returns the rows of the table in docs/patches.md."""
    return tuple(
        f"| `{patch.name}` | {patch.replaces} | {patch.what} | {patch.when} | `{patch.setting}` | {patch.without} | "
        f"{_versions(patch)} |"
        for patch in TABLE.values()
    )


def _versions(patch: Patch) -> str:
    first, last = (".".join(map(str, version)) for version in (patch.first_jax, patch.last_jax or ()))
    return f"{first} to {last}" if last else f"{first} and newer"
