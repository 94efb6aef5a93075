# SPDX-License-Identifier: Apache-2.0
"""`callout.threaded`: a function is traced, and evaluated again with a token from one callback to the next."""

from .transform import threaded as threaded
