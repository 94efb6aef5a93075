# SPDX-License-Identifier: Apache-2.0
"""Programs that call what is there with operands, results and attributes that nobody traced: errors, never crashes."""

import callout
import hostile
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from callout.buffer_callback import buffer_callback
from hostile import F32

ONE, TWO = np.float32(1), np.arange(2, dtype=np.float32)
SECRET = jax.ShapeDtypeStruct((4096,), jnp.float32)
# On a GPU a record's values are looked at when the program has gone on.
CHECK_FAILS = (jax.errors.JaxRuntimeError, *((callout.TapError, callout.CheckError) if platforms.ON_CUDA else ()))


def tap(attributes, operands=(), results=()):
    return hostile.run("callout.v1.tap", attributes, operands, results)


def call(attributes, operands=(), results=()):
    return hostile.run("callout.v1.call", attributes, operands, results)


@pytest.fixture
def one_array(received):
    """The name of a live function that takes taps of one array."""
    name, alive = hostile.name_in(lambda x: callout.tap(received.tap, x), 1.0)
    yield name
    del alive


@pytest.fixture
def tree(received):
    """The name of a live function that takes taps of a dictionary."""
    name, alive = hostile.name_in(lambda x: callout.tap(received.tap, {"a": x, "b": x}), 1.0)
    yield name
    del alive


@pytest.fixture
def traced_call():
    """The name of a live function that is called for one result."""
    name, alive = hostile.name_in(lambda x: callout.pure_callback(lambda x: x, F32, x), 1.0)
    yield name
    del alive


@pytest.fixture
def buffer_function():
    """The name of a live function that fills one buffer."""

    def fill(ctx, out, x):
        np.asarray(out)[...] = np.asarray(x)

    name, alive = hostile.name_in(buffer_callback(fill, F32), 1.0)
    yield name
    del alive


@pytest.fixture
def registered(received):
    callout.register("hostile", lambda *leaves: received.append(leaves))
    yield "hostile"
    callout.unregister("hostile")


class TestTaps:
    """Of other values than the function was traced for."""

    def test_without_operands(self, one_array, received):
        with pytest.raises(
            jax.errors.JaxRuntimeError, match="was traced for a value that is one array; this one has 0"
        ):
            tap({"callback": one_array})
        assert not received

    def test_with_too_many_operands(self, one_array, received):
        with pytest.raises(
            jax.errors.JaxRuntimeError, match="was traced for a value that is one array; this one has 2"
        ):
            tap({"callback": one_array, "leaves": "a\nb"}, (ONE, TWO))
        assert not received

    @pytest.mark.parametrize("operands", [(), (ONE,), (ONE, ONE, ONE)])
    def test_of_another_tree(self, tree, operands, received):
        with pytest.raises(callout.TapError):
            tap({"callback": tree, "leaves": "\n".join("abc"[: len(operands)])}, operands)
        assert not received

    def test_of_a_function_that_is_called(self, traced_call):
        with pytest.raises(jax.errors.JaxRuntimeError, match="this one has 0"):
            tap({"callback": traced_call})

    def test_of_a_buffer_function(self, buffer_function):
        with pytest.raises(jax.errors.JaxRuntimeError, match="is a buffer callback, which takes no taps"):
            tap({"callback": buffer_function}, (ONE,))

    def test_registered_names_take_any(self, registered, received):
        tap({"callback": registered})
        tap({"callback": registered}, (ONE,))
        assert received == [((),), (ONE,)]

    @pytest.mark.parametrize("count", [1, 3])
    def test_another_number_than_its_leaves(self, registered, count):
        with pytest.raises(jax.errors.JaxRuntimeError, match=f"expected 2 operands .* got {count}"):
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

    @pytest.mark.parametrize("name", ["watch:1;ni;stop", "id_print:1;1000;1000000;;", "progress_bar:%5B1%5D"])
    def test_what_a_program_carries_takes_nothing(self, name):
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
        with pytest.raises(jax.errors.JaxRuntimeError, match=f"expected 0 results .* got {count}"):
            tap({"callback": registered}, (ONE,), (SECRET,) * count)
        assert not received

    def test_results_beside_those_of_its_attributes_are_refused(self, registered):
        status, token = jax.ShapeDtypeStruct((), jnp.int32), jax.ShapeDtypeStruct((), jnp.uint32)
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"expected 1 results .* got 2"):
            tap({"callback": registered, "deferred": 1}, (ONE,), (SECRET, status))
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"expected 1 results .* got 2"):
            tap({"callback": registered, "threaded": 1}, (np.uint32(0), ONE), (token, SECRET))
        assert int(tap({"callback": registered, "deferred": 1}, (ONE,), (status,))[0]) == 0
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"expected 1 results .* got 2"):
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
        with pytest.raises(jax.errors.JaxRuntimeError, match=message):
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
        with jax.enable_x64(True), pytest.raises(jax.errors.JaxRuntimeError, match=r"expected its offsets, s64\[2\]"):
            tap({"callback": registered, "offsets": 1}, (np.ones((2, 3), np.float32), offsets))
        assert not received

    @pytest.mark.parametrize("step", [np.zeros(0, np.int32), ONE, np.zeros(3, np.float32)])
    def test_a_step_is_an_integer(self, registered, step):
        with pytest.raises(jax.errors.JaxRuntimeError, match="expected its step, an integer"):
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

    @pytest.mark.parametrize("attribute", ["label", "leaves"])
    def test_texts_are_bounded(self, registered, attribute):
        with pytest.raises(jax.errors.JaxRuntimeError, match=f"{attribute}. must have at most 65536"):
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
        with pytest.raises(jax.errors.JaxRuntimeError, match=expected):
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
def test_attributes_that_nobody_here_reads_are_ignored(registered, received, more):
    tap({"callback": registered, **more}, (ONE,))
    assert len(received) == 1


