# SPDX-License-Identifier: Apache-2.0
"""Tests that programs contain only attributes that the core's tables list."""

import sys
import typing
from pathlib import Path

import callout
import jax
import jax.numpy as jnp
import limited
import ml_dtypes
import numpy as np
import pytest
from callout import _ext
from callout._callbacks.tap import OnFull
from callout._primitives import call, tap
from callout._targets import target_attributes

X = jnp.ones(3)


def encode(target="callout.v1.tap", **values):
    return target_attributes.encode("here", target, {"callback": "f", **values})


def carried(f, *args):
    """Returns the attributes of the custom call of `f`, as MLIR writes them."""
    text = jax.jit(f).lower(*args).as_text()
    begin = text.index("backend_config = {") + len("backend_config = {")
    return text[begin : text.index("}", begin)]


def test_a_name_without_a_row_is_refused():
    with pytest.raises(TypeError, match=r"here: callout\.v1\.tap has no attribute 'each'; it has callback, names, "):
        encode(each=2)


def test_a_name_without_a_row_is_refused_when_it_lowers(monkeypatch):
    def misspelt(*args, **kwargs):
        *rest, attributes = args
        return emit(*rest, {**attributes, "only_devise": 1}, **kwargs)

    emit = tap.lowering.emit
    monkeypatch.setattr(tap.lowering, "emit", misspelt)
    with pytest.raises(TypeError, match=r"callout\.tap '.*': callout\.v1\.tap has no attribute 'only_devise'"):
        jax.jit(lambda x: callout.tap(callout.sinks.Null(), x)).lower(X)


def test_a_call_rejects_attributes_of_taps(monkeypatch):
    monkeypatch.setattr(call.lowering, "dispatch_synchronously", lambda *_: {"every": 2})
    with pytest.raises(TypeError, match=r"callout\.v1\.call has no attribute 'every'"):
        jax.jit(lambda x: callout.pure_callback(np.sin, x, x)).lower(X)


def test_default_attributes_are_omitted():
    assert carried(lambda x: callout.tap("f", x), X) == 'callback = "f", label = "f"'  # sinks write the label
    assert carried(lambda x: callout.io_callback("f", x, x), X) == 'callback = "f"'


def test_arguments_of_a_tap_are_attributes():
    def program(x):
        return callout.tap(
            "f", x, every=5, on_full="fail", step=3, only_device=0, min_interval=0.5, sample=0.25, name="n"
        )

    written = set(carried(program, X).split(", "))
    assert written == {
        'callback = "f"',
        'label = "n"',
        "every = 5 : i64",
        "min_interval_ns = 500000000 : i64",
        "on_full = 2 : i64",
        "step = 1 : i64",
        "sample_ppb = 250000000 : i64",
        "only_device = 0 : i64",
    }


@pytest.mark.parametrize(
    ("target", "values", "written"),
    [
        (
            "callout.v1.tap",
            {"on_full": "drop_newest", "step": True, "every": 1, "label": ""},
            {"on_full": 1, "step": 1},
        ),
        ("callout.v1.call", {"aliases": ((0, 1), (2, 0)), "lane_dims": ()}, {"aliases": [0, 1, 2, 0]}),
        ("callout.v1.call", {"attributes": {"a": 1}, "ordered": False}, {"attributes": {"a": 1}}),
        ("callout.v1.buffer", {"graph": True, "sharding": "local"}, {"graph": 1, "sharding": "local"}),
    ],
)
def test_values_are_written_by_type(target, values, written):
    encoded = encode(target, **values)
    assert encoded.pop("callback") == "f"
    assert encoded.keys() == written.keys()
    for name, value in encoded.items():
        np.testing.assert_equal(value, written[name])


