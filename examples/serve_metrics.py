# SPDX-License-Identifier: Apache-2.0
"""Serves the counters of callbacks and queues to Prometheus, at http://127.0.0.1:PORT/metrics.

Usage: serve_metrics.py [PORT [STEPS]]. docs/scale.md has the costs of 1,000 such processes.
"""

import contextlib
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import callout
import jax
import jax.numpy as jnp


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path != "/metrics":
            self.send_error(404)
            return
        text = callout.stats().prometheus().encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
        self.server.scraped.release()  # type: ignore[attr-defined]

    def log_message(self, *args: object) -> None:
        """Logs nothing, because Prometheus scrapes every few seconds."""


class Server(ThreadingHTTPServer):
    def __init__(self, port: int):
        super().__init__(("127.0.0.1", port), Handler)
        self.scraped = threading.Semaphore(0)  # counts scrapes


@contextlib.contextmanager
def serving(port: int = 0) -> Iterator[Server]:
    """Runs the server until the end of the block. Port 0: a free port."""
    with Server(port) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def train(steps: int) -> float:
    """Runs a loop with a tap, which increases the counters."""
    sink = callout.sinks.Null(name="loss")

    @jax.jit
    def step(x: jax.Array) -> jax.Array:
        return callout.tap(sink, 0.9 * x)

    x = jnp.float32(1)
    for _ in range(steps):
        x = step(x)
    callout.barrier_wait()
    return float(x)


def main() -> None:
    port, steps = (int(given) for given in (*sys.argv[1:], *("0", "100")[len(sys.argv) - 1 :]))
    with serving(port) as server:
        print(f"http://127.0.0.1:{server.server_port}/metrics", flush=True)
        train(steps)
        if port:
            threading.Event().wait()  # waits until the process is interrupted


if __name__ == "__main__":
    main()
