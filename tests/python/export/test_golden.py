# SPDX-License-Identifier: Apache-2.0
"""Tests that programs exported by earlier versions still do the same: in Python, on CUDA's double, in the C++ host."""

import dataclasses
import json
import re
import subprocess
from platform import machine

import callout
import command
import golden_runs
import host_cuda
import jax
import numpy as np
import pytest
import zarr
from golden_programs import CUDA_MAP_SOURCE, CUDA_SOURCE, EIGHT, GRID, XS
from golden_runs import FOLDER, all_cases, arguments_of, described, expected, file_of, loaded
from gpu_double import DRIVER, ON_DOUBLE, gpu_double  # noqa: F401
from pyarrow import ipc

CASES = all_cases()
ON_CPU = [name for name, case in CASES.items() if case.platforms != ("cuda",)]
CARRIES_CODE = ("cpp_embedded", "cpp_embedded_lanes")
_ITS_CODE = pytest.mark.skipif(
    machine() != "x86_64", reason="its code is for x86-64, and refused elsewhere: embedded_library_test.cc"
)
KERNELS = ("cuda_image", "cuda_image_lanes")


def runnable(names):
    return [pytest.param(name, marks=_ITS_CODE) if name in CARRIES_CODE else name for name in names]


@pytest.fixture(scope="module")
def bound(tmp_path_factory, handlers):
    del handlers
    with golden_runs.Bound(tmp_path_factory.mktemp("golden")) as bound:
        yield bound


def test_every_case_has_its_file():
    assert sorted(path.stem for path in FOLDER.glob("*.bin")) == sorted(CASES)
    assert sorted(expected()) == sorted(CASES)
    assert all(case["by"] for case in expected().values())


@pytest.mark.skipif(ON_DOUBLE, reason="on the double of CUDA, what runs where differs: test_gpu_calls.py")
@pytest.mark.every_set
@pytest.mark.parametrize("name", runnable(ON_CPU))
def test_golden_programs_are_unchanged(bound, name):
    wanted = {key: value for key, value in expected()[name].items() if key != "by"}
    assert golden_runs.run(name, loaded(name).call, bound) == wanted


@pytest.mark.cpu_only("on CUDA the value arrives when the program is past the watch: test_gpu_taps.py")
def test_a_watch_still_stops_the_program():
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"watch 'golden\.True': 1 NaN and 0 infinite elements"):
        loaded("watch_stop").call(np.array([1, np.nan, 2], np.float32)).block_until_ready()


def test_programs_of_a_file_of_several_shapes_are_unchanged(bound):
    sizes = []
    for label, program in golden_runs.parts(file_of("shapes").read_bytes()):
        sizes.append(label)
        bound.notes.clear()
        x = np.arange(int(label.removeprefix("b=")), dtype=np.float32)
        result = jax.export.deserialize(bytearray(program)).call(x)
        callout.barrier_wait()
        np.testing.assert_allclose(result, x + 1 - x.mean() - 1)
        assert bound.notes == [("tap", described(x + 1))]
    assert sizes == ["b=3", "b=8"]


