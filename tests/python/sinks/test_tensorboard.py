# SPDX-License-Identifier: Apache-2.0
"""Tests callout.sinks.TensorBoard, with files read back by TensorBoard."""

import io
import time
import warnings

import callout
import jax
import jax.numpy as jnp
import manual
import numpy as np
import pytest
from callout import sinks
from PIL import Image

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # TensorBoard's dependencies warn when they are imported
    from tensorboard.backend.event_processing import data_provider, event_accumulator, event_file_loader
    from tensorboard.backend.event_processing import plugin_event_accumulator as plugin_accumulator
    from tensorboard.backend.event_processing import plugin_event_multiplexer as multiplexer
    from tensorboard.plugins.histogram import summary_v2 as histogram_summary
    from tensorboard.util import tensor_util


def events(folder):
    (path,) = folder.iterdir()
    assert path.name.startswith("events.out.tfevents.")
    return list(event_file_loader.EventFileLoader(str(path)).Load())


def tensors(folder):
    """Returns {tag: [(step, array), ...]} of the scalars and tensors that TensorBoard shows."""
    runs = plugin_accumulator.EventAccumulator(str(folder), size_guidance={plugin_accumulator.TENSORS: 0})
    runs.Reload()
    return {
        tag: [(event.step, tensor_util.make_ndarray(event.tensor_proto)) for event in runs.Tensors(tag)]
        for tag in runs.Tags()["tensors"]
    }


def plugin(folder, tag):
    accumulator = event_accumulator.EventAccumulator(str(folder))
    accumulator.Reload()
    return accumulator.SummaryMetadata(tag).plugin_data.plugin_name


def test_scalars_of_a_loop(tmp_path):
    sink = sinks.TensorBoard(tmp_path)
    before = time.time()

    @jax.jit
    def f(x):
        def step(i, x):
            callout.tap(sink, {"loss": x, "rate": x / 2}, name="train")
            return x * 0.99

        return jax.lax.fori_loop(0, 1000, step, x)

    f(jnp.float32(1))
    callout.tap(sink, jnp.float32(7), name="done")
    callout.barrier_wait()
    read = tensors(tmp_path)
    assert set(read) == {"train/loss", "train/rate", "done"}
    assert [step for step, _ in read["train/loss"]] == list(range(1000))
    losses = np.array([value for _, value in read["train/loss"]])
    assert losses.dtype == np.float32
    np.testing.assert_allclose(losses[:20], 0.99 ** np.arange(20), rtol=1e-5)
    np.testing.assert_array_equal(np.array([value for _, value in read["train/rate"]]), losses / 2)
    assert read["done"] == [(0, 7)]
    first, *rest = events(tmp_path)
    assert (first.file_version, first.source_metadata.writer) == ("brain.Event:2", "callout")
    assert len(rest) == 1001
    assert before - 1 < rest[0].wall_time <= rest[-1].wall_time < time.time() + 1


def test_the_python_reader_finds_every_scalar(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "runs" / "first"
    sink = sinks.TensorBoard(folder)

    @jax.jit
    def f():
        jax.lax.fori_loop(0, 500, lambda i, x: callout.tap(sink, {"loss": x}, step=i, name="train")["loss"] + 0.5, 0.0)

    f()
    callout.barrier_wait()
    (recipe,) = [block for block in manual.blocks("sinks") if "EventAccumulator(" in block]
    monkeypatch.chdir(tmp_path)
    read = {}
    exec(recipe, read)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"{i} {i / 2}" for i in range(500)]
    assert read["events"].Tags()["tensors"] == []


