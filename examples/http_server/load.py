# SPDX-License-Identifier: Apache-2.0
"""Loads both servers over loopback, in turns: python load.py HTTP_SERVER PROGRAM PLUGIN [REQUESTS] [CLIENTS] [ROUNDS].

Prints requests per second and latencies of each, and fails if their answers differ, or if /metrics does not count all
answers.
"""

import concurrent.futures
import http.client
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


class Server:
    def __init__(self, *command: str) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        word, port = [*self.process.stdout.readline().split(), "", ""][:2]
        if word != "port":
            sys.exit(f"{command[0]} did not start")
        self.port = int(port)

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def get(self, path: str) -> str:
        connection = self.connect()
        connection.request("GET", path)
        return connection.getresponse().read().decode()

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        if self.process.wait(timeout=60) != 0:
            sys.exit("a server failed at its end")


def ask(server: Server, bodies: list[str], scores: list[float], seconds: list[float]) -> None:
    connection = server.connect()
    for body in bodies:
        begin = time.perf_counter()
        connection.request("POST", "/score", body)
        response = connection.getresponse()
        text = response.read().decode()
        seconds.append(time.perf_counter() - begin)
        if response.status != 200:
            raise RuntimeError(f"status {response.status}: {text}")
        scores.append(float(text))


def run_round(server: Server, bodies: list[str], clients: int) -> tuple[list[float], float, list[float]]:
    """Sends requests. Returns the scores in the order of `bodies`, requests per second, and seconds of each request."""
    parts = [bodies[i::clients] for i in range(clients)]
    scores: list[list[float]] = [[] for _ in parts]
    seconds: list[float] = []
    begin = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        asked = [pool.submit(ask, server, *each, seconds) for each in zip(parts, scores, strict=True)]
    for each in asked:
        each.result()  # raises the request's error
    rate = len(bodies) / (time.perf_counter() - begin)
    flat = [0.0] * len(bodies)
    for i, part in enumerate(scores):
        flat[i::clients] = part
    return flat, rate, seconds


def main(binary: str, program: str, plugin: str, requests: int = 2000, clients: int = 8, rounds: int = 5) -> None:
    generator = np.random.default_rng(0)
    bodies = [
        " ".join([str(generator.integers(100)), *(f"{value:.6f}" for value in generator.normal(size=8))])
        for _ in range(requests)
    ]
    servers = {
        "C++ host": Server(binary, program, plugin),
        "Python, JAX": Server(sys.executable, str(HERE / "jax_server.py")),
    }
    rates: dict[str, list[float]] = {name: [] for name in servers}
    seconds: dict[str, list[float]] = {name: [] for name in servers}
    answers: dict[str, list[float]] = {}
    for number in range(rounds + 1):  # the first round warms up
        for name, server in servers.items():
            answers[name], rate, each = run_round(server, bodies, clients)
            if number > 0:
                rates[name].append(rate)
                seconds[name] += each
    np.testing.assert_allclose(*answers.values(), rtol=1e-4, atol=1e-5)
    metrics = servers["C++ host"].get("/metrics")
    counted = int(next(line for line in metrics.splitlines() if line.startswith("score_count")).split()[1])
    if counted < requests or 'callback="variance"' not in metrics:
        sys.exit(f"/metrics counts {counted} scores:\n{metrics}")
    for name, server in servers.items():
        server.stop()
        p50, p99 = np.percentile(seconds[name], [50, 99]) * 1e3
        rate = statistics.median(rates[name])
        sys.stdout.write(f"{name:12} {rate:7.0f} requests/s, p50 {p50:.2f} ms, p99 {p99:.2f} ms\n")


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:]))
