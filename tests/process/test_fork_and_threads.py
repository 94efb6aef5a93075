# SPDX-License-Identifier: Apache-2.0
"""Tests fork, spawn, several threads, two cores and hangs."""

import ctypes
import shutil
import sys
from pathlib import Path

import callout
import limited
import pytest


def test_using_a_callback_in_a_forked_child_raises(run):
    done = run("""
        import warnings
        warnings.simplefilter("ignore")
        callout.tap(lambda v: None, 1.0)
        callout.barrier_wait()
        pid = os.fork()
        if pid == 0:
            for name, use in {
                "tap": lambda: callout.tap(lambda v: None, 1.0),
                "call": lambda: callout.pure_callback(lambda: np.float32(1), F32),
                "barrier": callout.barrier_wait,
                "register": lambda: callout.register("x", print),
            }.items():
                try:
                    use()
                    print(name, "no error")
                except callout.ForkError as error:
                    print(name, "spawn" in str(error))
            print("stats", sorted(callout.stats()), flush=True)
            callout._base.lifetime._at_exit()
            os._exit(5)  # as multiprocessing's workers end; sys.exit crashes in JAX's own clean-up, without callout too
        _, status = os.waitpid(pid, 0)
        print("child", os.waitstatus_to_exitcode(status), flush=True)
        callout.tap(lambda v: print("parent goes on", flush=True), 1.0)
    """)
    assert done.code == 0, done.err
    assert done.out.splitlines() == [
        "tap True",
        "call True",
        "barrier True",
        "register True",
        "stats ['callbacks', 'kernels', 'live', 'prints', 'queues', 'watches']",
        "child 5",
        "parent goes on",
    ]


def test_errors_of_a_forked_child_do_not_depend_on_names(run):
    done = run("""
        import warnings
        warnings.simplefilter("ignore")
        name = "check failed: it does not fit: no callback is bound: out of memory"
        callout.register(name, lambda v: v)
        call = jax.jit(lambda v: callout.pure_callback(name, F32, v))
        tap = jax.jit(lambda v: callout.tap(name, v))
        call(np.float32(1)), tap(np.float32(1))
        callout.barrier_wait()
        pid = os.fork()
        if pid == 0:
            uses = (
                lambda: callout.pure_callback(name, F32, np.float32(1)),
                lambda: callout.tap(name, np.float32(1)),
                callout.barrier_wait,
            )
            for use in uses:
                try:
                    use()
                except callout.CallbackError as error:
                    print(type(error) is callout.ForkError, callout._ext.FORK_TEXT in str(error), flush=True)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    """)
    assert done.code == 0, done.err
    assert done.out.splitlines() == ["True True"] * 3 + ["0"]


def test_a_forked_child_that_only_imported_may_exit(run):
    done = run("""
        import warnings
        warnings.simplefilter("ignore")
        pid = os.fork()
        if pid == 0:
            callout.stats()
            sys.exit(5)
        print("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """)
    assert (done.code, done.out, done.err) == (0, "child 5\n", "")


@pytest.mark.slow
def test_a_child_of_a_process_that_only_imported_works(run):
    done = run("""
        import warnings
        warnings.simplefilter("ignore")
        def use():
            got = []
            y = jax.jit(lambda x: callout.tap(got.append, callout.pure_callback(lambda v: v + 1, F32, x)))(jnp.float32(1))
            callout.barrier_wait(timeout=30)
            with callout.reraise():
                try:
                    callout.pure_callback(lambda: 1 / 0, F32)
                except ZeroDivisionError:
                    print(float(y), got, flush=True)
        for _ in range(2):
            pid = os.fork()
            if pid == 0:
                use()
                inner = os.fork()  # of one that has used it
                if inner == 0:
                    try:
                        callout.tap(print, 1.0)
                    except callout.ForkError:
                        os._exit(3)
                    os._exit(4)
                code = os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1])
                callout._base.lifetime._at_exit()
                os._exit(code)
            print("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        use()
    """)
    used = "2.0 [array(2., dtype=float32)]\n"
    assert (done.code, done.out) == (0, 2 * (used + "child 3\n") + used), done.err


def test_children_of_a_process_with_a_backend_get_an_error(run):
    done = run("""
        import warnings
        warnings.simplefilter("ignore")
        jnp.zeros(1).block_until_ready()
        pid = os.fork()
        if pid == 0:
            try:
                callout.tap(print, 1.0)
            except callout.ForkError as error:
                os._exit(3)
            os._exit(4)
        print("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """)
    assert (done.code, done.out) == (0, "child 3\n"), done.err