def test_one_record_has_scalars_and_tensors_for_the_python_reader(tmp_path):
    callout.tap(sinks.TensorBoard(tmp_path), {"loss": 0.5, "nan": jnp.nan, "w": jnp.arange(9.0)}, step=7, name="t")
    callout.barrier_wait()
    accumulator = event_accumulator.EventAccumulator(str(tmp_path)).Reload()
    tags = accumulator.Tags()
    assert (tags["scalars"], tags["tensors"]) == (["t/loss", "t/nan"], ["t/w"])
    assert [(event.step, event.value) for event in accumulator.Scalars("t/loss")] == [(7, 0.5)]
    assert np.isnan(accumulator.Scalars("t/nan")[0].value)
    assert accumulator.Tensors("t/w")[0].step == 7


def test_the_data_provider_that_tensorboard_shows_things_with(tmp_path):
    sink = sinks.TensorBoard(tmp_path / "run", kinds={"img": "image", "note": "text"})
    value = {"loss": 0.5, "w": jnp.arange(9.0), "img": jnp.zeros((2, 3)), "note": jnp.asarray(list(b"hi"), jnp.uint8)}
    for _ in range(3):
        callout.tap(sink, value, name="t")
    callout.barrier_wait()
    runs = multiplexer.EventMultiplexer()
    runs.AddRunsFromDirectory(str(tmp_path))
    runs.Reload()
    provider = data_provider.MultiplexerDataProvider(runs, str(tmp_path))

    def read(kind, name):
        found = getattr(provider, f"read_{kind}")(
            provider_context(), experiment_id="", plugin_name=name, downsample=1000
        )
        return {tag: [datum.step for datum in series] for tag, series in found["run"].items()}

    def provider_context():
        from tensorboard import context

        return context.RequestContext()

    assert read("scalars", "scalars") == {"t/loss": [0, 1, 2]}
    assert read("tensors", "histograms") == {"t/w": [0, 1, 2]}
    assert read("blob_sequences", "images") == {"t/img": [0, 1, 2]}
    assert read("tensors", "text") == {"t/note": [0, 1, 2]}


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(0).normal(size=(10, 1000)).astype(np.float32),
        np.float32([1, 2, 3, 4.5]),
        np.full(7, -2.5, np.float32),
        np.arange(-100, 100, dtype=np.int8),
        np.asarray([0.5, 1.5, 1.5], jnp.bfloat16),
        np.zeros((0, 3), np.float32),
        np.array([True, False, True]),
    ],
)
def test_histograms_are_tensorboards_own(tmp_path, values):
    callout.tap(sinks.TensorBoard(tmp_path), jnp.asarray(values), name="w")
    callout.barrier_wait()
    ((_, got),) = tensors(tmp_path)["w"]
    (expected,) = histogram_summary.histogram_pb("w", values.astype(float)).value
    np.testing.assert_allclose(got, tensor_util.make_ndarray(expected.tensor), rtol=1e-6, atol=1e-9)
    assert plugin(tmp_path, "w") == "histograms"


def test_a_histogram_skips_nonfinite_values(tmp_path):
    sink = sinks.TensorBoard(tmp_path)
    callout.tap(sink, jnp.asarray([np.nan, 1, 2, np.inf, -np.inf, 2]), name="some")
    callout.tap(sink, jnp.asarray([np.nan, np.inf]), name="none")
    callout.barrier_wait()
    read = tensors(tmp_path)
    ((_, some),), ((_, none),) = read["some"], read["none"]
    assert (some[0, 0], some[-1, 1], some[:, 2].sum()) == (1, 2, 3)
    np.testing.assert_array_equal(none, np.zeros((30, 3)))


@pytest.mark.parametrize("channels", [None, 1, 3, 4])
def test_images_are_png(tmp_path, channels):
    shape = (50, 700) if channels is None else (50, 700, channels)
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    sink = sinks.TensorBoard(tmp_path, kinds={"image": "image"})
    callout.tap(sink, {"image": jnp.asarray(pixels)}, name="t")
    callout.barrier_wait()
    ((_, (width, height, png)),) = tensors(tmp_path)["t/image"]
    assert (width, height) == (b"700", b"50")
    with Image.open(io.BytesIO(png)) as image:
        image.verify()
    with Image.open(io.BytesIO(png)) as image:
        assert image.mode == {None: "L", 1: "L", 3: "RGB", 4: "RGBA"}[channels]
        np.testing.assert_array_equal(np.asarray(image).reshape(shape), pixels)
    assert plugin(tmp_path, "t/image") == "images"