class TestCalls:
    """With other operands and results than the function has."""

    @pytest.mark.parametrize("count", [0, 2, 3])
    def test_of_one_result(self, traced_call, count):
        operands = () if count == 0 else (ONE,)
        with pytest.raises(jax.errors.JaxRuntimeError, match="failed on device 0"):
            call({"callback": traced_call}, operands, (F32,) * max(count, 1))

    @pytest.mark.parametrize("count", [2, 3])
    def test_results_that_nobody_returns_are_refused(self, traced_call, count):
        with pytest.raises(jax.errors.JaxRuntimeError, match=f"expected a tuple of {count}, got one of 1"):
            call({"callback": traced_call}, (ONE,), (F32, *(SECRET,) * (count - 1)))

    @pytest.mark.parametrize("target", ["callout.v1.call", "callout.v1.buffer"])
    @pytest.mark.parametrize("count", [0, 2])
    def test_a_buffer_function_has_its_results(self, buffer_function, target, count):
        with pytest.raises(jax.errors.JaxRuntimeError, match=f"it has one result, and the program declares {count}"):
            hostile.run(target, {"callback": buffer_function}, (ONE,), (F32,) * count)

    @pytest.mark.parametrize("count", [0, 2])
    def test_a_buffer_function_has_its_operands(self, buffer_function, count):
        with pytest.raises(jax.errors.JaxRuntimeError, match="argument"):
            hostile.run("callout.v1.buffer", {"callback": buffer_function}, (ONE,) * count, (F32,))

    def test_a_function_of_taps_returns_one_value(self, one_array):
        with pytest.raises(jax.errors.JaxRuntimeError, match="does not fit"):
            call({"callback": one_array}, (ONE,), (F32,))

    @pytest.mark.parametrize(
        "name", ["watch:1;ni;stop", "check:1;raise;;0;0;x", "id_print:1;1000;1000000;;", "progress_bar:%5B1%5D"]
    )
    def test_taps_are_not_called(self, name):
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"takes taps|looks at taps|no callback is bound"):
            call({"callback": name}, (ONE,), (F32,))

    @pytest.mark.parametrize(("operands", "results"), [((), (F32,)), ((ONE, ONE), (F32,)), ((ONE,), ())])
    def test_the_clock_has_its_operands(self, operands, results):
        with pytest.raises(jax.errors.JaxRuntimeError, match="the clock of progress bars takes"):
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
        with pytest.raises(jax.errors.JaxRuntimeError, match="callout"):
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
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"callout\.v1\.check: expected operands"):
            hostile.run("callout.v1.check", {"callback": "f"}, operands, results)
