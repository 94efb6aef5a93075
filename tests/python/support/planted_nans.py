# SPDX-License-Identifier: Apache-2.0
"""Programs in which NaN and infinities begin for certain values, each at a line that ends with `# HERE: name`."""

from __future__ import annotations

import dataclasses
import inspect
import linecache
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True)
class Plant:
    """A function of f32[2], and a value from which it computes NaN or an infinity."""

    function: Callable[[Any], Any]
    good: float
    bad: float
    kind: str = "NaN"
    passes: str = ""  # a text that the report must contain

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def file(self) -> str:
        """Returns the file of the function."""
        return inspect.unwrap(self.function).__code__.co_filename

    def line(self) -> int:
        """Returns the line where NaN begins."""
        lines, first = inspect.getsourcelines(inspect.unwrap(self.function))
        (number,) = [first + i for i, line in enumerate(lines) if "# HERE" in line]
        assert "HERE" in linecache.getline(self.file, number)
        return number


FORWARD: list[Plant] = []


def plant(good: float, bad: float, kind: str = "NaN", passes: str = "", into: list[Plant] = FORWARD) -> Any:
    def add(function: Any) -> Any:
        into.append(Plant(function, good, bad, kind, passes))
        return function

    return add


@plant(1, -1)
def logarithm(x):
    y = x + 0
    return jnp.log(y) + 1  # HERE


@plant(1, 0, "infinity")
def logarithm_of_zero(x):
    y = jnp.log(x)  # HERE
    return y * 2


@plant(1, -1)
def root(x):
    x = x * 3
    x = jnp.sqrt(x)  # HERE
    return x - 1


@plant(1, 0, "infinity")
def inverse_root(x):
    return jax.lax.rsqrt(x)  # HERE


@plant(1, 0)
def zero_by_zero(x):
    y = x - 0
    z = (  # one expression on several lines
        y / x  # HERE
    )
    return z + 1


@plant(1, 0, "infinity")
def one_by_zero(x):
    return 1 / x  # HERE


@plant(1, 1000, "infinity")
def exponential(x):
    y = jnp.exp(x)  # HERE
    return y / (1 + y)


@plant(1, 1e30, "infinity")
def square(x):
    return x * x  # HERE


@plant(1, 1e15, "infinity")
def cube(x):
    return x**3  # HERE


@plant(1, -1)
def power(x):
    return x**0.5  # HERE


@plant(0.5, 2)
def arc_sine(x):
    return jnp.arcsin(x)  # HERE


@plant(0.5, 1, "infinity")
def hyperbolic(x):
    return jnp.arctanh(x)  # HERE


@plant(1, -2)
def logarithm_of_one_plus(x):
    return jnp.log1p(x)  # HERE


@plant(2, 0)
def remainder(x):
    return jnp.remainder(5.0, x)  # HERE


@plant(1, 3e38, "infinity")
def total(x):
    return x.sum()  # HERE


@plant(1, 3e38, "infinity")
def running_total(x):
    return jnp.cumsum(x)  # HERE


@plant(1, 1e30, "infinity")
def product(x):
    matrix = jnp.outer(x, jnp.ones(2))
    return matrix @ x  # HERE


@plant(1, 1e6, "infinity")
def half(x):
    y = x.astype(jnp.float16)  # HERE
    return y.astype(jnp.float32)


@plant(1, 7)
def out_of_bounds(x):
    return jnp.take(jnp.ones(3), x[0].astype(jnp.int32), mode="fill")  # HERE


@plant(1, -1)
def cholesky(x):
    matrix = jnp.diag(x)
    return jnp.linalg.cholesky(matrix)  # HERE


@plant(1, 0)
def inverse(x):
    matrix = jnp.diag(x)
    return jnp.linalg.inv(matrix)  # HERE


@plant(1, -5)
def masked_softmax(x):
    scores = jnp.where(x > 0, x, -jnp.inf)
    weights = jax.nn.softmax(scores)  # HERE
    return weights.sum()


@plant(2, 1)
def normalized(x):
    spread = x * jnp.array([1.0, 2.0]) - jnp.where(x == 1, x * jnp.array([1.0, 2.0]), 0)
    return spread / jnp.abs(spread).max()  # HERE


