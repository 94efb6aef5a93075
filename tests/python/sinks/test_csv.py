# SPDX-License-Identifier: Apache-2.0
"""callout.sinks.Csv, read back by pandas and NumPy."""

import csv

import callout
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pandas as pd
import pytest
from callout import sinks


def test_pandas_reads_the_file_of_a_scan(tmp_path):
    path = tmp_path / "train.csv"
    sink = sinks.Csv(path)

    @jax.jit
    def run(x):
        def step(x, i):
            callout.tap(sink, {"loss": x, "grad": jnp.stack([x, -x]), "done": x > 50, "i": i}, name="train")
            return x * 1.1, None

        return jax.lax.scan(step, x, jnp.arange(100))[0]

    run(jnp.float32(0.1))
    callout.barrier_wait()
    table = pd.read_csv(path)
    assert list(table) == ["name", "step", "device", "time", "done", "grad.0", "grad.1", "i", "loss"]
    assert dict(table.dtypes.astype(str)) == {
        "name": "str", "step": "int64", "device": "int64", "time": "float64", "done": "bool", "grad.0": "float64",
        "grad.1": "float64", "i": "int64", "loss": "float64",
    }  # fmt: skip
    assert (table.name == "train").all()
    assert list(table.step) == list(table.i) == list(range(100))
    assert table.time.is_monotonic_increasing
    expected, x = [], np.float32(0.1)
    for _ in range(100):
        expected.append(x)
        x = np.float32(x * np.float32(1.1))
    np.testing.assert_array_equal(table.loss.to_numpy(np.float32), np.array(expected))
    np.testing.assert_array_equal(table["grad.1"], -table["grad.0"])


def test_numbers_read_back_exactly(tmp_path):
    path = tmp_path / "x.csv"
    values = [
        np.float32([0.1, 3.4e38, -1e-38]), np.float64([0.1, 1e300, 5e-324]), np.float32([np.nan, np.inf, -np.inf]),
        np.int64([-(2**63), 2**63 - 1, 0]), np.asarray([0.15625, 3, -1], ml_dtypes.bfloat16),
    ]  # fmt: skip
    with jax.enable_x64(True):
        for i, value in enumerate(values):
            sink = sinks.Csv(path, columns=["value.0", "value.1", "value.2"], append=i > 0)
            callout.tap(sink, jnp.asarray(value))
            callout.barrier_wait()
            sink.close()
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["value.0", "value.1", "value.2"]
    for value, row in zip(values, rows, strict=True):
        kind = np.int64 if value.dtype == np.int64 else np.float64
        np.testing.assert_array_equal(np.array(row).astype(kind).astype(value.dtype), value)
    read = np.genfromtxt(path, delimiter=",", skip_header=1)
    np.testing.assert_array_equal(np.float32(read[[0, 2]]), [values[0], values[2]])
    np.testing.assert_array_equal(read[1], values[1])
    table = pd.read_csv(path)
    np.testing.assert_array_equal(table.iloc[0].to_numpy(np.float32), values[0])
    assert table.iloc[2].isna().tolist() == [True, False, False]
    assert table.iloc[2, 1:].tolist() == [np.inf, -np.inf]


def test_several_taps_in_one_file(tmp_path):
    path = tmp_path / "x.csv"
    sink = sinks.Csv(path, columns=["step", "name", "loss", "accuracy"])
    callout.tap(sink, {"loss": 0.5, "extra": jnp.zeros(3)}, name="train")
    callout.tap(sink, {"accuracy": 0.75}, name='eval, "final"')
    callout.barrier_wait()
    table = pd.read_csv(path)
    assert list(table.name) == ["train", 'eval, "final"']
    np.testing.assert_array_equal(table[["loss", "accuracy"]], [[0.5, np.nan], [np.nan, 0.75]])


def test_another_leaf_is_an_error_and_the_file_stays_valid(tmp_path):
    path = tmp_path / "x.csv"
    sink = sinks.Csv(path)
    callout.tap(sink, {"loss": 0.5}, name="a")
    callout.tap(sink, {"other": 0.5}, name="b")
    callout.tap(sink, jnp.zeros(65), name="c", sharding="local")  # the array that arrives may be a shard
    callout.tap(sink, {"loss": 1.5}, name="d")
    with pytest.raises(callout.TapError, match=r"'value' is f32\[65\]: a CSV file takes arrays of at most 64") as error:
        callout.barrier_wait()
    assert error.value.count == 2
    assert "cannot write 'b' to" in str(error.value.exceptions.exceptions[0])
    assert "'other' is none of its columns: name,step,device,time,loss" in str(error.value.exceptions.exceptions[0])
    assert list(pd.read_csv(path).name) == ["a", "d"]


def test_appending_continues_after_the_last_step(tmp_path, caplog):
    path = tmp_path / "x.csv"
    f = jax.jit(lambda x, sink: callout.tap(sink, {"loss": x}, name="train"), static_argnums=1)
    for run in range(3):
        sink = sinks.Csv(path, append=True)
        f(float(run), sink)
        f(float(run), sink)
        callout.barrier_wait()
        sink.close()
        with path.open("a") as file:
            file.write("train,9")  # the incomplete line of a killed process
    with path.open("rb+") as file:
        file.truncate(path.stat().st_size - 7)
    assert list(pd.read_csv(path).step) == [0, 1, 2, 3, 4, 5]
    assert caplog.text.count("ends in a record that was not written whole: its 7 bytes are cut off") == 2


def test_appending_to_other_columns_is_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("epoch,loss\n1,0.5\n")
    with pytest.raises(callout.RegistrationError, match=r"its columns are epoch,loss, expected step,loss"):
        sinks.Csv(path, append=True, columns=["step", "loss"])
    callout.tap(sinks.Csv(path, append=True), {"epoch": 2, "loss": 0.25})
    callout.barrier_wait()
    assert path.read_text() == "epoch,loss\n1,0.5\n2,0.25\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": "loss"}, "columns must be a list of names, got 'loss'"),
        ({"columns": []}, r"columns must be a list of names, got \[\]"),
        ({"columns": ["a", "a"]}, "two columns are called 'a'"),
        ({"columns": ["a", ""]}, "a column has no name"),
    ],
)
def test_columns_are_names(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        sinks.Csv(tmp_path / "x.csv", **arguments)


def test_an_array_of_too_many_elements_is_rejected_when_traced(tmp_path):
    path = tmp_path / "x.csv"
    sink = sinks.Csv(path)
    for target in (sink, sinks.Tee(sink, sinks.Null())):
        f = jax.jit(lambda x, target=target: callout.tap(target, {"loss": x[0], "grad": x}))
        with pytest.raises(ValueError, match=r"'grad' has shape \[5, 13\], .* at most 64 elements"):
            f(jnp.zeros((5, 13)))
    f(jnp.zeros((8, 8)))
    callout.barrier_wait()
    assert len(pd.read_csv(path)) == 1


def test_a_header_that_is_not_utf8_is_rejected(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b"name,step,device,time,\xff\n")
    with pytest.raises(callout.RegistrationError) as refused:
        sinks.Csv(path, append=True, columns=["a"])
    assert str(refused.value) == f"cannot append to '{path}': its columns are name,step,device,time,\ufffd, expected a"
    callout.tap(sinks.Csv(path, append=True), 1.0)
    with pytest.raises(callout.TapError, match="'value' is none of its columns: name,step,device,time,\ufffd"):
        callout.barrier_wait()
