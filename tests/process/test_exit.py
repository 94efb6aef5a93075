# SPDX-License-Identifier: Apache-2.0
"""Tests that exit delivers pending records within its time limit and never crashes."""

import json

import pytest


def test_exit_delivers_a_full_queue(run):
    done = run("""
        got = []
        def receive(value):
            got.append(float(value))
            if len(got) == 5000:
                print("all", flush=True)
        f = jax.jit(lambda x: jax.lax.fori_loop(0, 5000, lambda i, c: callout.tap(receive, c) + 1, x))
        f(0.0)
    """)
    assert (done.code, done.out, done.err) == (0, "all\n", "")


def test_exit_waits_for_programs_in_flight(run):
    done = run("""
        def f(m):
            y = jax.lax.fori_loop(0, 200, lambda i, c: jnp.tanh(c @ c), m).sum()
            return callout.tap(lambda v: print("tapped", flush=True), y)
        f = jax.jit(f)
        f(jnp.ones((200, 200)))
    """)
    assert (done.code, done.out, done.err) == (0, "tapped\n", "")


def test_exit_writes_sinks(run, tmp_path):
    path = tmp_path / "log.jsonl"
    done = run(f"""
        sink = callout.sinks.JsonLines({str(path)!r})
        f = jax.jit(lambda x: jax.lax.fori_loop(0, 1000, lambda i, c: callout.tap(sink, c) + 1, x))
        f(0.0)
    """)
    assert (done.code, done.err) == (0, "")
    assert path.read_text().count("\n") == 1000


def test_records_not_delivered_in_time_are_counted_and_reported(run):
    done = run(
        """
        inside = threading.Event()
        def receive(value):
            inside.set()
            time.sleep(3600)
        for i in range(10):
            callout.tap(receive, float(i))
        inside.wait()
        print("end", flush=True)
        """,
        CALLOUT_EXIT_TIMEOUT_S="0.5",
    )
    assert (done.code, done.out) == (0, "end\n")
    assert "10 tap records were not delivered within exit_timeout_s=0.5" in done.err
    assert "1 thread(s) still inside Python callbacks" in done.err


def test_ctrl_c_ends_the_exit_wait_and_losses_are_counted(run):
    done = run(
        """
        import signal
        inside = threading.Event()
        def receive(value):
            inside.set()
            if float(value) == 0:
                while signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                    time.sleep(0.001)  # until exit waits
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(3600)
        for i in range(10):
            callout.tap(receive, float(i))
        inside.wait()
        """,
        CALLOUT_EXIT_TIMEOUT_S="3000",
    )
    assert (done.code, done.out) == (0, "")
    assert "10 tap records were not delivered before Ctrl-C ended the wait at exit" in done.err
    assert "Traceback" not in done.err


SIGTERM = """
    def end(*_):
        sys.exit(3)
    signal.signal(signal.SIGTERM, end)
    def later():
        while threading.main_thread().is_alive():  # until the end has begun
            time.sleep(0.05)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGTERM)
    threading.Thread(target=later, daemon=True).start()
"""


def test_errors_of_signal_handlers_only_end_the_exit_wait(run, tmp_path):
    path = tmp_path / "values.jsonl"
    done = run(
        SIGTERM
        + f"""
    path = {str(path)!r}
    written = callout.sinks.JsonLines(path, fields=False)
    for i in range(300):
        callout.tap(written, np.full(100, i, np.float32))
        callout.tap(lambda v: time.sleep(0.02), np.float32(i))
    """
    )
    assert done.code == 0, done.err  # the signal interrupted Python code only
    assert "Traceback" not in done.err
    assert "tap records were not delivered before SystemExit of a signal handler ended the wait" in done.err
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 300


def test_ctrl_c_at_exit_during_an_asynchronous_program(run):
    done = run("""
        add = callout.options(lambda v: v + np.float32(1), numpy_only=True)
        def busy(v):
            for _ in range(300):
                pass
        def body(i, c):
            return callout.tap(busy, callout.pure_callback(add, F32, c))
        jax.jit(lambda x: jax.lax.fori_loop(0, 2000000, body, x))(0.0)
        threading.Thread(target=lambda: (time.sleep(0.5), os.kill(os.getpid(), signal.SIGINT)), daemon=True).start()
    """)
    assert done.code == 0, done.err  # a thread inside jaxlib during finalization would end the process with 134


