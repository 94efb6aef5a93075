# SPDX-License-Identifier: Apache-2.0
"""Tests the effect of importing and using Callout on JAX itself, and on programs that do not use Callout."""

import json
import os
import sys
import textwrap

import limited
import pytest

# Lists the content of JAX's modules: functions, classes with their attributes, and callable entries of dicts.
SNAPSHOT = """
import sys
def snapshot():
    found = {}
    def note(value, *key):
        if callable(value) or hasattr(value, "rule"):
            found[key] = value
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in ("jax", "jaxlib"):
            for key, value in list(vars(module).items()):
                note(value, name, key)
                if isinstance(value, type):
                    for attribute, inner in list(vars(value).items()):
                        note(inner, name, key, attribute)
                if isinstance(value, dict):
                    for entry, inner in list(value.items()):
                        note(inner, name, key, repr(entry))
    return found
def changed(before):
    after = snapshot()
    return sorted(".".join(key) for key in before if after.get(key) is not before[key] and after.get(key) != before[key])
"""

# Runs programs that need every patch, and one that fails.
USE_EVERYTHING = """
def use_everything():
    import callout
    from callout import progress
    def condition(c):
        callout.tap(lambda v: None, c, ordered=True)
        return c < 3
    jax.jit(jax.vmap(lambda x: jax.lax.while_loop(condition, lambda c: c + 1, x)))(jnp.arange(3)).block_until_ready()
    jax.jit(lambda x: jax.lax.fori_loop(0, 5, progress.loop_tqdm(5)(lambda i, c: c + i), x))(0).block_until_ready()
    callout.io_callback(lambda v: None, None, 1.0)
    def fail(x):
        raise KeyError("meant")
    try:
        jax.jit(lambda x: callout.pure_callback(fail, jax.ShapeDtypeStruct((), jnp.float32), x))(1.0).block_until_ready()
    except KeyError:
        pass
    callout.locate_nans(jnp.sin)(jnp.ones(2))
    callout.barrier_wait()
    from callout._base import patches
    assert patches.installed() == tuple(patches.TABLE), patches.installed()
"""

PLACES = {
    "JaxRuntimeError.__init__",
    "PjitFunction.__setstate__",
    "RuntimeTokenSet.block_until_ready",
    "RuntimeTokenSet.get_token_input",
    "RuntimeTokenSet.set_output_runtime_token",
    "RuntimeTokenSet.set_token_result",
    "_jax.pjit",
    "_lowerings.scan",
    "_lowerings.while",
    "fancy_primitive_batchers.cond",
    "fancy_primitive_batchers.while",
    "loops._scan_known_hoisting",
    "mlir.lower_jaxpr_to_module",
    "partial_eval_jaxpr_custom_rules.scan",
    "pjit._get_fastpath_data",
    "primitive_transposes.custom_lin",
}

