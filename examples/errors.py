# SPDX-License-Identifier: Apache-2.0
"""Shows how the exception of a callback is raised again, from a call and from a tap.

Usage: python examples/errors.py
"""

import callout
import jax
import jax.numpy as jnp
import numpy as np


class TooHot(Exception):  # noqa: N818 - an exception of the user's
    def __init__(self, degrees: float):
        super().__init__(f"{degrees:.1f} degrees")
        self.degrees = degrees


def check(temperature: np.ndarray) -> np.ndarray:
    if temperature > 100:
        raise TooHot(float(temperature))
    return temperature


def checked(x: jax.Array) -> jax.Array:
    return callout.pure_callback(check, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def heat(x: jax.Array) -> jax.Array:
    """Heats up by 30 degrees five times, and checks each time."""
    return jax.lax.fori_loop(0, 5, lambda _, x: checked(x + 30), x)


def with_a_context_manager() -> None:
    """Uses `reraise()` around the code that runs the program and waits."""
    try:
        with callout.reraise():
            jax.jit(heat)(jnp.float32(20)).block_until_ready()
    except TooHot as error:
        print(f"reraise():    TooHot, {error.degrees} degrees")  # the original object, with its attributes


def with_callout_jit() -> None:
    """Uses `callout.jit`, which is `jax.jit` with `reraise()` in each call."""
    try:
        callout.jit(heat)(jnp.float32(20))
    except TooHot as error:
        print(f"callout.jit:  TooHot, {error.degrees} degrees")


def after_the_fact() -> None:
    """Reads the original exception after other code has caught JAX's exception."""
    try:
        jax.jit(heat)(jnp.float32(40)).block_until_ready()
    except Exception:  # noqa: BLE001 - JaxRuntimeError, with the original's traceback in its text
        pass
    error = callout.last_error()
    assert isinstance(error, TooHot)
    print(f"last_error(): TooHot, {error.degrees} degrees")


def from_a_tap() -> None:
    """Shows that a failed tap does not fail the program: the next barrier raises the error."""

    def watch(value: np.ndarray) -> None:
        check(value)

    def run(x):
        return jax.lax.fori_loop(0, 5, lambda _, x: callout.tap(watch, x + 30), x)

    print("the program with a failing tap gives", jax.jit(run)(jnp.float32(0)))
    failed = None
    try:
        callout.barrier_wait()
    except callout.TapError as error:
        failed = error
    assert failed is not None
    assert isinstance(failed, TooHot)  # the error is a TapError and a TooHot
    assert failed.count == 2
    print(f"barrier_wait(): {failed.count} taps failed, the last with {failed.__cause__}")


def main() -> None:
    with_a_context_manager()
    with_callout_jit()
    after_the_fact()
    from_a_tap()


if __name__ == "__main__":
    main()
