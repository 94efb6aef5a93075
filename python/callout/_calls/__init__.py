# SPDX-License-Identifier: Apache-2.0
"""Calls that return results or only happen: pure, io and debug callbacks, their derivatives, `callout.threaded`."""
