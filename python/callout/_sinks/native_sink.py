# SPDX-License-Identifier: Apache-2.0
"""What native sinks have in common."""

from __future__ import annotations

from .. import _ext


class NativeSink:
    """Holds the core's sink; taps know one by this attribute."""

    _callout_callback: _ext.Callback
