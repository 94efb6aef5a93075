# SPDX-License-Identifier: Apache-2.0
"""Runs the small examples, which check themselves. `make demo` runs the large one."""

import importlib
import shutil
import sys
import threading
from pathlib import Path

import callout
import jax
import jax.numpy as jnp
import limited
import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


def run(*command, timeout=120):
    done = limited.run([*map(str, command)], capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "name", ["scipy_in_jit.py", "errors.py", "native_callback/main.py", "profile_training.py", "serve_metrics.py"]
)
def test_example(name):
    assert run(sys.executable, EXAMPLES / name)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "draws"), [("walk", 500), ("blackjax", 100), ("numpyro", 100)])
def test_draws_of_chains_on_disk(kind, draws, tmp_path):
    pytest.importorskip("zarr")
    if kind != "walk":
        pytest.importorskip(kind)
    out = run(sys.executable, EXAMPLES / "chains_on_disk.py", tmp_path, draws, kind)
    assert f"{draws} draws of 4 chains by {kind}" in out
    assert "with io_callback" in out


@pytest.mark.slow
def test_checkpoints_inside_of_a_scan(tmp_path):
    pytest.importorskip("orbax.checkpoint")

    def train(folder, steps):
        done, kept = run(sys.executable, EXAMPLES / "checkpoints_in_scan.py", tmp_path / folder, steps).splitlines()
        return *done.split(": "), kept.removesuffix(f" in {tmp_path / folder}")

    began, _, kept = train("stopped", 110)
    assert (began, kept) == ("from step 0 to 110", "checkpoints of the steps [50, 75, 100]")
    began, went_on, kept = train("stopped", 200)
    assert (began, kept) == ("from step 100 to 200", "checkpoints of the steps [150, 175, 200]")
    assert train("whole", 200) == ("from step 0 to 200", went_on, kept)


def test_a_scan_does_not_wait_for_its_checkpoints(monkeypatch):
    pytest.importorskip("orbax.checkpoint")
    monkeypatch.syspath_prepend(EXAMPLES)
    checkpoints = importlib.import_module("checkpoints_in_scan")
    may_save, saved = threading.Event(), []

    class Manager:
        def save(self, step, args):
            assert may_save.wait(60)
            saved.append((step, float(args.item["velocity"][0])))

    train = checkpoints.trainer(Manager())
    end = jax.block_until_ready(train(checkpoints.first(), jnp.arange(100)))
    assert saved == []
    may_save.set()
    callout.barrier_wait()
    assert [step for step, _ in saved] == [25, 50, 75, 100]
    assert saved[-1][1] == float(end["velocity"][0])


@pytest.mark.parametrize(
    "name", ["eigenvalues", pytest.param("other_device", marks=pytest.mark.devices(2)), "derivatives"]
)
def test_recipes_of_host_callback(name):
    assert run(sys.executable, EXAMPLES / "host_callback" / f"{name}.py")


def test_derivatives_of_another_library():
    pytest.importorskip("autograd")
    assert run(sys.executable, EXAMPLES / "host_callback/outside_autodiff.py")


@pytest.mark.slow
@pytest.mark.cpu_only("JAX solves with trsm of cuBLAS, which the software GPU has not")
def test_kernels_agree_with_jax():
    pytest.importorskip("numba")
    assert "all agree" in run(sys.executable, EXAMPLES / "sparse_triangular/main.py")


def test_a_solver_of_a_c_library():
    if not Path("/usr/include/gsl/gsl_odeiv2.h").exists():
        pytest.skip("the GNU Scientific Library (libgsl-dev) is not installed")
    out = run(sys.executable, EXAMPLES / "gsl_ode.py")
    assert "expected four parameters" in out


@pytest.mark.slow
def test_a_library_that_cmake_built(tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("CMake is not installed")
    source = EXAMPLES / "native_callback"
    run("cmake", "-S", source, "-B", tmp_path, f"-Dcallout_DIR={callout.cmake_dir()}")
    run("cmake", "--build", tmp_path)
    library = tmp_path / "libhistogram.so"
    assert "1,000,000 values went through the tap" in run(sys.executable, source / "main.py", library)
