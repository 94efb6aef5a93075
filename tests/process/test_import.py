# SPDX-License-Identifier: Apache-2.0
"""Tests which modules `import callout` loads, and which are loaded later."""

import ast
import sys
from pathlib import Path

import callout
import jax
import limited
import pytest

PALLAS_IS_PART_OF_TRACES = tuple(int(part) for part in jax.__version__.split(".")[:2]) >= (0, 12)

PROGRAM = """
import jax, jax.numpy, os, sys
modules, threads = set(sys.modules), len(os.listdir("/proc/self/task"))
import callout
print(sorted({".".join(name.split(".")[:2]) for name in set(sys.modules) - modules if name.startswith("jax.")}))
targets = ("_targets.partitioning", "_targets.target_attributes")
at_once = ("_base", "_ext", "_jax_compat", "_measuring", "_primitives", *targets)
ours = {name.removeprefix("callout.") for name in sys.modules if name.startswith("callout.")}
print(sorted(name for name in ours - {"_targets"} if not name.startswith(at_once) or "_measuring.report" in name))
print("jax._src.pallas" in sys.modules, "numba" in sys.modules, len(os.listdir("/proc/self/task")) - threads)
"""


def test_import_starts_no_threads_and_loads_no_optional_modules():
    done = limited.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    modules, ours, others = done.stdout.splitlines()
    assert (ours, others.split()[1:]) == ("[]", ["False", "0"])
    if not PALLAS_IS_PART_OF_TRACES:
        assert (modules, others.split()[0]) == ("[]", "False")


TWO_FIRST_USES = """
import importlib.machinery, sys, threading
import callout, jax, jax.numpy as jnp

def waits_for_an_import(frame):
    while frame is not None:
        if (frame.f_code.co_name, frame.f_globals["__name__"]) == ("acquire", "importlib._bootstrap"):
            return True
        frame = frame.f_back
    return False

class Loader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module):
        started.set()
        while other.is_alive() and not waits_for_an_import(sys._current_frames().get(other.ident)):
            other.join(0.01)
        super().exec_module(module)

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name != "jax.extend":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        spec.loader = Loader(name, spec.origin)
        return spec

def use():
    jax.block_until_ready(jax.jit(lambda x: callout.pure_callback(lambda v: v, x, x))(jnp.ones(3)))

def use_later():
    started.wait()
    use()
    print("used")

assert "jax.extend" not in sys.modules
sys.meta_path.insert(0, Finder())
started = threading.Event()
other = threading.Thread(target=use_later)
other.start()
callout.sinks.JsonLines("/dev/null")
use()
other.join()
"""


@pytest.mark.skipif(PALLAS_IS_PART_OF_TRACES, reason="this JAX imports jax.extend itself before a first use")
def test_two_threads_may_use_callout_first_at_the_same_time():
    done = limited.run([sys.executable, "-c", TWO_FIRST_USES], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "used\n", "")


FIRST_USE = """
import callout, jax, jax.numpy as jnp
compiled = []
jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: compiled.append(event))
program, x = jax.jit(lambda x: {use}), jax.device_put(jnp.arange(4.0))
counts = []
for _ in range(3):
    jax.block_until_ready(program(x))
    counts.append(sum("backend_compile" in event for event in compiled))
callout.barrier_wait()
print(counts[1:] == counts[:1] * 2)
"""


