# SPDX-License-Identifier: Apache-2.0
"""Callbacks and their names, and calls that wait for them."""