IN_A_LOOP = {
    "waiting for room": "callout.tap(stuck, np.zeros(1000000, np.float32))",
    "tapping": "callout.tap(callout.sinks.Null(), np.float32(1))",
    "barrier": "callout.barrier_wait()",
    "barrier with a time limit": "callout.barrier_wait(timeout=1)",
    "statistics": "(callout.stats(), setattr(callout.config, 'queue_bytes', 16_000_000))",
}


@pytest.mark.parametrize("use", IN_A_LOOP)
def test_daemon_threads_end_with_the_process(run, use):
    # Taps start JAX's backend, and jaxlib ends the process if a thread starts one during finalization.
    first = "jax.local_devices()" if "callout.tap" in IN_A_LOOP[use] else ""
    done = run(f"""
        {first}
        callout.config.exit_timeout_s = 0.5
        callout.config.queue_bytes = 16_000_000
        def stuck(value):
            time.sleep(3600)
        def loop():
            while True:
                try:
                    {IN_A_LOOP[use]}
                except callout.BarrierTimeout:
                    pass
        for _ in range(2):
            threading.Thread(target=loop, daemon=True).start()
        time.sleep(0.3)
    """)
    assert done.code == 0, done.err


def test_a_barrier_after_the_end_returns(run):
    done = run("""
        import atexit
        from callout._base import lifetime
        def last():
            callout.barrier_wait()
            callout.barrier_wait(timeout=1)
            print("returned", flush=True)
        atexit.unregister(lifetime._at_exit)
        atexit.register(last)
        atexit.register(lifetime._at_exit)
        jax.jit(lambda x: callout.tap(lambda v: None, x))(1.0)
    """)
    assert (done.code, done.out) == (0, "returned\n"), done.err


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_workers_deliver_at_their_end(run, method):
    done = run(f"""
        import multiprocessing
        def work(queue):
            import callout
            callout.tap(lambda v: (time.sleep(0.2), queue.put(float(v))), 1.5)
        if __name__ == "__main__":
            context = multiprocessing.get_context({method!r})
            context.set_forkserver_preload(["callout"]) if {method!r} == "forkserver" else None
            queue = context.Queue()
            worker = context.Process(target=work, args=(queue,))
            worker.start()
            print(queue.get(timeout=50), flush=True)
            worker.join()
    """)
    assert (done.code, done.out) == (0, "1.5\n"), done.err


def test_a_producer_that_waits_for_room_is_released(run):
    done = run(
        """
        callout.config.queue_bytes = 16_000_000
        inside = threading.Event()
        def receive(value):
            inside.set()
            time.sleep(3600)
        f = jax.jit(lambda x: jax.lax.fori_loop(0, 100, lambda i, c: callout.tap(receive, c) + 1, x))
        threading.Thread(target=lambda: f(jnp.zeros(262144)).block_until_ready()).start()
        inside.wait()
        while not any(q["blocked"] for q in callout.stats()["queues"]):
            time.sleep(0.01)
        # Exit joins the thread first, and the thread waits for room: the drain has to come before.
        threading._register_atexit(lambda: None)
        import atexit
        callout._base.lifetime._at_exit()
        print("released", flush=True)
        """,
        CALLOUT_EXIT_TIMEOUT_S="0.5",
    )
    assert (done.code, done.out) == (0, "released\n"), done.err


def test_exception_at_exit_keeps_its_code_and_delivers(run):
    done = run("""
        f = jax.jit(lambda x: callout.tap(lambda v: print("tapped", flush=True), x))
        f(1.0)
        raise SystemExit(7)
    """)
    assert (done.code, done.out, done.err) == (7, "tapped\n", "")


def test_failing_taps_without_a_barrier_are_reported_at_exit(run):
    done = run("""
        def receive(value):
            raise KeyError("lost?")
        callout.tap(receive, 1.0)
        callout.tap(receive, 2.0)
    """)
    assert done.code == 0
    assert "2 taps failed and no barrier_wait() came after" in done.err
    assert "KeyError: 'lost?'" in done.err