# Prints lowered texts with locations, jaxprs, results, and errors with whole tracebacks, of programs without Callout.
PROGRAMS = """
import itertools, json, re, sys, traceback
import numpy as np
import jax, jax.extend, jax.numpy as jnp
jax.config.update("jax_traceback_filtering", "off")
lax = jax.lax
no_rules_p = jax.extend.core.Primitive("no_rules")
no_rules_p.def_abstract_eval(lambda x: x)

def collatz(x):
    def body(c):
        return jnp.where(c[0] % 2 == 0, c[0] // 2, 3 * c[0] + 1), c[1] + 1
    return lax.while_loop(lambda c: c[0] > 1, body, (x, 0))[1]
def cumulated(x):
    return lax.scan(lambda c, y: (c * y + 1, jnp.sin(c)), x, jnp.arange(5.0), unroll=2)
def chosen(x):
    return lax.cond(x > 2, lambda v: v * 2, lambda v: v - 1, x)
def both(x):
    def body(c, y):
        return lax.while_loop(lambda v: v < y * 10, lambda v: v * 2 + 1, c), lax.cond(y > 2, jnp.sin, jnp.cos, y)
    return lax.scan(body, x, jnp.arange(4.0))
def counted(x):
    return lax.fori_loop(0, 4, lambda i, c: c + i * x, x)
def printed(x):
    def body(i, c):
        jax.debug.print("{}", c, ordered=True)
        return c + 1
    return lax.fori_loop(0, 2, body, x)
def mapped(x):
    return lax.map(lambda v: jax.pure_callback(np.sin, v, v, vmap_method="sequential"), x)

class Own(Exception):
    pass
def raises(*_):
    raise Own("in a body")
def jax_fails(x):
    return jax.pure_callback(raises, x, x)
def jax_fails_in_order(x):
    jax.debug.callback(raises, x, ordered=True)
def loop(x, condition=lambda c: c < 3, body=lambda c: c + 1):
    return lax.while_loop(condition, body, x)
three = jnp.arange(3)

FUNCTIONS = {
    "while": (collatz, 7), "scan": (cumulated, 1.0), "cond": (chosen, 3.0), "nested": (both, 1.0), "fori": (counted, 2.0),
    "vmap while": (jax.vmap(collatz), jnp.arange(1, 9)), "vmap scan": (jax.vmap(cumulated), jnp.arange(3.0)),
    "vmap cond": (jax.vmap(chosen), jnp.arange(4.0)), "vmap nested": (jax.vmap(both), jnp.arange(3.0)),
    "vmap vmap while": (jax.vmap(jax.vmap(collatz)), jnp.arange(1, 9).reshape(2, 4)),
    "grad": (jax.grad(lambda x: both_of(x)), 1.5), "printed": (printed, 1), "map": (mapped, jnp.arange(3.0)),
    "checkpoint": (jax.grad(jax.checkpoint(lambda x: cumulated(x)[0])), 1.0),
}
def both_of(x):
    return cumulated(x)[0] + chosen(x)

ERRORS = {
    "carry of a while": lambda: jax.jit(lambda x: loop(x, body=lambda c: jnp.stack([c, c])))(1),
    "carry of a scan": lambda: lax.scan(lambda c, _: ((c, c), None), 1, None, length=3),
    "condition": lambda: loop(1.0, condition=lambda c: c),
    "branches": lambda: jax.jit(lambda x: lax.cond(x > 1, lambda: 1, lambda: 2.0))(1),
    "body of a while": lambda: jax.jit(jax.vmap(lambda x: loop(x, body=raises)))(three),
    "body of a scan": lambda: jax.jit(lambda x: lax.scan(raises, x, None, length=3))(1),
    "lowering in a while": lambda: jax.jit(lambda x: loop(x, body=no_rules_p.bind))(1),
    "lowering in a scan": lambda: jax.jit(lambda x: lax.scan(lambda c, _: (no_rules_p.bind(c), None), x, None, length=3))(1),
    "lowering in a vmap": lambda: jax.jit(
        lambda y: jax.vmap(lambda x: loop(x, body=lambda c: c + no_rules_p.bind(y)))(three))(1),
    "batching in a while": lambda: jax.vmap(lambda x: loop(x, body=no_rules_p.bind))(three),
    "batching in a condition": lambda: jax.vmap(lambda x: loop(x, condition=lambda c: no_rules_p.bind(c) < 3))(three),
    "reverse of a while": lambda: jax.grad(loop)(1.0),
    "callback": lambda: jax.jit(jax_fails)(1.0).block_until_ready(),
    "callback again": lambda: jax.jit(jax_fails)(1.0).block_until_ready(),
    "ordered callback": lambda: (jax.jit(jax_fails_in_order)(1.0), jax.effects_barrier()),
    "ordered callback after": lambda: (jax.jit(jax_fails_in_order)(1.0), jax.effects_barrier()),
    "barrier after": jax.effects_barrier,
    "made": lambda: jax.errors.JaxRuntimeError(*range(3), wrong=1),
}

def error_of(run):
    try:
        run()
    except Exception as error:
        links = []
        while error is not None:
            frames = [[f.filename, f.lineno, f.name, f.colno] for f in traceback.extract_tb(error.__traceback__)]
            classes, text = [c.__qualname__ for c in type(error).__mro__], re.sub("0x[0-9a-f]+", "", str(error))
            links.append([classes, text, frames, vars(error) != {}])
            error = error.__cause__ or error.__context__
        return links
    return "none"

def report():
    found = {}
    for name, (function, x) in FUNCTIONS.items():
        lowered = jax.jit(function).lower(x)
        values = jax.tree.map(lambda v: np.asarray(v).tolist(), jax.jit(function)(x))
        found[name] = [str(jax.make_jaxpr(function)(x)), lowered.as_text(debug_info=True), lowered.as_text(), values]
    jax.effects_barrier()
    for name, run in ERRORS.items():
        found["error: " + name] = error_of(run)
    return found
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Runs a program to which no import of callout is added, and returns its standard output."""
    path = tmp_path_factory.mktemp("patches") / "program.py"

    def run(*parts, **environment):
        path.write_text("\n".join(textwrap.dedent(part) for part in parts))
        environment = {**os.environ, **environment}
        done = limited.run(
            [sys.executable, str(path)], capture_output=True, text=True, timeout=300, env=environment, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.slow
def test_import_replaces_nothing_and_switches_restore_everything(python):
    out = python(
        "import jax, jax.numpy as jnp, jax.extend, jax.extend.mlir, jax.export, json",
        SNAPSHOT,
        USE_EVERYTHING,
        """
        before = snapshot()
        assert len(before) > 10000, len(before)
        init, attributes = jax.errors.JaxRuntimeError.__init__, set(vars(jax.errors.JaxRuntimeError))
        import callout
        imported = changed(before)
        callout.tap(lambda v: None, 1.0)
        callout.pure_callback(lambda v: v, jax.ShapeDtypeStruct((), jnp.float32), jnp.float32(1))
        callout.io_callback(lambda v: None, None, 1.0, ordered=True)
        callout.watch(jnp.ones(2), "a")
        callout.barrier_wait()
        eager = changed(before)
        use_everything()
        used = changed(before)
        assert jax.errors.JaxRuntimeError.__init__ is not init
        for patch in callout._base.patches.TABLE.values():
            callout.config.update(patch.setting, False)
        assert jax.errors.JaxRuntimeError.__init__ is init
        assert set(vars(jax.errors.JaxRuntimeError)) == attributes
        print(json.dumps([imported, eager, used, changed(before)]))
        """,
    )
    imported, eager, used, switched_off = json.loads(out.splitlines()[-1])
    assert (imported, eager, switched_off) == ([], [], [])
    places = {".".join(name.split(".")[-2:]).replace("fancy_transposes", "primitive_transposes") for name in used}
    assert places - {"XlaRuntimeError.__init__"} == PLACES  # JaxRuntimeError's other name


@pytest.mark.slow
@pytest.mark.parametrize("user", ["import callout\n", "use_everything()\n"], ids=["imported", "used"])
def test_programs_without_callout_are_as_they_were(python, user):
    end = "print(json.dumps(report()))"
    alone, beside = (json.loads(python(PROGRAMS, USE_EVERYTHING, line, end).splitlines()[-1]) for line in ("0\n", user))
    for name in alone:
        assert beside[name] == alone[name], name
    assert "none" not in [alone[name] for name in alone if name.startswith("error: ") and "after" not in name]
    assert "callout" not in json.dumps(beside).replace("use_everything", "")


PICKLED_WITH_CALLOUT = """
import cloudpickle, functools, operator, pickle, sys
import jax.extend, jax.extend.mlir
before = snapshot()
def picklable(value):
    try:
        return pickle.dumps(value)
    except Exception:
        return None
could = {key for key in before if picklable(before[key])}
use_everything()
jax.jit(lambda x: callout.tap(lambda v: None, x))(1.0)
after = snapshot()
hooks = {".".join(key[-2:]): (key in could, value) for key, value in after.items() if hasattr(value, "callout_original")}
assert not [key for key, (could_be, value) in hooks.items() if could_be and picklable(value) is None]
assert sum(could_be for could_be, _ in hooks.values()) > 5, hooks
plain = jax.jit(lambda x: x * 13)
plain(2.0)
functions = {
    "jitted": plain,
    "closure": lambda x: plain(x) + 0,
    "partial": functools.partial(plain),
    "grad": jax.grad(lambda x: plain(x) * x / 2 + 0 * x),
}
if sys.argv[1:] != ["alone"]:
    functions["callout.jit"] = callout.jit(lambda x: x * 13)
    functions["tap"] = jax.jit(lambda x: callout.tap(lambda v: None, x * 13))
    functions["tap"](2.0)
pickled = {name: cloudpickle.dumps(function) for name, function in functions.items()}
named = {key: pickle.dumps(value) for key, (could_be, value) in hooks.items() if could_be}
callout.barrier_wait()
open("PATH", "wb").write(pickle.dumps((pickled, named)))
"""

READ_A_PICKLE = """
import pickle, sys
import jax, jax.numpy as jnp, jax.extend, jax.extend.mlir
pickled, named = pickle.loads(open("PATH", "rb").read())
for name, bytes_ in pickled.items():
    function = pickle.loads(bytes_)
    got = [jnp.ravel(function(2.0)).tolist() for _ in range(3)]
    assert got == 3 * [[26.0]], (name, got)
for key, bytes_ in named.items():
    assert callable(pickle.loads(bytes_)), key
"""


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["alone", "with Callout"])
def test_patched_and_jitted_functions_can_be_pickled(python, tmp_path, reader):
    path = str(tmp_path / "pickle")
    begin = "import jax, jax.numpy as jnp, sys; sys.argv[1:] = [" + repr(reader) + "]"
    python(begin, "import callout", SNAPSHOT, USE_EVERYTHING, PICKLED_WITH_CALLOUT.replace("PATH", path))
    end = {"alone": "assert 'callout' not in sys.modules", "with Callout": "import callout; callout.barrier_wait()"}
    python(READ_A_PICKLE.replace("PATH", path), end[reader])


