# SPDX-License-Identifier: Apache-2.0
"""What users call: callbacks with results, taps, checks and watches, and the transforms that follow them."""
