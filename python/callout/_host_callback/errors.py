# SPDX-License-Identifier: Apache-2.0
"""What `callout.host_callback.barrier_wait` raises."""

from __future__ import annotations

from .._base.errors import CallbackError


class CallbackException(CallbackError):  # noqa: N818 - the name that host_callback had
    """Taps or calls of `callout.host_callback` failed since its last `barrier_wait`. `__cause__` is the last exception."""

    cause_is_the_users = True