OF_EFFECTS = {"errors", "tokens", "dispatch", "batching", "tapped_values", "loop_invariants"}


@pytest.mark.parametrize(
    ("program", "needed"),
    [
        ("callout.pure_callback(lambda v: v, F32, x)", {"errors", "tapped_values"}),
        ("callout.tap(lambda v: None, x)", OF_EFFECTS),
        ("callout.debug_print('{}', x)", OF_EFFECTS),
        ("callout.io_callback(lambda v: v, F32, x)", OF_EFFECTS),
        ("callout.io_callback(lambda v: v, F32, x, ordered=True)", OF_EFFECTS),
        (
            "jax.lax.fori_loop(0, 3, progress.loop_tqdm(3)(lambda i, c: c), x)",
            {*OF_EFFECTS, "loop_lowering"},
        ),
        (
            "callout.threaded(lambda v: callout.tap(lambda v: None, v))(x)",
            OF_EFFECTS,
        ),
    ],
)
def test_a_program_installs_the_patches_it_needs(run, program, needed):
    out = run(f"""
        from callout import progress
        from callout._base import patches
        assert patches.installed() == ()
        jax.jit(lambda x: {program})(1.0)
        callout.barrier_wait()
        print(*patches.installed())
    """)
    assert out.code == 0, out.err
    assert set(out.out.splitlines()[-1].split()) == needed


