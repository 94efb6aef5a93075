# SPDX-License-Identifier: Apache-2.0
"""Python delivery threads deliver at once: each waits in its function until the other is in its own.

In processes of their own: a device keeps the thread that it was given with its first tap.
"""

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


def test_functions_of_two_devices_meet(run):
    done = run(PROGRAM.format(timeout=50), XLA_FLAGS=TWO_DEVICES, CALLOUT_DELIVERY_THREADS="2")
    assert (done.code, done.out, done.err) == (0, "2 devices, 2 threads\n", "")


def test_functions_of_one_thread_come_one_after_the_other(run):
    """What the test above would see of one thread."""
    done = run(PROGRAM.format(timeout=0.1), XLA_FLAGS=TWO_DEVICES, CALLOUT_DELIVERY_THREADS="1")
    assert done.code == 1
    assert "BrokenBarrierError" in done.err


def test_tools_that_trace_and_profile_new_threads_see_functions_of_taps(run):
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
    assert (done.code, done.out, done.err) == (0, "tapped tapped_eagerly\n" * 2, "")