class TestSinks:
    """Tests a program with a sink's name, and the leaves and steps that sinks write."""

    @pytest.fixture
    def send(self, bound):
        def send_to(sink, name="sink"):
            callout.register("sink", sink, replace=True)
            try:
                jax.block_until_ready(loaded(name).call(*arguments_of(CASES[name])))
                callout.barrier_wait()
            finally:
                callout.register("sink", bound.functions["sink"], replace=True)
                if hasattr(sink, "close"):
                    sink.close()

        return send_to

    def test_json_lines(self, send, tmp_path):
        send(callout.sinks.JsonLines(tmp_path / "a.jsonl", name="mine"))
        records = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
        assert [record["step"] for record in records] == list(range(10))
        assert (records[-1]["x"], records[-1]["half"], records[-1]["name"]) == (46.5, 18.75, "mine")
        send(callout.sinks.JsonLines(tmp_path / "b.jsonl"), "sink_vector")
        last = json.loads((tmp_path / "b.jsonl").read_text().splitlines()[-1])
        assert (last["name"], last["value"]) == ("vector", [10, 11, 12])

    def test_csv(self, send, tmp_path):
        send(callout.sinks.Csv(tmp_path / "a.csv"))
        lines = (tmp_path / "a.csv").read_text().splitlines()
        assert lines[0] == "name,step,device,time,half,x"
        assert lines[-1].startswith("csv,9,0,")
        assert lines[-1].endswith(",18.75,46.5")

    def test_tensorboard(self, send, tmp_path):
        send(callout.sinks.TensorBoard(tmp_path / "events"))
        (events,) = (tmp_path / "events").iterdir()
        assert b"tensorboard/half" in events.read_bytes()

    def test_print(self, send, capfd):
        send(callout.sinks.Print("{name} {half:.1f}"))
        assert capfd.readouterr().out.splitlines()[-1] == "print 18.8"

    @pytest.mark.parametrize("name", ["sink", "sink_vector", "sink_arrays"])
    def test_sinks_of_arrays(self, send, tmp_path, name):
        from_json, from_arrow = tmp_path / "a.jsonl", tmp_path / "a.arrows"
        files = [
            callout.sinks.JsonLines(from_json),
            callout.sinks.Arrow(from_arrow),
            callout.sinks.Zarr(tmp_path / "a.zarr"),
            callout.sinks.Npy(tmp_path / "{leaf}.npy"),
        ]
        send(callout.sinks.Tee(*files), name)
        for file in files:
            file.close()
        records = [json.loads(line) for line in from_json.read_text().splitlines()]
        table = ipc.open_stream(from_arrow).read_all()
        assert len(records) == table.num_rows == 10
        for own in ("name", "device"):
            assert table[own].to_pylist() == [record[own] for record in records]
        assert table["step"].to_pylist() == [record.get("step", i) for i, record in enumerate(records)]
        leaves = {"sink": ["half", "x"], "sink_vector": ["value"], "sink_arrays": ["above", "half", "n", "x"]}[name]
        assert table.column_names[5:] == leaves
        group = zarr.open_group(tmp_path / "a.zarr", mode="r")
        for leaf in leaves:
            expected = np.array([record[leaf] for record in records])
            np.testing.assert_array_equal(np.array(table[leaf].to_pylist()), expected)
            np.testing.assert_array_equal(np.load(tmp_path / f"{leaf}.npy"), expected)
            array = records[0]["name"] if leaf == "value" else f"{records[0]['name']}/{leaf}"
            np.testing.assert_array_equal(group[array][:], expected)

    def test_statistics_and_tee(self, send):
        statistics = callout.sinks.Statistics()
        send(callout.sinks.Tee(statistics, callout.sinks.Null()))
        assert statistics["tee.x"].max == 46.5


def on_cpu(name):
    """Loads a program for CUDA for the double."""
    return dataclasses.replace(loaded(name), platforms=("cpu",))


@pytest.mark.cpu_only("programs of a CUDA device are run on XLA:CPU in it")
@pytest.mark.software_gpu
@pytest.mark.usefixtures("gpu_double")
class TestOnTheDouble:
    """Tests programs for CUDA only."""

    def test_kernels_that_programs_carry(self, tmp_path):
        host_cuda.bind(tmp_path, CUDA_SOURCE, {"scale": "scale"})
        np.testing.assert_array_equal(on_cpu("cuda_image").call(XS), 2 * XS)
        np.testing.assert_array_equal(on_cpu("cuda_image_lanes").call(GRID), 2 * GRID)

    def test_launches_with_all_settings(self, tmp_path):
        host_cuda.bind(tmp_path, CUDA_MAP_SOURCE, {"through_map": "through_map"})
        np.testing.assert_array_equal(on_cpu("cuda_image_launch").call(EIGHT), EIGHT)

    def test_a_capturable_buffer_callback(self, bound):
        del bound
        np.testing.assert_array_equal(on_cpu("cuda_buffer").call(XS), XS + 1)


