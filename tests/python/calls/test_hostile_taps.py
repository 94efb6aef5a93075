# SPDX-License-Identifier: Apache-2.0
"""Tests that taps with operands, results or attributes that no tracing makes raise errors and never crash.

The callbacks that the taps name exist.
"""

import json

import callout
import hostile
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from hostile import F32, ONE, REFUSED, SECRET, TWO

pytestmark = pytest.mark.usefixtures("both_ways")

# On a GPU, a record's values are checked after the program has gone on.
CHECK_FAILS = (*REFUSED, *((callout.TapError, callout.CheckError) if platforms.ON_CUDA else ()))


def tap(attributes, operands=(), results=()):
    return hostile.run("callout.v1.tap", attributes, operands, results)


class TestTaps:
    """Taps other values than the function was traced for."""

    def test_without_operands(self, one_array, received):
        with pytest.raises(REFUSED, match="was traced for a value that is one array; this one has 0"):
            tap({"callback": one_array})
        assert not received

    def test_with_too_many_operands(self, one_array, received):
        with pytest.raises(REFUSED, match="was traced for a value that is one array; this one has 2"):
            tap({"callback": one_array, "leaves": "a\nb"}, (ONE, TWO))
        assert not received

    @pytest.mark.parametrize("operands", [(), (ONE,), (ONE, ONE, ONE)])
    def test_of_another_tree(self, tree, operands, received):
        with pytest.raises(callout.TapError):
            tap({"callback": tree, "leaves": "\n".join("abc"[: len(operands)])}, operands)
        assert not received

    def test_of_a_function_that_is_called(self, traced_call):
        with pytest.raises(REFUSED, match="this one has 0"):
            tap({"callback": traced_call})

    def test_of_a_buffer_function(self, buffer_function):
        with pytest.raises(REFUSED, match="is a buffer callback, which takes no taps"):
            tap({"callback": buffer_function}, (ONE,))

    def test_registered_names_take_any(self, registered, received):
        tap({"callback": registered})
        tap({"callback": registered}, (ONE,))
        assert received == [((),), (ONE,)]

    @pytest.mark.parametrize("count", [1, 3])
    def test_wrong_numbers_of_leaves_are_rejected(self, registered, count):
        with pytest.raises(REFUSED, match=f"expected 2 operands .* got {count}"):
            tap({"callback": registered, "leaves": "a\nb"}, (ONE,) * count)

    @pytest.mark.parametrize(
        "sink",
        [
            callout.sinks.Null,
            lambda: callout.sinks.Print("{value} {name} {step}"),
            callout.sinks.Print,
            callout.sinks.Statistics,
            callout.sinks.Histogram,
        ],
    )
    def test_sinks_take_nothing(self, sink, capfd):
        made = sink()
        callout.register("hostile", made)
        try:
            tap({"callback": "hostile"})
            tap({"callback": "hostile", "leaves": "a\nb", "step": 1}, (ONE, TWO, np.int32(3)))
        except callout.TapError as error:
            assert "hostile" in str(error) or "print" in str(error)  # noqa: PT017 - a format may want a value
        finally:
            callout.unregister("hostile")

    @pytest.mark.parametrize("sink", ["JsonLines", "Csv", "TensorBoard"])
    def test_file_sinks_take_nothing(self, sink, tmp_path):
        made = getattr(callout.sinks, sink)(tmp_path / "x")
        callout.register("hostile", made)
        try:
            tap({"callback": "hostile"})
        finally:
            callout.unregister("hostile")
            made.close()

    @pytest.mark.parametrize("leaves", [{}, {"leaves": "a"}, {"leaves": "a\nb\nc"}], ids=str)
    def test_a_sink_gets_as_many_arrays_as_its_tap_names(self, leaves, tmp_path):
        made = callout.sinks.JsonLines(tmp_path / "x")
        callout.register("hostile", made)
        try:
            with pytest.raises(REFUSED, match=r"tap 'json_lines': expected [13] operands .* got 2"):
                tap({"callback": "hostile", **leaves}, (ONE, ONE))
        finally:
            callout.unregister("hostile")
            made.close()
        assert not (tmp_path / "x").read_bytes()

    @pytest.mark.parametrize("name", ["watch:1;ni;stop", "id_print:1;1000;1000000;;", "progress_bar:%5B1%5D"])
    def test_embedded_callbacks_survive_an_empty_record(self, name):
        try:
            tap({"callback": name})
        except callout.TapError as error:
            assert "progress" in str(error)  # noqa: PT017

    @pytest.mark.parametrize(
        ("operands", "message"),
        [
            ((ONE,), "a check of 2 arrays got 1"),
            ((ONE, ONE, ONE), "a check of 2 arrays got 3"),
            ((ONE, ONE), r"the predicate of a check must be bool, got f32\[\]"),
            ((np.True_, ONE), r"operand 0 of a check, bool\[\], has fewer dimensions than its program says"),
            ((np.ones(2, bool), ONE), r"operand 1 of a check, f32\[\], has fewer dimensions than its program says"),
        ],
    )
    def test_a_check_has_its_operands(self, operands, message):
        leaves = "\n".join(f"v{i}" for i in range(len(operands)))
        with pytest.raises(CHECK_FAILS, match=message):
            tap({"callback": "check:1;raise;;1;1,1;{v1}", "leaves": leaves}, operands)

    def test_a_check_of_too_few_values_looks_within_bounds(self):
        told = {"callback": "check:1;raise;;1;1,1;{v1}", "leaves": "v0\nv1"}
        with pytest.raises(CHECK_FAILS, match=r"check failed: \{v1\} \(lane 4, device 0\)"):
            tap(told, (np.arange(5) == 4, np.ones(2, np.float32)))

    @pytest.mark.parametrize("count", [1, 2])
    def test_results_are_refused(self, registered, count, received):
        with pytest.raises(REFUSED, match=f"expected 0 results .* got {count}"):
            tap({"callback": registered}, (ONE,), (SECRET,) * count)
        assert not received

    def test_results_beside_those_of_its_attributes_are_refused(self, registered):
        status, token = jax.ShapeDtypeStruct((), jnp.int32), jax.ShapeDtypeStruct((), jnp.uint32)
        with pytest.raises(REFUSED, match=r"expected 1 results .* got 2"):
            tap({"callback": registered, "deferred": 1}, (ONE,), (SECRET, status))
        with pytest.raises(REFUSED, match=r"expected 1 results .* got 2"):
            tap({"callback": registered, "threaded": 1}, (np.uint32(0), ONE), (token, SECRET))
        assert int(tap({"callback": registered, "deferred": 1}, (ONE,), (status,))[0]) == 0
        with pytest.raises(REFUSED, match=r"expected 1 results .* got 2"):
            tap({"callback": registered, "returned": [0]}, (ONE,), (F32, SECRET))
        both = {"callback": registered, "deferred": 1, "threaded": 1}
        assert [int(out) for out in tap(both, (np.uint32(3), ONE), (token, status))] == [3, 0]

    @pytest.mark.parametrize(
        ("operands", "results", "message"),
        [
            ([-1], (F32,), "attribute 'returned' must be at least 0, got -1"),
            ([5], (F32,), "operand 5 and result 0 of attribute 'returned' do not fit"),
            ([1 << 40], (F32,), f"operand {1 << 40} and result 0 of attribute 'returned' do not fit"),
            ([0], (SECRET,), "operand 0 and result 0 of attribute 'returned' do not fit"),
            ([0, 0], (F32,), r"expected 2 results .* got 1"),
            ([0, 5], (F32, F32), "operand 5 and result 1 of attribute 'returned' do not fit"),
            ([0], (), "operand 0 and result 0 of attribute 'returned' do not fit"),
            ([], (SECRET,), r"expected 0 results .* got 1"),
            (0, (F32,), "attribute 'returned' must be an array of 64-bit integers, got a number"),
        ],
    )
    def test_only_operands_that_are_there_are_returned(self, registered, operands, results, message, received):
        with pytest.raises(REFUSED, match=message):
            tap({"callback": registered, "returned": operands}, (ONE,), results)
        assert not received

    def test_an_operand_may_be_returned_twice(self, registered, received):
        assert [float(out) for out in tap({"callback": registered, "returned": [0, 0]}, (ONE,), (F32, F32))] == [1, 1]
        assert received == [(ONE,)]

    @pytest.mark.parametrize(
        "offsets",
        [
            np.zeros(2, np.int32),
            np.zeros(2, np.float32),
            np.zeros(0, np.int64),
            np.zeros(1, np.int64),
            np.zeros(3, np.int64),
            np.zeros(100, np.int64),
            np.zeros((1, 2), np.int64),
            np.int64(0),
        ],
        ids=lambda offsets: f"{offsets.dtype.name}{list(offsets.shape)}",
    )
    def test_offsets_have_one_form(self, registered, offsets, received):
        with jax.enable_x64(True), pytest.raises(REFUSED, match=r"expected its offsets, s64\[2\]"):
            tap({"callback": registered, "offsets": 1}, (np.ones((2, 3), np.float32), offsets))
        assert not received

    @pytest.mark.parametrize("step", [np.zeros(0, np.int32), ONE, np.zeros(3, np.float32)])
    def test_a_step_is_an_integer(self, registered, step):
        with pytest.raises(REFUSED, match="expected its step, an integer"):
            tap({"callback": registered, "step": 1}, (ONE, step))

    @pytest.mark.parametrize(("step", "after"), [(2**63 - 1, 2**63 - 1), (-(2**63), 1 - 2**63)])
    @pytest.mark.parametrize("every", [1, 2**63 - 1])
    def test_steps_do_not_overflow(self, step, after, every, tmp_path):
        sink = callout.sinks.Csv(tmp_path / "x.csv")
        callout.register("hostile", sink)
        try:
            with jax.enable_x64(True):
                told = {"step": 1, "every": every}
                tap({"callback": "hostile", **told}, (ONE, np.int64(step)))
                tap({"callback": "watch:1;ni;report", **told}, (ONE, np.int64(step)))
            tap({"callback": "hostile"}, (ONE,))
        finally:
            callout.unregister("hostile")
        steps = [int(line.split(",")[1]) for line in (tmp_path / "x.csv").read_text().splitlines()[1:]]
        assert steps == ([step, after] if step % every == 0 else [0])

    def test_a_step_stands_before_the_offsets(self, tmp_path):
        sink = callout.sinks.JsonLines(tmp_path / "x")
        callout.register("hostile", sink)
        told = {"callback": "hostile", "step": 1, "offsets": 1}
        try:
            with jax.enable_x64(True):
                tap(told, (TWO, np.int64(7), np.array([4])))
        finally:
            callout.unregister("hostile")
            sink.close()
        (line,) = (tmp_path / "x").read_text().splitlines()
        record = json.loads(line)
        assert (record["step"], record["value"]) == (7, [0, 1])

    @pytest.mark.parametrize("attribute", ["label", "leaves"])
    def test_texts_are_bounded(self, registered, attribute):
        with pytest.raises(REFUSED, match=f"{attribute}. must have at most 65536"):
            tap({"callback": registered, attribute: "x" * 70_000}, (ONE,))

    @pytest.mark.parametrize(
        ("attribute", "value"),
        [
            ("every", 0),
            ("every", -1),
            ("every", "1"),
            ("every", [1]),
            ("min_interval_ns", -1),
            ("sample_ppb", 0),
            ("sample_ppb", 2_000_000_000),
            ("on_full", 3),
            ("on_full", -1),
            ("step", 2),
            ("deferred", -1),
            ("label", 3),
            ("leaves", {"a": 1}),
            ("offsets", "yes"),
            ("step", [1]),
            ("only_device", "all"),
            ("threaded", "yes"),
            ("deferred", {}),
        ],
    )
    def test_attributes_have_their_types_and_limits(self, registered, attribute, value):
        expected = f"callout: callback '{registered}': attribute '{attribute}' must "
        with pytest.raises(REFUSED, match=expected):
            tap({"callback": registered, attribute: value}, (ONE,))


@pytest.mark.parametrize(
    "more",
    [
        {"of_a_later_version": 3},
        {"every_": "x"},
        {"Every": [1, 2]},
        {"can_fail": "yes"},
        {"sharding": 1, "x": {"y": "z"}},
    ],
    ids=str,
)
def test_unknown_attributes_are_ignored(registered, received, more):
    tap({"callback": registered, **more}, (ONE,))
    assert len(received) == 1


def test_names_need_not_be_utf8():
    with pytest.raises(REFUSED, match="no callback is bound to the name '\ufffd'"):
        tap({"callback": b"\xff"}, (ONE,))


def test_a_record_that_does_not_match_its_site_is_rejected(registered, received):
    site = callout._ext.EagerTap(callout._ext.find(registered), {"callback": "f", "leaves": "a\nb"})
    with pytest.raises(callout.RegistrationError, match=r"tap 'hostile': expected 2 operands .* got 1"):
        site.send(callout._ext.find(registered), [ONE], 0, None)
    callout.barrier_wait()
    assert not received
