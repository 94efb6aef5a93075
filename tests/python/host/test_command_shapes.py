# SPDX-License-Identifier: Apache-2.0
"""Tests programs for several shapes, run by the command."""

import callout
import command
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest

pytestmark = [
    pytest.mark.skipif(bool(command.missing()), reason=command.missing() or "there is one"),
    pytest.mark.cpu_only(platforms.HOST),
]


@pytest.fixture
def file(tmp_path):
    (b,) = jax.export.symbolic_shape("b")

    @jax.jit
    def centre(x):
        callout.tap("seen", x[0])
        return x - x.mean(axis=0)

    exported = callout.export(centre, stablehlo_version=command.STABLEHLO, shapes=[{"b": 3}, {"b": 17}])
    path = tmp_path / "centre.jax"
    path.write_bytes(exported(jax.ShapeDtypeStruct((b, 2), jnp.float32)).serialize())
    return path


def _command(name, file, *rest):
    output = file.parent / "returned.npz"
    return command.run_command(name, file, *rest, "--plugin", command.c_api.plugin_path(), output=output)


@pytest.mark.parametrize("b", [3, 17])
def test_the_arguments_choose_the_program(file, b):
    x = np.random.default_rng(0).random((b, 2), np.float32)
    given = file.parent / "x.npy"
    np.save(given, x)
    done = _command("run", file, "--arg", given, "--bind", "seen=null", "--output", file.parent / "returned.npz")
    assert done.code == 0, done.err
    np.testing.assert_allclose(done.results[0], x - x.mean(axis=0), atol=1e-6)


def test_another_shape_is_an_error_that_names_the_known_ones(file):
    done = _command("run", file, "--arg", "f32[4,2]=0", "--bind", "seen=null")
    assert done.code == 2
    assert "callout: the arguments fit none of the program's shapes: b=3: " in done.err
    assert "; b=17: " in done.err


def test_info_tells_the_shapes(file):
    done = _command("info", file)
    assert done.code == 0, done.err
    assert "  for b=3; also for b=17\n" in done.out
    assert "argument 0: f32[3,2]" in done.out


def test_all_shapes_are_compiled_into_a_cache(file):
    flags = ("--cache", file.parent / "cache")
    for word in ("miss", "hit"):
        done = _command("compile", file, *flags)
        assert done.code == 0, done.err
        assert done.out == f"{file}, b=3: {word}\n{file}, b=17: {word}\n"
    done = _command("run", file, "--arg", "f32[17,2]=1", "--bind", "seen=null", "--json", *flags)
    assert done.code == 0, done.err
    assert '"cache": "hit"' in done.out or '"cache":"hit"' in done.out
