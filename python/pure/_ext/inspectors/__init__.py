# SPDX-License-Identifier: Apache-2.0
"""Callbacks that inspect a tap's value where it lies and send nothing."""