@pytest.mark.parametrize(
    ("values", "error", "text"),
    [
        ({"every": 0}, ValueError, r"here: attribute 'every' must be at least 1, got 0"),
        ({"sample_ppb": 2 * 10**9}, ValueError, "'sample_ppb' must be 1 to 1000000000, got 2000000000"),
        ({"step": 2}, ValueError, "'step' must be 0 to 1, got 2"),
        ({"on_full": "drop"}, ValueError, r"'on_full' must be one of \['block', 'drop_newest', .*\], got 'drop'"),
        ({"on_full": 1}, ValueError, "'on_full' must be one of"),
        ({"sharding": "both"}, ValueError, r"'sharding' must be one of \['gather', 'local'\], got 'both'"),
        ({"label": "x" * 65537}, ValueError, "'label' must have at most 65536 characters, got 65537"),
        ({"every": 1.5}, TypeError, "'every' must be an integer, got 1.5"),
        ({"label": 3}, TypeError, "'label' must be a str, got 3"),
    ],
)
def test_values_beyond_the_table_are_refused(values, error, text):
    with pytest.raises(error, match=text):
        encode(**values)


def test_lists_and_dictionaries_are_refused_as_the_core_does():
    with pytest.raises(ValueError, match="'aliases' must be groups of 2, got 1 numbers"):
        encode("callout.v1.call", aliases=(0,))
    image = {"image": {"bytes": b"x", "symbol": "f"}, "grid": (1, 1, 1), "block": (1, 1, 1)}
    with pytest.raises(ValueError, match="'grid' must be 3 numbers, got 2 numbers"):
        encode("callout.v1.image", **{**image, "grid": (1, 1)})
    with pytest.raises(TypeError, match="'image' has no attribute 'byte'; it has bytes, symbol"):
        encode("callout.v1.image", **{**image, "image": {"byte": b"x"}})
    with pytest.raises(TypeError, match="'image' needs the attribute 'symbol'"):
        encode("callout.v1.image", **{**image, "image": {"bytes": b"x"}})
    with pytest.raises(TypeError, match=r"callout\.v1\.image needs the attribute 'grid'"):
        encode("callout.v1.image", image=image["image"], block=(1, 1, 1))
    faults = {"symbol": "code", "3": "overflow"}
    assert encode("callout.v1.image_sync", **image, faults=faults)["faults"] == faults
    assert "faults" not in encode("callout.v1.image_sync", **image, faults={})  # {} is the default
    with pytest.raises(TypeError, match="'image' needs the attribute"):
        encode("callout.v1.image", **{**image, "image": {}})


def test_reading_knows_defaults_and_choices():
    assert target_attributes.read("callout.v1.tap", {}, "every") == 1
    assert target_attributes.read("callout.v1.tap", {}, "on_full") == "block"
    assert target_attributes.read("callout.v1.tap", {"on_full": 2}, "on_full") == "fail"
    assert target_attributes.read("callout.v1.tap", {"on_full": 9}, "on_full") == 9
    assert target_attributes.read("callout.v1.call", {"can_fail": 1}, "can_fail") is None
    assert target_attributes.read("somebody.else", {}, "threaded") is None
    with pytest.raises(KeyError, match="no target has an attribute 'treaded'"):
        target_attributes.read("callout.v1.call", {}, "treaded")


def test_every_target_has_a_table():
    targets = {name for name in target_attributes.tables() if not name.endswith(":")}  # the others are payloads
    assert {name for name, _, _ in _ext.ffi_targets()} == targets


def test_every_policy_for_full_queues_is_documented():
    policies = target_attributes.tables()["callout.v1.tap"]["on_full"].choices
    manual = (Path(__file__).parents[3] / "docs" / "taps.md").read_text()
    assert typing.get_args(OnFull) == tuple(policies)
    assert [policy for policy in policies if f'"{policy}"' not in callout.tap.__doc__] == []
    assert [policy for policy in policies if f'| `"{policy}"`' not in manual] == []


def test_the_manual_and_the_handlers_match_the_tables():
    script = Path(__file__).parents[3] / "scripts" / "write_attributes.py"
    done = limited.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", [name for name in _ext.SUB_BYTE_BITS if hasattr(ml_dtypes, name)])
def test_bits_of_small_elements_match_ml_dtypes(name):
    info = ml_dtypes.finfo if name.startswith("float") else ml_dtypes.iinfo
    assert info(getattr(ml_dtypes, name)).bits == _ext.SUB_BYTE_BITS[name] < 8
