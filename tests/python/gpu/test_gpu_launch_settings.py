# SPDX-License-Identifier: Apache-2.0
"""Tests the settings of launches of callout.cuda besides blocks and threads: clusters, overlap, priority, tensor maps."""

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout._native.gpu import cuda_function
from callout._native.gpu.cuda_function import Code, CudaSettings
from callout._native.gpu.cuda_signature import parse, signatures
from callout._native.gpu.kernel import Image
from gpu_double import IMAGE, calls, control, gpu_double  # noqa: F401
from platforms import awaited

pytestmark = [pytest.mark.software_gpu, pytest.mark.usefixtures("gpu_double")]

X = jnp.arange(12, dtype=jnp.float32).reshape(3, 4)
WIDE = jax.ShapeDtypeStruct((2**32 + 16,), jnp.uint8)
BOX = jax.ShapeDtypeStruct((2, 4), jnp.float32)


@pytest.fixture(autouse=True)
def image_of_the_double(monkeypatch):
    monkeypatch.setattr(cuda_function, "check_parameters", lambda *_: None)  # the image is no cubin, so it has no sizes


def kernel(name, parameters, **settings):
    code = Code(f"test.{name}", Image(IMAGE.read_bytes(), name), tuple(map(parse, parameters)), "digest")
    return callout.cuda.Function(code, name, CudaSettings(**settings))


def scale(**settings):
    """Makes a call that doubles its argument in place."""
    parameters = ["out float32", "float32 by", "uint32 count"]
    return kernel(
        "scale",
        parameters,
        constants={"by": 2, "count": 12},
        input_output_aliases={0: 0},
        **{"grid": 4, "block": 12, **settings},
    )


def copy_box(tensor_map, **settings):
    """Makes a call that copies the first box of its argument, of two axes."""
    settings = {"out": BOX, "grid": 1, "block": 1, **settings}
    return kernel("copy_box", ["out float32", "bytes map"], tensor_maps={"map": tensor_map}, **settings)


def last_launch():
    """Returns the last kernel launch in the driver's log, which also has host functions that the plugin queues."""
    launches = [line for line in control().log().decode().splitlines() if line.startswith("cuLaunch")]
    return [line for line in launches if not line.startswith("cuLaunchHostFunc")][-1]


def test_clusters_overlap_and_priority_reach_the_driver():
    told = scale(cluster=(2, 1), dependent_launch=True, priority=-1)
    got = awaited(jax.jit(told)(X))
    said = "grid=4,1,1 block=12,1,1 shared=0 cluster=2,1,1 programmatic=1 priority=-1"
    assert last_launch() == f"cuLaunchKernelEx({said})"
    np.testing.assert_array_equal(got, 2 * X)


def test_a_cluster_may_depend_on_shapes():
    awaited(jax.jit(scale(cluster=lambda x, y: x.shape[1]))(X))
    assert "cluster=4,1,1" in last_launch()


def test_a_launch_without_them_is_as_it_was():
    text = jax.jit(scale()).lower(X).as_text()
    for name in ("cluster", "dependent", "priority", "fills_device", "tensor_maps"):
        assert f"{name} =" not in text
    awaited(jax.jit(scale())(X))
    assert last_launch().startswith("cuLaunchKernel(")


def test_a_cooperative_grid_has_the_blocks_that_run_at_once():
    awaited(jax.jit(scale(grid="cooperative", block=1024))(X))
    launch = last_launch()
    assert launch.startswith("cuLaunchCooperativeKernel(grid=")
    blocks = int(launch.split("=")[1].split(",")[0])
    assert blocks > 1
    assert blocks % 2 == 0, "of 1024 threads, two on a multiprocessor"


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"cluster": 3}, ValueError, r"grid\.x must be a multiple of the cluster's 3, got 4"),
        ({"cluster": (1, 2)}, ValueError, r"grid\.y must be a multiple of the cluster's 2, got 1"),
        ({"cluster": 32, "grid": 32}, ValueError, "a cluster has 1 to 16 blocks, got 32"),
        ({"cluster": 0}, ValueError, "a cluster has 1 to 16 blocks, got 0"),
        ({"cluster": 1.5}, TypeError, "cluster must be integers, got 1.5"),
        ({"cluster": 2, "grid": "cooperative"}, ValueError, "grid='cooperative' has no clusters, got cluster=2"),
        ({"priority": 0.5}, TypeError, "priority must be an integer, got 0.5"),
    ],
    ids=str,
)
def test_impossible_launches_are_rejected_when_traced(settings, error, message):
    with pytest.raises(error, match=f"^callout.cuda 'scale': {message}"):
        jax.jit(scale(**settings)).trace(X)


