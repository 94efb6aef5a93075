# SPDX-License-Identifier: Apache-2.0
"""Tests settings, statistics, logging, doctor and types."""

import copy
import logging
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from callout import _ext
from callout._base import config
from doctor_process import run_doctor

F32 = jax.ShapeDtypeStruct((), jnp.float32)


@pytest.fixture(autouse=True)
def settings_as_before():
    before = {name: getattr(callout.config, name) for name in config.SETTINGS}
    yield
    for name, value in before.items():
        callout.config.update(name, value)


def test_every_setting_has_a_default_and_is_documented():
    table = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()
    for name in config.SETTINGS:
        assert f"`{name}`" in table
        assert f"`CALLOUT_{name.upper()}`" in table
        assert name in dir(callout.config)
    for alias in config.ALIASES:
        assert alias in table


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("queue_bytes", 100, "expected at least 16000000"),
        ("queue_bytes", "many", "could not convert"),
        ("queue_bytes", float("inf"), "cannot convert float infinity to integer"),
        ("queue_bytes", 10**30, "less than 2"),
        ("exit_timeout_s", -1, "expected 0 or more seconds"),
        ("delivery_threads", 0, "expected 1 to 64"),
        ("log_level", "loud", "expected debug, info, warning or error"),
        ("chain_errors", "perhaps", "expected true or false"),
    ],
)
def test_bad_values_are_named_and_change_nothing(name, value, message):
    before = getattr(callout.config, name)
    with pytest.raises(ValueError, match=rf"callout.config.{name}: .*{message}.*, got {value!r}"):
        setattr(callout.config, name, value)
    assert getattr(callout.config, name) == before


def test_unknown_settings_are_named():
    with pytest.raises(AttributeError, match="no setting 'speed'; there are: queue_bytes"):
        callout.config.speed = 3
    with pytest.raises(AttributeError, match="no setting 'speed'"):
        _ = callout.config.speed


def test_settings_cannot_be_deleted():
    for name in ("args", "nonsense"):
        with pytest.raises(AttributeError, match=rf"^callout\.config: a setting cannot be deleted, got {name!r}$"):
            delattr(callout.config, name)
    assert callout.config.args == "numpy"


def test_copies_and_pickles_of_settings_are_the_process_settings():
    assert copy.copy(callout.config) is copy.deepcopy([callout.config])[0] is callout.config
    assert pickle.loads(pickle.dumps(callout.config)) is callout.config
    assert b"queue_bytes" not in pickle.dumps(callout.config)


def test_old_flag_names():
    callout.config.update("jax_host_callback_max_queue_byte_size", 20_000_000)
    assert callout.config.queue_bytes == 20_000_000
    callout.tap(callout.sinks.Null(), 1.0)
    assert all(queue["capacity_bytes"] == 20_000_000 for queue in callout.stats()["queues"])


def test_environment_variables():
    program = "import callout; print(callout.config.queue_bytes, callout.config.log_level, callout.config.cache_dir)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={
            "PATH": "/usr/bin",
            "JAX_HOST_CALLBACK_MAX_QUEUE_BYTE_SIZE": "3e7",
            "CALLOUT_LOG_LEVEL": "DEBUG",
            "CALLOUT_CACHE_DIR": "/tmp/c",
        },
    )
    assert done.stdout.split() == ["30000000", "debug", "/tmp/c"]


def test_logger_level_is_the_cores(caplog):
    def fail():
        def receive(value):
            raise KeyError("x")

        callout.tap(receive, 1.0)
        with pytest.raises(callout.TapError):
            callout.barrier_wait()

    logger = logging.getLogger("callout")
    logger.setLevel(logging.CRITICAL)
    fail()
    assert caplog.records == []
    logger.setLevel(logging.ERROR)
    _ext.reset_statistics()
    fail()
    assert len(caplog.records) == 1
    assert caplog.records[0].name == "callout"


