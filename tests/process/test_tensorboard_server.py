# SPDX-License-Identifier: Apache-2.0
"""Tests TensorBoard's data server, which reads files by default and accepts less than TensorBoard's Python code."""

import json


def test_the_data_server_reads_every_kind(run, tmp_path):
    done = run(
        f"""
        import json, logging
        logging.disable()
        from tensorboard import context
        from tensorboard.data import server_ingester
        from tensorboard.util import grpc_util

        sink = callout.sinks.TensorBoard({str(tmp_path / "run")!r}, kinds={{"image": "image", "note": "text"}})
        note = jnp.asarray(list(b"hi"), jnp.uint8)
        value = {{"loss": 0.5, "count": 2**24 + 1, "w": jnp.arange(9.0), "image": jnp.zeros((2, 3)), "note": note}}
        for _ in range(3):
            callout.tap(sink, value, name="t")
        callout.barrier_wait()
        server = server_ingester.SubprocessServerDataIngester(
            server_binary=server_ingester.get_server_binary(), logdir={str(tmp_path)!r}, reload_interval=0,
            channel_creds_type=grpc_util.ChannelCredsType.LOCAL)
        server.start()

        def read(kind, plugin):
            every = getattr(server.data_provider, "read_" + kind)
            return every(context.RequestContext(), experiment_id="", plugin_name=plugin, downsample=1000).get("run", {{}})

        kinds = [("scalars", "scalars"), ("tensors", "histograms"), ("blob_sequences", "images"), ("tensors", "text")]
        deadline = time.monotonic() + 30  # it loads in the background
        while any(len(series) < 3 for kind in kinds for series in read(*kind).values() or [()]):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        found = {{plugin: {{tag: [d.step for d in series] for tag, series in read(kind, plugin).items()}}
                 for kind, plugin in kinds}}
        print(json.dumps(found))
        """,
        PYTHONWARNINGS="ignore",
    )
    assert done.code == 0, done.err
    steps = [0, 1, 2]
    assert json.loads(done.out) == {
        "scalars": {"t/loss": steps, "t/count": steps},
        "histograms": {"t/w": steps},
        "images": {"t/image": steps},
        "text": {"t/note": steps},
    }