def test_several_images_of_floats(tmp_path):
    values = np.float32([[[0.0, 0.5], [1.0, 2.0]], [[-1.0, np.nan], [0.25, 0.999]]])[..., None]
    sink = sinks.TensorBoard(tmp_path, kinds={"*": "image"})
    callout.tap(sink, jnp.asarray(values), name="batch")
    callout.barrier_wait()
    ((_, (_, _, *pngs)),) = tensors(tmp_path)["batch"]
    read = [np.asarray(Image.open(io.BytesIO(png))).tolist() for png in pngs]
    assert read == [[[0, 128], [255, 255]], [[0, 0], [64, 255]]]


def test_texts(tmp_path):
    sink = sinks.TensorBoard(tmp_path, kinds={"t*/note": "text"})

    def send(*texts):
        rows = np.zeros((len(texts), 20), np.uint8)
        for row, text in zip(rows, texts, strict=True):
            row[: len(text)] = list(text)
        callout.tap(sink, {"note": jnp.asarray(rows if len(texts) > 1 else rows[0])}, name="t")

    send("größer".encode())
    send(b"a", b"b")
    send(b"bad \xff\xed\xa0\x80.")
    callout.barrier_wait()
    read = [value.tolist() for _, value in tensors(tmp_path)["t/note"]]
    assert read == ["größer".encode(), [b"a", b"b"], "bad \ufffd\ufffd\ufffd\ufffd.".encode()]
    assert plugin(tmp_path, "t/note") == "text"


def test_scalars_are_floats_as_tensorboard_has_them(tmp_path):
    with jax.enable_x64(True):
        values = [np.float64(0.1), np.int32(2**24 + 1), np.int64(2**40), np.bool_(True), np.float16(0.1)]
        sink = sinks.TensorBoard(tmp_path, kinds={"one": "scalar"})
        for i, value in enumerate(values):
            callout.tap(sink, jnp.asarray(value), name=f"v{i}")
        callout.tap(sink, jnp.asarray([[4.0]]), name="one")
        callout.barrier_wait()
    read = tensors(tmp_path)
    for i, value in enumerate(values):
        ((_, got),) = read[f"v{i}"]
        assert got.dtype == np.float32
        assert got == np.float32(value)
    assert read["one"] == [(0, 4)]


def test_the_leaf_step_is_the_step(tmp_path):
    sink = sinks.TensorBoard(tmp_path)
    for step in (10, 20, 1000000):
        callout.tap(sink, {"step": step, "loss": 0.5}, name="t")
    callout.barrier_wait()
    read = tensors(tmp_path)
    assert set(read) == {"t/loss"}
    assert [step for step, _ in read["t/loss"]] == [10, 20, 1000000]


SHOWN_AS = {"i": "image", "s": "scalar", "n": "text"}
NOT_SHOWN = {"i": jnp.zeros((2, 3, 2)), "s": jnp.zeros(2), "n": jnp.zeros(3), "z": jnp.complex64(1)}


def test_values_that_cannot_be_shown_are_errors_with_their_name(tmp_path):
    # A name, whose binding is unknown until the record arrives.
    callout.register("shown", sinks.TensorBoard(tmp_path, kinds=SHOWN_AS))
    for leaf, value in (NOT_SHOWN | {"i ": jnp.zeros(3)}).items():
        callout.tap("shown", {leaf: value}, name="t")
    with pytest.raises(callout.TapError) as error:
        callout.barrier_wait()
    callout.unregister("shown")
    texts = "\n".join(str(one) for one in error.value.exceptions.exceptions)
    assert error.value.count == 4
    for part in [
        f"cannot write 't/i' to '{tmp_path}/events", "or several as [n,...], got f32[2,3,2]",
        "'t/s' to", "expected a scalar, got f32[2]", "expected text as UTF-8 in uint8[bytes]", "got f32[3]",
        "expected real numbers, got c64[]",
    ]:  # fmt: skip
        assert part in texts
    assert set(tensors(tmp_path)) == {"t/i "}


