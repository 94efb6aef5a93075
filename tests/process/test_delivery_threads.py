# SPDX-License-Identifier: Apache-2.0
"""Tests that Python delivery threads deliver concurrently: each waits in its function until the other is in its own.

Each test has a process of its own, because a device keeps the thread that it was given with its first tap.
"""

import pytest

PROGRAM = """
    import threading

    meeting, threads = threading.Barrier(2, timeout={timeout}), set()

    def receive(value):
        meeting.wait()  # lets go of the GIL, where there is one
        threads.add(threading.get_ident())

    f = jax.jit(lambda x: callout.tap(receive, x))
    for device in jax.devices()[:2]:
        f(jax.device_put(jnp.float32(1), device))
    callout.barrier_wait()
    print(len(jax.devices()), "devices,", len(threads), "threads")
"""
TWO_DEVICES = "--xla_force_host_platform_device_count=2"


def test_functions_of_two_devices_overlap(run):
    done = run(PROGRAM.format(timeout=50), XLA_FLAGS=TWO_DEVICES, CALLOUT_DELIVERY_THREADS="2")
    assert (done.code, done.out, done.err) == (0, "2 devices, 2 threads\n", "")


def test_functions_of_one_thread_run_one_after_the_other(run):
    """Checks that the test above fails with one delivery thread."""
    done = run(PROGRAM.format(timeout=0.1), XLA_FLAGS=TWO_DEVICES, CALLOUT_DELIVERY_THREADS="1")
    assert done.code == 1
    assert "BrokenBarrierError" in done.err


def test_tracers_of_new_threads_see_tap_functions(run):
    done = run("""
        import sys, threading
        seen = {"trace": set(), "profile": set()}
        def trace(frame, event, arg):
            seen["trace"].add(frame.f_code.co_name)
        def profile(frame, event, arg):
            seen["profile"].add(frame.f_code.co_name)
        threading.settrace(trace)
        threading.setprofile(profile)
        def tapped(value):
            pass
        def tapped_eagerly(value):
            pass
        jax.jit(lambda x: callout.tap(tapped, x))(1.0)
        callout.tap(tapped_eagerly, jnp.float32(1))
        callout.barrier_wait()
        for names in seen.values():
            print(*sorted(names & {"tapped", "tapped_eagerly"}))
    """)
    assert (done.code, done.out) == (0, "tapped tapped_eagerly\n" * 2)
    assert "Exception ignored" not in done.err


HOST_CALLBACK = """
    import threading
    from callout import host_callback as hcb

    meeting, threads, order = threading.Barrier(2, timeout={timeout}), set(), {{}}

    def receive(value, transforms, *, device):
        if value % 2 == 0:
            meeting.wait()  # lets go of the GIL, where there is one
        threads.add(threading.get_ident())
        order.setdefault(device.id, []).append(int(value))

    @jax.pmap
    def f(x):
        return jax.lax.fori_loop(0, 4, lambda i, x: hcb.id_tap(receive, i, result=x, tap_with_device=True), x)

    f(jnp.zeros(2)).block_until_ready()
    hcb.barrier_wait()
    print(len(threads), "threads,", callout.config.delivery_threads, "allowed,", *order.values())
"""


def test_taps_of_host_callback_keep_order_on_their_device(run):
    done = run(HOST_CALLBACK.format(timeout=50), XLA_FLAGS=TWO_DEVICES)
    assert (done.code, done.out, done.err) == (0, "2 threads, 64 allowed, [0, 1, 2, 3] [0, 1, 2, 3]\n", "")


@pytest.mark.parametrize("how", ["variable", "setting"])
def test_host_callback_keeps_a_chosen_number_of_threads(run, how):
    chosen = "    callout.config.delivery_threads = 1\n" if how == "setting" else ""
    environment = {"CALLOUT_DELIVERY_THREADS": "1"} if how == "variable" else {}
    done = run(chosen + HOST_CALLBACK.format(timeout=0.1), XLA_FLAGS=TWO_DEVICES, **environment)
    assert done.code == 1
    assert "BrokenBarrierError" in done.err
