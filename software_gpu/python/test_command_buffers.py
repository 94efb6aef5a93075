# SPDX-License-Identifier: Apache-2.0
"""XLA's command buffers on the software GPU: programs whose launches are graphs give what XLA:CPU gives, replay by
replay, and really were graphs."""

import ctypes

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

GPU = jax.devices()[0]
CPU = jax.devices("cpu")[0]
OPTIONS = {
    "xla_gpu_graph_min_graph_size": 1,
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,COLLECTIVES,CONDITIONAL,WHILE",
}


def calls(function: str) -> int:
    """How often the driver's function was called in this process."""
    control_of = ctypes.CDLL("libcuda.so.1").software_gpu_control
    control_of.restype = ctypes.POINTER(ctypes.c_void_p)
    count = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(control_of()[2])
    return count(function.encode())


def straight(x):
    ordered = jnp.sort(x * 2, axis=0)
    summed = jnp.cumsum(ordered, axis=1)
    return summed.sum(0), jnp.flip(summed, 0).max(1)


def softmax(x):
    return jax.nn.softmax(jnp.sort(x, axis=0), axis=1)


def loop(x):
    return lax.fori_loop(0, 6, lambda i, a: jnp.sort(a * 1.5, axis=0) + a.sum() / 1000, x)


def loop_of_unknown_length(x):
    return lax.while_loop(lambda a: a.max() < 1e4, lambda a: jnp.sort(a * 1.5, axis=0), x)


def branch(x):
    return lax.cond(x[0, 0] > 3, lambda a: jnp.sort(a, axis=0) * 2, lambda a: jnp.cumsum(a, axis=0) - 1, x)


def branches(x):
    choices = [lambda a, k=k: jnp.sort(a, axis=0) * k for k in range(1, 4)]
    return lax.switch(x[0, 0].astype(int) % 3, choices, x)


def branch_in_a_loop(x):
    return lax.fori_loop(
        0, 5, lambda i, a: lax.cond(i % 2 == 0, lambda b: b + 1, lambda b: jnp.sort(b * 2, axis=1), a), x
    )


def product(x):
    return jnp.tanh(x @ x.T) @ x


@pytest.mark.parametrize(
    "function",
    [straight, softmax, loop, loop_of_unknown_length, branch, branches, branch_in_a_loop, product],
)
def test_graphs_give_what_the_cpu_gives(function):
    compiled = jax.jit(function, compiler_options=OPTIONS)
    launches = calls("cuGraphLaunch")
    # Arguments of their own in each run: the addresses change, and XLA updates what it recorded.
    for run in range(4):
        x = np.arange(600, dtype=np.float32).reshape(20, 30) / 100 + run
        expected = jax.tree.leaves(jax.jit(function)(jax.device_put(x, CPU)))
        got = jax.tree.leaves(compiled(jax.device_put(x, GPU)))
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    assert calls("cuGraphLaunch") - launches >= 2