def test_a_tensor_map_is_of_the_operand_of_each_call():
    copy = jax.jit(copy_box({"argument": 0, "box": (2, 4)}))
    before = calls("cuTensorMapEncodeTiled")
    for x in (X, X + 100, X[:, ::-1]):
        np.testing.assert_array_equal(copy(x), x[:2])
    assert calls("cuTensorMapEncodeTiled") - before == 3


def test_a_box_beyond_the_array_is_filled():
    wide = copy_box({"argument": 0, "box": lambda x, y: (4, x.shape[1])}, out=jax.ShapeDtypeStruct((4, 4), jnp.float32))
    np.testing.assert_array_equal(jax.jit(wide)(X), np.vstack([X, np.zeros((1, 4))]))


def test_lanes_have_maps_of_their_own():
    copy = copy_box({"argument": 0, "box": (2, 4)}, vmap_method="sequential_unrolled")
    x = jnp.stack([X, X + 50])
    np.testing.assert_array_equal(jax.jit(jax.vmap(copy))(x), x[:, :2])


@pytest.mark.parametrize(
    ("tensor_map", "x", "message"),
    [
        ({"argument": 1, "box": (2, 4)}, X, "must be of an argument or of a result"),
        ({"box": (2, 4)}, X, "must be of an argument or of a result"),
        ({"argument": 0, "result": 0, "box": (2, 4)}, X, "must be of an argument or of a result"),
        ({"argument": 0, "box": 4}, X, "box must have 2 numbers from 1 to 256, one an axis, got 4"),
        ({"argument": 0, "box": (2, 257)}, X, "box must have 2 numbers from 1 to 256"),
        ({"argument": 0, "box": (2, 3)}, X, r"the box's last axis must be a multiple of 16 bytes, got 12: \(2, 3\)"),
        ({"argument": 0, "box": (2, 4)}, X[:, :3], "rows must be multiples of 16 bytes, got strides of 12"),
        ({"argument": 0, "box": (2, 4)}, X.astype(complex), "the accelerator has no elements of complex64"),
        ({"argument": 0, "box": ()}, X[0, 0], r"the array must have 1 to 5 axes and elements, got shape \(\)"),
        ({"argument": 0, "box": (2, 4), "swizzle": 16}, X, r"swizzle must be one of \[0, 32, 64, 128\], got 16"),
        ({"argument": 0, "box": (2, 16), "swizzle": 32}, X, "with swizzle=32 the box's last axis has at most so many"),
        ({"argument": 0, "box": (2, 4), "l2_promotion": 1}, X, "l2_promotion must be one of"),
        ({"argument": 0, "box": (2, 4), "nan_fill": True}, X.astype(int), "nan_fill is for floats, got int32"),
        ({"argument": 0, "box": (2, 4), "step": (1, 9)}, X, "step must have 2 numbers from 1 to 8"),
        ({"argument": 0, "box": (2, 4), "step": (1, 2)}, X, r"step must be 1 for the last axis.*, got \(1, 2\)"),
        ({"argument": 0, "box": 16}, WIDE, r"an axis has at most 2\^32 elements, got shape \(4294967312,\)"),
    ],
    ids=str,
)
def test_unsupported_tensor_maps_are_rejected_when_traced(tensor_map, x, message):
    with pytest.raises((TypeError, ValueError), match=rf"^callout.cuda 'copy_box': tensor map 'map'.*{message}"):
        jax.jit(copy_box(tensor_map)).trace(x)


def test_settings_of_maps_are_checked_at_once():
    with pytest.raises(TypeError, match=r"there is no parameter 'other' for a tensor map, but \['map'\]"):
        copy_box({"argument": 0, "box": (2, 4)}).options(tensor_maps={"other": {"argument": 0, "box": 4}})
    with pytest.raises(TypeError, match=r"expected a dictionary with 'box', of .*'swizzle'.*; got"):
        copy_box({"argument": 0})


def test_a_map_is_declared_as_in_cuda():
    source = "__global__ void f(float* y, const __grid_constant__ CUtensorMap m) {}"
    assert [str(parameter) for parameter in signatures(source)["f"].instance("f")] == ["out float32 y", "bytes m"]
