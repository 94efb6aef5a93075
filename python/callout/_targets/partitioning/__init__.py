# SPDX-License-Identifier: Apache-2.0
"""Partitions custom calls, Callout's and foreign ones, in programs over several devices."""