def test_a_child_does_not_wait_for_pythons_lock_of_threads(run):
    done = run(
        """
        import warnings
        warnings.simplefilter("ignore")

        class Held(threading.Thread):  # `start` asks for its hash under the lock
            forking, forked, is_held = threading.Event(), threading.Event(), threading.Event()
            is_made, process = False, os.getpid()  # a child asks for it, too, and the events may be locked there

            def __hash__(self):
                if self.is_made and os.getpid() == self.process and not self.forked.is_set():
                    self.is_held.set()
                    self.forking.wait()
                    self.forked.wait(0.2)  # who waits for the lock before it forks waits until then
                return 1

        def forking():
            if os.getpid() == Held.process:
                Held.forking.set()

        os.register_at_fork(before=forking, after_in_parent=lambda: os.getpid() == Held.process and Held.forked.set())
        callout.tap(lambda value: None, 1.0)  # a thread of the core's has an object of Python's
        callout.barrier_wait()
        held = Held(target=int)
        held.is_made = True
        threading.Thread(target=held.start).start()
        Held.is_held.wait()
        pid = os.fork()
        if pid == 0:
            for _ in range(2):  # a child of its own is forked as well
                inner = os.fork()
                if inner == 0:
                    os._exit(0)
                os.waitpid(inner, 0)
            threading.Thread(target=int).start()
            os._exit(5)
        print("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        """,
    )
    assert (done.code, done.out) == (0, "child 5\n"), done.err


def test_fork_handlers_may_wait_for_threads():
    program = """
import faulthandler, os, threading, warnings

def before_forks():  # as IPython does; what was registered first comes last
    thread = threading.Thread(target=lambda: (callout.register("x", print, replace=True), callout.stats()))
    thread.start()
    thread.join()

os.register_at_fork(before=before_forks)
import callout
warnings.simplefilter("ignore")
faulthandler.dump_traceback_later(60, exit=True)
callout.tap(lambda value: None, 1.0)
callout.barrier_wait()
pid = os.fork()
if pid == 0:
    callout.stats()
    os._exit(5)
print("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    done = limited.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "child 5\n"), done.stderr


@pytest.mark.slow
def test_spawned_workers_work(run, tmp_path):
    (tmp_path / "worker.py").write_text(
        "import jax, jax.numpy as jnp, numpy as np, callout\n"
        "def work(x):\n"
        "    spec = jax.ShapeDtypeStruct((), jnp.float32)\n"
        "    f = jax.jit(lambda v: callout.pure_callback(lambda a: a * np.float32(2), spec, v))\n"
        "    return float(f(x))\n"
    )
    done = run(
        """
        import multiprocessing
        import worker
        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                print(pool.map(worker.work, [1.0, 2.0, 3.0]))
        """,
        timeout=120,
        PYTHONPATH=str(tmp_path),
    )
    assert (done.code, done.out) == (0, "[2.0, 4.0, 6.0]\n"), done.err


@pytest.mark.slow
def test_threads_that_jit_and_call_at_once(run):
    done = run("""
        got = []
        def work(k):
            for i in range(20):
                f = jax.jit(lambda x: callout.tap(got.append, callout.pure_callback(lambda v: v + k, F32, x)))
                assert float(f(float(i))) == i + k
        threads = [threading.Thread(target=work, args=(np.float32(k),)) for k in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        callout.barrier_wait()
        print(len(got))
    """)
    assert (done.code, done.out, done.err) == (0, "80\n", "")


def test_barriers_with_a_time_limit_share_threads(run):
    done = run("""
        from callout._base import programs
        threads = set()
        programs._run_over_all_devices = lambda trivial: threads.add(threading.get_native_id())
        for _ in range(50):
            callout.barrier_wait(timeout=60)
        print("shared" if 0 < len(threads) < 25 else threads)
    """)
    assert (done.code, done.out) == (0, "shared\n"), done.err


def test_a_second_copy_of_the_core_raises(tmp_path):
    core = next(Path(callout.__file__).parent.glob("lib/libcallout.so*"))
    copy = tmp_path / "libcallout.so"
    shutil.copy(core, copy)
    program = f"""
import ctypes, callout
core = ctypes.CDLL({str(copy)!r})
core.callout_get_api.restype = ctypes.c_void_p
api = core.callout_get_api(1)
register = ctypes.cast(api + 16, ctypes.POINTER(ctypes.c_void_p))[0]
error = ctypes.create_string_buffer(1000)
function = (ctypes.c_char * 24)()
print(ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)(register)(
    b"x", ctypes.addressof(function), error, 1000), error.value.decode())
