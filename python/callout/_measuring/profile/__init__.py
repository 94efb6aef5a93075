# SPDX-License-Identifier: Apache-2.0
"""`callout.profile`: what callbacks did, when, and for how long."""

from .session import profile as profile
