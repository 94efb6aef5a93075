# SPDX-License-Identifier: Apache-2.0
"""Tests two processes with two devices each, and one program over all four."""

import ffi_calls
import numpy as np
import pytest
from pyarrow import ipc
from worker_pairs import DOUBLE, PARTS, WHOLE, both, run_pair


@pytest.fixture(scope="module")
def saw(tmp_path_factory):
    return run_pair("works", tmp_path_factory.mktemp("works"))


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    return run_pair("failures", tmp_path_factory.mktemp("failures"))


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    pytest.importorskip("numba")
    folder = tmp_path_factory.mktemp("native")
    ffi_calls.build(folder)
    return run_pair("native", folder)


@pytest.mark.slow
def test_local_taps_get_their_own_shards_with_device_and_index(saw):
    first, second = both(saw, "devices")
    assert len({*first, *second}) == 4
    # (value, device, process, its start in a [2, 4] array on a 2 by 2 mesh)
    assert both(saw, "local") == [
        [[[[0, 1]], first[0], 0, 0, 0], [[[2, 3]], first[1], 0, 0, 2]],
        [[[[4, 5]], second[0], 1, 1, 0], [[[6, 7]], second[1], 1, 1, 2]],
    ]


@pytest.mark.parametrize("k", range(4))
def test_gathered_taps_arrive_whole_in_one_process(saw, k):
    owner, index = divmod(k, 2)
    expected = [[], []]
    expected[owner] = [[WHOLE, saw[owner]["devices"][index]]]
    assert both(saw, f"gather {k}") == expected


def test_device_index_counts_in_the_order_of_the_mesh(saw):
    assert both(saw, "gather 0 of a reversed mesh") == [[], [[WHOLE, saw[1]["devices"][1]]]]


def test_a_jit_over_one_device_stays_in_its_process(saw):
    assert both(saw, "own device") == [[[[0, 1], process_saw["devices"][0]]] for process_saw in saw]


def test_the_chosen_process_draws_bars_of_its_devices(saw):
    assert both(saw, "bar") == [["10/10"], []]
    assert both(saw, "bar of each process") == [["20/20"], ["20/20"]]
    assert both(saw, "bar of the second") == [[], ["20/20"]]


def test_queues_are_those_of_the_process(saw):
    assert both(saw, "queues") == both(saw, "devices")


def test_each_process_writes_a_file_with_its_process_and_devices(saw):
    for rank, path in enumerate(both(saw, "files")):
        table = ipc.open_stream(path.replace("{process}", str(rank))).read_all()
        assert table["process"].to_pylist() == [rank, rank]
        values = dict(zip(table["device"].to_pylist(), map(list, table["value"].to_pylist()), strict=True))
        assert values == dict(zip(saw[rank]["devices"], PARTS[rank], strict=True))


def test_the_chosen_process_alone_writes_a_file(saw):
    for records in both(saw, "one file"):  # the devices of a process run at their own pace
        assert sorted(records) == sorted([WHOLE, *PARTS[1]])
    assert both(saw, "one folder") == [1, 1]
    assert both(saw, "one file counts") == [2, 3], "the other process counts the records that it discards"


def test_files_opened_by_each_process_are_rejected_with_the_remedy(saw):
    text, none = both(saw, "one file refused")
    assert none is None
    assert text.startswith("cannot open '")
    assert text.endswith(
        " is writing it. Each of the 2 processes of this program opens the file: pass only_process=0 to have one of them "
        "write it, or a path with '{process}' to give each a file of its own"
    )


def test_eager_taps_send_the_shards_of_the_process(saw):
    assert both(saw, "eager local") == [[WHOLE[:2], WHOLE[2:4]], [WHOLE[4:6], WHOLE[6:]]]


@pytest.mark.parametrize("name", ["eager gather", "eager call"])
def test_eager_callbacks_refuse_values_of_several_processes(saw, name):
    for kind, _, text in both(saw, name):
        assert (kind, "spans several processes" in text) == ("ValueError", True)


@pytest.mark.parametrize(
    ("name", "owner"), [("pure", 0), ("pure on 2", 1), ("pure on the last", 1), ("io", 0), ("io ordered on 2", 1)]
)
def test_calls_run_in_one_process_and_all_have_the_result(saw, name, owner):
    called = [[], []]
    called[owner] = [WHOLE]
    assert both(saw, name) == [[[DOUBLE, DOUBLE], called[0]], [[DOUBLE, DOUBLE], called[1]]]