def test_stats_count_calls_bytes_time_and_errors():
    _ext.reset_statistics()

    def slow(x):
        threading.Event().wait(0.02)
        return x

    def bad(x):
        raise KeyError("x")

    f = jax.jit(
        lambda x: callout.pure_callback(callout.options(slow, name="slow"), jax.ShapeDtypeStruct((10,), "float32"), x)
    )
    g = jax.jit(lambda x: callout.pure_callback(callout.options(bad, name="bad"), F32, x))
    for _ in range(3):
        platforms.awaited(f(jnp.zeros(10)))
    with pytest.raises(KeyError), callout.reraise():
        platforms.awaited(g(1.0))
    callout.pure_callback(callout.options(slow, name="slow"), jax.ShapeDtypeStruct((10,), "float32"), jnp.zeros(10))
    stats = callout.stats()["callbacks"]
    assert stats["slow"] == {
        "calls": 4,
        "bytes": 4 * 80,
        "host_seconds": stats["slow"]["host_seconds"],
        "drops": 0,
        "skips": 0,
        "errors": 0,
    }
    assert stats["slow"]["host_seconds"] >= 4 * 0.019
    assert stats["bad"]["errors"] == 1


def test_queue_high_water_mark():
    release = threading.Event()
    callout.tap(lambda _: release.wait(30), 1.0)
    for _ in range(10):
        callout.tap(lambda _: None, np.zeros(100_000, np.float32))
    queue = next(q for q in callout.stats()["queues"] if q["worker"] == "python" and q["device"] == 0)
    assert queue["pending_bytes"] >= 4_000_000
    assert queue["high_water_bytes"] >= 4_000_000
    release.set()
    callout.barrier_wait()


@pytest.mark.parametrize("x64", ["0", "1"])
def test_doctor_reports_working_features(x64):
    done = run_doctor(JAX_ENABLE_X64=x64)
    assert done.returncode == 0, done.stdout + done.stderr
    for text in ("callout", "jax", "jaxlib", "numpy", "Python", "cpu", "pure_callback", "tap", "ok"):
        assert text in done.stdout
    assert "FAILED" not in done.stdout


def test_doctor_reports_where_no_backend_starts():
    done = run_doctor(JAX_PLATFORMS="nowhere")
    assert done.returncode == 1
    rows = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert "FAILED: RuntimeError: Unable to initialize backend 'nowhere'" in rows["backends"]
    assert "FAILED" in rows["tap"]
    assert rows["jax"].split()[1] == jax.__version__


def test_the_stubs_match_the_extension(tmp_path):
    generated = subprocess.run(
        [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "callout._ext", "-o", str(tmp_path / "_ext.pyi")],
        capture_output=True,
        text=True,
        check=False,
    )
    if "No module named 'nanobind'" in generated.stderr:
        pytest.skip("nanobind is not installed here; the stubs are compared where the package is built")
    committed = Path(callout.__file__).with_name("_ext.pyi").read_text()
    text = (tmp_path / "_ext.pyi").read_text()
    assert committed.split("\n", 2)[2] == text, "regenerate it: the command is in its second line"


def test_a_jax_without_a_handler_to_lend_is_noticed(monkeypatch):
    from callout._jax_compat import clients

    monkeypatch.setattr(clients, "MISSING", [])
    monkeypatch.setattr(clients, "xla_client", None)
    monkeypatch.setattr(clients, "JAX_VERSION", (0, 12, 0))
    assert clients.host_callback_handler() is None
    assert clients.MISSING == ["jaxlib's xla_buffer_python_cpu_callback"]
    monkeypatch.setattr(clients, "JAX_VERSION", (0, 11, 2))
    assert clients.host_callback_handler() is None
    assert len(clients.MISSING) == 1


def test_the_package_is_marked_as_typed():
    assert Path(callout.__file__).with_name("py.typed").exists()


def test_headers_and_cmake_package_are_there():
    assert (Path(callout.include_dir()) / "callout" / "call.h").exists()
    assert (Path(callout.cmake_dir()) / "callout-config.cmake").exists()


def test_public_names():
    for name in [
        "pure_callback",
        "tap",
        "barrier_wait",
        "register",
        "options",
        "reraise",
        "last_error",
        "jit",
        "stats",
        "profile",
        "report",
        "export",
        "exported_names",
        "config",
        "CallbackError",
        "__version__",
    ]:
        assert hasattr(callout, name)
