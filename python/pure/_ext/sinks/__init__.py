# SPDX-License-Identifier: Apache-2.0
"""Receivers of taps that are no Python functions."""
