# SPDX-License-Identifier: Apache-2.0
"""`callout.error_if`, `callout.warn_if` and `callout.check`."""

from .predicate_checks import check as check
from .predicate_checks import error_if as error_if
from .predicate_checks import warn_if as warn_if
