# SPDX-License-Identifier: Apache-2.0
"""Tests exits, forks and hangs of programs whose taps run as on CUDA, on the double of the driver (see gpu_double.py)."""

import os
import sys
from pathlib import Path

import limited
import pytest

_BUILD = Path(__file__).parents[2] / "build" / "gpu"
DRIVER = Path(os.environ.get("CALLOUT_SOFTWARE_GPU", _BUILD / "software_gpu" / "driver" / "libcuda.so.1"))

pytestmark = pytest.mark.software_gpu


@pytest.mark.parametrize("suite", ["test_exit.py", "test_fork_and_threads.py"])
def test_processes_end_as_on_a_cpu(suite):
    done = limited.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", suite],
        cwd=Path(__file__).parent,
        env={**os.environ, "CALLOUT_TEST_ON_GPU_DOUBLE": "1"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


ON_DOUBLE = {"CALLOUT_TEST_ON_GPU_DOUBLE": "1"}


def test_full_rings_release_their_program_at_exit_and_count_all(run):
    done = run(
        """
        callout.config.queue_bytes = 16_000_000
        inside = threading.Event()
        def receive(value):
            inside.set()
            time.sleep(3600)
        # Records of 3 MB: five in the queue, two in the ring, and the program waits with the next.
        f = jax.jit(lambda x: jax.lax.fori_loop(0, 100, lambda i, c: callout.tap(receive, c) + 1, x))
        threading.Thread(target=lambda: f(jnp.zeros(786432)).block_until_ready(), daemon=True).start()
        inside.wait()
        def full():
            (queue,) = callout.stats()["queues"]
            return queue["on_device"] == 2 and queue["pending_bytes"] > 15_000_000 and queue["blocked"]
        while not full():
            time.sleep(0.01)
        callout._base.lifetime._at_exit()
        print("released", flush=True)
        os._exit(0)
        """,
        CALLOUT_EXIT_TIMEOUT_S="1",
        **ON_DOUBLE,
    )
    assert (done.code, done.out) == (0, "released\n"), done.err
    assert "8 tap records were not delivered within exit_timeout_s=1" in done.err


def test_the_hang_report_names_a_program_waiting_for_a_ring(run):
    done = run(
        """
        import logging
        logging.basicConfig()
        callout.config.queue_bytes = 16_000_000
        callout.config.hang_report_s = 0.2
        inside, go_on = threading.Event(), threading.Event()
        def stuck(value):
            inside.set()
            go_on.wait()
        f = jax.jit(lambda x: jax.lax.fori_loop(0, 12, lambda i, c: callout.tap(stuck, c) + 1, x))
        program = threading.Thread(target=lambda: f(jnp.zeros(786432)).block_until_ready())
        program.start()
        while not any(q["blocked"] for q in callout.stats()["queues"]):
            time.sleep(0.01)
        time.sleep(1)
        go_on.set()
        program.join()
        callout.barrier_wait()
        """,
        **ON_DOUBLE,
    )
    assert done.code == 0, done.err
    assert "stuck' has made no progress for" in done.err
    assert "more on their way from the device" in done.err