def test_debug_callbacks_run_once_or_on_every_shard(saw):
    assert both(saw, "debug") == [[WHOLE], []]
    assert both(saw, "debug partitioned") == [[WHOLE[:2], WHOLE[2:4]], [WHOLE[4:6], WHOLE[6:]]]


def test_shard_map_calls_on_every_device_of_every_process(saw):
    for rank, (results, called) in enumerate(both(saw, "shard_map")):
        own = [WHOLE[4 * rank :][:2], WHOLE[4 * rank + 2 :][:2]]
        assert called == own
        assert results == [[2 * v for v in part] for part in own]


@pytest.mark.parametrize("name", ["pure", "io", "ordered io", "buffer", "hcb call", "tap", "debug"])
def test_control_flow_in_shard_map_calls_in_every_process(saw, name):
    for rank in range(2):
        parts = [WHOLE[2 * device :][:2] for device in (2 * rank, 2 * rank + 1)]
        scanned, called = saw[rank][f"{name} in scan"]
        assert scanned == [[4 * v for v in part] for part in parts]
        assert called == sorted([*parts, *([2 * v for v in part] for part in parts)])
        results, called = saw[rank][f"{name} in cond"]
        assert results == ([[2 * v for v in part] for part in parts] if rank == 0 else parts)
        assert called == (parts if rank == 0 else [])
        gradients, called = saw[rank][f"{name} in grad"]
        assert gradients == [[4 * v for v in part] for part in parts]
        assert called == parts


def test_values_of_each_device_differ_between_processes(saw):
    assert both(saw, "what each device hears") == [[1 + 1 + 2 + 2, [0, 0]]] * 2


def test_order_holds_in_loops_and_over_programs(saw):
    expected = [[kind, 2.0**i] for i in range(4) for kind in ("tap", "debug", "io")]
    assert both(saw, "order") == [expected, []]


@pytest.mark.slow
@pytest.mark.parametrize("k", [0, 2])
def test_a_failing_call_is_raised_in_every_process(failed, k):
    owner = k // 2
    device = failed[owner]["devices"][0]
    for kind, is_ours, text in failed[owner][f"pure fails on {k}"]:
        assert (kind, is_ours) == ("KeyError", False)
        assert f"callback '__main__.fail' failed on device {device}: KeyError: 'only the owner knows'" in text
    for kind, is_ours, text in failed[1 - owner][f"pure fails on {k}"]:
        assert (kind, is_ours) == ("CallbackError", True)
        assert "callback '__main__.fail' failed in another process, which has the error" in text


@pytest.mark.parametrize("name", ["debug fails", "ordered fails"])
def test_failing_effects_are_raised_in_every_process(failed, name):
    owner, other = both(failed, name)
    assert owner[0] == "KeyError"
    assert "failed in another process" in other[2]


def test_a_failing_tap_fails_the_barrier_of_its_process_only(failed):
    owner, other = both(failed, "tap fails")
    assert owner[:2] == ["KeyError", True]
    assert other is None


def test_programs_work_after_a_failure(failed):
    assert both(failed, "afterwards") == [[[DOUBLE, DOUBLE], [WHOLE]], [[DOUBLE, DOUBLE], []]]


@pytest.mark.parametrize("k", range(4))
def test_host_callback_over_a_mesh_calls_one_process(saw, k):
    owner, index = divmod(k, 2)
    parts = [[WHOLE[:2], WHOLE[2:4]], [WHOLE[4:6], WHOLE[6:]]]
    tapped, called = [[], []], [[], []]
    tapped[owner] = [[WHOLE, saw[owner]["devices"][index]]]
    called[owner] = [WHOLE]
    assert both(saw, f"id_tap {k}") == [[parts[0], tapped[0]], [parts[1], tapped[1]]]
    assert both(saw, f"hcb call {k}") == [[[DOUBLE, DOUBLE], called[0]], [[DOUBLE, DOUBLE], called[1]]]


