# SPDX-License-Identifier: Apache-2.0
"""`callout.profile`: what callbacks did, when, and for how long."""

from .profile import Profile as Profile
from .profile import profile as profile
