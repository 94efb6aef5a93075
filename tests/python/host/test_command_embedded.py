# SPDX-License-Identifier: Apache-2.0
"""Tests programs with embedded native code in hosts that reject it: the command and the C interface."""

import c_api
import callout
import command
import jax
import numpy as np
import platforms
import pytest

pytestmark = [
    pytest.mark.skipif(bool(command.missing()), reason=command.missing() or "there is one"),
    pytest.mark.cpu_only(platforms.HOST),
]

LOADED = "the library of the program was loaded"
SOURCE = f"""
#include <cstdio>
#include "callout/kernel.h"
struct Initialiser {{ Initialiser() {{ std::fputs("{LOADED}\\n", stderr); }} }} initialiser;
void scale(callout::In<float> x, callout::Out<float> y) {{ for (int64_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i]; }}
CALLOUT_KERNEL(scale);
"""
X = np.arange(4, dtype=np.float32)
REFUSED = "the program carries the native function"


@pytest.fixture(scope="module")
def scale():
    return jax.jit(callout.cpp.load_inline(SOURCE, embed=True).scale)


@pytest.fixture
def program(tmp_path, scale):
    return command.Program(tmp_path, scale, X)


def test_run_loads_embedded_code(program):
    done = program.run(X)
    assert (done.code, done.results[0].tolist()) == (0, [0, 2, 4, 6]), done.err
    assert LOADED in done.err


@pytest.mark.parametrize("by", ["flag", "variable"])
def test_run_can_refuse_it(program, by):
    given = ["--arg", "f32[4]=1", "--plugin", c_api.plugin_path()]
    flags = ["--no-embedded-code"] if by == "flag" else []
    first = "os.environ['CALLOUT_EMBEDDED_CODE'] = '0'" if by == "variable" else ""
    done = command.run_command("run", program.path, *given, *flags, first=first)
    assert done.code == 2
    assert REFUSED in done.err
    assert ("CALLOUT_EMBEDDED_CODE" if by == "variable" else "this compilation does not allow") in done.err
    assert LOADED not in done.err


@pytest.mark.parametrize("flags", [[], ["--no-compile"]])
def test_info_lists_embedded_code_without_loading_it(program, flags):
    done = program.command("info", program.path, *flags)
    assert done.code == 0, done.err
    assert "(f32[4]) -> (f32[4]), which the program carries" in done.out
    assert LOADED not in done.err


def test_compile_does_not_load_it_and_run_does(program, tmp_path):
    cache = ["--cache", tmp_path / "cache"]
    done = program.command("compile", program.path, *cache)
    assert done.code == 0, done.err
    assert LOADED not in done.err
    found = program.run(X, flags=[*cache, "--no-embedded-code"])
    assert found.code == 2
    assert REFUSED in found.err
    assert LOADED not in found.err
    found = program.run(X, flags=cache)
    assert (found.code, found.results[0].tolist()) == (0, [0, 2, 4, 6]), found.err
    assert LOADED in found.err


def test_the_c_interface_can_refuse_it(scale):
    exported = callout.export(scale, stablehlo_version=command.STABLEHLO)(X)
    code = exported.mlir_module_serialized
    api = c_api.CApi()
    try:
        plugin = api.make("plugin", "plugin_load", str(c_api.plugin_path()).encode())
        client = api.make("client", "client_create", plugin, None)
        with pytest.raises(RuntimeError, match=r"9: .*this compilation does not allow code that programs carry"):
            api.compile(client, code, [], embedded_code=2)
        with pytest.raises(RuntimeError, match=r"3: .*embedded_code must be an enum callout_embedded_code, got 3"):
            api.compile(client, code, [], embedded_code=3)
        assert api.run(client, api.compile(client, code, [], embedded_code=1), X) == [0, 2, 4, 6]
    finally:
        api.close()
