# SPDX-License-Identifier: Apache-2.0
"""Writes files by sinks in programs over the devices of two processes, for distributed_worker.py.

The functions store in `seen` the content that test_distributed.py checks.
"""

import json

import callout
import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils


def a_file_each(folder, seen, took, x):
    sink = callout.sinks.Arrow(folder / "{process}.arrows")
    jax.jit(lambda v: callout.tap(sink, v, sharding="local"))(x)
    took()
    sink.close()
    seen["files"] = str(folder / "{process}.arrows")


def one_file(folder, seen, took, x):
    path = folder / "one.jsonl"
    sink = callout.sinks.JsonLines(path, fields=False, only_process=1, name="one file")
    board = callout.sinks.TensorBoard(folder / "board", only_process=0)
    jax.jit(lambda v: callout.tap(board, jnp.sum(callout.tap(sink, v, device_index=2))))(x)
    jax.jit(lambda v: callout.tap(sink, v, sharding="local"))(x)
    took()
    multihost_utils.sync_global_devices("one file is written")
    seen["one file"] = [json.loads(line)["value"] for line in path.read_text().splitlines()]
    seen["one folder"] = len(list((folder / "board").iterdir()))
    seen["one file counts"] = callout.stats()["callbacks"]["one file"]["calls"]
    seen["one file refused"] = None
    if jax.process_index() == 0:
        try:
            callout.sinks.JsonLines(path, append=True)
        except callout.RegistrationError as error:
            seen["one file refused"] = str(error)
    multihost_utils.sync_global_devices("one file is refused")
    sink.close()
    board.close()
