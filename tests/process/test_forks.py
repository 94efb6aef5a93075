# SPDX-License-Identifier: Apache-2.0
"""Tests a forked child, while the threads of its parent are busy with callbacks."""

import pytest

PROGRAM = """
    import faulthandler, gc, warnings
    warnings.simplefilter("ignore")
    forks = int(os.environ["FORKS"])
    stop = threading.Event()
    failed = []
    kept = [None] * 4
    counting = callout.sinks.Statistics()
    counting_chunks = callout.sinks.Statistics()
    nothing = callout.sinks.Null()

    def busy(work):
        def loop():
            try:
                i = 0
                while not stop.is_set():
                    work(i)
                    i += 1
            except BaseException as error:
                failed.append(error)
                raise
        thread = threading.Thread(target=loop)
        thread.start()
        return thread

    def keep(value):
        kept[int(value[0]) % 4] = value  # an array over a pooled block

    def tapped(x):
        callout.tap(nothing, x[:8])
        callout.tap(keep, x)
        callout.watch(x, "watched")
        return callout.pure_callback(lambda v: v[:1], jax.ShapeDtypeStruct((1,), jnp.float32), x)

    program = jax.jit(tapped)
    program(jnp.zeros(20_000)).block_until_ready()
    callout.barrier_wait()

    def eager(i):
        callout.tap(keep, np.full(20_000, i, np.float32))
        callout.tap(counting, np.float32(i))

    def labels(i):
        callout.pure_callback(callout.options(lambda: np.float32(1), name=f"label {i % 300}"), F32)
        callout.register(f"name {i % 50}", print, replace=True)

    def read(i):
        callout.stats()
        callout.barrier_wait(timeout=0.001) if i % 50 == 49 else None

    def run_program(i):
        program(jnp.full(20_000, i, jnp.float32)).block_until_ready()

    @jax.jit
    def chunks(n):  # the rows of two taps are merged
        def step(i, x):
            callout.tap(counting_chunks, x, flush_interval=0.001)
            callout.tap(nothing, i, flush_interval=0.001)
            return x + 1
        return jax.lax.fori_loop(0, n, step, jnp.float32(0))

    def run_chunks(i):
        chunks(3000).block_until_ready()

    def reading(i):
        try:
            read(i)
        except callout.BarrierTimeout:
            pass

    works = (run_program, run_chunks, eager, labels, reading)
    # What one of them imports when the process is forked cannot be imported in the child, with any Python: nothing is
    # imported for the first time once they run.
    [work(49) for work in works]
    if sys.version_info < (3, 14) and not getattr(sys, "_is_gil_enabled", lambda: True)():
        # It yields its processor 60 times for each file that it reads, which takes long on a busy machine.
        from callout import ffi, numba_cuda, progress
    threads = [busy(work) for work in works]

    def child():
        faulthandler.dump_traceback_later(60)  # of a child that hangs
        # JAX's programs and arrays take a lock of JAX's when they go, as does its callback of the collector, and a thread
        # may have held it when the process was forked (JAX alone hangs then, too): they stay.
        gc.callbacks.clear()
        gc.freeze()
        stats = callout.stats()
        assert stats["live"]["callbacks"] > 0 and stats["queues"] and stats["watches"]["watched"]["calls"] > 0
        str(stats), stats.prometheus()
        from callout import ffi, numba_cuda, progress
        kept[:] = [None] * 4  # blocks go back to the pool
        global counting
        del counting
        gc.collect()
        try:
            callout.barrier_wait()
        except callout.ForkError:
            pass
        callout._base.lifetime._at_exit()

    def wait(pid):
        end = time.monotonic() + 90
        while time.monotonic() < end:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.0005)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return "hangs"

    begin = time.monotonic()
    codes = {}
    for _ in range(forks):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                child()
                code = 0
            except BaseException:
                import traceback
                traceback.print_exc()
            finally:
                os._exit(code)
        code = wait(pid)
        codes[code] = codes.get(code, 0) + 1
        if code == "hangs":
            break
    stop.set()
    [thread.join() for thread in threads]
    callout.barrier_wait()
    print(codes, failed, flush=True)
    sys.stderr.write(f"{(time.monotonic() - begin) / forks * 1e3:.1f} ms a fork\\n")
"""


@pytest.mark.slow
@pytest.mark.parametrize("forks", [24, pytest.param(1000, marks=pytest.mark.soak)])
def test_children_of_a_busy_process_work(run, forks):
    done = run(PROGRAM, timeout=200 + 3 * forks, FORKS=str(forks))
    assert (done.code, done.out) == (0, f"{{0: {forks}}} []\n"), done.err