def test_environment_variables_keep_patches_out(run):
    names = (
        "CHAIN_ERRORS",
        *(
            f"PATCH_{name}"
            for name in ("TOKENS", "DISPATCH", "BATCHING", "TAPPED_VALUES", "LOOP_INVARIANTS", "LOOP_LOWERING")
        ),
    )
    out = run(
        """
        from callout import progress
        from callout._base import patches
        got, bars = [], []
        def body(i, c):
            callout.tap(got.append, c, ordered=True)
            return c + 1
        for _ in range(2):
            x = jax.jit(lambda x: jax.lax.fori_loop(0, 5, progress.loop_tqdm(5)(body), x))(0)
            callout.barrier_wait()
        def fail(v):
            raise KeyError("meant")
        try:
            jax.jit(lambda x: callout.pure_callback(fail, F32, x))(1.0).block_until_ready()
        except jax.errors.JaxRuntimeError as error:
            assert type(error) is jax.errors.JaxRuntimeError and error.__cause__ is None
        assert got == 2 * [0, 1, 2, 3, 4], got
        assert patches.installed() == (), patches.installed()
        callout.config.patch_tokens = True
        print(*patches.installed())
        """,
        **{f"CALLOUT_{name}": "0" for name in names},
    )
    assert out.code == 0, out.err
    assert out.out.split() == ["tokens"]
    assert "5/5" in out.err


@pytest.mark.slow
def test_programs_read_from_files_install_needed_patches(run, tmp_path):
    path = tmp_path / "program"
    out = run(
        """
        def f(x):
            value = x + 0 * (jnp.full((64, 64), x) @ jnp.ones((64, 64)))[0, 0]  # XLA runs cheap programs in their caller
            return callout.tap("tap", callout.pure_callback("gate", F32, value))
        open(os.environ["PROGRAM"], "wb").write(callout.export(jax.jit(f))(F32).serialize())
        """,
        PROGRAM=str(path),
    )
    assert out.code == 0, out.err
    out = run(
        """
        from callout._base import patches
        program = jax.export.deserialize(open(os.environ["PROGRAM"], "rb").read())
        assert patches.installed() == ("errors", "tokens", "dispatch", "tapped_values"), patches.installed()
        opened, got = threading.Event(), []
        def gate(value):
            assert opened.wait(60)
            return value
        callout.register("gate", callout.options(gate, numpy_only=True))
        callout.register("tap", got.append)
        thread = threading.Thread(target=lambda: jax.jit(program.call)(jnp.float32(1)), name="reader")
        thread.start()
        thread.join()
        try:
            callout.barrier_wait(timeout=0.1)
        except callout.BarrierTimeout as error:
            print(error)
        opened.set()
        callout.barrier_wait()
        assert got == [1], got
        """,
        PROGRAM=str(path),
    )
    assert out.code == 0, out.err
    assert "a thread which has ended has dispatched" in out.out
