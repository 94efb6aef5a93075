# SPDX-License-Identifier: Apache-2.0
"""What C++ hosts of compiled programs need from Python."""

from __future__ import annotations

from ._host_transfers import rewrite_host_transfers

__all__ = ["rewrite_host_transfers"]