@pytest.mark.parametrize(
    ("leaf", "message"),
    [
        ("i", r"'t/i' as image: expected an image of .*, or several as \[n,...\], got float32\[2, 3, 2\]"),
        ("s", r"'t/s' as scalar: expected a scalar, got float32\[2\]"),
        ("n", r"'t/n' as text: expected text as UTF-8 in .*, got float32\[3\]"),
        ("z", r"'t/z' as scalar: expected real numbers, got complex64\[\]"),
    ],
)
def test_wrong_shapes_or_dtypes_are_rejected_when_traced(tmp_path, leaf, message):
    sink = sinks.TensorBoard(tmp_path, kinds=SHOWN_AS)
    for target in (sink, sinks.Tee(sink, sinks.Null())):

        def send(x, target=target):
            return callout.tap(target, {leaf: x}, name="t")

        for f in (send, jax.jit(send), callout.threaded(send), jax.jit(callout.threaded(send))):
            with pytest.raises(ValueError, match=r"^callout\.sinks\.TensorBoard: cannot write " + message):
                f(NOT_SHOWN[leaf])
    callout.barrier_wait()
    assert tensors(tmp_path) == {}


def test_the_arriving_shape_decides_under_vmap(tmp_path):
    sink = sinks.TensorBoard(tmp_path, kinds={"*/row": "image", "[l]etters": "text"})

    def send(x):
        return callout.tap(sink, {"row": x}, name="t")["row"]

    def in_branch(x):
        return jax.lax.cond(x[0] > 0, send, lambda x: x, x)

    rows, squares = jnp.ones((3, 2)), jnp.ones((3, 2, 2))
    for f in (jax.vmap(send), jax.jit(jax.vmap(send)), jax.vmap(jax.jit(send))):
        f(rows)  # the rows are an image together
    for f in (jax.vmap(send), jax.jit(jax.vmap(send)), jax.vmap(jax.jit(send))):
        with pytest.raises(ValueError, match=r"got float32\[3, 2, 2\]"):
            f(squares)
    with pytest.raises(ValueError, match=r"got float32\[2\]"):
        jax.jit(jax.vmap(in_branch))(rows)  # each lane separately
    with pytest.raises(ValueError, match=r"got float32\[2\]"):
        jax.jit(send)(rows[0])
    callout.tap(sink, {"letters": jnp.zeros(3)}, name="t")  # a pattern that only the core reads
    with pytest.raises(callout.TapError, match="expected text as UTF-8"):
        callout.barrier_wait()


def test_each_sink_has_a_file_of_its_own(tmp_path):
    folder = tmp_path / "a" / "b"
    several = [sinks.TensorBoard(folder) for _ in range(3)]
    for i, sink in enumerate(several):
        callout.tap(sink, float(i), name=f"tag {i}")
    callout.barrier_wait()
    assert len(list(folder.iterdir())) == 3
    assert set(tensors(folder)) == {"tag 0", "tag 1", "tag 2"}


def test_invalid_kinds_and_folders_are_rejected(tmp_path):
    with pytest.raises(ValueError, match=r"\['scalar', .* as values, got 'w\*': 'bars'"):
        sinks.TensorBoard(tmp_path, kinds={"w*": "bars"})
    (tmp_path / "file").touch()
    with pytest.raises(callout.RegistrationError, match=r"cannot make the folder '.*/file/x' for TensorBoard"):
        sinks.TensorBoard(tmp_path / "file" / "x")
