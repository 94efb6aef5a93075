# SPDX-License-Identifier: Apache-2.0
"""Tests that calls with operands, results or attributes that no tracing makes raise errors and never crash.

The callbacks that the calls name exist.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hostile import F32, ONE, REFUSED, SECRET, TWO, run

pytestmark = pytest.mark.usefixtures("both_ways")


def call(attributes, operands=(), results=()):
    return run("callout.v1.call", attributes, operands, results)


@pytest.mark.parametrize("target", ["callout.v1.tap", "callout.v1.call"])
def test_a_call_names_its_callback(target):
    with pytest.raises(REFUSED, match="callout: attribute 'callback' is missing; it must be a string"):
        run(target, {"label": "f"}, (ONE,), (F32,))
    with pytest.raises(REFUSED, match="callout: attribute 'callback' must be a string, got a number"):
        run(target, {"callback": 1}, (ONE,), (F32,))


class TestCalls:
    """Calls functions with other operands and results than theirs."""

    @pytest.mark.parametrize("count", [0, 2, 3])
    def test_of_one_result(self, traced_call, count):
        operands = () if count == 0 else (ONE,)
        with pytest.raises(REFUSED, match="failed on device 0"):
            call({"callback": traced_call}, operands, (F32,) * max(count, 1))

    @pytest.mark.parametrize("count", [2, 3])
    def test_missing_results_are_rejected(self, traced_call, count):
        with pytest.raises(REFUSED, match=f"expected a tuple of {count}, got one of 1"):
            call({"callback": traced_call}, (ONE,), (F32, *(SECRET,) * (count - 1)))

    @pytest.mark.parametrize("target", ["callout.v1.call", "callout.v1.buffer"])
    @pytest.mark.parametrize("count", [0, 2])
    def test_a_buffer_function_has_its_results(self, buffer_function, target, count):
        with pytest.raises(REFUSED, match=f"it has one result, and the program declares {count}"):
            run(target, {"callback": buffer_function}, (ONE,), (F32,) * count)

    @pytest.mark.parametrize("count", [0, 2])
    def test_a_buffer_function_has_its_operands(self, buffer_function, count):
        with pytest.raises(REFUSED, match="argument"):
            run("callout.v1.buffer", {"callback": buffer_function}, (ONE,) * count, (F32,))

    def test_a_function_of_taps_returns_one_value(self, one_array):
        with pytest.raises(REFUSED, match="does not fit"):
            call({"callback": one_array}, (ONE,), (F32,))

    @pytest.mark.parametrize(
        "name", ["watch:1;ni;stop", "check:1;raise;;0;0;x", "id_print:1;1000;1000000;;", "progress_bar:%5B1%5D"]
    )
    def test_taps_are_not_called(self, name):
        with pytest.raises(REFUSED, match=r"takes taps|looks at taps|no callback is bound"):
            call({"callback": name}, (ONE,), (F32,))

    @pytest.mark.parametrize(("operands", "results"), [((), (F32,)), ((ONE, ONE), (F32,)), ((ONE,), ())])
    def test_the_clock_has_its_operands(self, operands, results):
        with pytest.raises(REFUSED, match="the clock of progress bars takes"):
            call({"callback": "progress_clock:"}, operands, results)

    def test_the_clock_takes_any_state(self):
        state = np.full(8, 0, np.uint32)
        state[:4] = 0, 0x80000000, 1, 0
        words = jax.ShapeDtypeStruct((8,), jnp.uint32)
        (out,) = call({"callback": "progress_clock:"}, (state, np.uint32(2**32 - 1)), (words,))
        assert out.shape == (8,)

    @pytest.mark.parametrize(
        "attributes",
        [
            {"aliases": [0]},
            {"aliases": [0, 5]},
            {"aliases": [-1, 0]},
            {"aliases": [0, 1 << 40]},
            {"lane_dims": [2]},
            {"lane_dims": [-1], "lane_masks": [1]},
            {"lane_dims": [1 << 40, 1 << 40], "lane_masks": [1]},
            {"lane_dims": [1] * 63, "lane_masks": [1]},
            {"lane_dims": [2], "lane_masks": [1, 1]},
            {"lane_dims": [3], "lane_masks": [1]},
            {"lane_dims": [2, 2], "lane_masks": [3]},
            {"threaded": 1},
            {"deferred": 1},
            {"ordered": "yes"},
            {"attributes": {"a": {"b": 1}}},
            {"library": {"bytes": "x"}},
            {"library": {"bytes": 1, "digest": "", "platform": "", "symbol": ""}},
            {"library": 1},
        ],
        ids=str,
    )
    def test_attributes_have_their_types_and_limits(self, registered, attributes):
        with pytest.raises(REFUSED, match="callout"):
            call({"callback": registered, **attributes}, (TWO,), (jax.ShapeDtypeStruct((2,), jnp.float32),))

    @pytest.mark.parametrize(
        ("operands", "results"),
        [
            ((), ()),
            ((np.int32(0),), (F32,)),
            ((TWO, ONE), (F32,)),
            ((np.int32(0), ONE), (SECRET,)),
            ((np.int32(0), ONE), ()),
        ],
    )
    def test_a_check_has_its_operands(self, operands, results):
        with pytest.raises(REFUSED, match=r"callout\.v1\.check: expected operands"):
            run("callout.v1.check", {"callback": "f"}, operands, results)

    def test_a_check_of_several_values_returns_them(self):
        outs = (F32, jax.ShapeDtypeStruct((2,), jnp.float32))
        first, second = run("callout.v1.check", {"callback": "f"}, (np.int32(0), ONE, TWO), outs)
        assert (float(first), second.tolist()) == (1, [0, 1])