# Native functions to which the host binds the names of calls.
CALLBACKS = """
#include <cstring>
#include "callout/call.h"

void Copy(const callout::Call& call) {
  const callout_call& raw = *call.raw();
  if (raw.num_results > 0) std::memcpy(raw.results[0].data, raw.args[0].data, raw.args[0].size_bytes);
}
CALLOUT_DEFINE_CALLBACK(copy, Copy);

void AddOne(const callout::Call& call) {
  auto x = call.arg<float>(0);
  auto y = call.result<float>(0);
  for (int64_t i = 0; i < y.size(); ++i) y[i] = x[i] + 1;
}
CALLOUT_DEFINE_CALLBACK(add_one, AddOne);

void Sum(const callout::Call& call) {
  auto x = call.arg<float>(0), y = call.arg<float>(1);
  auto z = call.result<float>(0);
  for (int64_t i = 0; i < z.size(); ++i) {
    z[i] = x[i];
    if (y.size() <= z.size()) z[i] += y[y.size() == 1 ? 0 : i];
    else for (const float each : y) z[i] += each;
  }
}
CALLOUT_DEFINE_CALLBACK(sum, Sum);

void Three(const callout::Call& call) {
  auto x = call.arg<float>(0);
  for (int64_t i = 0; i < x.size(); ++i) {
    call.result<float>(0)[i] = 2 * x[i];
    call.result<int32_t>(1)[i] = x[i] > 1;
  }
  call.result<float>(2)[0] = 7;
}
CALLOUT_DEFINE_CALLBACK(three, Three);
"""
IN_HOST = {
    "add_one": "add_one",
    "io.add_one": "add_one",
    "ordered.add_one": "add_one",
    "sum": "sum",
    "three": "three",
    "same": "copy",
    "none": "copy",
    "ordered.none": "copy",
    "native": "add_one",
    "channels:1,2->3": "sum",
}
TAPS = ("tap", "ordered.tap", "sink")
# The host does not run: functions of XLA FFI, which the host's users register; open shapes, which JAX refines; programs
# for several platforms, or with calls to be partitioned; derivatives.
NOT_IN_HOST = ("ffi", "ffi_attributes", "symbolic", "derivatives_in_file", "check_devices", "nans_devices")
PARTITIONED = ("gather", "local", "device_index", "ordered", "watch", "fail", "call_on_one")


def is_for_host(name):
    case = CASES[name]
    return name not in NOT_IN_HOST and case.platforms is None and name.removeprefix("devices_") not in PARTITIONED


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("host")
    (folder / "callbacks.cc").write_text(CALLBACKS)
    flags = ["-std=c++20", "-O1", "-shared", "-fPIC", f"-I{callout.include_dir()}"]
    subprocess.run(["c++", *flags, str(folder / "callbacks.cc"), "-o", str(folder / "libcallbacks.so")], check=True)
    return folder / "libcallbacks.so"


def numbers(text):
    """Returns the numbers in the description of a value, without its shape."""
    return [str(float(number)) for number in re.findall(r"-?(?:nan|inf|\d[\d.e+-]*)", text.partition("] ")[2])]


def expected_failure(wanted):
    return [wanted["failed"]] if "failed" in wanted else []


@pytest.mark.skipif(bool(command.missing()), reason=command.missing() or "there is one")
@pytest.mark.every_set
@pytest.mark.parametrize("name", runnable(filter(is_for_host, ON_CPU)))
def test_the_host_runs_it(library, tmp_path, name):
    case, wanted = CASES[name], expected()[name]
    given, returned = tmp_path / "given.npz", tmp_path / "returned.npz"
    np.savez(given, *[np.asarray(leaf) for leaf in jax.tree.leaves(case.arguments)])
    asked = callout.exported_names(loaded(name))
    bindings = [f"{call}={library}:{symbol}" for call, symbol in IN_HOST.items() if call in asked]
    bindings += [f"{tap}=jsonl:{tmp_path / tap}.jsonl" for tap in TAPS if tap in asked]
    options = [option for binding in bindings for option in ("--bind", binding)]
    options += ["--arg", given, "--output", returned, "--plugin", command.c_api.plugin_path()]
    done = command.run_command("run", file_of(name), *options, output=returned)
    said = re.sub(r"[\r\n]+", " ", done.err)
    assert [text for text in (*wanted.get("said", ()), *expected_failure(wanted)) if text not in said] == []
    if case.fails:
        assert done.code == 1, done.err
        return
    assert done.code == 0, done.err
    if name.startswith("dtype_"):  # as bytes: NumPy's files do not support many of these dtypes
        assert done.results[0].tobytes() == case.arguments[0].tobytes()
    else:
        assert list(map(numbers, described(done.results))) == list(map(numbers, wanted["result"]))
    for tap in TAPS:
        records = [record for record in wanted.get("records", ()) if record[0] == tap]
        file = tmp_path / f"{tap}.jsonl"
        assert len(file.read_text().splitlines() if file.exists() else ()) == len(records)
    printed = [line for line in wanted.get("printed", ()) if line]
    assert [line for line in printed if line not in done.out.splitlines()] == []
