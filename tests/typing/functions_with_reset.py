# SPDX-License-Identifier: Apache-2.0
"""Functions that have a `reset`, as type checkers know them. mypy checks this file; nothing runs it."""

from typing import assert_type

import callout

assert_type(callout.watch(1.0, "loss", nan=False, stop=True, every=2, step=3), float)
callout.watch.reset("loss")
callout.watch.reset()
callout.stats.reset()

callout.watch(1.0, nun=True)  # type: ignore[call-arg]
callout.watch.reset(3)  # type: ignore[arg-type]
callout.stats.reset("loss")  # type: ignore[call-arg]
callout.stats("loss")  # type: ignore[call-arg]
