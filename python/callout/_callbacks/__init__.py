# SPDX-License-Identifier: Apache-2.0
"""The functions that users call: callbacks with results, taps, checks, watches, and transforms of functions."""
