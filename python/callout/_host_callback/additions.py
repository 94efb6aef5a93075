# SPDX-License-Identifier: Apache-2.0
"""What `callout.host_callback` adds to the settings, the loggers and the statistics, whether it is imported or not."""

from __future__ import annotations

from .._base import config, loggers
from .._measuring import prometheus, stats
from .counts import print_counts, reset_print_counts

logger, LOG_SOURCE = loggers.add("callout.host_callback")

# The aliases are the flags that jax.config no longer knows, and the environment variables that went with them.
config.add(
    flags={
        "host_callback_inline": (False, "host_callback: eager taps run in the caller's stack."),
        "host_callback_legacy": (True, "host_callback: the original's behaviour, not the flavours'."),
        "host_callback_outfeed": (False, "host_callback: accepted; there is one mechanism."),
    },
    aliases={
        "jax_host_callback_max_queue_byte_size": "queue_bytes",
        "jax_host_callback_inline": "host_callback_inline",
        "jax_host_callback_legacy": "host_callback_legacy",
        "jax_host_callback_outfeed": "host_callback_outfeed",
    },
)
stats.add(
    stats.Counts(
        "prints",
        print_counts,
        reset_print_counts,
        prometheus.Family(
            "callout_printed_values_total", "formatter", "Values that id_print wrote, by who made their text."
        ),
    )
)
