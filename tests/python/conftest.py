# SPDX-License-Identifier: Apache-2.0
"""Checks that every test leaves nothing behind: live objects of the core are counted before and after."""

import gc  # noqa: I001 - two come before everybody else

import platforms  # chooses JAX's platform
import gpu_double  # noqa: F401 - it may import callout in its own way: before callout
import bars
import callout
import callout.host_callback as hcb
import ffi_calls
import jax
import numba_packages
import pytest
import tpu_on_cpu
from callout._native.gpu.numba_image import NumbaCuda, NumbaCudaMlir
from callout._primitives.fallback import policy
from live_objects import holders, live_counts, settle

jax.config.update("jax_numpy_dtype_promotion", "strict")


if tpu_on_cpu.IS_USED:
    tpu_on_cpu.install()

if platforms.BY_FALLBACK:
    policy.warn_once("cpu")  # warns before any test records warnings

# Imported objects stay alive: freezing them spares the collector from scanning them after each test.
gc.collect()
gc.freeze()


def pytest_report_header():
    return platforms.report()


def pytest_runtest_setup(item):
    platforms.mark(item)
    tpu_on_cpu.mark(item)
    for marker in item.iter_markers("devices"):
        (needed,) = marker.args
        if len(jax.devices()) < needed:
            pytest.skip(f"needs {needed} devices")


@pytest.fixture(scope="module", autouse=True)
def settled():
    try:
        jax.effects_barrier()
    except Exception:  # noqa: BLE001 - docs/errors.md: on several devices JAX raises a failure from every later barrier
        callout._jax_compat.runtime_token_set().clear()
    settle()  # releases objects of the previous module's fixtures


@pytest.fixture(autouse=True)
def nothing_left_behind(settled):
    before = live_counts()  # the previous test has settled
    yield
    after = settle(before)
    assert after == before, f"live objects before the test: {before}, after: {after}; held by: {holders()}"


@pytest.fixture
def received():
    """Returns a list with a tap function that appends to it."""

    class Received(list):
        def tap(self, value):
            self.append(value)

    return Received()


@pytest.fixture
def seen():
    """Returns a list with a tap function of host_callback that appends the value, as a number or a list."""

    class Seen(list):
        def tap(self, value, transforms, **kwargs):
            self.append(value.tolist())

    return Seen()


@pytest.fixture
def screen():
    """Returns the stream on which progress bars are drawn."""
    return bars.Screen()


@pytest.fixture
def small_queue():
    """Sets the smallest capacity of tap queues, and returns it in bytes."""
    callout.config.queue_bytes = 16_000_000
    yield 16_000_000
    callout.config.queue_bytes = 256_000_000


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Returns a folder for the libraries that a module's tests compile."""
    before = callout.config.cache_dir
    callout.config.cache_dir = str(tmp_path_factory.mktemp("cache"))
    yield callout.config.cache_dir
    callout.config.cache_dir = before


@pytest.fixture(scope="session")
def handlers(tmp_path_factory):
    """Builds the library of foreign functions and registers its targets."""
    if platforms.ON_CUDA:
        pytest.skip("on a CPU only: the library's functions read and write the host's memory")
    return ffi_calls.register(ffi_calls.build(tmp_path_factory.mktemp("ffi")))


@pytest.fixture(params=numba_packages.INSTALLED)
def cuda(request):
    """Returns the `cuda` module of each package that compiles `cuda.jit` kernels."""
    if (reason := numba_packages.missing(request.param)) is not None:
        pytest.skip(reason)
    return numba_packages.cuda_of(request.param)


@pytest.fixture
def without_gpu(monkeypatch):
    """Hides GPUs from Numba, and the double of the driver if it is loaded."""
    for compiler in (NumbaCuda, NumbaCudaMlir):
        monkeypatch.setattr(compiler, "has_device", lambda _: False)


@pytest.fixture
def sm_90(monkeypatch):
    """Makes the compilers target an H100 without a GPU."""
    monkeypatch.setenv("NUMBA_CUDA_DEFAULT_PTX_CC", "9.0")


class Stream:
    """Collects the text of each write."""

    def __init__(self):
        self.writes = []

    def write(self, text):
        self.writes.append(text)

    def take(self):
        """Returns the text that taps have written so far, and empties the stream."""
        hcb.barrier_wait()
        taken, self.writes = self.writes, []
        return "".join(taken)


@pytest.fixture
def stream():
    """Returns a stream to which `id_print` writes."""
    return Stream()


@pytest.fixture
def settings():
    """Returns a function that sets host_callback's settings, and restores them after the test."""
    names = ("host_callback_inline", "host_callback_legacy", "host_callback_outfeed", "log_level", "queue_bytes")
    before = {name: getattr(callout.config, name) for name in names}
    yield callout.config.update
    for name, value in before.items():
        callout.config.update(name, value)


@pytest.fixture
def bind():
    """Registers names for exported programs; the callbacks record (name, value) in order and return the value plus one."""

    class Bind(list):
        def __call__(self, *names, returns=lambda value: value + 1):
            for name in names:
                callout.register(
                    name, lambda value, name=name: (self.append((name, value.tolist())), returns(value))[1]
                )
                bound.append(name)

    bound = []
    yield Bind()
    for name in bound:
        callout.unregister(name)
