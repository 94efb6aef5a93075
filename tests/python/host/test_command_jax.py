# SPDX-License-Identifier: Apache-2.0
"""Tests programs that JAX itself lowered, with its own callbacks, run by the command with functions of a library."""

import c_api
import command
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from jax.experimental import io_callback
from jax.experimental.buffer_callback import buffer_callback

pytestmark = [
    pytest.mark.skipif(bool(command.missing()), reason=command.missing() or "there is one"),
    pytest.mark.cpu_only(platforms.HOST),
]


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    return f"{command.build_library(tmp_path_factory.mktemp('jax'), command.TWICE)}:twice"


def _host_twice(x):
    return np.asarray(x) * 2


def _program(x):
    shape = jax.ShapeDtypeStruct((), jnp.float32)

    def body(i, x):
        return jax.vmap(lambda e: jax.pure_callback(_host_twice, shape, e, vmap_method="sequential"))(x)

    x = jax.lax.fori_loop(0, 3, body, x)
    x = io_callback(_host_twice, jax.ShapeDtypeStruct(x.shape, x.dtype), x, ordered=True)
    jax.debug.callback(lambda *_: None, x, x.sum())
    jax.debug.callback(lambda _: None, x[0], partitioned=True)
    jax.debug.print("{}", x[1], ordered=True)
    return buffer_callback(lambda *_: None, jax.ShapeDtypeStruct(x.shape, x.dtype))(x), x


@pytest.mark.parametrize("kind", ["text", "bytecode"])
def test_callbacks_of_jax_run_without_python(twice, tmp_path, kind):
    lowered = jax.jit(_program).lower(jax.ShapeDtypeStruct((2,), jnp.float32))
    path = tmp_path / "program.mlir"
    if kind == "text":
        path.write_text(lowered.as_text())
    else:
        with path.open("wb") as file:
            lowered.compiler_ir().operation.write_bytecode(file)
    plugin = ("--plugin", c_api.plugin_path())
    info = command.run_command("info", path, *plugin).out
    assert "  argument 0: f32[2]\n" in info
    assert "  argument 1" not in info  # a token is no argument
    assert "  JAX's callback 'jax:0' (f32[]) -> (f32[])\n" in info
    assert "  JAX's callback 'jax:1' (f32[2]) -> (f32[2])\n" in info
    assert "  JAX's callback 'jax:2' (f32[2], f32[])\n" in info
    assert "--bind 'jax:5=...'" in info

    line = ["run", path, *plugin, "--arg", "f32[2]=1,2"]
    done = command.run_command(*line, "--bind", "jax:2=print")
    assert (done.code, done.out) == (2, "")
    assert "no callback is bound to 'jax:0', 'jax:1', 'jax:3', 'jax:4', 'jax:5'" in done.err

    line += [f"--bind=jax:{i}={twice}" for i in (0, 1, 5)] + [f"--bind=jax:{i}=print" for i in (2, 3, 4)]
    output = tmp_path / "results.npz"
    done = command.run_command(*line, "--output", output, output=output)
    assert done.code == 0, done.err
    np.testing.assert_array_equal(done.results, [[32, 64], [16, 32]])
    assert {"jax:3: 16", "jax:4: 32"} < set(done.out.splitlines())