@pytest.mark.parametrize(
    "use",
    [
        "callout.pure_callback(lambda v: v, jax.ShapeDtypeStruct((4,), jnp.float32), x)",
        "callout.tap(lambda v: None, x) + 1",
        "callout.error_if(x, x[0] < 0, 'negative')",
    ],
)
def test_a_program_that_uses_callout_first_is_compiled_once(use):
    done = limited.run(
        [sys.executable, "-c", FIRST_USE.format(use=use)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "True\n"


def said_to_type_checkers():
    """Returns the names that `if TYPE_CHECKING:` of callout's package imports, with the module of each."""
    tree = ast.parse(Path(callout.__file__).read_text())
    (block,) = (
        node
        for node in tree.body
        if isinstance(node, ast.If)
        and "TYPE_CHECKING" in ast.unparse(node.test)
        and any(isinstance(inner, ast.ImportFrom) for inner in node.body)
    )
    return {alias.asname: node.module for node in block.body for alias in node.names}


def test_type_checkers_see_names_loaded_later():
    said = said_to_type_checkers()
    assert sorted(said) == sorted([*callout._MODULES, *callout._NAMES])
    for name, module in said.items():
        assert getattr(callout, name) is not None
        if module is not None:
            assert f".{module}".startswith(callout._NAMES[name])
    assert set(said) <= set(dir(callout))


def test_a_star_imports_every_public_name():
    names = {}
    exec("from callout import *", names)
    lines = ast.parse(Path(callout.__file__).read_text()).body
    at_once = {alias.asname for line in lines if isinstance(line, ast.ImportFrom) for alias in line.names}
    public = {name for name in {*at_once, *said_to_type_checkers()} if not name.startswith("_")}
    assert set(names) - {"__builtins__"} == public


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'callout' has no attribute 'tpa'") as caught:
        callout.tpa  # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("tpa", callout)  # Python computes its suggestion from these


@pytest.mark.slow
def test_an_exported_program_runs_before_any_name_is_used(run, tmp_path):
    run(
        f"""
        import callout, jax, jax.numpy as jnp
        callout.register("seen", lambda v: None)
        f = jax.jit(lambda x: callout.tap("seen", x * 2, ordered=True))
        exported = callout.export(f)(jax.ShapeDtypeStruct((3,), jnp.float32))
        open("{tmp_path}/program", "wb").write(exported.serialize())
        """
    )
    result = run(
        f"""
        import callout, jax, jax.export, jax.numpy as jnp
        program = jax.export.deserialize(bytearray(open("{tmp_path}/program", "rb").read()))
        callout.register("seen", lambda v: print("seen", v))
        jax.jit(program.call)(jnp.ones(3))
        callout.barrier_wait()
        """
    )
    assert "seen [2. 2. 2.]" in result.out


@pytest.mark.parametrize(
    "call",
    [
        "callout.debug_callback(print, x)",
        "callout.io_callback(abs, x, x)",
        "callout.pure_callback(abs, x, x, vmap_method='sequential')",
        "callout.tap(print, x)",
        "callout.watch(x, 'x')",
        "callout.error_if(x, x < 0, 'negative')",
    ],
)
def test_each_function_has_its_lanes_where_no_other_was_used(call):
    program = f"import callout, jax; jax.vmap(lambda x: [{call}, x][1])(jax.numpy.ones(2)); callout.barrier_wait()"
    limited.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)


AGAIN = """
import sys, warnings
from unittest import mock
warnings.simplefilter("error")
import jax, numpy as np
with mock.patch.dict(sys.modules):
    import callout as first
    first.barrier_wait()
got = []
for _ in range(2):
    try:
        import callout
        jax.jit(lambda x: callout.tap(got.append, callout.pure_callback(lambda v: v * 2, x, x)))(np.ones(1, np.float32))
        callout.barrier_wait()
        print([value.tolist() for value in got])
    except ImportError as error:
        print(error)
"""

IN_PYTHON = hasattr(callout._ext, "__path__")  # the core of the wheel without C++, of which a process may load several


def test_a_second_import_works_or_raises_at_once():
    done = limited.run([sys.executable, "-c", AGAIN], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    refused = (
        "callout: this process has imported callout before, and its modules have been taken out of sys.modules since, as "
        "mock.patch.dict(sys.modules) does at its end; its core can be loaded once. Import callout before such a block"
    )
    assert done.stdout.splitlines() == (["[[2.0]]", "[[2.0], [2.0]]"] if IN_PYTHON else [refused] * 2)
    assert IN_PYTHON or not done.stderr