@plant(1, 1e38, "infinity")
def scattered(x):
    y = jnp.full(3, 3e38)
    y = y.at[1].add(x[0])  # HERE
    return y * 1e-37


@plant(1, -1)
def named_scope(x):
    with jax.named_scope("encoder"):
        return jnp.sqrt(x)  # HERE


@plant(1, 0)
def complex_division(x):
    z = jax.lax.complex(x, x)
    return jnp.abs(z / (z * z))  # HERE


@jax.jit
def _inner(x):
    return jnp.log(x)


@plant(1, -1)
def nested_jit(x):
    @jax.jit
    def inner(y):
        return jnp.log(y)  # HERE

    return inner(x) + jax.jit(jnp.cos)(x)


@plant(4, 2)
def in_scan(x):
    def step(carry, i):
        carry = carry - 1
        return carry, jnp.sqrt(carry + i * 0)  # HERE

    return jax.lax.scan(step, x, jnp.arange(3.0))[1].sum()


@plant(9, 2, "infinity")
def in_nested_scans(x):
    def outer(carry, _):
        def inner(carry, _):
            carry = carry - 1
            return carry, jnp.log(carry)  # HERE

        return jax.lax.scan(inner, carry, None, length=2)

    return jax.lax.scan(outer, x, None, length=3)[1].sum()


@plant(4, 2)
def in_fori(x):
    def body(i, y):
        shifted = y - i
        return y + 0 * jnp.sqrt(shifted)  # HERE

    return jax.lax.fori_loop(0, 4, body, x)


@plant(1, 30)
def in_while(x):
    def body(y):
        z = y - 25
        return y / 2 + 0 * jnp.where(y > 20, jnp.log(-z), 0.0)  # HERE

    return jax.lax.while_loop(lambda y: y[0] > 1, body, x)


@plant(0, -3)
def in_condition_of_while(x):
    return jax.lax.while_loop(
        lambda y: jnp.sqrt(y[0] + 1) > 3,  # HERE
        lambda y: y - 1,
        x,
    )


@plant(1, -1)
def in_cond(x):
    return jax.lax.cond(
        x[0] > 0,
        lambda y: y,
        lambda y: jnp.sqrt(y),  # HERE
        x,
    )


@plant(0, 2)
def in_switch(x):
    return jax.lax.switch(
        x[0].astype(jnp.int32),
        [
            jnp.sin,
            jnp.cos,
            lambda y: jnp.log(1 - y),  # HERE
        ],
        x,
    )


@plant(1, -1)
def in_map(x):
    return jax.lax.map(lambda y: jnp.log(y), x)  # HERE


@plant(1, -1)
def in_vmap(x):
    return jax.vmap(lambda y: jnp.log(y))(x)  # HERE


@plant(1, -1)
def in_checkpoint(x):
    @jax.checkpoint
    def inner(y):
        z = jnp.sin(y) * 0 + y
        return jnp.log(z)  # HERE

    return inner(x)


@plant(1, -1)
def in_custom_jvp(x):
    @jax.custom_jvp
    def inner(y):
        return jnp.log(y)  # HERE

    inner.defjvp(lambda primals, tangents: (inner(*primals), tangents[0] * 0))
    return inner(x)


@plant(1, -1)
def in_custom_vjp(x):
    @jax.custom_vjp
    def inner(y):
        return jnp.log(y)  # HERE

    inner.defvjp(lambda y: (inner(y), None), lambda _, c: (c * 0,))
    return inner(x)


@plant(1, 0, "infinity")
def gradient_inside(x):
    return jax.grad(
        lambda y: jnp.sqrt(y * y).sum()  # HERE
    )(x)


def values(plants: list[Plant], which: int) -> list[Any]:
    """Returns values that are good for all plants but one."""
    return [np.full(2, each.bad if which == i else each.good, np.float32) for i, each in enumerate(plants)]


def forward(values: list[Any]) -> Any:
    """Runs all programs of FORWARD."""
    return sum(jnp.sum(each.function(x)) for each, x in zip(FORWARD, values, strict=True))
