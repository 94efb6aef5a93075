# SPDX-License-Identifier: Apache-2.0
"""`callout.error_if`, `callout.warn_if` and `callout.check`."""

from .functions import check as check
from .functions import error_if as error_if
from .functions import warn_if as warn_if