"""
    done = limited.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("9 a second copy of the Callout core was loaded")
    assert str(copy) in done.stdout
    assert str(core) in done.stdout
    assert ctypes.sizeof(ctypes.c_void_p) == 8


def test_the_hang_report_names_the_callback_and_shows_python(run):
    done = run(
        """
        def stuck_callback(value):
            time.sleep(2.5)
            return value
        f = jax.jit(lambda x: callout.pure_callback(stuck_callback, F32, x))
        f(1.0).block_until_ready()
        f(1.0).block_until_ready()
        print("ended", flush=True)
        """,
        CALLOUT_HANG_REPORT_S="0.3",
    )
    assert (done.code, done.out) == (0, "ended\n"), done.err
    assert done.err.count("hang report: callback '__main__.stuck_callback' has made no progress for") == 1
    assert "device 0" in done.err
    assert "in a callback that its program waits for" in done.err
    assert "in stuck_callback" in done.err
    assert "Queues: none" in done.err


@pytest.mark.parametrize(
    "use",
    [
        "callout.tap(stuck_callback, 1.0); callout.barrier_wait()",
        "callout.pure_callback(stuck_callback, F32, 1.0)",
        "callout.tap(callout.sinks.Tee(stuck_callback, callout.sinks.Null()), 1.0); callout.barrier_wait()",
    ],
)
def test_the_hang_report_names_eager_callbacks(run, use):
    done = run(
        f"""
        def stuck_callback(value):
            time.sleep(2.5)
            return value
        {use}
        print("ended", flush=True)
        """,
        CALLOUT_HANG_REPORT_S="0.3",
    )
    assert (done.code, done.out) == (0, "ended\n"), done.err
    assert "hang report: callback '__main__.stuck_callback' has made no progress for" in done.err


def test_the_hang_report_sees_a_producer_that_waits_for_room(run):
    done = run(
        """
        callout.config.queue_bytes = 16_000_000
        release = threading.Event()
        f = jax.jit(lambda x: jax.lax.fori_loop(0, 40, lambda i, c: callout.tap(lambda v: release.wait(60), c) + 1, x))
        out = f(jnp.zeros(262144))
        """
        + """
        threading.Timer(3, release.set).start()
        out.block_until_ready()
        callout.barrier_wait()
        print("ended", flush=True)
        """,
        CALLOUT_HANG_REPORT_S="0.3",
    )
    assert (done.code, done.out) == (0, "ended\n"), done.err
    assert "hang report" in done.err
    assert "of 16000000 bytes" in done.err


def test_hang_reports_can_be_switched_off(run):
    done = run(
        """
        f = jax.jit(lambda x: callout.pure_callback(lambda v: time.sleep(1.2) or v, F32, x))
        f(1.0).block_until_ready()
        """,
        CALLOUT_HANG_REPORT_S="0",
    )
    assert (done.code, done.err) == (0, "")


def test_bad_settings_in_the_environment_are_named(run):
    done = run("pass", CALLOUT_QUEUE_BYTES="12")
    assert done.code == 1
    assert "environment variable CALLOUT_QUEUE_BYTES: expected at least 16000000 (16 MB), got '12'" in done.err


def test_keyboard_interrupt_in_a_callback_on_the_main_thread(run):
    done = run("""
        import signal
        def interrupted(value):
            # XLA runs the program on the caller's thread only if the input is ready, which may not be so at first.
            if threading.current_thread() is threading.main_thread():
                signal.raise_signal(signal.SIGINT)
                time.sleep(10)
            return value
        f = jax.jit(lambda x: callout.pure_callback(interrupted, F32, x))
        x = jnp.float32(1).block_until_ready()
        try:
            for _ in range(100):
                with callout.reraise():
                    f(x).block_until_ready()
        except KeyboardInterrupt:
            print("interrupted")
    """)
    assert (done.code, done.out) == (0, "interrupted\n"), done.err