def test_host_callback_under_pmap_calls_every_process(saw):
    for rank, (process_saw, (results, tapped)) in enumerate(zip(saw, both(saw, "pmap id_tap"), strict=True)):
        own = [2.0 * rank, 2.0 * rank + 1]
        assert np.ravel(results).tolist() == own
        assert tapped == [list(pair) for pair in zip(own, process_saw["devices"], strict=True)]
        results, called = process_saw["pmap hcb call"]
        assert np.ravel(results).tolist() == [2 * value for value in own]
        assert called == own


def test_a_failing_host_callback_call_fails_only_its_process_barrier(failed):
    owner, other = both(failed, "hcb call fails")
    assert owner[0] == "KeyError"
    assert "failed in another process" in other[2]
    owner, other = both(failed, "hcb barrier")
    assert owner[0] == "CallbackException"
    assert other is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cpp", "numba"])
def test_native_functions_run_once_and_all_processes_get_the_result(native, kind):
    assert both(native, f"{kind} whole") == [[[DOUBLE, DOUBLE], 1], [[DOUBLE, DOUBLE], 0]]
    assert both(native, f"{kind} on the last") == [[[DOUBLE, DOUBLE], 0], [[DOUBLE, DOUBLE], 1]]


@pytest.mark.parametrize("kind", ["cpp", "numba"])
def test_native_functions_in_shard_map_run_in_every_process(native, kind):
    for rank, parts in enumerate(PARTS):
        times = [np.multiply(parts, factor).tolist() for factor in (2, 4, 8)]
        assert native[rank][f"{kind} scan"] == [times[1], 4]
        assert native[rank][f"{kind} cond"] == ([times[0], 2] if rank == 0 else [parts, 0])
        assert native[rank][f"{kind} grad"] == [times[2], 2]


@pytest.mark.parametrize(("kind", "error"), [("cpp", "CallbackError"), ("numba", "ValueError")])
def test_a_failing_native_function_is_raised_in_every_process(native, kind, error):
    owner, other = both(native, f"{kind} fails")
    assert [(each[0], each[2].endswith(": a negative number")) for each in owner] == [(error, True)] * 2
    assert [(each[0], "failed in another process" in each[2]) for each in other] == [("CallbackError", True)] * 2
    assert both(native, f"{kind} afterwards") == [[DOUBLE, DOUBLE]] * 2


def test_foreign_functions_collect_or_keep_their_shards(native):
    whole = [2 * v + 1 for v in WHOLE]
    for name in ("ffi None", "ffi gather"):
        assert both(native, name) == [[whole, whole]] * 2
    assert both(native, "ffi local") == [[whole[:2], whole[2:4]], [whole[4:6], whole[6:]]]
    assert both(native, "ffi rule") == [[[[1], [5]], 1], [[[9], [13]], 1]]


def test_foreign_functions_in_shard_map_run_in_every_process(native):
    assert both(native, "ffi in shard_map") == [
        [[[3, 7], [11, 15]], [[1, 3], [5, 7]]],
        [[[19, 23], [27, 31]], PARTS[1]],
    ]


def test_a_foreign_side_effect_happens_in_one_process(native):
    assert both(native, "ffi side effect") == [8, 0]


def test_watches_look_at_the_shards_of_their_process(native):
    device = native[1]["devices"][0]
    assert both(native, "watch") == [[None, 4], [["nan", [5], [4], device, 7], 4]]
    assert both(native, "watch in shard_map") == [[None, 12], [["nan", [1], None, device, 0], 12]]
    assert both(native, "watch in grad") == [[None, 4], [["nan", [5], [4], device, 0], 4]]


@pytest.mark.parametrize(
    ("name", "error", "place"),
    [
        ("watch that stops", "NonFiniteError", "at [5], f32[2], the shard from [4]"),
        ("check", "CheckError", "-5.0 at [5]"),
    ],
)
def test_a_finding_of_one_process_fails_all_processes(native, name, error, place):
    other, owner = both(native, name)
    assert [(each[0], place in each[2]) for each in owner] == [(error, True)] * 2
    assert [(each[0], "failed in another process" in each[2]) for each in other] == [("CallbackError", True)] * 2


def test_a_nan_is_located_in_the_process_that_makes_it(native):
    other, (text,) = both(native, "located NaN")
    assert other == []
    assert f"forward; f32[2] at [1], device {native[1]['devices'][0]}; inputs: f32[2] -5.0" in text
