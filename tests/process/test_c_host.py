# SPDX-License-Identifier: Apache-2.0
"""Tests exported programs on a PJRT plugin in a Python process: the host by its C interface, callbacks from Python.

The host's library is the package's, if the package was built with its host. Otherwise it is a second core, which knows
of Python only the content of a capsule.
"""

from pathlib import Path

import c_api
import pytest

FOLDER = Path(__file__).parents[1] / "python" / "support"

HOST = f"""
sys.path.insert(0, {str(FOLDER)!r})
import c_api
from closure_host import address_of
from callout.host import LoadedHostCallback

def step(x):
    callout.tap("seen", x.sum())
    return callout.pure_callback("scale", jax.ShapeDtypeStruct(x.shape, x.dtype), x) + 1

plugin = c_api.plugin_path()
vector = jax.ShapeDtypeStruct((3,), jnp.float32)
exported = callout.export(jax.jit(lambda x: jax.lax.fori_loop(0, 2, lambda i, x: step(x), x)), for_plugin=plugin)(vector)

def bind(callback):
    capsule = callback.capsule()
    handle = host.make("callback", "callback_from_closure", callback.name.encode(), address_of(capsule))
    # The host's now: as callout_closure_take leaves it.
    c_api.ctypes.memset(address_of(capsule), 0, 32)
    return handle

def compile_with(**functions):
    callbacks = [bind(LoadedHostCallback(name, function)) for name, function in functions.items()]
    return host.compile(client, exported.mlir_module_serialized, callbacks)

host = c_api.CApi()
client = host.make("client", "client_create", host.make("plugin", "plugin_load", plugin.encode()), None)
"""


if c_api.library_path() is None or c_api.plugin_path() is None:
    pytest.skip("the C++ host is not built: cmake --workflow --preset dev", allow_module_level=True)


@pytest.fixture
def run_host(run):
    return lambda program: run(HOST + program, timeout=120)


def test_an_exported_program_calls_python_functions(run_host):
    done = run_host("""
seen = []
executable = compile_with(scale=lambda x: 10 * x, seen=lambda v: seen.append(float(v)))
print(host.run(client, executable, [1, 2, 3]))
host.call("barrier_wait", 60.0)
print(seen)
host.close()
""")
    assert (done.code, done.out) == (0, "[111.0, 211.0, 311.0]\n[6.0, 63.0]\n"), done.err


def test_an_exception_is_the_host_s_error(run_host):
    done = run_host("""
def fail(x):
    raise ValueError("no such scale")

executable = compile_with(scale=fail, seen=lambda v: None)
try:
    host.run(client, executable, [1, 2, 3])
except RuntimeError as error:
    print(str(error).splitlines()[0])
    print(repr(callout.last_error()))
host.close()
""")
    expected = "13: callout: callback 'scale' failed on device 0: ValueError: no such scale\n"
    assert (done.code, done.out) == (0, expected + "ValueError('no such scale')\n"), done.err


def test_executables_keep_and_release_functions(run_host):
    done = run_host("""
import gc, weakref

def functions():  # within another one: Python 3.13t keeps others for good
    def scale(x):
        return x

    return scale, lambda v: None

scale, seen = functions()
alive = weakref.ref(scale)
executable = compile_with(scale=scale, seen=seen)
del scale, seen
gc.collect()
print(alive() is not None, callout.stats()["live"]["callbacks"] > 0)
host.close()
gc.collect()
print(alive() is not None, callout.stats()["live"]["callbacks"] > 0)
""")
    assert (done.code, done.out) == (0, "True True\nFalse False\n"), done.err


def test_handles_that_are_left_are_no_trouble_at_exit(run_host):
    done = run_host("""
executable = compile_with(scale=lambda x: x, seen=lambda v: None)
print(host.run(client, executable, [1, 2, 3]))
""")
    assert (done.code, done.out) == (0, "[3.0, 4.0, 5.0]\n"), done.err