def test_callbacks_after_the_drain_fail_with_a_reason(run):
    done = run("""
        import atexit
        def late():
            try:
                f(1.0).block_until_ready()
            except Exception as error:
                print("the Python interpreter is going away" in str(error), flush=True)
            print(float(jax.jit(lambda x: callout.tap(print, x) + 1)(1.0)), flush=True)
        f = jax.jit(lambda x: callout.pure_callback(lambda v: v, F32, x))
        f(1.0)
        # Runs after callout's own hook, which was registered later.
        from callout._base import lifetime as runtime
        atexit.unregister(runtime._at_exit)
        atexit.register(late)
        atexit.register(runtime._at_exit)
    """)
    assert (done.code, done.out) == (0, "True\n2.0\n"), done.err


def test_unused_import_ends_quietly(run):
    done = run("pass")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_import_starts_no_backend(run):
    done = run("print('imported')", JAX_PLATFORMS="nonexistent")  # starting a backend would fail
    assert (done.code, done.out) == (0, "imported\n"), done.err


def test_exit_under_a_mesh_delivers(run):
    done = run(
        """
        jax.set_mesh(jax.make_mesh((2,), ("d",)))
        def slow(value):
            time.sleep(0.01)
            print(int(value), flush=True)
        f = jax.jit(lambda x: jax.lax.fori_loop(0, 50, lambda i, v: callout.tap(slow, v) + 1, x))
        f(jnp.float32(0))
        """,
        XLA_FLAGS="--xla_force_host_platform_device_count=2",
    )
    assert (done.code, done.out.split()) == (0, [str(i) for i in range(50)]), done.err


def test_exit_that_cannot_wait_for_programs_warns_and_delivers(run):
    done = run("""
        from callout._base import programs
        def fails(*_):
            raise KeyError("no programs")
        programs._compile = fails
        for i in range(3):
            callout.tap(lambda value: (time.sleep(0.05), print(int(value), flush=True)), i)
    """)
    assert (done.code, done.out.split()) == (0, ["0", "1", "2"]), done.err
    assert "exit: cannot wait for programs" in done.err
    assert "KeyError: 'no programs'" in done.err


def test_exit_waits_for_programs_of_threads_that_ended(run):
    done = run("""
        def f(m):
            y = jax.lax.fori_loop(0, 200, lambda i, c: jnp.tanh(c @ c), m).sum()
            return callout.tap(lambda v: print("tapped", flush=True), y)
        f = jax.jit(f)
        m = jnp.ones((200, 200))
        thread = threading.Thread(target=lambda: f(m))
        thread.start()
        thread.join()
    """)
    assert (done.code, done.out, done.err) == (0, "tapped\n", "")


def test_a_barrier_starts_no_backend(run):
    done = run(
        """
        callout.barrier_wait()
        callout.barrier_wait(timeout=1)
        jax.config.update("jax_num_cpu_devices", 3)  # refused once a backend is there
        print(len(jax.devices()))
        callout.barrier_wait()
    """,
        XLA_FLAGS="",
    )
    assert (done.code, done.out, done.err) == (0, "3\n", "")


def test_exit_after_a_barrier_that_timed_out(run):
    done = run("""
        release, inside = threading.Event(), threading.Event()
        def stuck(value):
            inside.set()
            release.wait(60)
            return value
        call = callout.options(stuck, numpy_only=True)
        def f(m):
            return callout.tap(print, callout.pure_callback(call, F32, (m @ m)[0, 0]))
        f = jax.jit(f)
        f(jnp.ones((64, 64)))
        inside.wait()
        for _ in range(3):
            try:
                callout.barrier_wait(timeout=0.01)
            except callout.BarrierTimeout as error:
                print("late" if "this thread" in str(error) else error, flush=True)
        threading.Timer(0.2, release.set).start()
    """)
    assert (done.code, done.out, done.err) == (0, "late\nlate\nlate\n64.0\n", "")
