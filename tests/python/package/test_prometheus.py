# SPDX-License-Identifier: Apache-2.0
"""Tests examples/serve_metrics.py with a Prometheus server that scrapes it over loopback."""

import importlib
import json
import os
import shutil
import socket
import subprocess
import urllib.request
from pathlib import Path

import callout
import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"
SERVER = os.environ.get("CALLOUT_PROMETHEUS") or shutil.which("prometheus")
STEPS = 25
CONFIG = """
scrape_configs:
  - job_name: callout
    scrape_interval: 200ms
    static_configs:
      - targets: ["127.0.0.1:{port}"]
"""

pytestmark = pytest.mark.skipif(SERVER is None, reason="no Prometheus: apt-get install prometheus")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def query(port, expression):
    url = f"http://127.0.0.1:{port}/api/v1/query?query={urllib.request.quote(expression)}"
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)["data"]["result"]


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("serve_metrics")


def test_prometheus_scrapes_counters_of_taps(example, tmp_path):
    callout.stats.reset()
    example.train(STEPS)
    with example.serving() as server:
        config, port = tmp_path / "prometheus.yml", free_port()
        config.write_text(CONFIG.format(port=server.server_port))
        command = [SERVER, f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}"]
        with (tmp_path / "log").open("w") as log:
            process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
            try:
                for _ in range(2):  # after the second scrape, the first one is stored
                    assert server.scraped.acquire(timeout=60), (tmp_path / "log").read_text()
                (calls,) = query(port, 'callout_callback_calls_total{callback="loss"}')
                assert calls["value"][1] == str(STEPS)
                (up,) = query(port, "up")
                assert up["value"][1] == "1"
                (samples,) = query(port, "scrape_samples_scraped")
                lines = callout.stats().prometheus().splitlines()
                assert int(samples["value"][1]) == sum(not line.startswith("#") for line in lines)
                (seconds,) = query(port, "scrape_duration_seconds")
                print(f"{samples['value'][1]} samples, {seconds['value'][1]} s")
            finally:
                process.terminate()
                process.wait(30)
