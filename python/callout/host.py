# SPDX-License-Identifier: Apache-2.0
"""The Python side of C++ and C hosts, which run exported programs without Python. See docs/host.md."""

from ._base.public_modules import publish
from ._export.host_transfers import rewrite_host_transfers as rewrite_host_transfers
from ._targets.loaded_host_callback import LoadedHostCallback as LoadedHostCallback

__all__ = ["LoadedHostCallback", "rewrite_host_transfers"]
publish(__name__)
