# SPDX-License-Identifier: Apache-2.0
"""Tests sinks on named pipes: opening one waits for its reader, and for nothing else."""

import json

import pytest

MAKERS = ["callout.sinks.JsonLines(PIPE)", "callout.sinks.JsonLines(PIPE, append=True)", "callout.sinks.Csv(PIPE)"]


@pytest.mark.parametrize("maker", MAKERS)
def test_others_run_while_a_pipe_waits_for_its_reader(run, tmp_path, maker):
    done = run(
        f"""
        PIPE = os.environ["PIPE"]
        os.mkfifo(PIPE)
        made = []
        thread = threading.Thread(target=lambda: made.append({maker}))
        thread.start()
        jax.block_until_ready(jax.jit(lambda x: callout.pure_callback(lambda v: v, F32, x))(1.0))
        assert not made
        reader = open(os.open(PIPE, os.O_RDONLY | os.O_NONBLOCK), closefd=True)
        thread.join()
        jax.jit(lambda x: callout.tap(made[0], x))(7.0)
        callout.barrier_wait()
        print(reader.readlines()[-1])
        """,
        PIPE=str(tmp_path / "pipe"),
    )
    assert (done.code, done.err) == (0, "")
    line = done.out.strip()
    assert (
        json.loads(line)["value"] == 7 if line.startswith("{") else "7" in line.split(",") or "7.0" in line.split(",")
    )


def test_signal_handlers_run_and_control_c_ends_the_wait(run, tmp_path):
    done = run(
        """
        import signal
        PIPE = os.environ["PIPE"]
        os.mkfifo(PIPE)
        ended = threading.Event()
        signals = []

        def handler(number, frame):
            signals.append(number)
            if len(signals) >= 3:
                raise KeyboardInterrupt

        def send():
            while not ended.wait(0.05):
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

        signal.signal(signal.SIGINT, handler)
        sender = threading.Thread(target=send)
        sender.start()
        try:
            callout.sinks.JsonLines(PIPE)
        except KeyboardInterrupt:
            ended.set()
        sender.join()
        print("interrupted", len(signals) >= 3, flush=True)
        """,
        PIPE=str(tmp_path / "pipe"),
    )
    assert (done.code, done.out) == (0, "interrupted True\n"), done.err
