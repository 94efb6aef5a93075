# SPDX-License-Identifier: Apache-2.0
"""Tests host_callback in whole processes: environment variables, exit, third-party imports."""

import pytest


def test_exit_delivers_queued_records_and_then_ends(run):
    done = run("""
        import callout.host_callback as hcb
        def slow(value, transforms):
            time.sleep(0.002)
            print("tap", value.item(), flush=True)
        f = jax.jit(lambda x: jax.lax.fori_loop(0, 100, lambda i, v: hcb.id_tap(slow, v + 1), x))
        f(0)
        hcb.id_print(7.0, what="last")
    """)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [*(f"tap {i}" for i in range(1, 101)), "what: last", "7."]


def test_stopping_and_ending_without_a_barrier(run):
    done = run("""
        import callout.host_callback as hcb
        f = jax.jit(lambda x: hcb.id_print(x))
        f(1); hcb.stop_outfeed_receiver()
        f(2); hcb.stop_outfeed_receiver()
        f(3)
    """)
    assert (done.code, done.out, done.err) == (0, "1\n2\n3\n", "")


SHOWS_SETTINGS = """
    import callout.host_callback as hcb
    c = callout.config
    print(c.host_callback_inline, c.host_callback_legacy, c.host_callback_outfeed, c.queue_bytes)
    def tap(value, transforms):
        print("tap", value.item(), threading.current_thread() is threading.main_thread(), flush=True)
    hcb.id_tap(tap, 1.0)
    hcb.barrier_wait()
"""


@pytest.mark.parametrize(
    ("environment", "lines"),
    [
        ({}, ["False True False 256000000", "tap 1.0 False"]),
        ({"JAX_HOST_CALLBACK_INLINE": "1"}, ["True True False 256000000", "tap 1.0 True"]),
        ({"JAX_HOST_CALLBACK_LEGACY": "0"}, ["False False False 256000000", "tap 1.0 True"]),
        ({"JAX_HOST_CALLBACK_OUTFEED": "true"}, ["False True True 256000000", "tap 1.0 False"]),
        ({"JAX_HOST_CALLBACK_MAX_QUEUE_BYTE_SIZE": "16000000"}, ["False True False 16000000", "tap 1.0 False"]),
    ],
    ids=str,
)
def test_environment_variables(run, environment, lines):
    done = run(SHOWS_SETTINGS, **environment)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == lines


def test_a_queue_below_16_mb_is_refused(run):
    done = run("", JAX_HOST_CALLBACK_MAX_QUEUE_BYTE_SIZE="1000")
    assert done.code != 0
    assert (
        "environment variable JAX_HOST_CALLBACK_MAX_QUEUE_BYTE_SIZE: expected at least 16000000 (16 MB), got '1000'"
        in done.err
    )


def test_libraries_find_host_callback_at_its_old_place(run, tmp_path):
    (tmp_path / "library.py").write_text(
        "from jax.experimental import host_callback as hcb\n"
        "import jax.experimental.host_callback\n"
        "def show(x):\n"
        "    return hcb.id_print(x, what='library')\n"
    )
    done = run(
        """
        import callout.host_callback
        callout.host_callback.install()
        import library
        jax.jit(library.show)(1.0)
        callout.host_callback.barrier_wait()
        """,
        PYTHONPATH=str(tmp_path),
    )
    assert (done.code, done.out, done.err) == (0, "what: library\n1.\n", "")


def test_in_a_forked_child_everything_raises(run):
    done = run("""
        import warnings
        warnings.simplefilter("ignore")
        import callout.host_callback as hcb
        hcb.id_print(1.0)
        hcb.barrier_wait()
        sys.stdout.flush()  # what it holds would be the child's, too
        pid = os.fork()
        if pid == 0:
            for use in (lambda: hcb.id_print(2.0), lambda: hcb.call(lambda v: v, 1.0, result_shape=1.0), hcb.barrier_wait):
                try:
                    use()
                except callout.ForkError:
                    print("ForkError", flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
    """)
    assert (done.code, done.out) == (0, "1.\n" + "ForkError\n" * 3)


def test_failing_taps_without_a_barrier_are_reported_at_exit(run):
    done = run("""
        import callout.host_callback as hcb
        def bad(value, transforms):
            raise KeyError("odd")
        hcb.id_tap(bad, 1.0)
    """)
    assert done.code == 0
    assert "KeyError: 'odd'" in done.err
    assert "no barrier_wait() came after" in done.err


def test_a_failing_call_ends_with_its_exception(run):
    done = run("""
        import callout.host_callback as hcb
        def bad(value):
            raise KeyError("odd")
        jax.block_until_ready(jax.jit(lambda x: hcb.call(bad, x, result_shape=x))(1.0))
    """)
    assert done.code == 1
    assert "KeyError: 'odd'" in done.err


def test_other_platforms_are_refused_by_name(run):
    done = run("""
        import callout.host_callback as hcb
        callout.config.fallback = "off"
        def bad(value):
            raise KeyError("odd")
        for f in (lambda x: hcb.id_tap(print, x), lambda x: hcb.id_print(x), lambda x: hcb.call(bad, x, result_shape=x)):
            try:
                jax.jit(f).trace(1.0).lower(lowering_platforms=("tpu",))
            except NotImplementedError as error:
                print(error)
    """)
    assert done.code == 0
    assert done.out.count("callbacks are not supported on platform tpu; supported: cpu") == 3
